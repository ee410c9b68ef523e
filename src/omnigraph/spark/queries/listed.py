"""Listed output: the rows of a match, projected, in their total order."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from omnigraph.lang.query import ir
from omnigraph.read.match.pattern import Pattern
from omnigraph.spark.queries.blocks import with_marks
from omnigraph.spark.queries.matching import solve
from omnigraph.spark.queries.needs import read_by
from omnigraph.spark.queries.output import Output, ascending, place_of, with_columns
from omnigraph.spark.queries.rows import Job, MatchRows, N, filtered
from omnigraph.spark.queries.searches import PLACE, ranked_rows
from omnigraph.spark.queries.values.fields import ID, OUTPUT, Field

if TYPE_CHECKING:
    from pyspark.sql import Column


def listed(job: Job, plan: ir.ReadPlan, pattern: Pattern, *, in_order: bool = False) -> Output:
    """The rows of a plan without groups. ``in_order``: its order matters, though it names none."""
    is_ordered = bool(plan.order) or plan.ranking is not None
    rows = _matched(job, plan, pattern, every=is_ordered or in_order)
    exprs: dict[Field, ir.Output] = {}
    for at, column in enumerate(plan.columns):
        rows, exprs[place_of(at)] = with_marks(job, rows, pattern, column.expr, solve)
    keys: list[tuple[Field, bool]] = []
    for at, key in enumerate(plan.order):
        if key.expr is None:
            assert key.column is not None, "a key is an expression or a column"
            if not isinstance(plan.columns[key.column].expr, ir.Score):
                keys.append((place_of(key.column), key.descending))
            continue
        field = Field(OUTPUT, f"#key{at}")
        rows, exprs[field] = with_marks(job, rows, pattern, key.expr, solve)
        keys.append((field, key.descending))
    frame = with_columns(job, rows.frame, exprs, job.params)
    rows = replace(rows, frame=frame)
    if plan.having:
        tests = [with_marks(job, rows, pattern, one, solve)[1] for one in plan.having]
        rows = filtered(job, rows, tests)
    return _sorted(job, plan, rows, keys, is_ordered=is_ordered)


def _matched(job: Job, plan: ir.ReadPlan, pattern: Pattern, *, every: bool) -> MatchRows:
    wanted: set[Field] = set()
    for column in plan.columns:
        if not isinstance(column.expr, ir.Score):
            wanted |= read_by(column.expr, pattern)
    for key in plan.order:
        if key.expr is not None:
            wanted |= read_by(key.expr, pattern)
    if every:
        wanted |= {Field(one.name, ID) for one in plan.variables if one.kind != "path"}
    rows = _repeated(job, solve(job, pattern, wanted))
    if plan.ranking is None:
        return rows
    first = plan.ranking.arms[0] if isinstance(plan.ranking, ir.Rrf) else plan.ranking
    return ranked_rows(job, plan, rows, pattern.nodes[first.field.var])


def _repeated(job: Job, rows: MatchRows) -> MatchRows:
    """Repeat each row as often as its count says."""
    from pyspark.sql import functions as F  # noqa: N812

    if not rows.is_weighted:
        return rows
    again = F.explode(F.sequence(F.lit(1).cast("bigint"), F.col(N))).alias(job.names.fresh())
    kept = [name for name in rows.frame.columns if name != N]
    frame = rows.frame.where(F.col(N) > 0).select(*kept, again)
    return replace(rows, frame=frame, is_weighted=False)


def _sorted(
    job: Job,
    plan: ir.ReadPlan,
    rows: MatchRows,
    keys: list[tuple[Field, bool]],
    *,
    is_ordered: bool,
) -> Output:
    own = [ascending(job.column(field), descending=down) for field, down in keys]
    names = sorted(one.name for one in plan.variables if one.kind != "path")
    ties = [Field(name, ID) for name in names]
    by_id = [ascending(job.column(field)) for field in ties if field in rows.fields]
    if plan.ranking is None:
        return Output(rows.frame, [*own, *by_id], is_ordered)
    return _by_rank(job, plan.ranking, rows, keys, own, by_id)


def _by_rank(
    job: Job,
    ranking: ir.Ranking,
    rows: MatchRows,
    keys: list[tuple[Field, bool]],
    own: list[Column],
    by_id: list[Column],
) -> Output:
    """By the ranking; tied entities follow their best row, and the rows of one entity stay together."""
    from pyspark.sql import Window as Over
    from pyspark.sql import functions as F  # noqa: N812

    first = ranking.arms[0] if isinstance(ranking, ir.Rrf) else ranking
    entity = job.column(Field(first.field.var, ID))
    frame, best = rows.frame, []
    over = Over.partitionBy(entity).orderBy(*own, *by_id)
    for field, down in keys:
        name = job.names.fresh()
        frame = frame.withColumn(name, F.first(job.column(field)).over(over))
        best.append(ascending(F.col(name), descending=down))
    place = ascending(job.column(PLACE))
    return Output(frame, [place, *best, ascending(entity), *own, *by_id], True)
