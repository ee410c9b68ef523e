"""Searches, made here by the indexes of the tables, as small frames that join."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from omnigraph.lang.query import ir
from omnigraph.read.output.window import Window
from omnigraph.read.search.ranking import Ranked, checked_k, rank
from omnigraph.read.search.text_match import text_matches
from omnigraph.spark.queries.rows import Job, MatchRows, joined, selected
from omnigraph.spark.queries.values.fields import ID, OUTPUT, SCORE, Field

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PLACE = Field(OUTPUT, "#place")
"""The place of an entity in a ranking; equal for those that are tied."""


def sent(job: Job, columns: Mapping[str, pa.Array]) -> DataFrame:
    """Rows of this process as a frame."""
    from pyspark.sql.pandas.types import from_arrow_schema

    from omnigraph.runner.spark_tasks import sent_frame

    table = pa.table(dict(columns))
    shown = from_arrow_schema(pa.schema([one.with_nullable(True) for one in table.schema]))
    return sent_frame(job.session, table, shown)


def matching_ids(job: Job, search: ir.TextMatch, type_name: str, var: str) -> MatchRows:
    """The nodes whose text satisfies a predicate."""
    node = job.view.catalog.nodes[type_name]
    codes = text_matches(job.view, node, search, job.params)
    field = Field(var, ID)
    ids = job.view.nodes(type_name).ids(codes)
    frame = sent(job, {job.names.of(field): ids.cast(pa.utf8())})
    return MatchRows(frame, frozenset({field}), most=len(codes))


def ranked_rows(job: Job, plan: ir.ReadPlan, rows: MatchRows, type_name: str) -> MatchRows:
    """The rows of ranked entities, with the place and the score of each."""
    ranking = plan.ranking
    assert ranking is not None
    first = ranking.arms[0] if isinstance(ranking, ir.Rrf) else ranking
    key = Field(first.field.var, ID)
    if isinstance(ranking, ir.Rrf):
        ranks = _fused(job, plan, ranking, rows, key, type_name)
    else:
        ranks = _placed(job, _ranked(job, ranking, type_name), key, type_name)
    return joined(job, rows, ranks, [key])


def _ranked(job: Job, ranking: ir.Nearest | ir.Bm25, type_name: str) -> Ranked:
    """All nodes of a type in the order of a ranking; which of them are in the match Spark finds out."""
    node = job.view.catalog.nodes[type_name]
    limit = job.view.nodes(type_name).size if isinstance(ranking, ir.Nearest) else None
    return rank(job.view, node, ranking, job.params, None, limit, job.embedder)


def _placed(job: Job, ranked: Ranked, key: Field, type_name: str) -> MatchRows:
    score = Field(OUTPUT, SCORE)
    columns = {
        job.names.of(key): job.view.nodes(type_name).ids(ranked.codes).cast(pa.utf8()),
        job.names.of(PLACE): pa.array(ranked.places.astype(np.int64)),
        job.names.of(score): pa.array(ranked.scores.astype(np.float64)),
    }
    return MatchRows(sent(job, columns), frozenset({key, PLACE, score}), most=len(ranked.codes))


def _fused(
    job: Job, plan: ir.ReadPlan, ranking: ir.Rrf, rows: MatchRows, key: Field, type_name: str
) -> MatchRows:
    """The fusion of what the best of each arm are among the entities of the match."""
    from pyspark.sql import Window as Over
    from pyspark.sql import functions as F  # noqa: N812

    k, depth = checked_k(ranking, job.params), Window.of(plan, job.params).end
    score = Field(OUTPUT, SCORE)
    there = selected(job, rows, [key])
    name, place = job.names.of(key), job.names.of(PLACE)
    whole: DataFrame | None = None
    places: list[str] = []
    for arm in ranking.arms:
        best = joined(
            job,
            _placed(job, _ranked(job, arm, type_name), key, type_name),
            there,
            [key],
            how="left_semi",
        )
        at = F.row_number().over(Over.orderBy(place, name))
        places.append(job.names.fresh())
        one = best.frame.select(name, at.alias(places[-1]))
        if depth is not None:
            one = one.where(F.col(places[-1]) <= depth)
        whole = one if whole is None else whole.join(one, name, "full")
    assert whole is not None
    parts = [F.coalesce(F.lit(1.0) / (F.lit(k) + F.col(one)), F.lit(0.0)) for one in places]
    # The least part first, as the local engine adds them.
    least_first = F.array_sort(F.array(*parts))
    total = F.aggregate(least_first, F.lit(0.0), lambda whole, part: whole + part)
    whole = whole.withColumn(job.names.of(score), total)
    by = [F.col(job.names.of(score)).desc()]
    by += [F.col(column).asc_nulls_last() for column in places]
    whole = whole.withColumn(place, F.row_number().over(Over.orderBy(*by, name)).cast("bigint"))
    frame = whole.select(name, place, job.names.of(score))
    return MatchRows(frame, frozenset({key, PLACE, score}))
