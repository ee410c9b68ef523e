"""The incoming rows of one table that executors wrote while they read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.errors import ExpectedVersionMismatch
from omnigraph.lang.schema.catalog import Entity
from omnigraph.pipeline.formats.typed_batch import batch_schema
from omnigraph.pipeline.load_options import LoadMode
from omnigraph.pipeline.progress import OnRows
from omnigraph.pipeline.rows.images import same_lineage
from omnigraph.pipeline.rows.vector_spool import VectorSpool
from omnigraph.pipeline.spark.executor_tasks import VALUES
from omnigraph.pipeline.spark.one_pass.first_pass import PLACES, read_again, show_again
from omnigraph.pipeline.spark.one_pass.questions import Piece
from omnigraph.pipeline.spark.same_rows import other_rows
from omnigraph.runner.names import encoded
from omnigraph.runner.protocol import Frame, Runner
from omnigraph.runner.spark_columns import portable_schema, spark_schema
from omnigraph.runner.spark_errors import spark_errors
from omnigraph.runner.spark_runner import SparkFrame, SparkRunner
from omnigraph.storage.tables.staging import (
    Staged,
    stage_append_fragments,
    stage_overwrite_fragments,
)
from omnigraph.storage.tables.table import Table
from omnigraph.storage.tables.table_ref import TableRef
from omnigraph.validate.change_set import ORDER, needed_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(slots=True)
class OnePassRows:
    """Rows of an append or an overwrite, in fragments of their table that nothing refers to yet.

    ``told`` is what the first pass told; ``number`` stands for the table there, and ``by_task`` has the
    files of each task. ``pieces`` are the files with the columns that set rules look at. The rows are as
    they are: none takes another id, and none is left out.
    """

    entity: Entity
    rows: int
    named: int
    fragments: list[Any]
    pieces: list[Piece]
    ref: TableRef
    told: DataFrame
    by_task: Mapping[int, bytes] = field(repr=False)
    number: int
    fetched_rows: int
    unfilled: int = 0
    _is_told: bool = False
    _narrow: DataFrame | None = field(default=None, repr=False)
    _here: SparkFrame | None = field(default=None, repr=False)

    @property
    def may_repeat(self) -> bool:
        """Whether two rows may have the same id."""
        return self.named > 0

    @property
    def can_take_ids(self) -> bool:
        """No: the rows are written."""
        return False

    @property
    def any_made(self) -> bool:
        """Whether an id was made for some row."""
        return self.named < self.rows

    def stopper(self) -> None:
        """Do nothing: the rows are written already."""

    def frame(self, runner: Runner, columns: Sequence[str], *, as_read: bool = False) -> Frame:  # noqa: ARG002
        """Return columns that set rules look at, read again from the fragments."""
        assert isinstance(runner, SparkRunner), "rows on executors are asked there"
        with spark_errors():
            whole = runner.of(self._narrow_rows())
            if self.rows <= self.fetched_rows:
                if self._here is None:
                    self._here = runner.frame(self._whole(runner.collect(whole)))
                return runner.frame(self._here.table.select(list(columns)))
            return runner.of(whole.data.select([f"`{encoded(name)}`" for name in columns]))

    def _narrow_rows(self) -> DataFrame:
        if self._narrow is None:
            columns = ["id", *needed_columns(self.entity), ORDER]
            typed = batch_schema(self.entity)
            kinds = {"id": pa.utf8(), ORDER: pa.int64()}
            schema = pa.schema(
                [
                    (name, kinds[name] if name in kinds else typed.field(name).type)
                    for name in columns
                ]
            )
            run = partial(read_again, ref=self.ref, columns=columns, by_task=self.by_task)
            shown = spark_schema(portable_schema(schema))
            self._narrow = self._places().mapInArrow(run, shown).persist()
            if self.rows > self.fetched_rows and self._narrow.count() != self.rows:
                raise other_rows()
        return self._narrow

    def _whole(self, rows: pa.Table) -> pa.Table:
        if rows.num_rows != self.rows:
            raise other_rows()
        return rows

    def stage(self, table: Table, mode: LoadMode, on_rows: OnRows | None = None) -> Staged:
        """Stage the fragments as they are."""
        if not same_lineage(table.ref, self.ref):
            raise ExpectedVersionMismatch(
                f"{self.entity.table_key} is another table than the one that rows were written for; "
                "load them again",
                table_key=self.entity.table_key,
                expected=self.ref.version,
                actual=table.version,
            )
        if on_rows is not None and not self._is_told:
            on_rows(self.rows)
            self._is_told = True
        if mode == "overwrite":
            return stage_overwrite_fragments(table, self.fragments, table.schema)
        return stage_append_fragments(table, self.fragments)

    def values_of(self, _runner: Runner, orders: Sequence[int]) -> dict[int, str]:
        """Return the values of records by column, as JSON; none of rows with blobs, which need their table."""
        if self.entity.blob_properties:
            return {}
        run = partial(
            show_again,
            ref=self.ref,
            entity=self.entity,
            orders=list(orders),
            by_task=self.by_task,
        )
        with spark_errors():
            found = self._places().mapInArrow(run, VALUES).toArrow().to_pylist()
        return {row["rec"]: row["shown"] for row in found}

    def _places(self) -> DataFrame:
        """The notes about the order of these rows."""
        return self.told.where(f"what = {PLACES} AND one = {self.number}").select("data")

    def free(self) -> None:
        """Free what was cached for set rules."""
        if self._narrow is not None:
            self._narrow.unpersist()
            self._narrow = None

    # -- what such rows never need: no row can be changed or left out any more

    def take_ids(self, runner: Runner, taken: Frame) -> bool:
        """Refuse: the ids are written."""
        raise NotImplementedError

    def leave_out(self, runner: Runner, losers: Frame) -> int:
        """Refuse: rows are left out only where bad records are skipped."""
        raise NotImplementedError

    def want_vectors(
        self, runner: Runner, ref: TableRef, spool: VectorSpool, *, keep: bool
    ) -> None:
        """Refuse: rows of types with vectors to be made are not written at once."""
        raise NotImplementedError

    def fill_vectors(self, runner: Runner, spool: VectorSpool) -> int:
        """Refuse, as above."""
        raise NotImplementedError
