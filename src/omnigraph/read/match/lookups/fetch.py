"""Fetching the part of a snapshot that a match can touch, by look-ups in indexes.

From the variables that few nodes can be, the traversals are followed with indexed look-ups, one read
a step. A process that asks one selective question never numbers a whole table.

    $a: Person {name: "ada"}   $a knows $b     read Person where id = "ada": the candidates of $a
                                               read Knows where src in ("ada"): those of $b
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa

from omnigraph.lang.query import ir
from omnigraph.lang.schema.catalog import NodeType
from omnigraph.lang.schema.indexes import IndexKind
from omnigraph.read.match.lookups.asked_ids import ids_asked, is_asked_by_id, values_asked
from omnigraph.read.match.lookups.neighbourhood import LookedAt, Neighbourhood, TooWide, read_where
from omnigraph.read.match.pattern import OptionalBlock, Pattern, Traversal, inner_blocks
from omnigraph.read.view.pinned_table import PinnedTable
from omnigraph.read.view.view import View
from omnigraph.storage.filters import Condition
from omnigraph.storage.tables.indexing.table_indexes import Coverage


def fetch(
    view: View,
    pattern: Pattern,
    params: Mapping[str, Any],
    asked: LookedAt,
) -> Neighbourhood:
    """Fetch the part of the snapshot that a match can touch; raises ``TooWide`` when it is not small."""
    part = Neighbourhood(view, asked)
    _Fetch(part, pattern, params, {}, outermost=True).run()
    return part


class _Fetch:
    """Follows one pattern. ``candidates`` are the ids each variable can have, once that is known."""

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
        self.thresholds = part.view.thresholds.match
        self.pattern = pattern
        self.params = params
        self.candidates: dict[str, set[str]] = dict(given)

    def run(self) -> None:
        for name, type_name in self.pattern.nodes.items():
            if type_name.startswith("#"):
                self.candidates[name] = set()
            elif name not in self.candidates:
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
        for block in inner_blocks(self.pattern):
            inner = _Fetch(self.part, block.pattern, self.params, self.candidates)
            inner.run()
            if isinstance(block, OptionalBlock):
                self.candidates |= inner.candidates

    def _count(self, name: str) -> float:
        return len(self.candidates[name]) if name in self.candidates else float("inf")

    def _found(self, name: str, ids: set[str]) -> None:
        type_name = self.pattern.nodes[name]
        self.candidates.setdefault(name, ids)
        known = self.part.ids.setdefault(type_name, set())
        known |= ids
        if len(known) > self.thresholds.found_rows:
            raise TooWide

    # -- where to start

    def _anchor(self, name: str, type_name: str) -> set[str] | None:
        """All nodes a variable can be, when an index finds them and they are few."""
        node = self.view.catalog.nodes[type_name]
        tests = self.pattern.tests.get(name, ())
        for test in tests:
            asked = ids_asked(node, test, self.params)
            if asked is not None and len(asked.ids) <= self.thresholds.frontier_ids:
                return self._by_id(name, node, asked.ids)
        pinned = self.view.table(node)
        if pinned.row_count <= self.thresholds.few_rows and not self._is_near(name, node):
            with self.view.looking_up():
                rows = pinned.table.read(self.part.wanted(pinned))
            return self._kept(pinned, rows)
        for test in tests:
            found = self._by_index(node, test)
            if found is not None and len(found) <= self.thresholds.frontier_ids:
                return found
        return None

    def _by_id(self, name: str, node: NodeType, ids: Collection[str]) -> set[str]:
        """The nodes of some ids. Their rows are not read when a traversal will show whether a node exists.

        A key without a node has no edges, so the match has no row. Inside a negation this is not
        enough: the match may have rows all the same, and other variables could get that id.
        """
        overlaid = self.part.overlaid_nodes(node.name)
        if overlaid is not None:
            return {one for one in ids if overlaid.has(one)}
        joined = any(name in one.ends for one in self.pattern.traversals)
        if joined and self.outermost and name not in self.part.asked.variables:
            return set(ids)
        return self._ids(node, _among("id", sorted(ids)))

    def _is_near(self, name: str, node: NodeType) -> bool:
        """Whether a variable of a type that is in memory will be reached from a key."""
        near = {one for one in self.pattern.nodes if one in self.candidates or self._has_key(one)}
        while reached := {
            end for one in self.pattern.traversals if one.ends & near for end in one.ends - near
        }:
            near |= reached
        return name in near and self.part.overlaid_nodes(node.name) is not None

    def _has_key(self, name: str) -> bool:
        if self.pattern.nodes[name].startswith("#"):
            return False
        node = self.view.catalog.nodes[self.pattern.nodes[name]]
        return is_asked_by_id(node, self.pattern.tests.get(name, ()), self.params)

    def _by_index(self, node: NodeType, test: ir.Condition) -> set[str] | None:
        """The nodes that a test may be satisfied by, when indexes find them."""
        conditions = self._indexed(node, test)
        if conditions is None:
            return None
        found: set[str] = set()
        for condition in conditions:
            found |= self._ids(node, condition)
            if len(found) > self.thresholds.frontier_ids:
                return None
        return found

    def _indexed(self, node: NodeType, test: ir.Condition) -> list[Condition] | None:
        """Conditions on indexed columns one of which holds wherever the test does."""
        match test:
            case ir.Or():
                found: list[Condition] = []
                for part in test.parts:
                    of_part = self._indexed(node, part)
                    if of_part is None:
                        return None
                    found += of_part
                return found
            case ir.And():
                parts = (self._indexed(node, part) for part in test.parts)
                return next((part for part in parts if part is not None), None)
            case ir.Compare():
                asked = values_asked(test, self.params)
                if asked is None or len(asked[1]) > self.thresholds.frontier_ids:
                    return None
                if not asked[1]:
                    return []
                condition = self._equality(node, *asked)
                return None if condition is None else [condition]
        return None

    def _equality(
        self, node: NodeType, tested: ir.PropertyOf | ir.NodeId, values: Sequence[Any]
    ) -> Condition | None:
        """That an indexed property is one of some values, under its name in the table."""
        if isinstance(tested, ir.NodeId):
            return _among("id", values)
        pinned = self.view.table(node)
        column = pinned.column_of(tested.property)
        if column is None or tested.type.is_list or tested.type.scalar.is_float:
            return None
        if pinned.coverage(tested.property, IndexKind.BTREE) is not Coverage.INDEXED:
            return None
        return _among(column, values)

    def _ids(self, node: NodeType, condition: Condition) -> set[str]:
        pinned = self.view.table(node)
        wanted = self.part.wanted(pinned)
        return self._kept(
            pinned,
            read_where(
                self.view, pinned, wanted, condition, limit=self.thresholds.frontier_ids + 1
            ),
        )

    def _kept(self, pinned: PinnedTable, rows: pa.Table) -> set[str]:
        """The ids of rows, which are kept for when their properties are asked for."""
        self.part.rows.setdefault(pinned.entity.name, []).append(rows)
        return set(rows.column("id").to_pylist())

    # -- where to go

    def _follow(self, traversal: Traversal) -> None:
        if traversal.max_hops is None or traversal.max_hops > self.thresholds.hops:
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
            for edge_type in traversal.edge_types:
                if outward or both:
                    near |= self._step(edge_type, "src", frontier)
                if not outward or both:
                    near |= self._step(edge_type, "dst", frontier)
            frontier = near - reached if same_type else near
            reached |= near
        self._found(end, reached)

    def _step(self, edge_type: str, column: str, ids: set[str]) -> set[str]:
        """Fetch the edges whose end in that column is one of these nodes; the other ends."""
        if not ids:
            return set()
        if len(ids) > self.thresholds.frontier_ids:
            raise TooWide
        edge = self.view.catalog.edges[edge_type]
        row_ids, src, dst = self.part.edges_at(
            edge_type, column, ids, most=self.thresholds.found_rows
        )
        known = self.part.found.setdefault(edge_type, {})
        known.update(zip(row_ids, zip(src, dst, strict=True), strict=True))
        for type_name, ends in ((edge.from_type, src), (edge.to_type, dst)):
            self.part.ids.setdefault(type_name, set()).update(ends)
        return set(dst if column == "src" else src)


def _among(column: str, values: Sequence[Any]) -> Condition:
    """That a column is one of some values: an equality where there is one."""
    if len(values) == 1:
        return Condition(column, "=", values[0])
    return Condition(column, "in", values)
