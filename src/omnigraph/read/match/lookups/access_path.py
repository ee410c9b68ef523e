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
from omnigraph.lang.schema.catalog import Entity, NodeType
from omnigraph.read.match.lookups.asked_ids import ids_asked
from omnigraph.read.match.lookups.fetch import fetch
from omnigraph.read.match.lookups.neighbourhood import TooWide
from omnigraph.read.match.lookups.outline import (
    Outline,
    blocks,
    conditions_of,
    outline_of,
    shown,
)
from omnigraph.read.match.match_data import MatchData, WholeTables
from omnigraph.read.match.pattern import Pattern
from omnigraph.read.view.view import View

AccessPath = Literal["indexed", "csr"]


def choose_path(view: View, plan: ir.ReadPlan) -> AccessPath:
    """The way to try first; look-ups give up when they find too much."""
    return _choice(view, outline_of(plan))[0]


def open_match(view: View, plan: ir.ReadPlan, params: Mapping[str, Any]) -> MatchData:
    """Open the data a match runs on: the part that look-ups find, or whole tables."""
    outline = outline_of(plan)
    path, price = _choice(view, outline)
    if path == "indexed":
        with suppress(TooWide):
            found = outline.looked_at
            part = fetch(
                view, found, params, _Asked(view, outline.rewritten or plan, found, params)
            )
            view.look_ups += 1
            return MatchData(part, params, view.thresholds.match)
    elif view.spent:
        view.pay(_price(view, outline) if price is None else price)
    return MatchData(WholeTables(view), params, view.thresholds.match)


def _choice(view: View, outline: Outline) -> tuple[AccessPath, float | None]:
    """The way to try first, and the price of numbering if that decided."""
    if outline.searches:
        return "csr", None
    mode = settings.TRAVERSAL_MODE.get()
    if mode != "auto":
        return mode, None
    price, seconds = _price(view, outline), view.thresholds.match
    # When look-ups have cost as much as numbering would, everything is numbered.
    worth = max(view.spent, view.look_ups * seconds.overlaid_seconds, seconds.small_seconds)
    return "csr" if price <= worth else "indexed", price


def _price(view: View, outline: Outline) -> float:
    """About how many seconds it takes to number what is not numbered yet."""
    types = outline.node_types, outline.edge_types
    if view.is_in_memory(types):
        return 0.0
    catalog, seconds = view.catalog, view.thresholds.match
    price = 0.0
    for name in outline.node_types:
        node = catalog.nodes[name]
        unloaded = view.unloaded_bytes(node)
        if unloaded is not None:
            price += unloaded * seconds.kept_byte_seconds
        else:
            price += _numbering(view, node, seconds.node_seconds, seconds.derived_node_seconds)
    for name in outline.edge_types:
        edge = catalog.edges[name]
        unloaded = view.unloaded_bytes(edge)
        if unloaded is not None:
            price += unloaded * seconds.kept_byte_seconds
        else:
            price += _numbering(view, edge, seconds.edge_seconds, seconds.derived_edge_seconds)
    if not price:
        view.found_in_memory(types)
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
            looked_at: list[ir.Output | ir.Condition] = [
                *conditions_of(block),
                *block.lists.values(),
            ]
            if block is self._pattern:
                looked_at += shown(self._plan)
            types = {**block.nodes, **block.optional_nodes}
            types |= {name: path.left_type for name, path in block.paths.items()}
            for hop in (*block.traversals, *block.paths.values()):
                looked_at += hop.row_moments
                if hop.between is not None:
                    looked_at.append(hop.between)
                    found.setdefault(hop.left_type, set()).update(
                        name for var, name in _properties([hop.between]) if var == ir.BETWEEN
                    )
            for var, name in _properties(looked_at):
                if var in types:
                    found.setdefault(types[var], set()).add(name)
        return found

    @cached_property
    def variables(self) -> set[str]:
        """The variables of which it needs more than the key it tests."""
        found = {var for var, _ in _properties(shown(self._plan))}
        for block in blocks(self._pattern):
            moments = [one for hop in block.traversals for one in hop.row_moments]
            found |= {var for var, _ in _properties([*block.joins, *block.late, *moments])}
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
            case ir.Shape(kind="row"):
                yield tree.var, tree.column
            case ir.Shape():
                assert isinstance(tree.type, ir.ObjectType)
                yield from ((tree.var, name) for name, _ in tree.type.fields)
            case ir.PathValue(what="nodes", property=str() as name):
                yield tree.var, name
            case _:
                yield from _properties(ir.parts_of(tree))
