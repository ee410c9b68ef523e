"""What a query would do, without doing it: its plan, the tables it reads and their indexes."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from omnigraph.cancel import look
from omnigraph.display.panel import Panel, Shown
from omnigraph.display.text import counted, printable, query_text
from omnigraph.lang.query import ir
from omnigraph.lang.query.plan_text import show
from omnigraph.lang.schema.catalog import Entity, NodeType
from omnigraph.lang.schema.indexes import VECTOR_KINDS, IndexKind
from omnigraph.manifest.snapshot import Target
from omnigraph.read.asked import groups_wanted, matched, rows_kept
from omnigraph.read.match.blocks.optional import split
from omnigraph.read.match.blocks.optional_paths import HERE
from omnigraph.read.match.listing.steps import Expand, Intersect, Scan
from omnigraph.read.match.lookups.access_path import AccessPath, choose_path
from omnigraph.read.match.lookups.outline import blocks, outline_of
from omnigraph.read.match.match_data import MatchData, WholeTables
from omnigraph.read.match.pattern import Pattern, pattern_of
from omnigraph.read.match.solve import plan_only
from omnigraph.read.match.trace import Trace
from omnigraph.read.match.wanted import Wanted
from omnigraph.read.profile import whole
from omnigraph.read.view.view import View
from omnigraph.storage.tables.indexing.index_kinds import Serves, kind_serving

ENDS = {
    ir.Direction.OUT: ("src",),
    ir.Direction.IN: ("dst",),
    ir.Direction.BOTH: ("src", "dst"),
}

Use = tuple[Entity, str, IndexKind]
_LOOKUPS, _TEXT = kind_serving(Serves.LOOKUPS), kind_serving(Serves.TEXT)


@dataclass(frozen=True, slots=True)
class IndexUse:
    """An index that could serve a step: coverage is `indexed`, `degraded` or `none`."""

    table_key: str
    column: str
    kind: str
    coverage: str

    def __str__(self) -> str:
        return f"{self.table_key}.{self.column} ({self.kind}): {self.coverage}"


@dataclass(frozen=True, slots=True)
class ExplainedStep:
    """One line of the plan. ``rows`` counts the table, ``cached`` says that it is in memory."""

    text: str
    table_key: str | None = None
    rows: int | None = None
    cached: bool | None = None
    indexes: tuple[IndexUse, ...] = ()

    def lines(self) -> Iterator[str]:
        """The step, and below it what is known of its table."""
        yield self.text
        indent = " " * (len(self.text) - len(self.text.lstrip()) + 4)
        if self.table_key is not None:
            cached = ", in memory" if self.cached else ""
            yield f"{indent}{self.table_key}: {counted(self.rows or 0, 'row')}{cached}"
        for index in self.indexes:
            yield f"{indent}index {index}"


@dataclass(frozen=True, slots=True)
class OrderedStep:
    """A step of the match as it will run: ``op`` and ``text`` are those that a profile shows."""

    op: str
    text: str
    estimated_rows: int


@dataclass(frozen=True, slots=True, repr=False)
class Explanation(Shown):
    """The plan of a query on one state of the graph.

    ``path`` is what would be tried first: look-ups (`indexed`), or adjacency in memory (`csr`). ``order`` has
    the steps of the match in the order in which they will run. It is None where that cannot be told yet, and
    ``order_unknown`` says why: parameters are missing, the graph is not in memory, look-ups come first, or the
    answer is ranked. Where the order is known, ``summed_away`` names the variables of which no row is listed: their
    neighbours stand for so many rows more. ``spark_plan`` is the plan of Spark, if that engine was asked for.
    """

    query_name: str | None
    target: Target
    graph_commit_id: str
    steps: tuple[ExplainedStep, ...]
    path: AccessPath
    order: tuple[OrderedStep, ...] | None = None
    order_unknown: str | None = None
    summed_away: tuple[str, ...] | None = None
    spark_plan: str | None = None
    as_of: str | None = None
    """The moment at which it sees what holds, where its text does not say; None if no type has a period."""

    @property
    def text(self) -> str:
        """All of it, for people."""
        lines = [f"{query_text(self.query_name)} on {self.target}, commit {self.graph_commit_id}"]
        lines += itertools.chain.from_iterable(step.lines() for step in self.steps)
        return "\n".join([*lines, *self._how()])

    def _how(self) -> list[str]:
        """The lines that say in which order and along which path it runs."""
        order = [
            f"run: {one.text} (about {counted(one.estimated_rows, 'row')})"
            for one in self.order or ()
        ]
        if self.order_unknown is not None:
            order = [f"order: not known yet, {self.order_unknown}"]
        if self.summed_away:
            order.append(f"summed away: {', '.join(f'${name}' for name in self.summed_away)}")
        if self.spark_plan is not None:
            return ["on Spark:", *self.spark_plan.rstrip().split("\n")]
        if self.as_of is not None:
            order.append(f"$as_of: {self.as_of}")
        return [*order, f"path: {self.path}"]

    def to_json(self) -> dict[str, Any]:
        """All of it, as plain data."""
        return {
            "query_name": self.query_name,
            "target": self.target.to_json(),
            "graph_commit_id": self.graph_commit_id,
            "steps": [
                {**asdict(step), "indexes": [asdict(index) for index in step.indexes]}
                for step in self.steps
            ],
            "order": None if self.order is None else [asdict(step) for step in self.order],
            "order_unknown": self.order_unknown,
            "summed_away": None if self.summed_away is None else list(self.summed_away),
            "path": self.path,
            **({} if self.spark_plan is None else {"spark_plan": self.spark_plan}),
            "as_of": self.as_of,
        }

    def _panel(self) -> Panel:
        return Panel.of_rows(
            f"{query_text(self.query_name)} on {self.target}, commit {self.graph_commit_id}",
            ("step", "table", "rows", "in memory", "indexes"),
            [
                (
                    step.text,
                    step.table_key,
                    step.rows,
                    None if step.cached is None else ("yes" if step.cached else "no"),
                    ", ".join(map(str, step.indexes)),
                )
                for step in self.steps
            ],
            notes=self._how(),
        )

    def __repr__(self) -> str:
        return "\n".join(map(printable, self.text.split("\n")))

    def __str__(self) -> str:
        return repr(self)


def explain(
    view: View,
    plan: ir.ReadPlan,
    target: Target,
    params: Mapping[str, Any] | None = None,
    as_of: str | None = None,
) -> Explanation:
    """Describe a plan on a snapshot; ``params`` hold bound values and `now()`, if all are known."""
    with np.errstate(over="ignore", invalid="ignore"), view.reading():
        steps = tuple(_Explainer(view).steps(plan))
        path = choose_path(view, plan)
        why = _unknown(view, plan, path, params)
        order, summed = None, None
        if why is None and params is not None:
            order, summed = _order(view, plan, params)
    commit = view.snapshot.graph_commit_id
    as_of = as_of if plan.has_periods else None
    return Explanation(
        plan.name,
        target,
        commit,
        steps=steps,
        path=path,
        order=order,
        order_unknown=why,
        summed_away=summed,
        as_of=as_of,
    )


def _unknown(
    view: View, plan: ir.ReadPlan, path: AccessPath, params: Mapping[str, Any] | None
) -> str | None:
    """Why the order cannot be told; None where it can."""
    if params is None:
        return "the values of its parameters are not given"
    if plan.ranking is not None:
        return "its search decides which nodes come first"
    if path == "indexed":
        return "each look-up depends on what the one before it finds"
    patterns = list(blocks(outline_of(plan).looked_at))
    if any(not name.startswith(HERE) for one in patterns for name in one.sources):
        return "the rows of its sources and lists are not there before it runs"
    if not all(_in_memory(view, one) for one in patterns):
        return "the graph is not in memory; the first query that runs reads it"
    return None


def _order(
    view: View, plan: ir.ReadPlan, params: Mapping[str, Any]
) -> tuple[tuple[OrderedStep, ...], tuple[str, ...]]:
    """The steps of the match as they will run, and the variables they do not list. Everything is in memory."""
    pattern = pattern_of(plan.steps)
    data = MatchData(WholeTables(view), params, view.thresholds.match)
    data.trace = Trace()
    if plan.is_aggregate:
        wanted = groups_wanted(plan, pattern)
        patterns = [one for _, one in matched(view, plan, pattern, wanted)]
    else:
        wanted, patterns = Wanted(rows_kept(plan)), [pattern]
    order: list[OrderedStep] = []
    listed: set[str] = set()
    for one in patterns:
        core, asked, _ = split(one, wanted)
        steps = plan_only(data, core, asked)
        listed |= asked.kept
        # Done to choose the order, so these rows are no estimates.
        order += [OrderedStep(done.op, done.text, done.rows) for done in data.trace.steps]
        order += [
            OrderedStep(step.op, step.text, whole(step.estimated))
            for step in steps
            if step.estimated is not None
        ]
        data.trace.steps.clear()
        listed |= {step.name for step in steps if isinstance(step, Scan | Expand | Intersect)}
    named = {variable.name for variable in plan.variables if variable.name in pattern.nodes}
    return tuple(order), tuple(sorted(named - listed))


def _in_memory(view: View, pattern: Pattern) -> bool:
    edges = {name for one in pattern.traversals for name in one.edge_types}
    types = [name for name in pattern.nodes.values() if name in view.catalog.nodes]
    has_nodes = all(map(view.has_nodes, types))
    return has_nodes and all(map(view.has_topology, edges))


class _Explainer:
    """Walks a plan, and remembers what its variables are."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.entities: dict[str, Entity] = {}

    def steps(
        self, plan: ir.ReadPlan, lines: Iterator[str] | None = None
    ) -> Iterator[ExplainedStep]:
        """One per line of the shown plan: a step is one line, its inner steps or the plan of its query follow it."""
        lines = iter(_lines(plan)) if lines is None else lines
        for step in _flat(plan.steps):
            look()
            yield self.step(next(lines), step)
            if isinstance(step, ir.Rows):
                # The same names are other variables there.
                inside = itertools.islice(lines, len(_lines(step.plan)))
                yield from _Explainer(self.view).steps(step.plan, inside)
        for line in lines:
            ranked = plan.ranking is not None and line.lstrip().startswith("order ")
            yield ExplainedStep(
                line, indexes=self.uses(self.ranked(plan.ranking)) if ranked else ()
            )

    def step(self, text: str, step: ir.Step) -> ExplainedStep:
        if isinstance(step, ir.NodeScan):
            node = self.view.catalog.nodes[step.type_name]
            self.entities[step.var] = node
            cached = self.view.has_nodes(node.name)
            return self.reading(text, node, cached, self.tested(step.filters))
        if isinstance(step, ir.Expand):
            edge = self.view.catalog.edges[step.edge_type]
            self.entities[step.dst] = self.view.catalog.nodes[step.dst_type]
            if step.edge_var is not None:
                self.entities[step.edge_var] = edge
            ends = [(edge, end, _LOOKUPS) for end in ENDS[step.direction]]
            uses = itertools.chain(ends, self.tested(step.dst_filters))
            return self.reading(text, edge, self.view.has_topology(edge.name), uses)
        if isinstance(step, ir.Filter):
            return ExplainedStep(text, indexes=self.uses(self.tested([step.predicate])))
        return ExplainedStep(text)

    def reading(
        self, text: str, entity: Entity, cached: bool, uses: Iterable[Use]
    ) -> ExplainedStep:
        rows = self.view.table(entity).row_count
        return ExplainedStep(text, entity.table_key, rows, cached, self.uses(uses))

    def uses(self, wanted: Iterable[Use]) -> tuple[IndexUse, ...]:
        """Each index once, in the order of the plan."""
        return tuple(
            IndexUse(
                entity.table_key,
                column,
                str(kind),
                str(self.view.table(entity).coverage(column, kind)),
            )
            for entity, column, kind in {
                (use[0].table_key, use[1], use[2]): use for use in wanted
            }.values()
        )

    def tested(self, conditions: Iterable[ir.Condition | ir.Output]) -> Iterator[Use]:
        """The index behind each comparison with one variable, and each search; a join of two uses none."""
        for condition in conditions:
            if isinstance(condition, ir.TextMatch):
                yield self.entity_of(condition.field), condition.field.property, _TEXT
                continue
            if not isinstance(condition, ir.Compare):
                yield from self.tested(ir.parts_of(condition))
                continue
            sides = [
                side
                for side in (condition.left, condition.right)
                if isinstance(side, ir.PropertyOf | ir.NodeId) and side.var in self.entities
            ]
            if len({side.var for side in sides}) == 1:
                yield from (self.lookup(side, condition.op) for side in sides)

    def lookup(self, side: ir.PropertyOf | ir.NodeId, op: ir.CompareOp) -> Use:
        entity = self.entity_of(side)
        if isinstance(side, ir.NodeId) or (op == "=" and _is_id(entity, side.property)):
            return entity, "id", _LOOKUPS
        return entity, side.property, _LOOKUPS

    def entity_of(self, side: ir.PropertyOf | ir.NodeId) -> Entity:
        return self.entities[side.var]

    def ranked(self, ranking: ir.Ranking | None) -> Iterator[Use]:
        if isinstance(ranking, ir.Rrf):
            for arm in ranking.arms:
                yield from self.ranked(arm)
        elif ranking is not None:
            kind = VECTOR_KINDS[ranking.metric] if isinstance(ranking, ir.Nearest) else _TEXT
            yield self.entity_of(ranking.field), ranking.field.property, kind


def _lines(plan: ir.ReadPlan) -> list[str]:
    return show(plan).split("\n")


def _is_id(entity: Entity, name: str) -> bool:
    return isinstance(entity, NodeType) and entity.id_property == name


def _flat(steps: tuple[ir.Step, ...]) -> Iterator[ir.Step]:
    for step in steps:
        yield step
        if isinstance(step, ir.AntiJoin | ir.SemiJoin | ir.LeftJoin):
            yield from _flat(step.inner)
