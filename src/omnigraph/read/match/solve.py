"""From a pattern to its rows: sum away what nobody asks for, enumerate the rest.

docs/dev/engine.md explains the words: candidates, links, weights.

    $a knows $b, return $a         prepare: candidates and a link; sum away $b; rows of $a with weights
    $a knows $b, return $a, $b     prepare; nothing to sum away; rows of $a and $b

The parts: ``prepare`` finds what each variable may be, ``sum_away`` removes variables, ``enumeration``
lists the rows of those that are left, ``negations`` solves the negated blocks, by calling ``solve``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from omnigraph.lang.query import ir
from omnigraph.lang.query.plan_text import predicate_text
from omnigraph.read.kernels.arrays import Codes, Counts, Mask
from omnigraph.read.match.bindings import Bindings
from omnigraph.read.match.blocks.negations import SEED, Negations
from omnigraph.read.match.blocks.optional import left_joined, multiplicity
from omnigraph.read.match.links.same_end import narrow_to_same_end
from omnigraph.read.match.listing.enumeration import Enumeration
from omnigraph.read.match.listing.join_order import order_of, steps_of
from omnigraph.read.match.listing.steps import Estimates, RowTest, Step
from omnigraph.read.match.match_data import MatchData
from omnigraph.read.match.operand_rows import operand_rows
from omnigraph.read.match.pattern import Negation, OptionalBlock, Pattern
from omnigraph.read.match.prepare import Prepared, prepare
from omnigraph.read.match.sum_away import VariableGraph
from omnigraph.read.match.wanted import Wanted
from omnigraph.read.values.expressions import holds, variables_of
from omnigraph.read.values.operands import OperandRows

# About which part of the rows passes a comparison of two variables.
_SHARES = {"=": 0.05, "!=": 0.95}


def solve(
    data: MatchData, pattern: Pattern, wanted: Wanted, seed: Mapping[str, Codes] | None = None
) -> Iterator[Bindings]:
    """The rows of a match, in batches. With a seed, the rows that extend it, by `#seed`."""
    seed = seed or {}
    if pattern.optionals:
        yield from left_joined(data, pattern, wanted, seed, solve, _passing(data))
        return
    negations = Negations(data, solve, mask_in_match)
    prepared = _reduced(data, pattern, wanted, seed, negations)
    if prepared is not None:
        yield from _listed(data, pattern, wanted, seed, negations, prepared)


def plan_only(data: MatchData, pattern: Pattern, wanted: Wanted) -> list[Step]:
    """The steps that would list the rows of a match, without listing them.

    What comes before them is done, since the order depends on it: candidates are found and variables summed
    away. The trace of the data tells those.
    """
    negations = Negations(data, solve, mask_in_match)
    prepared = _reduced(data, pattern, wanted, {}, negations)
    if prepared is None:
        return []
    tests = list(_row_tests(data, pattern, prepared, negations))
    steps = planned(prepared.graph, tests, wanted.kept, {}, told=True)
    return [] if prepared.graph.is_empty else steps


def _listed(
    data: MatchData,
    pattern: Pattern,
    wanted: Wanted,
    seed: Mapping[str, Codes],
    negations: Negations,
    prepared: Prepared,
) -> Iterator[Bindings]:
    """The rows of what is left after summing away."""
    graph = prepared.graph
    start = Bindings(1, {})
    if seed:
        count = len(next(iter(seed.values())))
        start = Bindings(count, {**seed, SEED: np.arange(count, dtype=np.int32)})
    tests = list(_row_tests(data, pattern, prepared, negations))
    given = dict.fromkeys(start.codes, start.count)
    steps = planned(graph, tests, wanted.kept, given, told=data.trace is not None)
    if graph.is_empty:
        return
    batch_rows = data.thresholds.batch_rows
    enumeration = Enumeration(graph.candidates, steps, wanted.kept, batch_rows, data.trace)
    for batch in enumeration.run(start, wanted.batch):
        yield batch.only(wanted.kept).times(graph.unit)


def _reduced(
    data: MatchData,
    pattern: Pattern,
    wanted: Wanted,
    seed: Mapping[str, Codes],
    negations: Negations,
) -> Prepared | None:
    """The match without the variables that can be summed away; None when it has no row."""
    if not _conditions_hold(data, pattern, negations):
        return None

    def counted(block: OptionalBlock, name: str) -> Counts:
        return multiplicity(data, block, name, solve)

    prepared = prepare(data, pattern, wanted, seed, negations, counted)
    if prepared is None:
        return None
    graph = prepared.graph
    graph.sum_away()
    if narrow_to_same_end(graph.candidates, graph.links, graph.must, data.trace):
        graph.sum_away()
    return None if graph.is_empty else prepared


def planned(
    graph: VariableGraph,
    tests: Sequence[RowTest],
    kept: frozenset[str],
    given: Mapping[str, int],
    *,
    told: bool,
) -> list[Step]:
    """The steps that list what is left; the variables are narrowed towards the one they start with.

    ``told``: the steps say about how many rows they make.
    """
    looked_at = set(kept).union(*(test.names for test in tests))
    loops = {one.ends.left for one in graph.links if one.ends.left == one.ends.right}
    counted = frozenset(
        name
        for name, candidates in graph.candidates.items()
        if name not in looked_at and name not in loops and not candidates.totals
    )
    estimates = Estimates(graph.candidates, graph.links, tests, given)
    order = order_of(estimates, counted)
    before = dict(graph.candidates)
    graph.narrow([*given, *order])
    if any(graph.candidates[name].count * 2 < one.count for name, one in before.items()):
        changed = [name for name, one in before.items() if graph.candidates[name] is not one]
        estimates.forget(changed)
        order = order_of(estimates, counted)
    return steps_of(estimates, order, counted, told=told)


def codes_in_match(data: MatchData, pattern: Pattern, var: str) -> Codes:
    """The codes of one variable that are part of some row, ascending."""
    return np.flatnonzero(mask_in_match(data, pattern, var)).astype(np.int32)


def mask_in_match(data: MatchData, pattern: Pattern, var: str, among: Codes | None = None) -> Mask:
    """Which codes of one variable are part of some row; ``among``: only these are asked for."""
    wanted = Wanted(frozenset({var}), among={} if among is None else {var: among})
    if pattern.late or any(block.required for block in pattern.optionals):
        found = np.zeros(data.space_of(pattern, var).size, dtype=np.bool_)
        for batch in solve(data, pattern, wanted):
            found[batch.codes[var]] = True
        return found
    # The other optional blocks drop no row.
    pattern = replace(pattern, optionals=(), multiplied=())
    negations = Negations(data, solve, mask_in_match)
    prepared = _reduced(data, pattern, wanted, {}, negations)
    found = np.zeros(data.space_of(pattern, var).size, dtype=np.bool_)
    if prepared is None:
        return found
    left = prepared.graph.candidates
    judged = [*prepared.joins, *prepared.negations, *prepared.graph.links]
    if left.keys() == {var} and not judged:
        # All others are summed away: no rows are needed.
        return left[var].mask()
    for batch in _listed(data, pattern, wanted, {}, negations, prepared):
        found[batch.codes[var]] = True
    return found


def _conditions_hold(data: MatchData, pattern: Pattern, negations: Negations) -> bool:
    """Whether everything is satisfied that does not depend on any variable."""
    rows = OperandRows({}, {}, data.params, 1, negations.judge(pattern))
    if not all(bool(holds(condition, rows)[0]) for condition in pattern.conditions):
        return False
    return not any(negations.any_match(one) for one in pattern.negations if not one.outer)


def _row_tests(
    data: MatchData, pattern: Pattern, prepared: Prepared, negations: Negations
) -> Iterator[RowTest]:
    """What is judged row by row: tests of edges, predicates on several variables, negated blocks."""
    for name in pattern.edges:
        for test in pattern.tests.get(name, ()):
            if any(test is one for one in prepared.satisfied):
                continue
            yield _judged(data, pattern, test, negations)
    for join in prepared.joins:
        yield _judged(data, pattern, join, negations)
    for negation in prepared.negations:
        yield _refused(negation, negations)


def _judged(
    data: MatchData, pattern: Pattern, condition: ir.Condition, negations: Negations
) -> RowTest:
    names = frozenset(variables_of(condition))
    judge = negations.judge(pattern)

    def holds_for(rows: Bindings) -> Mask:
        return holds(condition, operand_rows(data, pattern, rows, names, judge))

    share = _SHARES.get(condition.op, 0.5) if isinstance(condition, ir.Compare) else 0.5
    return RowTest(names, holds_for, predicate_text(condition), share=share)


def _passing(data: MatchData) -> Callable[[Pattern, Bindings], Bindings]:
    """Keeps the rows that satisfy the late conditions of a pattern."""
    negations = Negations(data, solve, mask_in_match)

    def passing(pattern: Pattern, rows: Bindings) -> Bindings:
        judge = negations.judge(pattern)
        for condition in pattern.late:
            names = variables_of(condition)
            held = holds(condition, operand_rows(data, pattern, rows, names, judge))
            rows = rows.at(held)
        return rows

    return passing


def _refused(negation: Negation, negations: Negations) -> RowTest:
    def holds_for(rows: Bindings) -> Mask:
        return ~negations.matches(negation, rows.codes, rows.count)

    on = ", ".join(f"${name}" for name in sorted(negation.outer))
    return RowTest(negation.outer, holds_for, f"on {on}", is_negation=True)
