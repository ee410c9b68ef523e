"""From a pattern to its rows: sum away what nobody asks for, enumerate the rest.

docs/dev/engine.md explains the words: candidates, links, weights.

    $a knows $b, return $a         prepare: candidates and a link; sum away $b; rows of $a with weights
    $a knows $b, return $a, $b     prepare; nothing to sum away; rows of $a and $b

The parts: ``prepare`` finds what each variable may be, ``sum_away`` removes variables, ``enumeration``
lists the rows of those that are left, ``negations`` solves the negated blocks, by calling ``solve``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from omnigraph.lang.query import ir
from omnigraph.read.kernels.arrays import Codes, Mask
from omnigraph.read.match.bindings import Bindings
from omnigraph.read.match.enumeration import Enumeration, RowTest
from omnigraph.read.match.match_data import MatchData
from omnigraph.read.match.negations import SEED, Negations
from omnigraph.read.match.pattern import Negation, Pattern, variables_of
from omnigraph.read.match.prepare import Prepared, prepare
from omnigraph.read.match.wanted import Wanted
from omnigraph.read.values.predicates import Rows, holds


def solve(
    data: MatchData, pattern: Pattern, wanted: Wanted, seed: Mapping[str, Codes] | None = None
) -> Iterator[Bindings]:
    """The rows of a match, in batches. With a seed, the rows that extend it, by `#seed`."""
    seed = seed or {}
    negations = Negations(data, solve)
    if not _conditions_hold(data, pattern, negations):
        return
    prepared = prepare(data, pattern, wanted, seed, negations)
    if prepared is None:
        return
    graph = prepared.graph
    graph.sum_away()
    graph.narrow()
    if graph.is_empty:
        return
    tests = list(_row_tests(data, pattern, prepared, negations))
    batch_rows = data.thresholds.batch_rows
    enumeration = Enumeration(graph.candidates, graph.links, tests, wanted.kept, batch_rows)
    start = Bindings(1, {})
    if seed:
        count = len(next(iter(seed.values())))
        start = Bindings(count, {**seed, SEED: np.arange(count, dtype=np.int32)})
    for batch in enumeration.run(start, wanted.batch):
        yield batch.only(wanted.kept).times(graph.unit)


def codes_in_match(data: MatchData, pattern: Pattern, var: str) -> Codes:
    """The codes of one variable that are part of some row, ascending."""
    found = [
        np.unique(batch.codes[var])
        for batch in solve(data, pattern, Wanted(frozenset({var})))
        if batch.count
    ]
    if len(found) == 1:
        return found[0]
    return np.unique(np.concatenate([np.empty(0, dtype=np.int32), *found]))


def _conditions_hold(data: MatchData, pattern: Pattern, negations: Negations) -> bool:
    """Whether everything is satisfied that does not depend on any variable."""
    rows = Rows({}, {}, data.params, 1)
    if not all(bool(holds(condition, rows)[0]) for condition in pattern.conditions):
        return False
    return not any(negations.any_match(one) for one in pattern.negations if not one.outer)


def _row_tests(
    data: MatchData, pattern: Pattern, prepared: Prepared, negations: Negations
) -> Iterator[RowTest]:
    """What is judged row by row: tests of edges, predicates on several variables, negated blocks."""
    for name in pattern.edges:
        for test in pattern.tests.get(name, ()):
            # Text predicates are about nodes, whose tests are part of their candidates.
            assert isinstance(test, ir.Compare)
            yield _compared(data, pattern, test)
    for join in prepared.joins:
        yield _compared(data, pattern, join)
    for negation in prepared.negations:
        yield _refused(negation, negations)


def _compared(data: MatchData, pattern: Pattern, predicate: ir.Compare) -> RowTest:
    names = frozenset(variables_of(predicate))

    def holds_for(rows: Bindings) -> Mask:
        spaces = {name: data.space_of(pattern, name) for name in names}
        return holds(predicate, Rows(spaces, rows.codes, data.params, rows.count))

    return RowTest(names, holds_for)


def _refused(negation: Negation, negations: Negations) -> RowTest:
    def holds_for(rows: Bindings) -> Mask:
        return ~negations.matches(negation, rows.codes, rows.count)

    return RowTest(negation.outer, holds_for)
