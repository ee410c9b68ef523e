"""The rows that tasks wrote, as a load sees them: set rules read them from files, staging uses the files.

Where the files cannot be used as they are, their rows are read again and written once more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph.errors import ExpectedVersionMismatch
from omnigraph.pipeline.formats.typed_batch import SOURCE_SHIFT
from omnigraph.pipeline.load_options import LoadMode
from omnigraph.pipeline.progress import OnRows
from omnigraph.pipeline.rows.images import Images, match_again, same_lineage
from omnigraph.pipeline.rows.stored_rows import drop_losers, shown_rows, stored_rows
from omnigraph.pipeline.rows.taken_ids import TakenIds
from omnigraph.pipeline.rows.vector_spool import VectorSpool
from omnigraph.pipeline.rows.vectors import FilledRows
from omnigraph.pipeline.written.task_files import Destination, Written
from omnigraph.pipeline.written.task_images import TAKEN, image_rows
from omnigraph.runner.local_runner import FEW_ROWS
from omnigraph.runner.protocol import Frame, Runner
from omnigraph.storage.tables.loose_files import data_files, read_data_file
from omnigraph.storage.tables.staging import (
    MERGE_INSERT_ROWS,
    Staged,
    stage_append,
    stage_append_fragments,
    stage_merge_insert,
    stage_overwrite,
    stage_overwrite_fragments,
    stage_replace_rows,
)
from omnigraph.storage.tables.table import Table
from omnigraph.storage.tables.table_ref import TableRef
from omnigraph.validate.change_set import MADE, ORDER


class WrittenRows:
    """The rows that tasks wrote for one table, as the incoming rows of a load.

    ``may_repeat``: rows may have the ids of other rows, because ids are given, made from a key, or taken
    from stored edges.
    """

    def __init__(
        self,
        destination: Destination,
        written: Sequence[Written],
        directory: Path,
        *,
        may_repeat: bool,
    ) -> None:
        self.destination = destination
        self.written = written
        self.directory = directory
        self.entity = destination.entity
        self.rows = sum(one.rows for one in written)
        self.may_repeat = may_repeat
        self.any_made = any(one.any_made for one in written)
        self.unfilled = sum(one.unfilled for one in written)
        self._filled: FilledRows | None = None
        self._taken: TakenIds | None = None
        self._in_images: TakenIds | None = None
        self._takings = 0
        self._losers: pa.Array | None = None

    @property
    def can_take_ids(self) -> bool:
        """Whether ids can still be replaced."""
        return True

    def stopper(self) -> None:
        """Do nothing: there is only one table to stage."""

    def frame(self, runner: Runner, columns: Sequence[str], *, as_read: bool = False) -> Frame:
        """Some columns that set rules look at, read from the files; those of few rows stay in memory."""
        narrow = self._narrow(columns, as_read=as_read)
        return runner.frame(narrow.read_all() if self.rows <= FEW_ROWS else narrow)

    def _narrow(self, columns: Sequence[str], *, as_read: bool) -> pa.RecordBatchReader:
        schema = self.narrow_schema(columns)
        wanted = [name for name in columns if name != ORDER]
        batches = (
            pa.RecordBatch.from_arrays([batch.column(name) for name in columns], schema=schema)
            for batch in self._batches(wanted, as_read=as_read)
        )
        return pa.RecordBatchReader.from_batches(schema, batches)

    def narrow_schema(self, columns: Sequence[str]) -> pa.Schema:
        """The types of columns that set rules look at."""
        schema = self.entity.arrow_schema()
        extra = {ORDER: pa.field(ORDER, pa.int64()), MADE: pa.field(MADE, pa.bool_())}
        fields = [extra[name] if name in extra else schema.field(name) for name in columns]
        return pa.schema([field.remove_metadata().with_nullable(True) for field in fields])

    def take_ids(self, runner: Runner, taken: Frame) -> bool:
        """Replace the ids of records; say whether that changes any."""
        if self._takings == 0 and self.destination.form == "images":
            self._in_images = TakenIds.of(
                runner, self._taken_by_tasks(runner), self._id_file("images")
            )
        before, self._losers = self._taken, None
        self._takings += 1
        self._taken = TakenIds.of(runner, taken, self._id_file(self._takings))
        return self._taken != before

    def _id_file(self, name: object) -> Path:
        return self.directory / f"ids-{self.entity.name}-{name}"

    def _taken_by_tasks(self, runner: Runner) -> Frame:
        """Return the ids that rows took when tasks wrote the images."""
        schema = pa.schema({ORDER: pa.int64(), "id": pa.utf8()})
        batches = (
            pa.RecordBatch.from_arrays(batch.select([ORDER, TAKEN]).columns, schema=schema)
            for one in self.written
            if one.loose is not None
            for batch in read_data_file(self.destination.ref, one.loose, [ORDER, TAKEN])
        )
        taken = (batch.filter(batch.column("id").is_valid()) for batch in batches)
        return runner.frame(pa.RecordBatchReader.from_batches(schema, taken))

    def leave_out(self, runner: Runner, losers: Frame) -> int:
        """Leave out records, 8 bytes for each of which are held here."""
        self._losers = runner.collect(losers).column(ORDER).combine_chunks()
        return len(self._losers)

    def want_vectors(
        self, _runner: Runner, ref: TableRef, spool: VectorSpool, *, keep: bool
    ) -> None:
        """Ask for the vectors that are missing."""
        if self._filled is None:
            self._filled = FilledRows(self.entity, self.directory / "filled.arrow")
        kept = ref if keep else None
        self._filled.want(self._read_files(None), self._losers, kept, spool)

    def fill_vectors(self, _runner: Runner, spool: VectorSpool) -> int:
        """Put the vectors into the rows, and return how many are still missing."""
        assert self._filled is not None
        return self._filled.fill(self._read_files(None), self._losers, spool)

    def records(self) -> Iterator[pa.RecordBatch]:
        """The rows that are not left out."""
        return drop_losers(self._batches(None), self._losers)

    def values_of(self, _runner: Runner, orders: Sequence[int]) -> dict[int, str]:
        """The values of records by column, as JSON; none of fragments with blobs, which need their table."""
        if self.destination.form == "fragments" and self.entity.blob_properties:
            return {}
        return shown_rows(self.entity, self._batches(None), pa.array(orders, pa.int64()))

    def stage(self, table: Table, mode: LoadMode, on_rows: OnRows | None = None) -> Staged:  # noqa: ARG002
        """Stage the fragments as they are, or write the rows again where they do not fit."""
        fragments = [fragment for one in self.written for fragment in one.fragments]
        if self.destination.form != "rows" and not same_lineage(table.ref, self.destination.ref):
            raise ExpectedVersionMismatch(
                f"{self.entity.table_key} is another table than the one that rows were written for; "
                "write them again",
                table_key=self.entity.table_key,
                expected=self.destination.ref.version,
                actual=0,
            )
        if self.destination.form == "fragments" and self._taken is None:
            if mode == "overwrite":
                return stage_overwrite_fragments(table, fragments, table.schema)
            return stage_append_fragments(table, fragments)
        as_written = not self._losers and self._taken == self._in_images
        if self.destination.form == "images" and as_written:
            replacing = self._replacing(table, fragments)
            if replacing is not None:
                return replacing
        merges = mode == "merge" and self.may_repeat
        if merges and self.rows > MERGE_INSERT_ROWS:
            return self._merged_again(table)
        stored = stored_rows(self.entity, table.schema, self._batches(None), self._losers)
        rows = pa.RecordBatchReader.from_batches(table.schema, stored)
        if mode == "overwrite":
            return stage_overwrite(table, rows)
        return stage_merge_insert(table, rows.read_all()) if merges else stage_append(table, rows)

    def _merged_again(self, table: Table) -> Staged:
        """Write the images in this process, from the rows that the tasks left."""
        images = Images(table.ref, self.entity)
        for batch in drop_losers(self._batches(None), self._losers):
            images.add(batch)
        images.write()
        if not len(images.replaced):
            return stage_append_fragments(table, images.fragments)
        return stage_replace_rows(table, images.replaced, images.fragments)

    def _replacing(self, table: Table, fragments: Sequence[Any]) -> Staged | None:
        """Stage the images as they are; return None if the table has other rows for their ids by now."""
        if table.ref == self.destination.ref:
            known = [one.replaced for one in self.written if one.replaced is not None]
            places = np.concatenate([np.empty(0, np.uint64), *known])
        else:
            found = match_again(table, fragments, self.destination.image_sizes)
            if found is None:
                return None
            places = found
        if not len(places):
            return stage_append_fragments(table, fragments)
        return stage_replace_rows(table, places, fragments)

    def _batches(
        self, columns: Sequence[str] | None, *, as_read: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows in input order, or images in theirs; None stands for all columns."""
        for batch in self._files(columns):
            yield batch if as_read or self._taken is None else self._taken.apply_to(batch)

    def _files(self, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        if columns is None and self._filled is not None:
            return self._filled.batches()
        return self._read_files(columns)

    def _read_files(self, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        for one in self.written:
            if columns is None and one.loose is not None and one.fragments:
                yield from image_rows(self.destination.ref, self.entity, one.fragments, one.loose)
            elif one.loose is not None:
                wanted = None if columns is None else [*columns, ORDER]
                yield from read_data_file(self.destination.ref, one.loose, wanted)
            else:
                yield from self._fragment_rows(one, columns)

    def _fragment_rows(
        self, one: Written, columns: Sequence[str] | None
    ) -> Iterator[pa.RecordBatch]:
        row = 1
        # Rows with ids of their own are not written as fragments where that matters.
        stored = None if columns is None else [name for name in columns if name != MADE]
        for name in data_files(one.fragments):
            for batch in read_data_file(self.destination.ref, name, stored):
                rows = _add_order(batch, one.partition, row)
                if columns is not None and MADE in columns:
                    rows = rows.append_column(MADE, pa.array(np.ones(rows.num_rows, np.bool_)))
                yield rows
                row += batch.num_rows


def _add_order(batch: pa.RecordBatch, partition: int, row: int) -> pa.RecordBatch:
    """Return the batch with the order column, which fragments do not store."""
    order = np.arange(row, row + batch.num_rows, dtype=np.int64) | (partition << SOURCE_SHIFT)
    return batch.append_column(ORDER, pa.array(order))
