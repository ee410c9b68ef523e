"""The part of a snapshot that a match can touch: a small graph that look-ups found (``fetch``).

The engine runs on it as on a whole one: every match starts from a node that was found and uses only
edges at nodes that were found, so the answer is the same. Only the numbers differ: where `ada` and
`bob` were found, they are the nodes 0 and 1, whatever their place in the whole table is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.lang.query import ir
from omnigraph.lang.schema.catalog import Catalog, EdgeType, NodeType
from omnigraph.read.kernels.arrays import Codes
from omnigraph.read.values.column import Column, one_array
from omnigraph.read.view.byte_cache import ByteCache
from omnigraph.read.view.edges import EdgeList
from omnigraph.read.view.ends import Ends
from omnigraph.read.view.nodes import NodeIds, NodeSpace
from omnigraph.read.view.overlay import FoundEdges, KnownCodes, OverlaidNodes
from omnigraph.read.view.pinned_table import Identity, PinnedTable
from omnigraph.read.view.properties import Properties
from omnigraph.read.view.topology import OR, EdgeSpace, Topology, union, union_list
from omnigraph.read.view.view import View
from omnigraph.storage.filters import Condition, filter_expression


class TooWide(Exception):
    """The match cannot be answered by few look-ups."""


class LookedAt(Protocol):
    """What a query looks at."""

    @property
    def properties(self) -> Mapping[str, set[str]]:
        """The properties it looks at, by node type."""
        ...

    @property
    def variables(self) -> Collection[str]:
        """The variables of which it needs more than their key."""
        ...


class Neighbourhood:
    """The fetched part of a snapshot, as the source of a match."""

    def __init__(self, view: View, asked: LookedAt) -> None:
        self.view = view
        self.asked = asked
        self.catalog: Catalog = view.catalog
        self.ids: dict[str, set[str]] = {}
        self.found: dict[str, dict[int, tuple[str, str]]] = {}
        self.rows: dict[str, list[pa.Table]] = {}
        """Node rows that were read on the way, with the properties that the query needs."""
        self._codes: defaultdict[Identity, KnownCodes] = defaultdict(dict)
        self._nodes: dict[str, NodeSpace] = {}
        self._places: dict[str, dict[str, int]] = {}
        self._topologies: dict[str, Topology] = {}

    def nodes(self, type_name: str) -> NodeSpace:
        """The nodes of a type that were found."""
        if type_name not in self._nodes:
            node = self.catalog.nodes[type_name]
            # In the order of their code points, which is that of their UTF-8 bytes.
            ids = sorted(self.ids.get(type_name, ()))
            self._places[type_name] = {one: place for place, one in enumerate(ids)}
            self._nodes[type_name] = _FoundNodes(node, self.view.table(node), ids, self)
        return self._nodes[type_name]

    def overlaid_nodes(self, type_name: str) -> OverlaidNodes | None:
        """The nodes of a type in memory, beside a writer: an older state and what changed since."""
        overlaid = self.view.overlaid_nodes(type_name, self._codes)
        if overlaid is not None and overlaid.is_due:
            raise TooWide
        return overlaid

    def edges_at(self, edge_type: str, column: str, ids: Collection[str], most: int) -> FoundEdges:
        """The edges whose end in that column is one of these; ``TooWide`` when there are more."""
        overlaid = self.view.overlaid_edges(edge_type, self._codes)
        if overlaid is not None:
            found = None if overlaid.is_due else overlaid.at(column, ids, most)
            if found is None:
                raise TooWide
            return found
        rows = read_where(
            self.view,
            self.view.table(self.catalog.edges[edge_type]),
            ["src", "dst"],
            Condition(column, "in", sorted(ids)),
            with_row_id=True,
            limit=most + 1,
        )
        if rows.num_rows > most:
            raise TooWide
        return FoundEdges(*(rows.column(name).to_pylist() for name in ("_rowid", "src", "dst")))

    def wanted(self, pinned: PinnedTable) -> list[str]:
        """The columns to read of a node table: the id and what the query looks at."""
        names = [
            pinned.column_of(name) for name in self.asked.properties.get(pinned.entity.name, ())
        ]
        return sorted({"id", *(name for name in names if name is not None)})

    def topology(self, edge_types: str) -> Topology:
        """The edges of a type that were found; of several types, with ``OR`` between, as one."""
        parts = []
        for name in edge_types.split(OR):
            if name not in self._topologies:
                self._topologies[name] = self._topology(self.catalog.edges[name])
            parts.append(self._topologies[name])
        return parts[0] if len(parts) == 1 else union(parts, union_list(parts))

    def text_matches(
        self,
        node_type: NodeType,  # noqa: ARG002
        predicate: ir.TextMatch,  # noqa: ARG002
        params: Mapping[str, Any],  # noqa: ARG002
    ) -> Codes:
        """Refuse: text is searched in whole tables, so a match that asks for it is not fetched."""
        raise TooWide

    def _topology(self, edge: EdgeType) -> Topology:
        sources, targets = self.nodes(edge.from_type), self.nodes(edge.to_type)
        found = self.found.get(edge.name, {})
        rows = sorted(found)
        left, right = self._places[edge.from_type], self._places[edge.to_type]
        src = np.array([left[found[row][0]] for row in rows], np.int32)
        dst = np.array([right[found[row][1]] for row in rows], np.int32)
        ends = Ends(src, dst, np.array(rows, np.uint64))
        edges = EdgeList.of(ends, (sources.size, targets.size))
        return Topology(
            edge, sources, targets, edges, _FoundEdges(self.view, self.view.table(edge), edges)
        )


class _FoundNodes(NodeSpace):
    """Some nodes of a type; the properties a query needs are read with one look-up."""

    def __init__(
        self, type: NodeType, pinned: PinnedTable, ids: list[str], part: Neighbourhood
    ) -> None:
        numbers = np.arange(len(ids), dtype=np.uint64)
        found = NodeIds(pa.array(ids, pa.string()), numbers)
        super().__init__(type, pinned, found, ByteCache(0), part.view.thresholds.view)
        overlaid = part.overlaid_nodes(type.name)
        self._properties = (
            _LookedUp(self, part) if overlaid is None else _InMemory(self, part, overlaid, ids)
        )


class _Found(Properties):
    """Properties of nodes that were found: a column is made once."""

    def __init__(self, space: NodeSpace, part: Neighbourhood) -> None:
        super().__init__(
            space.pinned,
            ByteCache(0),
            None,
            space.row_ids,
            space.ordinals_of_row_ids,
            part.view.thresholds.view,
        )
        self._columns: dict[str, Column] = {}

    def column(self, name: str) -> Column:
        """A property of the nodes that were found."""
        if name not in self._columns:
            self._columns[name] = self._column(name)
        return self._columns[name]

    def values(self, name: str, codes: Codes) -> pa.Array:
        """A property of these nodes, repeats included."""
        return self.column(name).array.take(codes)

    def _column(self, name: str) -> Column:
        raise NotImplementedError


class _InMemory(_Found):
    """Properties out of an older state in memory and what changed since."""

    def __init__(
        self, space: NodeSpace, part: Neighbourhood, overlaid: OverlaidNodes, ids: list[str]
    ) -> None:
        super().__init__(space, part)
        self._overlaid = overlaid
        self._ids = ids

    def values(self, name: str, codes: Codes) -> pa.Array:
        """A property of these nodes, repeats included."""
        if name in self._columns:
            return super().values(name, codes)
        return self._overlaid.values(name, [self._ids[code] for code in codes.tolist()])

    def _column(self, name: str) -> Column:
        return Column(self._type(name), self._overlaid.values(name, self._ids))


class _LookedUp(_Found):
    """Properties out of the table: what was read on the way, and the rest in one read."""

    def __init__(self, space: NodeSpace, part: Neighbourhood) -> None:
        super().__init__(space, part)
        self._ids = space.id_array
        self._part = part
        self._rows: pa.Table | None = None

    def _column(self, name: str) -> Column:
        type_ = self._type(name)
        stored = self.pinned.column_of(name)
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
            wanted = Condition("id", "in", missing.to_pylist())
            known.append(read_where(self._part.view, self.pinned, columns, wanted))
        rows = pa.concat_tables(known)
        return rows.take(pc.index_in(self._ids, value_set=one_array(rows.column("id"))))


class _FoundEdges(EdgeSpace):
    """Some edges of a type."""

    def __init__(self, view: View, pinned: PinnedTable, edges: EdgeList) -> None:
        nothing_kept, thresholds = ByteCache(0), view.thresholds.view
        super().__init__(pinned, edges, None, nothing_kept, thresholds)
        self._properties = _Taken(
            pinned, nothing_kept, None, edges.rows.row_ids, edges.rows.codes, thresholds
        )


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
    view: View, pinned: PinnedTable, columns: Sequence[str], condition: Condition, **options: Any
) -> pa.Table:
    """The rows of a pinned table that satisfy one condition; the time it takes is counted."""
    table = pinned.table
    with view.looking_up():
        return table.read(list(columns), filter_expression(table.schema, [condition]), **options)
