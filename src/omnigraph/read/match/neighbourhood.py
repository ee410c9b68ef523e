"""The indexed path: the part of a graph that a selective match can touch, fetched by look-ups.

From the variables that few nodes can be, the traversals are followed with indexed look-ups, one read
a step. What was fetched is a small graph, and the engine runs on it as on a whole one: every match
starts from a node that was found and uses only edges at nodes that were found, so the answer is the
same. A process that asks one selective question never numbers a whole table.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.lang.query import ir
from omnigraph.lang.schema.catalog import Catalog, EdgeType, NodeType
from omnigraph.read.kernels.arrays import Codes
from omnigraph.read.match.pattern import Pattern, Traversal, key_of
from omnigraph.read.values.column import Column, one_array
from omnigraph.read.view.byte_cache import ByteCache
from omnigraph.read.view.edges import EdgeList, Ends
from omnigraph.read.view.nodes import NodeIds, NodeSpace
from omnigraph.read.view.pinned_table import PinnedTable
from omnigraph.read.view.properties import Properties, stored_name
from omnigraph.read.view.topology import EdgeSpace, Topology
from omnigraph.read.view.view import View
from omnigraph.storage.filters.pushdown import Condition, filter_expression
from omnigraph.storage.tables.indexes import Coverage, IndexKind, coverage

MAX_FRONTIER = 1024
MAX_HOPS = 6
MAX_NODES = 20_000
FEW_ROWS = 1024


class TooWide(Exception):
    """The match cannot be answered by few look-ups."""


class Neighbourhood:
    """The fetched part of a snapshot; answers what a ``View`` answers."""

    def __init__(
        self, view: View, needs: Mapping[str, set[str]], looked_at: Collection[str]
    ) -> None:
        self.view = view
        self.looked_at = looked_at
        """The variables of which the query needs more than their key."""
        self.catalog: Catalog = view.catalog
        self.needs = needs
        """The properties the query looks at, by node type."""
        self.ids: dict[str, set[str]] = {}
        self.found: dict[str, dict[int, tuple[str, str]]] = {}
        self.rows: dict[str, list[pa.Table]] = {}
        """Node rows that were read on the way, with their properties in need."""
        self._nodes: dict[str, NodeSpace] = {}
        self._topologies: dict[str, Topology] = {}

    def nodes(self, type_name: str) -> NodeSpace:
        """The nodes of a type that were found."""
        if type_name not in self._nodes:
            node = self.catalog.nodes[type_name]
            ids = sorted(self.ids.get(type_name, ()), key=str.encode)
            self._nodes[type_name] = _FoundNodes(node, self.view.table(node), ids, self)
        return self._nodes[type_name]

    def wanted(self, pinned: PinnedTable) -> list[str]:
        """The columns to read of a node table: the id and what the query looks at."""
        names = [stored_name(pinned, name) for name in self.needs.get(pinned.entity.name, ())]
        return sorted({"id", *(name for name in names if name is not None)})

    def topology(self, edge_type_name: str) -> Topology:
        """The edges of a type that were found."""
        if edge_type_name not in self._topologies:
            edge = self.catalog.edges[edge_type_name]
            self._topologies[edge_type_name] = self._topology(edge)
        return self._topologies[edge_type_name]

    def _topology(self, edge: EdgeType) -> Topology:
        sources, targets = self.nodes(edge.from_type), self.nodes(edge.to_type)
        found = self.found.get(edge.name, {})
        row_ids = np.array(sorted(found), dtype=np.uint64)
        ends = [found[int(row)] for row in row_ids]
        src = sources.ordinals_of(pa.array([one for one, _ in ends], pa.string()))
        dst = targets.ordinals_of(pa.array([two for _, two in ends], pa.string()))
        edges = EdgeList.of(Ends(src, dst, row_ids), (sources.size, targets.size))
        return Topology(edge, sources, targets, edges, _FoundEdges(self.view.table(edge), edges))


class _FoundNodes(NodeSpace):
    """Some nodes of a type; the properties a query needs are read with one look-up."""

    def __init__(
        self, type: NodeType, pinned: PinnedTable, ids: list[str], part: Neighbourhood
    ) -> None:
        numbers = np.arange(len(ids), dtype=np.uint64)
        super().__init__(type, pinned, NodeIds(pa.array(ids, pa.string()), numbers), ByteCache(0))
        self._properties = _LookedUp(self, part)


class _LookedUp(Properties):
    """Properties of nodes by id: what was read on the way, and the rest in one read."""

    def __init__(self, space: NodeSpace, part: Neighbourhood) -> None:
        super().__init__(space.pinned, ByteCache(0), None, space.row_ids, space.ordinals_of_row_ids)
        self._ids = space.id_array
        self._part = part
        self._columns: dict[str, Column] = {}
        self._rows: pa.Table | None = None

    def column(self, name: str) -> Column:
        """A property of the nodes that were found."""
        if name not in self._columns:
            self._columns[name] = self._column(name)
        return self._columns[name]

    def values(self, name: str, codes: Codes) -> pa.Array:
        """A property of these nodes, repeats included."""
        return self.column(name).array.take(codes)

    def _column(self, name: str) -> Column:
        type_ = self._type(name)
        stored = stored_name(self.pinned, name)
        if stored is None:
            return Column(type_, pa.nulls(len(self._ids), type_.arrow_type()))
        if self._rows is None:
            self._rows = self._look_up()
        assert stored in self._rows.column_names, "the plan said which properties it needs"
        return Column(type_, one_array(self._rows.column(stored)).cast(type_.arrow_type()))

    def _look_up(self) -> pa.Table:
        """A row for each id, in their order."""
        columns = self._part.wanted(self.pinned)
        known = [rows.select(columns) for rows in self._part.rows.get(self.pinned.entity.name, ())]
        ids = pa.chunked_array([one_array(rows.column("id")) for rows in known], pa.string())
        missing = self._ids.filter(pc.invert(pc.is_in(self._ids, value_set=one_array(ids))))
        if len(missing) or not known:
            known.append(
                read_where(self.pinned, columns, Condition("id", "in", missing.to_pylist()))
            )
        rows = pa.concat_tables(known)
        return rows.take(pc.index_in(self._ids, value_set=one_array(rows.column("id"))))


class _FoundEdges(EdgeSpace):
    """Some edges of a type."""

    def __init__(self, pinned: PinnedTable, edges: EdgeList) -> None:
        super().__init__(pinned, edges, None, ByteCache(0))
        self._properties = _Taken(pinned, ByteCache(0), None, edges.rows.row_ids, edges.rows.codes)


class _Taken(Properties):
    """Properties of edges by row id."""

    def column(self, name: str) -> Column:
        """A property of the edges that were found."""
        every = np.arange(len(self.row_ids), dtype=np.int32)
        return Column(self._type(name), self._take(name, every))

    def values(self, name: str, codes: Codes) -> pa.Array:
        """A property of these edges, repeats included."""
        return self.column(name).array.take(codes)


def read_where(
    pinned: PinnedTable, columns: Sequence[str], condition: Condition, **options: Any
) -> pa.Table:
    """The rows of a pinned table that satisfy one condition."""
    table = pinned.table
    return table.read(list(columns), filter_expression(table.schema, [condition]), **options)


def fetch(
    view: View,
    pattern: Pattern,
    params: Mapping[str, Any],
    needs: Mapping[str, set[str]],
    looked_at: Collection[str],
) -> Neighbourhood:
    """The part of the snapshot that a match can touch, or ``TooWide``."""
    part = Neighbourhood(view, needs, looked_at)
    _Fetch(part, pattern, params, {}, outermost=True).run()
    return part


class _Fetch:
    """Following one pattern. ``candidates`` are the ids a variable can be, as far as known."""

    def __init__(
        self,
        part: Neighbourhood,
        pattern: Pattern,
        params: Mapping[str, Any],
        given: Mapping[str, set[str]],
        *,
        outermost: bool = False,
    ) -> None:
        self.outermost = outermost
        self.part = part
        self.view = part.view
        self.pattern = pattern
        self.params = params
        self.candidates: dict[str, set[str]] = dict(given)

    def run(self) -> None:
        for name, type_name in self.pattern.nodes.items():
            if name not in self.candidates:
                found = self._anchor(name, type_name)
                if found is not None:
                    self._found(name, found)
        waiting = list(self.pattern.traversals)
        while waiting:
            ready = [one for one in waiting if one.ends & self.candidates.keys()]
            if not ready:
                raise TooWide
            chosen = min(ready, key=lambda one: min(self._count(end) for end in one.ends))
            waiting.remove(chosen)
            self._follow(chosen)
        if not self.pattern.nodes.keys() <= self.candidates.keys():
            raise TooWide
        for negation in self.pattern.negations:
            _Fetch(self.part, negation.pattern, self.params, self.candidates).run()

    def _count(self, name: str) -> float:
        return len(self.candidates[name]) if name in self.candidates else float("inf")

    def _found(self, name: str, ids: set[str]) -> None:
        type_name = self.pattern.nodes[name]
        self.candidates.setdefault(name, ids)
        known = self.part.ids.setdefault(type_name, set())
        known |= ids
        if len(known) > MAX_NODES:
            raise TooWide

    # -- where to start

    def _anchor(self, name: str, type_name: str) -> set[str] | None:
        """All nodes a variable can be, when an index finds them and they are few."""
        node = self.view.catalog.nodes[type_name]
        tests = self.pattern.tests.get(name, ())
        for test in tests:
            key = key_of(node, test, self.params)
            if key is not None:
                return self._by_key(name, node, key)
        pinned = self.view.table(node)
        if pinned.row_count <= FEW_ROWS:
            return self._kept(pinned, pinned.table.read(self.part.wanted(pinned)))
        for test in tests:
            condition = self._equality(node, test)
            if condition is not None:
                found = self._ids(node, condition)
                if len(found) <= MAX_FRONTIER:
                    return found
        return None

    def _by_key(self, name: str, node: NodeType, key: str) -> set[str]:
        """The node of a key. Its row is read unless an edge has to show anyway that it is there.

        Without such an edge the match has no row at all. Inside a negation it could still have some,
        and the id of no node would be among those that other variables may be.
        """
        joined = any(name in one.ends for one in self.pattern.traversals)
        if joined and self.outermost and name not in self.part.looked_at:
            return {key}
        return self._ids(node, Condition("id", "=", key))

    def _equality(self, node: NodeType, test: ir.Predicate) -> Condition | None:
        """An equality with a value on an indexed property, under its name in the table."""
        if not isinstance(test, ir.Compare) or test.op != "=":
            return None
        left, right = test.left, test.right
        if isinstance(right, ir.PropertyOf):
            left, right = right, left
        if not isinstance(left, ir.PropertyOf) or not isinstance(right, ir.Const | ir.ParamRef):
            return None
        value = right.value if isinstance(right, ir.Const) else self.params[right.name]
        pinned = self.view.table(node)
        column = stored_name(pinned, left.property)
        if value is None or column is None or left.type.scalar.is_float:
            return None
        if coverage(pinned.table, column, IndexKind.BTREE) is not Coverage.INDEXED:
            return None
        return Condition(column, "=", value)

    def _ids(self, node: NodeType, condition: Condition) -> set[str]:
        pinned = self.view.table(node)
        wanted = self.part.wanted(pinned)
        return self._kept(pinned, read_where(pinned, wanted, condition, limit=MAX_FRONTIER + 1))

    def _kept(self, pinned: PinnedTable, rows: pa.Table) -> set[str]:
        """The ids of rows, which are kept for when their properties are asked for."""
        self.part.rows.setdefault(pinned.entity.name, []).append(rows)
        return set(rows.column("id").to_pylist())

    # -- where to go

    def _follow(self, traversal: Traversal) -> None:
        if traversal.max_hops > MAX_HOPS:
            raise TooWide
        start = min(sorted(traversal.ends), key=self._count)
        from_left = start == traversal.left
        end = traversal.right if from_left else traversal.left
        direction = traversal.direction
        if not from_left and direction is not ir.Direction.BOTH:
            outward = direction is ir.Direction.IN
        else:
            outward = direction is ir.Direction.OUT
        both = direction is ir.Direction.BOTH
        same_type = traversal.left_type == traversal.right_type
        hops = traversal.max_hops if same_type else 1
        frontier = self.candidates[start]
        # Ids are unique within a type only.
        reached = set(frontier) if same_type else set()
        for _ in range(hops):
            near: set[str] = set()
            if outward or both:
                near |= self._step(traversal.edge_type, "src", frontier)
            if not outward or both:
                near |= self._step(traversal.edge_type, "dst", frontier)
            frontier = near - reached if same_type else near
            reached |= near
        self._found(end, reached)

    def _step(self, edge_type: str, column: str, ids: set[str]) -> set[str]:
        """Fetch the edges whose end in that column is one of these nodes; the other ends."""
        if not ids:
            return set()
        if len(ids) > MAX_FRONTIER:
            raise TooWide
        edge = self.view.catalog.edges[edge_type]
        pinned = self.view.table(edge)
        condition = Condition(column, "in", sorted(ids))
        rows = read_where(pinned, ["src", "dst"], condition, with_row_id=True, limit=MAX_NODES + 1)
        if rows.num_rows > MAX_NODES:
            raise TooWide
        src, dst = rows.column("src").to_pylist(), rows.column("dst").to_pylist()
        row_ids = rows.column("_rowid").to_pylist()
        known = self.part.found.setdefault(edge_type, {})
        known.update(zip(row_ids, zip(src, dst, strict=True), strict=True))
        for type_name, ends in ((edge.from_type, src), (edge.to_type, dst)):
            self.part.ids.setdefault(type_name, set()).update(ends)
        return set(dst if column == "src" else src)
