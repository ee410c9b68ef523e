"""Fetching the part of a snapshot that a match can touch, by look-ups in indexes.

From the variables that few nodes can be, the traversals are followed with indexed look-ups, one read
a step. A process that asks one selective question never numbers a whole table.

    $a: Person {name: "ada"}   $a knows $b     read Person where id = "ada": the candidates of $a
                                               read Knows where src in ("ada"): those of $b
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from omnigraph.lang.query import ir
from omnigraph.lang.schema.catalog import NodeType
from omnigraph.lang.schema.indexes import IndexKind
from omnigraph.read.match.lookups.neighbourhood import LookedAt, Neighbourhood, TooWide, read_where
from omnigraph.read.match.pattern import Pattern, Traversal, key_of
from omnigraph.read.view.pinned_table import PinnedTable
from omnigraph.read.view.view import View
from omnigraph.storage.filters import Condition
from omnigraph.storage.tables.indexing.indexes import Coverage


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
        if len(known) > self.thresholds.found_rows:
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
        if pinned.row_count <= self.thresholds.few_rows and not self._is_near(name, node):
            with self.view.looking_up():
                rows = pinned.table.read(self.part.wanted(pinned))
            return self._kept(pinned, rows)
        for test in tests:
            condition = self._equality(node, test)
            if condition is not None:
                found = self._ids(node, condition)
                if len(found) <= self.thresholds.frontier_ids:
                    return found
        return None

    def _by_key(self, name: str, node: NodeType, key: str) -> set[str]:
        """The node of a key. Its row is not read when a traversal will show whether the node exists.

        A key without a node has no edges, so the match has no row. Inside a negation this is not
        enough: the match may have rows all the same, and other variables could get that id.
        """
        overlaid = self.part.overlaid_nodes(node.name)
        if overlaid is not None:
            return {key} if overlaid.has(key) else set()
        joined = any(name in one.ends for one in self.pattern.traversals)
        if joined and self.outermost and name not in self.part.asked.variables:
            return {key}
        return self._ids(node, Condition("id", "=", key))

    def _is_near(self, name: str, node: NodeType) -> bool:
        """Whether a variable of a type that is in memory will be reached from a key."""
        near = {one for one in self.pattern.nodes if one in self.candidates or self._has_key(one)}
        while reached := {
            end for one in self.pattern.traversals if one.ends & near for end in one.ends - near
        }:
            near |= reached
        return name in near and self.part.overlaid_nodes(node.name) is not None

    def _has_key(self, name: str) -> bool:
        node = self.view.catalog.nodes[self.pattern.nodes[name]]
        return any(key_of(node, one, self.params) for one in self.pattern.tests.get(name, ()))

    def _equality(self, node: NodeType, test: ir.Predicate) -> Condition | None:
        """An equality with a value on an indexed property, under its name in the table."""
        equality = ir.equality_of(test)
        if equality is None:
            return None
        tested, value = equality[0], ir.value_of(equality[1], self.params)
        pinned = self.view.table(node)
        column = pinned.column_of(tested.property)
        if value is None or column is None or tested.type.scalar.is_float:
            return None
        if pinned.coverage(tested.property, IndexKind.BTREE) is not Coverage.INDEXED:
            return None
        return Condition(column, "=", value)

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
        if traversal.max_hops > self.thresholds.hops:
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
