"""Rows that come from no table: the answers of other queries, the elements of lists."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from omnigraph.lang.query import ir
from omnigraph.lang.query.params import passed
from omnigraph.read.values.expressions import value_of
from omnigraph.read.values.other_spaces import elements_of
from omnigraph.runner.spark_columns import portable
from omnigraph.spark.queries.rows import Job, MatchRows
from omnigraph.spark.queries.searches import sent
from omnigraph.spark.queries.values.fields import ID, Field

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def rows_of(
    job: Job, source: ir.Rows | ir.Elements, var: str, need: Collection[Field]
) -> MatchRows:
    """The rows of a source, with the fields that are asked for."""
    whats = {field.what for field in need if field.var == var}
    if isinstance(source, ir.Elements):
        return _elements(job, source, var, whats)
    return _answer(job, source, var, whats)


def _elements(job: Job, source: ir.Elements, var: str, whats: Collection[str]) -> MatchRows:
    space = elements_of(source, job.params)
    arrays = {what: space.column(what).array for what in whats if what != ID}
    arrays[ID] = pa.array(np.arange(space.size, dtype=np.int64))
    names = {what: job.names.of(Field(var, what)) for what in arrays}
    batch = pa.RecordBatch.from_pydict({names[what]: array for what, array in arrays.items()})
    table = portable(batch)
    columns = {name: table.column(at) for at, name in enumerate(batch.schema.names)}
    fields = frozenset(Field(var, what) for what in arrays)
    return MatchRows(sent(job, columns), fields, most=space.size)


def _answer(job: Job, source: ir.Rows, var: str, whats: Collection[str]) -> MatchRows:
    from pyspark.sql import functions as F  # noqa: N812

    inner = job.inside(source_params(source, job.params))
    position = inner.names.fresh() if ID in whats else None
    frame: DataFrame = job.answer(inner, source.plan, position)
    at = {
        column.name: name for column, name in zip(source.plan.columns, frame.columns, strict=False)
    }
    shown = [F.col(at[what]).alias(job.names.of(Field(var, what))) for what in whats if what != ID]
    if position is not None:
        shown.append(F.col(position).alias(job.names.of(Field(var, ID))))
    frame = frame.select(*shown) if shown else frame.select(F.lit(1).alias(job.names.fresh()))
    return MatchRows(frame, frozenset(Field(var, what) for what in whats))


def source_params(source: ir.Rows, params: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a query that is a source."""
    given = [
        params[arg.name] if isinstance(arg, ir.RecordsRef) else value_of(arg, params)
        for arg in source.args
    ]
    values = passed(source.plan.params, given, source.plan.name)
    values[ir.NOW_PARAM] = params[ir.NOW_PARAM]
    return values


def unrolled(job: Job, rows: MatchRows, var: str, owner: ir.PropertyOf) -> MatchRows:
    """Repeat each row for each element of one of its lists."""
    from pyspark.sql import functions as F  # noqa: N812

    at, element = Field(var, ID), Field(var, ir.ELEMENT)
    items = job.column(Field(owner.var, owner.property))
    spread = F.posexplode(items).alias(job.names.of(at), job.names.of(element))
    frame = rows.frame.select("*", spread)
    frame = frame.withColumn(job.names.of(at), job.column(at).cast("bigint"))
    return replace(rows, frame=frame, fields=rows.fields | {at, element}, most=None)
