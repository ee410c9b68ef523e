"""Grouped output: one row for each group, with its aggregates; `distinct` groups by everything.

Rows that stand for several are never spread out: a count adds up their numbers, a sum multiplies by them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.lang.query import ir
from omnigraph.read.match.pattern import Pattern
from omnigraph.read.output.aggregate_functions import aggregates_of, overflow
from omnigraph.runner.spark_tasks import Batches, executor_task
from omnigraph.spark.batch_columns import arrow_schema
from omnigraph.spark.queries.blocks import with_marks
from omnigraph.spark.queries.matching import solve
from omnigraph.spark.queries.needs import read_by
from omnigraph.spark.queries.output import Output, ascending, entity_id, place_of, with_columns
from omnigraph.spark.queries.rows import Job, MatchRows, N, filtered
from omnigraph.spark.queries.values.fields import Field, Tree, plain
from omnigraph.types import TEXT, PropType

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

AGGREGATES = "#aggregates"
ARGUMENTS = "#arguments"
KEYS = "#keys"

_LEAST, _MOST = -(2**63), 2**63 - 1


def grouped(job: Job, plan: ir.ReadPlan, pattern: Pattern) -> Output:
    """The groups of a plan."""
    return _Grouping(job, plan, pattern).output()


class _Grouping:
    def __init__(self, job: Job, plan: ir.ReadPlan, pattern: Pattern) -> None:
        self.job, self.plan, self.pattern = job, plan, pattern
        self.aggregates = aggregates_of(plan)
        self.keys = [
            at for at, column in enumerate(plan.columns) if not ir.has_aggregate(column.expr)
        ]
        self.nullable = {one.name for one in plan.variables if one.nullable}

    def output(self) -> Output:
        job, plan = self.job, self.plan
        rows = solve(job, self.pattern, self._wanted())
        frame, by = self._made(rows)
        frame = self._aggregated(frame, by, is_weighted=rows.is_weighted)
        frame = with_columns(job, frame, self._columns(), job.params)
        if plan.having:
            whole = MatchRows(frame, frozenset())
            frame = filtered(job, whole, [plain(one) for one in plan.having]).frame
        order = []
        for key in plan.order:
            assert key.column is not None, "groups are ordered by their output columns"
            order.append(self._sort_column(key.column, descending=key.descending))
        order += [self._sort_column(at) for at in self.keys]
        return Output(frame, order, bool(plan.order))

    def _wanted(self) -> set[Field]:
        wanted: set[Field] = set()
        for at in self.keys:
            wanted |= read_by(self.plan.columns[at].expr, self.pattern)
        for one in self.aggregates:
            if one.arg is not None and self._is_of_rows(one):
                wanted |= read_by(one.arg, self.pattern)
        return wanted

    def _is_of_rows(self, one: ir.Aggregate) -> bool:
        """Whether an argument differs between rows: an entity that is always there only counts rows."""
        is_entity = isinstance(one.arg, ir.NodeId | ir.EdgeId | ir.RowNumber | ir.Shape)
        if one.function != "count" or one.distinct or not is_entity:
            return True
        assert isinstance(one.arg, ir.NodeId | ir.EdgeId | ir.RowNumber | ir.Shape)
        return one.arg.var in self.nullable

    # -------------------------------------------------------------- keys and arguments

    def _made(self, rows: MatchRows) -> tuple[DataFrame, list[str]]:
        """The rows with a column for each key and each argument; and the columns to group by."""
        job, by = self.job, []
        exprs: dict[Field, ir.Output] = {}
        for at in self.keys:
            expr, key = self.plan.columns[at].expr, Field(KEYS, str(at))
            rows, exprs[key] = with_marks(job, rows, self.pattern, expr, solve)
            if isinstance(expr, ir.Shape):
                key = Field(KEYS, f"{at}#id")
                exprs[key] = entity_id(expr.var)
            by.append(job.names.of(key))
        for number, one in enumerate(self.aggregates):
            if one.arg is not None and self._is_of_rows(one):
                field = Field(ARGUMENTS, str(number))
                rows, exprs[field] = with_marks(job, rows, self.pattern, one.arg, solve)
                if isinstance(one.arg, ir.Shape):
                    exprs[Field(ARGUMENTS, f"{number}#id")] = entity_id(one.arg.var)
        return with_columns(job, rows.frame, exprs, job.params), by

    def _columns(self) -> dict[Field, ir.Output]:
        """The output columns over keys and aggregates; keys first, since others may read them."""
        shown: dict[Field, ir.Output] = {}
        for at in self.keys:
            shown[place_of(at)] = ir.PropertyOf(KEYS, str(at), _scalar(self.plan.columns[at].type))
        for at, column in enumerate(self.plan.columns):
            if at not in self.keys:
                shown[place_of(at)] = plain(column.expr, self._replaced)
        return shown

    def _replaced(self, tree: Tree) -> Tree | None:
        if isinstance(tree, ir.Aggregate):
            number = self.aggregates.index(tree)
            return ir.PropertyOf(AGGREGATES, str(number), _scalar(tree.type))
        if isinstance(tree, ir.ColumnValue):
            return ir.PropertyOf(KEYS, str(tree.column), _scalar(tree.type))
        return None

    def _sort_column(self, at: int, *, descending: bool = False) -> Column:
        field = place_of(at)
        if isinstance(self.plan.columns[at].expr, ir.Shape):
            field = Field(KEYS, f"{at}#id")
        return ascending(self.job.column(field), descending=descending)

    # -------------------------------------------------------------- aggregates

    def _aggregated(self, frame: DataFrame, by: list[str], *, is_weighted: bool) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812

        job = self.job
        columns = self._shapes()
        if not self.aggregates and not columns:
            return frame.select(*by).distinct() if by else frame.select(F.lit(1)).limit(1)
        weight = F.col(N) if is_weighted else F.lit(1).cast("bigint")
        checks: dict[str, ir.Aggregate] = {}
        for number, one in enumerate(self.aggregates):
            name = job.names.of(Field(AGGREGATES, str(number)))
            column = self._column(number, one, weight, is_weighted=is_weighted)
            columns.append(column.alias(name))
            if self._may_overflow(one, is_weighted=is_weighted):
                checks[name] = one
        found = frame.groupBy(*by).agg(*columns)
        return _checked(found, checks) if checks else found

    def _shapes(self) -> list[Column]:
        """The objects among the keys: what they are of says which group it is, and all rows have the same."""
        from pyspark.sql import functions as F  # noqa: N812

        shapes = (at for at in self.keys if isinstance(self.plan.columns[at].expr, ir.Shape))
        names = (self.job.names.of(Field(KEYS, str(at))) for at in shapes)
        return [F.first(name).alias(name) for name in names]

    def _column(
        self, number: int, one: ir.Aggregate, weight: Column, *, is_weighted: bool
    ) -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        zero = F.lit(0).cast("bigint")
        if one.arg is None or not self._is_of_rows(one):
            return F.coalesce(F.sum(weight), zero)
        value = self.job.column(Field(ARGUMENTS, str(number)))
        identity = value
        if isinstance(one.arg, ir.Shape):
            identity = self.job.column(Field(ARGUMENTS, f"{number}#id"))
        there = identity.isNotNull()
        if one.function == "count":
            if one.distinct:
                return F.count_distinct(identity)
            return F.coalesce(F.sum(F.when(there, weight)), zero)
        if one.function == "collect":
            return _collected(one, value, identity, weight)
        if one.function in {"min", "max"}:
            return F.min(value) if one.function == "min" else F.max(value)
        if one.function == "avg":
            count = F.sum(F.when(there, weight))
            return F.try_divide(F.sum(value.cast("double") * weight), count)
        if self._may_overflow(one, is_weighted=is_weighted):
            # The product of both has 38 digits at most, as far as Spark has any.
            return F.sum(value.cast("decimal(20,0)") * weight.cast("decimal(19,0)"))
        if isinstance(one.type, PropType) and one.type.is_integer:
            return F.sum(value.cast("bigint"))
        return F.sum(value.cast("double") * weight)

    def _may_overflow(self, one: ir.Aggregate, *, is_weighted: bool) -> bool:
        """Whether a sum may pass 64 bits: one of wide integers, or of integers that count many times."""
        is_whole = isinstance(one.type, PropType) and one.type.is_integer
        return one.function == "sum" and is_whole and (is_weighted or self._is_wide(one))

    def _is_wide(self, one: ir.Aggregate) -> bool:
        kind = getattr(one.arg, "type", None)
        return (
            not isinstance(kind, PropType) or not kind.is_integer or kind.scalar.exceeds_javascript
        )


def _collected(one: ir.Aggregate, value: Column, identity: Column, weight: Column) -> Column:
    """The values in ascending order; objects by the id of what they are of."""
    from pyspark.sql import functions as F  # noqa: N812

    is_object = isinstance(one.arg, ir.Shape)
    item = F.struct(identity.alias("id"), value.alias("value")) if is_object else value
    kept = F.when(identity.isNotNull(), item)
    if one.distinct:
        listed = F.array_sort(F.collect_set(kept))
    else:
        again = F.when(identity.isNotNull(), F.array_repeat(item, weight.cast("int")))
        listed = F.array_sort(F.flatten(F.collect_list(again)))
    return F.transform(listed, lambda pair: pair["value"]) if is_object else listed


def _scalar(kind: ir.ValueType) -> PropType:
    return kind if isinstance(kind, PropType) else TEXT


@dataclass(frozen=True, slots=True)
class _Checks:
    aggregates: Mapping[str, ir.Aggregate]


def _checked(frame: DataFrame, checks: Mapping[str, ir.Aggregate]) -> DataFrame:
    """The groups with sums of integers as such, or the refusal of one that is none."""
    from pyspark.sql.types import LongType, StructField, StructType

    schema = StructType(
        [
            StructField(one.name, LongType() if one.name in checks else one.dataType)
            for one in frame.schema.fields
        ]
    )
    run = partial(check_sums, checks=_Checks(dict(checks)), schema=arrow_schema(schema))
    return frame.mapInArrow(run, schema)


@executor_task
def check_sums(batches: Batches, *, checks: _Checks, schema: pa.Schema) -> Batches:
    """Refuse sums of integers that are beyond 64 bits."""
    for batch in batches:
        arrays: list[Any] = []
        for field in schema:
            array = batch.column(field.name)
            if field.name in checks.aggregates:
                ends = pc.min_max(array).as_py()
                if ends["min"] is not None and (ends["min"] < _LEAST or ends["max"] > _MOST):
                    raise overflow(checks.aggregates[field.name])
            arrays.append(array if array.type == field.type else array.cast(field.type))
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
