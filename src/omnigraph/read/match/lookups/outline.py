"""What a plan asks for, as far as that is the same for every run of it: worked out once, kept while the plan lives.

match { $p: Person { number: $no }  $p wrote $m } return { $m.text }
its pattern; the node types Person and Post and the edge type Wrote; it searches no text
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import cast

from omnigraph.lang.query import ir
from omnigraph.read.match.blocks.optional_paths import guarded
from omnigraph.read.match.pattern import Pattern, Traversal, inner_blocks, pattern_of
from omnigraph.read.match.trees import has_block


@dataclass(frozen=True, slots=True)
class Outline:
    """The parts of a plan that decide how its match is answered."""

    rewritten: ir.ReadPlan | None
    """The plan that is run, if it is not the one that was given (``optional_paths``)."""
    pattern: Pattern
    """Its match."""
    looked_at: Pattern
    """The same with the blocks and searches of the output: what they look at has to be found as well."""
    searches: bool
    """Whether it ranks, or searches in texts."""
    node_types: frozenset[str]
    edge_types: frozenset[str]
    weighed: tuple[Traversal, ...]
    """The traversals that go by a weight, which no edge may have below zero, whether or not it is looked at."""


def outline_of(plan: ir.ReadPlan) -> Outline:
    """The outline of a plan, which is kept as long as the plan."""
    known = _outlines.get(id(plan))
    if known is None:
        known = _outlines[id(plan)] = _outlined(plan)
        weakref.finalize(plan, _outlines.pop, id(plan), None).atexit = False
    return known


_outlines: dict[int, Outline] = {}


def _outlined(plan: ir.ReadPlan) -> Outline:
    run = guarded(plan)
    pattern = pattern_of(run.steps)
    looked_at = _with_output(run, pattern)
    patterns = list(blocks(looked_at))
    nodes = {name for one in patterns for name in one.nodes.values() if not name.startswith("#")}
    edges = {name for one in patterns for hop in one.traversals for name in hop.edge_types}
    searches = plan.ranking is not None or any(map(_searches, patterns))
    # Not the plan itself: what is kept must not keep it.
    rewritten = None if run is plan else run
    hops = [hop for one in patterns for hop in one.traversals if hop.weight is not None]
    weighed = tuple(hop.at_any_moment for hop in hops)
    types = frozenset(nodes), frozenset(edges)
    return Outline(rewritten, pattern, looked_at, searches, *types, weighed)


def _with_output(plan: ir.ReadPlan, pattern: Pattern) -> Pattern:
    odd = [one for one in shown(plan) if has_block(one) or _is_search(one)]
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


def shown(plan: ir.ReadPlan) -> Iterator[ir.Output]:
    """The expressions of the output and of its order."""
    yield from (column.expr for column in plan.columns)
    yield from (key.expr for key in plan.order if key.expr is not None)


def conditions_of(pattern: Pattern) -> Iterator[ir.Condition]:
    """The tests of a pattern, those of blocks within it aside."""
    for tests in pattern.tests.values():
        yield from tests
    yield from pattern.joins
    yield from pattern.late


def _searches(pattern: Pattern) -> bool:
    return any(map(_is_search, conditions_of(pattern)))


def _is_search(tree: ir.Output | ir.Condition) -> bool:
    return isinstance(tree, ir.TextMatch) or any(map(_is_search, ir.parts_of(tree)))
