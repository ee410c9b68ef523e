"""Reads the tables of a snapshot into frames: only the columns that are used, filtered where they are read.

A table is pinned here, once, and tasks read parts of it, as those of the data source do. Rows of one table with the
same columns and conditions are one frame, however often a query asks for them, so that Spark reads them once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from omnigraph.lang.query import ir
from omnigraph.lang.schema.catalog import EdgeType, Entity
from omnigraph.pipeline.datasource.option_values import EndOptions
from omnigraph.pipeline.datasource.options import PARTITION_ROWS
from omnigraph.pipeline.datasource.read import (
    PinnedSource,
    plan_partitions,
    read_fragments,
    row_filter,
    source_of,
)
from omnigraph.read.view.view import View
from omnigraph.runner.spark_tasks import Batches, executor_task, leaf_frame, task_frame
from omnigraph.spark.batch_columns import arrow_schema, spark_type
from omnigraph.spark.queries.values.fields import ID, TYPE, fields_of, plain
from omnigraph.storage.fragment_groups import FragmentPiece
from omnigraph.types import TEXT

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

SRC, DST = "#src", "#dst"
"""The ends of an edge, as fields of it."""
_ENDS = EndOptions(SRC, DST)
_IDS = "id"

SMALL_ROWS = 100_000
"""A frame of at most this number of rows is sent to every executor, in place of a shuffle."""


class Tables:
    """The tables of one snapshot, as frames of one session."""

    def __init__(
        self,
        session: SparkSession,
        view: View,
        params: Mapping[str, Any],
        extra: Mapping[str, tuple[ir.Condition, ...]] | None = None,
        *,
        keeps_rules: bool = False,
    ) -> None:
        self.session = session
        self.view = view
        self._params = params
        self.extra = extra or {}
        """Conditions on every row of a type, by the key of its table; they look at the row's own properties."""
        self.keeps_rules = keeps_rules
        """Whether the rows keep the rules of the view's catalog; it may be younger than the snapshot."""
        self._sources: dict[str, PinnedSource] = {}
        self._frames: dict[Any, DataFrame] = {}

    def rows(self, entity: Entity) -> int:
        """How many rows the table of a type has."""
        return self.view.table(entity).row_count

    def read(
        self, entity: Entity, columns: Mapping[str, str], conditions: Iterable[ir.Condition] = ()
    ) -> DataFrame:
        """Fields of the rows that satisfy plain conditions on one variable, under these names of columns."""
        from pyspark.sql import functions as F  # noqa: N812

        asked = {what: name for what, name in columns.items() if what != TYPE}
        whats = sorted(asked) or [ID]
        frame = self._frame(entity, whats, tuple(_of_table(one, entity) for one in conditions))
        shown = [F.col(f"c{whats.index(what)}").alias(name) for what, name in asked.items()]
        if TYPE in columns:
            shown.append(F.lit(entity.name).alias(columns[TYPE]))
        return frame.select(*shown)

    def _frame(
        self, entity: Entity, whats: Sequence[str], conditions: tuple[ir.Condition, ...]
    ) -> DataFrame:
        key = entity.table_key, tuple(whats), repr(conditions)
        if key not in self._frames:
            self._frames[key] = self._scan(entity, whats, conditions)
        return self._frames[key]

    def _scan(
        self, entity: Entity, whats: Sequence[str], conditions: tuple[ir.Condition, ...]
    ) -> DataFrame:
        from pyspark.sql.types import StructField, StructType

        source = self._source(entity)
        every = (*conditions, *self.extra.get(entity.table_key, ()))
        read = {field.what for field in fields_of(every)}
        names = [_IDS if what == ID else what for what in whats]
        columns = source.select(list(dict.fromkeys([*names, *read])))
        where = row_filter(columns, every, self._params)
        source = replace(source, columns=tuple(columns), where=where)
        shown = StructType(
            [
                StructField(f"c{at}", spark_type(column.type))
                for at, column in enumerate(source.select(names))
            ]
        )
        pieces = plan_partitions(source, PARTITION_ROWS)
        if not pieces:
            return self.session.createDataFrame([], shown)
        run = partial(read_piece, source=source, names=names, schema=arrow_schema(shown))
        return leaf_frame(task_frame(self.session, run, pieces, shown))

    def _source(self, entity: Entity) -> PinnedSource:
        if entity.table_key not in self._sources:
            commit = self.view.snapshot.graph_commit_id
            ends = _ENDS if isinstance(entity, EdgeType) else EndOptions()
            self._sources[entity.table_key] = source_of(self.view.table(entity), commit, ends)
        return self._sources[entity.table_key]


def _of_table(condition: ir.Condition, entity: Entity) -> ir.Condition:
    """A plain condition on one variable, as one on the columns of its table."""

    def renamed(tree: ir.Output | ir.Condition) -> ir.Output | None:
        if isinstance(tree, ir.PropertyOf) and tree.property == ID:
            return ir.PropertyOf(tree.var, _IDS, tree.type)
        if isinstance(tree, ir.PropertyOf) and tree.property == TYPE:
            return ir.Const(entity.name, TEXT)
        return None

    changed: ir.Condition = plain(condition, renamed)
    return changed


@executor_task
def read_piece(
    piece: FragmentPiece, *, source: PinnedSource, names: Sequence[str], schema: pa.Schema
) -> Batches:
    """Read a part of a table."""
    yield from read_fragments(source, names, schema, piece)
