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
from omnigraph.read.asked import groups_wanted, matched, rows_kept
from omnigraph.read.kernels.arrays import Codes
from omnigraph.read.limits import NO_LIMITS, ReadLimits
from omnigraph.read.match.bindings import Bindings
from omnigraph.read.match.lookups.access_path import open_match
from omnigraph.read.match.negations import negative
from omnigraph.read.match.pattern import Pattern, pattern_of
from omnigraph.read.match.solve import codes_in_match, solve
from omnigraph.read.match.trace import Trace
from omnigraph.read.match.wanted import Wanted
from omnigraph.read.output.aggregate import Aggregator
from omnigraph.read.output.aggregate_functions import UnsureError
from omnigraph.read.output.order import Collector
from omnigraph.read.profile import Phase, Profile, phases_of, timed
from omnigraph.read.search.ranking import Ranked, checked_k, rank
from omnigraph.read.values.column import Space
from omnigraph.read.view.view import View


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
        self.plan = plan
        self.params = params
        self.embedder = embedder
        self.profile = profile
        self.pattern = pattern_of(plan.steps)
        with timed(profile, "open"):
            self.data = open_match(view, plan, self.pattern, params)
        if profile is not None:
            self.data.trace = Trace()

    def answer(self) -> pa.Table:
        if not self.plan.is_aggregate:
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
        spaces = self._spaces()
        if isinstance(plan.ranking, ir.Rrf):
            checked_k(plan.ranking, self.params)
        if plan.limit == 0:
            return Collector(plan, spaces, self.params).finish()
        ranked = None if plan.ranking is None else self._ranked(plan.ranking, plan.limit)
        among: dict[str, Codes] = {}
        if plan.ranking is not None and ranked is not None:
            among[ranked_variable(plan.ranking)] = ranked.codes
        first = None
        shown = self.limits.shown(plan.limit)
        if shown is not None and not plan.order and ranked is None:
            first = max(shown, self.thresholds.match.first_batch_rows)
        collector = Collector(
            plan, spaces, self.params, ranked, self.thresholds.output, self.limits
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
        if not is_complete and self.limits.max_rows is not None and shown != plan.limit:
            self.found = self._counted()
        with timed(self.profile, "order", "order") as phase:
            ordered = collector.ordered()
            phase.rows = ordered.length
        with timed(self.profile, "fetch", "fetch") as phase:
            answer = collector.fetched(ordered)
            phase.rows, phase.bytes = answer.num_rows, answer.nbytes
        return answer

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
            return phase.rows if self.plan.limit is None else min(phase.rows, self.plan.limit)

    def _ranked(self, ranking: ir.Ranking, limit: int | None) -> Ranked:
        """The best entities of the match: first find those that are part of it, then rank them."""
        name = ranked_variable(ranking)
        candidates = None
        if not _is_everything(self.pattern, name):
            with self._matching(f"candidates ${name}") as phase:
                candidates = codes_in_match(self.data, self.pattern, name)
                phase.rows = len(candidates)
        node = self.view.catalog.nodes[self.pattern.nodes[name]]
        with timed(self.profile, f"rank ${name}", "rank") as phase:
            ranked = rank(self.view, node, ranking, self.params, candidates, limit, self.embedder)
            phase.rows = len(ranked.codes)
        return ranked

    def _spaces(self) -> dict[str, Space]:
        return {
            variable.name: self.data.space_of(self.pattern, variable.name)
            for variable in self.plan.variables
        }


def ranked_variable(ranking: ir.Ranking) -> str:
    """The variable whose entities are ranked."""
    first = ranking.first if isinstance(ranking, ir.Rrf) else ranking
    return first.field.var


def _is_everything(pattern: Pattern, name: str) -> bool:
    """Whether the match is all nodes of one type."""
    nothing_else = not (pattern.traversals or pattern.conditions or pattern.negations)
    return nothing_else and set(pattern.nodes) == {name} and not pattern.tests
