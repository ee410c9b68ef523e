"""Which way a match is answered: by look-ups in indexes, or over numbered nodes and adjacency.

Look-ups are cheap for one selective question; numbering pays off when questions repeat. So look-ups are
tried first, and when a snapshot has spent as long on them as numbering would take, it is numbered:

    numbering costs 2 s; look-ups took 0.1 s so far -> "indexed"; after 2 s of look-ups -> "csr"

Beside a writer look-ups find most in memory: an older state that is numbered, and what changed since.
These look-ups are counted, not timed: when the writer pauses and many have come for one state, it is numbered
as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal, cast

from omnigraph import settings
from omnigraph.lang.query import ir
from omnigraph.lang.schema.catalog import Entity, NodeType
from omnigraph.read.match.lookups.asked_ids import ids_asked
from omnigraph.read.match.lookups.fetch import fetch
from omnigraph.read.match.lookups.neighbourhood import TooWide
from omnigraph.read.match.match_data import MatchData, WholeTables
from omnigraph.read.match.pattern import Pattern, inner_blocks, pattern_of
from omnigraph.read.match.trees import has_block
from omnigraph.read.view.view import View

AccessPath = Literal["indexed", "csr"]


def choose_path(view: View, plan: ir.ReadPlan, pattern: Pattern | None = None) -> AccessPath:
    """The way to try first; look-ups give up when they find too much."""
    pattern = looked_at(plan, pattern or pattern_of(plan.steps))
    if plan.ranking is not None or any(_searches(one) for one in blocks(pattern)):
        return "csr"
    mode = settings.TRAVERSAL_MODE.get()
    if mode != "auto":
        return mode
    seconds = view.thresholds.match
    # When look-ups have cost as much as numbering would, everything is numbered.
    worth = max(view.spent, view.look_ups * seconds.overlaid_seconds, seconds.small_seconds)
    return "csr" if _price(view, pattern) <= worth else "indexed"


def open_match(
    view: View, plan: ir.ReadPlan, pattern: Pattern, params: Mapping[str, Any]
) -> MatchData:
    """Open the data a match runs on: the part that look-ups find, or whole tables."""
    if choose_path(view, plan, pattern) == "indexed":
        with suppress(TooWide):
            found = looked_at(plan, pattern)
            part = fetch(view, found, params, _Asked(view, plan, found, params))
            view.look_ups += 1
            return MatchData(part, params, view.thresholds.match)
    elif view.spent:
        view.pay(_price(view, pattern))
    return MatchData(WholeTables(view), params, view.thresholds.match)


def looked_at(plan: ir.ReadPlan, pattern: Pattern) -> Pattern:
    """The pattern with the blocks and searches of the output: what they look at has to be found as well."""
    odd = [one for one in _shown(plan) if has_block(one) or _is_search(one)]
    if not odd:
        return pattern
    return replace(
        pattern, joins=(*pattern.joins, *(ir.IsNull(cast("ir.Expr", one)) for one in odd))
    )


def blocks(pattern: Pattern) -> Iterator[Pattern]:
    """A pattern and the blocks within it."""
    yield pattern
    for block in inner_blocks(pattern):
        yield from blocks(block.pattern)


def _searches(pattern: Pattern) -> bool:
    return any(map(_is_search, _conditions(pattern)))


def _is_search(tree: ir.Output | ir.Condition) -> bool:
    return isinstance(tree, ir.TextMatch) or any(map(_is_search, ir.parts_of(tree)))


def _conditions(pattern: Pattern) -> Iterator[ir.Condition]:
    for tests in pattern.tests.values():
        yield from tests
    yield from pattern.joins
    yield from pattern.late


def _price(view: View, pattern: Pattern) -> float:
    """About how many seconds it takes to number what is not numbered yet."""
    nodes: set[str] = set()
    edges: set[str] = set()
    for block in blocks(pattern):
        nodes |= {name for name in block.nodes.values() if not name.startswith("#")}
        edges |= {name for one in block.traversals for name in one.edge_types}
    catalog, seconds = view.catalog, view.thresholds.match
    price = 0.0
    for name in nodes:
        node = catalog.nodes[name]
        if view.has_nodes(name):
            price += view.unloaded_bytes(node) * seconds.kept_byte_seconds
        else:
            price += _numbering(view, node, seconds.node_seconds, seconds.derived_node_seconds)
    for name in edges:
        edge = catalog.edges[name]
        if view.has_topology(name):
            price += view.unloaded_bytes(edge) * seconds.kept_byte_seconds
        else:
            price += _numbering(view, edge, seconds.edge_seconds, seconds.derived_edge_seconds)
    return price


def _numbering(view: View, entity: Entity, new: float, old: float) -> float:
    """The seconds to number a table: as a new one, or out of an older state of it."""
    rows = view.table(entity).row_count
    asked = view.thresholds.match.derived_seconds if view.has_older_state(entity) else math.inf
    return min(new * rows, asked + old * rows)


class _Asked:
    """What a plan looks at, worked out when a table has to be read for it."""

    def __init__(
        self, view: View, plan: ir.ReadPlan, pattern: Pattern, params: Mapping[str, Any]
    ) -> None:
        self._view = view
        self._plan = plan
        self._pattern = pattern
        self._params = params

    @cached_property
    def properties(self) -> dict[str, set[str]]:
        """The properties it looks at, by node type."""
        found: dict[str, set[str]] = {}
        for block in blocks(self._pattern):
            looked_at: list[ir.Output | ir.Condition] = [*_conditions(block), *block.lists.values()]
            if block is self._pattern:
                looked_at += _shown(self._plan)
            types = {**block.nodes, **block.optional_nodes}
            types |= {name: path.left_type for name, path in block.paths.items()}
            for var, name in _properties(looked_at):
                if var in types:
                    found.setdefault(types[var], set()).add(name)
        return found

    @cached_property
    def variables(self) -> set[str]:
        """The variables of which it needs more than the key it tests."""
        found = {var for var, _ in _properties(_shown(self._plan))}
        for block in blocks(self._pattern):
            found |= {var for var, _ in _properties([*block.joins, *block.late])}
            for name, tests in block.tests.items():
                rest = list(tests)
                if name in block.nodes and not block.nodes[name].startswith("#"):
                    node = self._view.catalog.nodes[block.nodes[name]]
                    by_key = [one for one in rest if self._is_id(node, one)]
                    rest = [one for one in rest if one not in by_key[:1]]
                if rest:
                    found.add(name)
        return found

    def _is_id(self, node: NodeType, test: ir.Condition) -> bool:
        asked = ids_asked(node, test, self._params)
        return asked is not None and asked.exact


def _properties(trees: Iterable[ir.Output | ir.Condition]) -> Iterator[tuple[str, str]]:
    """The properties that expressions and conditions look at, each with its variable."""
    for tree in trees:
        match tree:
            case ir.PropertyOf():
                yield tree.var, tree.property
            case ir.Shape():
                yield from ((tree.var, name) for name, _ in tree.type.fields)
            case ir.PathValue(what="nodes", property=str() as name):
                yield tree.var, name
            case _:
                yield from _properties(ir.parts_of(tree))


def _shown(plan: ir.ReadPlan) -> Iterator[ir.Output]:
    """The expressions of the output and of its order."""
    yield from (column.expr for column in plan.columns)
    yield from (key.expr for key in plan.order if key.expr is not None)
