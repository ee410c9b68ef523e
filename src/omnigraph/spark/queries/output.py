"""The columns of an answer, and its rows in order.

A frame of output has a column for each column of the plan, called by its place, and columns to sort by. `finished`
sorts and cuts it; what it is called outside, only the caller sees.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omnigraph.lang.query import ir
from omnigraph.read.output.window import Window
from omnigraph.spark.batch_columns import spark_type
from omnigraph.spark.queries.rows import Job
from omnigraph.spark.queries.values.computed import Made, with_computed
from omnigraph.spark.queries.values.fields import ID, ID_TYPE, OUTPUT, Field
from omnigraph.types import PropType, is_unicode

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


@dataclass(frozen=True, slots=True)
class Output:
    """The rows of an answer before they are sorted: ``order`` are the columns to sort by, the first one leading.

    ``is_ordered`` says that the plan asks for this order; otherwise only what reads the answer as a source does.
    """

    frame: DataFrame
    order: Sequence[Column]
    is_ordered: bool


def place_of(column: int) -> Field:
    """The field of an output column."""
    return Field(OUTPUT, str(column))


def with_columns(
    job: Job, frame: DataFrame, exprs: Mapping[Field, ir.Output], params: Mapping[str, Any]
) -> DataFrame:
    """The frame with a column for each expression, which is plain; what Spark cannot give, tasks compute."""
    made: list[Made] = []
    shown: dict[str, Column] = {}
    for field, expr in exprs.items():
        name = job.names.of(field)
        column = _native(job, expr, params)
        if column is not None:
            shown[name] = column
        else:
            made.append(Made(name, expr, _type_of(expr)))  # type: ignore[arg-type]
    if made:
        frame = with_computed(frame, job.names, params, made)
    kept = [name for name in frame.columns if name not in shown]
    return frame.select(*kept, *(column.alias(name) for name, column in shown.items()))


def _type_of(expr: ir.Output) -> PropType:
    from omnigraph.read.values.expressions import type_of

    return type_of(expr)  # type: ignore[arg-type]


def _native(job: Job, expr: ir.Output, params: Mapping[str, Any]) -> Column | None:
    """An expression that is a field, an object of fields or a plain value."""
    from pyspark.sql import functions as F  # noqa: N812

    match expr:
        case ir.PropertyOf():
            return job.column(Field(expr.var, expr.property))
        case ir.Shape(kind="row"):
            return job.column(Field(expr.var, expr.column))
        case ir.Shape():
            assert isinstance(expr.type, ir.ObjectType)
            parts = [job.column(Field(expr.var, name)).alias(name) for name, _ in expr.type.fields]
            there = job.column(Field(expr.var, ID)).isNotNull()
            return F.when(there, F.struct(*parts))
        case ir.Const() | ir.ParamRef():
            value = ir.value_of(expr, params)
            kind = spark_type(expr.type)
            if value is None:
                return F.lit(None).cast(kind)
            if isinstance(value, str) and not is_unicode(value):
                return None
            if isinstance(value, bool | str) or (isinstance(value, int) and expr.type.is_integer):
                return F.lit(str(value) if isinstance(value, int) else value).cast(kind)
            return None
        case _:
            return None


def ascending(column: Column, *, descending: bool = False) -> Column:
    """A column to sort by; null is smaller than every value."""
    return column.desc_nulls_last() if descending else column.asc_nulls_first()


def finished(
    job: Job,
    plan: ir.ReadPlan,
    output: Output,
    position: str | None = None,
    most: int | None = None,
) -> DataFrame:
    """The rows of an answer that its window shows, in order; ``position`` names a column with their places.

    ``most`` is how many rows are wanted at most, whatever the plan says.
    """
    from pyspark.sql import Window as Over
    from pyspark.sql import functions as F  # noqa: N812

    window = Window.of(plan, job.params)
    frame, columns = output.frame, [job.names.of(place_of(at)) for at in range(len(plan.columns))]
    limit = window.limit if most is None else most
    is_sorted = output.is_ordered or position is not None or bool(window.offset)
    if is_sorted and output.order:
        frame = frame.orderBy(*output.order)
    offset = min(window.offset, _MOST_ROWS)
    if offset:
        frame = frame.offset(offset)
    if limit is not None:
        frame = frame.limit(min(limit, _MOST_ROWS - offset))
    if position is None:
        return frame.select(*columns)
    number = F.lit(0).cast("bigint")
    if output.order:  # Without a key there is a single group.
        number = F.row_number().over(Over.orderBy(*output.order)).cast("bigint") - 1
    return frame.withColumn(position, number).select(*columns, position)


_MOST_ROWS = 2**31 - 1
"""The largest limit that Spark accepts, and the largest sum of a limit and an offset: it adds them up."""


def entity_id(var: str) -> ir.PropertyOf:
    """The id of an entity as an expression."""
    return ir.PropertyOf(var, ID, ID_TYPE)
