"""Expressions that the local engine computes, on Arrow batches in the tasks of Spark.

A task gets the columns that an expression reads, in the types of Spark, and makes ours of them: so every rule
about numbers, texts and nulls is the one of the local engine, because it is the same code.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.lang.query import ir
from omnigraph.read.kernels.arrays import Codes, Mask
from omnigraph.read.values.column import Column
from omnigraph.read.values.expressions import evaluate, holds
from omnigraph.read.values.operands import OperandRows
from omnigraph.runner.spark_tasks import Batches, executor_task
from omnigraph.spark.batch_columns import arrow_schema, spark_type
from omnigraph.spark.queries.values.fields import ColumnNames, Field, fields_of
from omnigraph.types import PropType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class Made:
    """A column to compute: its name, its expression over fields, and its type."""

    name: str
    expr: ir.Expr
    type: PropType


def with_computed(
    frame: DataFrame,
    names: ColumnNames,
    params: Mapping[str, Any],
    made: Sequence[Made] = (),
    conditions: Sequence[ir.Condition] = (),
    kept: Iterable[str] | None = None,
) -> DataFrame:
    """The rows that satisfy the conditions, with the computed columns added. Both are plain; None keeps all columns."""
    from pyspark.sql.types import StructField, StructType

    read = fields_of([*(one.expr for one in made), *conditions])
    columns = tuple((names.of(field), field, kind) for field, kind in read.items())
    passed = list(frame.columns if kept is None else kept)
    needed = list(dict.fromkeys([*passed, *(name for name, _, _ in columns)]))
    shown = frame.select(*needed) if needed else frame.select(frame.columns[:1])
    by_name = {one.name: one for one in frame.schema.fields}
    schema = StructType(
        [
            *(StructField(name, by_name[name].dataType) for name in passed),
            *(StructField(one.name, spark_type(one.type)) for one in made),
        ]
    )
    work = _Work(columns, tuple(passed), tuple(made), tuple(conditions), params)
    run = partial(compute, work=work, schema=arrow_schema(schema))
    return shown.mapInArrow(run, schema)


@dataclass(frozen=True, slots=True)
class _Work:
    columns: tuple[tuple[str, Field, PropType], ...]
    kept: tuple[str, ...]
    made: tuple[Made, ...]
    conditions: tuple[ir.Condition, ...]
    params: Mapping[str, Any]


@executor_task
def compute(batches: Batches, *, work: _Work, schema: pa.Schema) -> Batches:
    """Compute columns of the rows that satisfy the conditions."""
    for batch in batches:
        rows = batch
        with np.errstate(all="ignore"):
            if work.conditions:
                operands = _operands(rows, work)
                masks: list[Mask] = [holds(one, operands) for one in work.conditions]
                rows = rows.filter(pa.array(np.logical_and.reduce(masks)))
            if not rows.num_rows:
                continue
            operands = _operands(rows, work)
            made = [evaluate(one.expr, operands).array for one in work.made]
        arrays = [*(rows.column(name) for name in work.kept), *made]
        fitting = [_cast(array, field.type) for array, field in zip(arrays, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(fitting, schema=schema)


def _operands(rows: pa.RecordBatch, work: _Work) -> OperandRows:
    by_var: dict[str, dict[str, Column]] = {}
    for name, field, kind in work.columns:
        column = Column(kind, _cast(rows.column(name), kind.arrow_type()))
        by_var.setdefault(field.var, {})[field.what] = column
    spaces = {var: _Fields(columns, rows.num_rows) for var, columns in by_var.items()}
    return OperandRows(spaces, dict.fromkeys(spaces), work.params, rows.num_rows)


def _cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    return array if array.type == kind else array.cast(kind)


class _Fields:
    """The fields of one variable in the rows of a batch, as a space that has every row once."""

    def __init__(self, columns: Mapping[str, Column], size: int) -> None:
        self._columns = columns
        self.size = size

    def column(self, name: str) -> Column:
        return self._columns[name]

    def has_column(self, name: str) -> bool:
        return name in self._columns

    def values(self, name: str, codes: Codes) -> pa.Array:
        return self._columns[name].array.take(pa.array(codes))

    def ids(self, codes: Codes) -> pa.StringArray:
        raise AssertionError(f"ids are fields here, and {len(codes)} others are asked for")

    def type_names(self, codes: Codes) -> pa.Array:
        raise AssertionError(f"types are fields here, and {len(codes)} others are asked for")

    def ranks(self, codes: Codes) -> npt.NDArray[np.integer]:
        raise AssertionError(f"positions are fields here, and {len(codes)} others are asked for")
