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
from functools import cached_property
from typing import Any, Literal

from omnigraph import settings
from omnigraph.lang.query import ir
from omnigraph.lang.schema.catalog import Entity
from omnigraph.read.match.lookups.fetch import fetch
from omnigraph.read.match.lookups.neighbourhood import TooWide
from omnigraph.read.match.match_data import MatchData, WholeTables
from omnigraph.read.match.pattern import Pattern, key_of, pattern_of
from omnigraph.read.view.view import View

AccessPath = Literal["indexed", "csr"]


def choose_path(view: View, plan: ir.ReadPlan, pattern: Pattern | None = None) -> AccessPath:
    """The way to try first; look-ups give up when they find too much."""
    pattern = pattern or pattern_of(plan.steps)
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
            part = fetch(view, pattern, params, _Asked(view, plan, pattern, params))
            view.look_ups += 1
            return MatchData(part, params, view.thresholds.match)
    elif view.spent:
        view.pay(_price(view, pattern))
    return MatchData(WholeTables(view), params, view.thresholds.match)


def blocks(pattern: Pattern) -> Iterator[Pattern]:
    """A pattern and the negated blocks within it."""
    yield pattern
    for negation in pattern.negations:
        yield from blocks(negation.pattern)


def _searches(pattern: Pattern) -> bool:
    return any(isinstance(test, ir.TextMatch) for tests in pattern.tests.values() for test in tests)


def _price(view: View, pattern: Pattern) -> float:
    """About how many seconds it takes to number what is not numbered yet."""
    nodes: set[str] = set()
    edges: set[str] = set()
    for block in blocks(pattern):
        nodes |= set(block.nodes.values())
        edges |= {one.edge_type for one in block.traversals}
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
            tests = [test for tests in block.tests.values() for test in tests]
            for one in _properties([*tests, *block.joins]):
                if one.var in block.nodes:
                    found.setdefault(block.nodes[one.var], set()).add(one.property)
        for one in _shown(self._plan):
            if one.var in self._pattern.nodes:
                found.setdefault(self._pattern.nodes[one.var], set()).add(one.property)
        return found

    @cached_property
    def variables(self) -> set[str]:
        """The variables of which it needs more than the key it tests."""
        found = {one.var for one in _shown(self._plan)}
        for block in blocks(self._pattern):
            found |= {one.var for one in _properties(block.joins)}
            for name, tests in block.tests.items():
                rest = list(tests)
                if name in block.nodes:
                    node = self._view.catalog.nodes[block.nodes[name]]
                    by_key = [one for one in rest if key_of(node, one, self._params) is not None]
                    rest = [one for one in rest if one not in by_key[:1]]
                if rest:
                    found.add(name)
        return found


def _properties(predicates: Iterable[ir.Predicate]) -> Iterator[ir.PropertyOf]:
    for predicate in predicates:
        if isinstance(predicate, ir.Compare):
            for operand in (predicate.left, predicate.right):
                if isinstance(operand, ir.PropertyOf):
                    yield operand


def _shown(plan: ir.ReadPlan) -> Iterator[ir.PropertyOf]:
    """The properties of the output and of its order."""
    for expr in [*(column.expr for column in plan.columns), *(key.expr for key in plan.order)]:
        operand = expr.arg if isinstance(expr, ir.Aggregate) else expr
        if isinstance(operand, ir.PropertyOf):
            yield operand
