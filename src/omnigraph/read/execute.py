"""Running a read plan on one view: match, then group or order, then hand over an Arrow table.

For example:

    match { $a: Person  $a knows $b } return { $a.name, count($b) as n }
    pattern -> rows of $a, each with the number of its $b -> groups by name -> table (name, n)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from omnigraph.embeddings.embedder import Embedder
from omnigraph.lang.query import ir
from omnigraph.lang.query.params import passed
from omnigraph.read.asked import groups_wanted, matched, rows_kept
from omnigraph.read.kernels.arrays import Codes
from omnigraph.read.limits import NO_LIMITS, ReadLimits
from omnigraph.read.match.bindings import Bindings
from omnigraph.read.match.blocks.negations import Negations, negative
from omnigraph.read.match.blocks.optional_paths import ONE
from omnigraph.read.match.lookups.access_path import open_match
from omnigraph.read.match.lookups.outline import outline_of
from omnigraph.read.match.operand_rows import supply_of
from omnigraph.read.match.pattern import Pattern
from omnigraph.read.match.solve import codes_in_match, mask_in_match, solve
from omnigraph.read.match.trace import Trace
from omnigraph.read.match.wanted import Wanted
from omnigraph.read.output.aggregate import Aggregator
from omnigraph.read.output.aggregate_functions import UnsureError
from omnigraph.read.output.order import Collector
from omnigraph.read.output.window import Window
from omnigraph.read.profile import Phase, Profile, phases_of, timed
from omnigraph.read.search.ranking import Ranked, check_ranking, rank
from omnigraph.read.values.column import Space
from omnigraph.read.values.expressions import value_of
from omnigraph.read.values.operands import Judge, Supply
from omnigraph.read.values.other_spaces import RowSpace, elements_of
from omnigraph.read.view.view import View
from omnigraph.types import PropType

DEEPER = 8
"""How many times as many entities are ranked where `having` left too few rows."""


class ReadAnswer(NamedTuple):
    """The rows that are shown, and how many there are in all if the limits asked for that."""

    table: pa.Table
    total_rows: int | None


def run_read(
    view: View,
    plan: ir.ReadPlan,
    params: Mapping[str, Any],
    *,
    embedder: Embedder | None = None,
    profile: Profile | None = None,
) -> pa.Table:
    """The whole answer of a plan; ``params`` hold bound values and `now()`."""
    return run_within(view, plan, params, NO_LIMITS, embedder=embedder, profile=profile).table


def run_within(
    view: View,
    plan: ir.ReadPlan,
    params: Mapping[str, Any],
    limits: ReadLimits,
    *,
    embedder: Embedder | None = None,
    profile: Profile | None = None,
) -> ReadAnswer:
    """The answer of a plan as far as the limits let it through."""
    # Floats follow IEEE: a sum that is too large is infinite, and nobody is warned of it.
    with np.errstate(over="ignore", invalid="ignore"), view.reading():
        run = _Run(view, plan, params, embedder, profile, limits)
        table = run.answer()
        return ReadAnswer(table, None if limits.max_rows is None else run.found)


class _Run:
    def __init__(
        self,
        view: View,
        plan: ir.ReadPlan,
        params: Mapping[str, Any],
        embedder: Embedder | None,
        profile: Profile | None,
        limits: ReadLimits,
    ) -> None:
        self.view = view
        self.limits = limits
        self.found = 0
        """How many rows the answer has, shown or not, where the limits want to know."""
        self.thresholds = view.thresholds
        outline = outline_of(plan)
        self.plan = outline.rewritten or plan
        self.params = params
        self.window = Window.of(plan, params)
        self.embedder = embedder
        self.profile = profile
        self.pattern = outline.pattern
        with timed(profile, "open"):
            self.data = open_match(view, plan, params)
        self.data.rows_of = self._rows_of
        if profile is not None:
            self.data.trace = Trace()
        for traversal in outline.weighed:
            # Refuses weights below zero, also where no row would come so far.
            self.data.edges_of(traversal)

    def answer(self) -> pa.Table:
        if not self.plan.is_aggregate and not self.plan.distinct:
            return self._listed()
        try:
            return self._grouped(wide=False)
        except UnsureError:
            return self._grouped(wide=True)

    def _grouped(self, *, wide: bool) -> pa.Table:
        """The groups. ``wide``: sums of integers are added from rows, not while variables are summed away."""
        wanted = groups_wanted(self.plan, self.pattern, wide=wide)
        aggregator = Aggregator(
            self.plan,
            self._spaces(),
            self.params,
            wide=wide,
            thresholds=self.thresholds.output,
            limits=self.limits,
            judge=self._judge(),
            supply=self._supply(),
        )
        with self._matching("match") as phase:
            rows = 0
            for batch in self._to_group(wanted):
                rows += batch.count
                aggregator.add(batch)
            phase.rows = rows
        with timed(self.profile, "group", "aggregate") as phase:
            answer = aggregator.finish()
            self.found = aggregator.found
            phase.rows, phase.bytes = answer.num_rows, answer.nbytes
        return answer

    def _to_group(self, wanted: Wanted) -> Iterator[Bindings]:
        for sign, pattern in matched(self.view, self.plan, self.pattern, wanted):
            for batch in solve(self.data, pattern, wanted):
                yield batch if sign > 0 else negative(batch)

    def _listed(self) -> pa.Table:
        plan = self.plan
        check_ranking(plan.ranking, self.params)
        if self.window.limit == 0:
            return Collector(plan, self._spaces(), self.params).finish()
        collector = self._collected(None) if plan.ranking is None else self._ranked_rows()
        with timed(self.profile, "order", "order") as phase:
            ordered = collector.ordered()
            phase.rows = ordered.length
        with timed(self.profile, "fetch", "fetch") as phase:
            answer = collector.fetched(ordered)
            phase.rows, phase.bytes = answer.num_rows, answer.nbytes
        return answer

    def _ranked_rows(self) -> Collector:
        """The rows of the best entities. Where `having` leaves too few of them, more entities are ranked."""
        ranking, depth = self.plan.ranking, self.window.end
        assert ranking is not None
        candidates = self._candidates(ranked_variable(ranking))
        while True:
            ranked = self._ranked(ranking, candidates, depth)
            collector = self._collected(ranked)
            is_cut = depth is not None and len(ranked.codes) >= depth
            # A fusion ranks what its arms bring, whose depth is part of its scores.
            if not self.plan.having or not is_cut or isinstance(ranking, ir.Rrf):
                return collector
            assert self.window.end is not None
            if collector.kept >= self.window.end:
                return collector
            assert depth is not None
            depth = depth * DEEPER

    def _collected(self, ranked: Ranked | None) -> Collector:
        """The rows of the match, or those of ranked entities."""
        plan, window = self.plan, self.window
        among: dict[str, Codes] = {}
        if plan.ranking is not None and ranked is not None:
            among[ranked_variable(plan.ranking)] = ranked.codes
        first = None
        needed = window.needed(self.limits)
        if needed is not None and not plan.order and ranked is None:
            first = max(needed, self.thresholds.match.first_batch_rows)
        collector = Collector(
            plan,
            self._spaces(),
            self.params,
            ranked,
            self.thresholds.output,
            self.limits,
            judge=self._judge(),
            supply=self._supply(),
        )
        wanted = Wanted(rows_kept(plan), {}, first, among)
        with self._matching("match") as phase:
            rows, is_complete = 0, True
            for batch in solve(self.data, self.pattern, wanted):
                rows += batch.count
                if not collector.add(batch):
                    is_complete = False
                    break
            phase.rows = rows
        self.found = collector.found
        is_shorter = self.limits.shown(window.limit) != window.limit
        if not is_complete and self.limits.max_rows is not None and is_shorter:
            self.found = self._counted()
        return collector

    def _judge(self) -> Judge:
        """Judges text predicates and blocks that are values of the output."""
        return Negations(self.data, solve, mask_in_match).judge(self.pattern)

    def _supply(self) -> Supply:
        """Gives the paths and positions that are values of the output."""
        return supply_of(self.data, self.pattern)

    def _rows_of(self, source: ir.Rows | ir.Elements) -> Space:
        """The rows of another query, or the elements of a list parameter."""
        if isinstance(source, ir.Elements):
            return elements_of(source, {**self.params, **ONE})
        given = [
            self.params[arg.name] if isinstance(arg, ir.RecordsRef) else value_of(arg, self.params)
            for arg in source.args
        ]
        params = passed(source.plan.params, given, source.plan.name)
        for name in (ir.NOW_PARAM, ir.AS_OF_PARAM):
            if name in self.params:
                params[name] = self.params[name]
        table = run_read(self.view, source.plan, params, embedder=self.embedder)
        types = {c.name: c.type for c in source.plan.columns if isinstance(c.type, PropType)}
        return RowSpace(table, types)

    @contextmanager
    def _matching(self, name: str) -> Iterator[Phase]:
        """A phase whose steps the match writes down."""
        with timed(self.profile, name) as phase:
            yield phase
        if self.data.trace is not None:
            phase.phases += phases_of(self.data.trace.steps)
            self.data.trace.steps.clear()

    def _counted(self) -> int:
        """How many rows the answer has: counted, where only the first ones were listed."""
        with self._matching("count the others") as phase:
            nothing = Wanted(frozenset())
            phase.rows = sum(one.total() for one in solve(self.data, self.pattern, nothing))
            return self.window.rows_of(phase.rows)

    def _candidates(self, name: str) -> Codes | None:
        """The entities of a variable that are part of the match; None: all of its type."""
        if _is_everything(self.pattern, name):
            return None
        with self._matching(f"candidates ${name}") as phase:
            candidates = codes_in_match(self.data, self.pattern, name)
            phase.rows = len(candidates)
        return candidates

    def _ranked(self, ranking: ir.Ranking, candidates: Codes | None, depth: int | None) -> Ranked:
        """The best of the candidates."""
        name = ranked_variable(ranking)
        node = self.view.catalog.nodes[self.pattern.nodes[name]]
        with timed(self.profile, f"rank ${name}", "rank") as phase:
            ranked = rank(
                self.view,
                node,
                ranking,
                self.params,
                candidates,
                depth,
                self.embedder,
                is_whole=bool(self.plan.having),
            )
            phase.rows = len(ranked.codes)
        return ranked

    def _spaces(self) -> dict[str, Space]:
        named = [one.name for one in self.plan.variables if one.kind != "path"]
        # The answer may look at others: the path to `$_` at its end, that of an optional block at whether it matched.
        hidden = [name for name in rows_kept(self.plan) if name.startswith("#")]
        return {name: self.data.space_of(self.pattern, name) for name in (*named, *hidden)}


def ranked_variable(ranking: ir.Ranking) -> str:
    """The variable whose entities are ranked."""
    first = ranking.arms[0] if isinstance(ranking, ir.Rrf) else ranking
    return first.field.var


def _is_everything(pattern: Pattern, name: str) -> bool:
    """Whether the match is all nodes of one type."""
    nothing_else = not (pattern.traversals or pattern.conditions or pattern.negations)
    return nothing_else and set(pattern.nodes) == {name} and not pattern.tests
