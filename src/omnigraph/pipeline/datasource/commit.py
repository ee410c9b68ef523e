"""Commit a write from Spark: a load whose rows are in files that tasks wrote."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph.errors import ExpectedVersionMismatch
from omnigraph.manifest.workspace import Workspace
from omnigraph.pipeline.datasource.merge import TAKEN, image_rows
from omnigraph.pipeline.datasource.write import WritePlan, Written, discard_rows
from omnigraph.pipeline.engine import Incoming, Places, ReadRecords, Tell
from omnigraph.pipeline.formats.typed_batch import SOURCE_SHIFT
from omnigraph.pipeline.load import load
from omnigraph.pipeline.load_input import LoadInput
from omnigraph.pipeline.load_options import LoadMode, LoadOptions
from omnigraph.pipeline.local.complete_here import complete_here
from omnigraph.pipeline.progress import OnRows, ProgressReport
from omnigraph.pipeline.request import LoadRequest, LoadResult
from omnigraph.pipeline.rows.bad_records import BadRecords
from omnigraph.pipeline.rows.images import Images, match_again, same_lineage
from omnigraph.pipeline.rows.row_rules import RowRules
from omnigraph.pipeline.rows.stored_rows import drop_losers, shown_rows, stored_rows
from omnigraph.pipeline.rows.taken_ids import TakenIds
from omnigraph.pipeline.rows.vector_spool import VectorSpool
from omnigraph.pipeline.rows.vectors import FilledRows
from omnigraph.pipeline.sources.locations import InMemory
from omnigraph.pipeline.sources.sources import Source
from omnigraph.runner.local_runner import FEW_ROWS, LocalRunner
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
from omnigraph.write.index_builds import Builds, build_here

ROW_BYTES = 256
"""About what a row takes, to divide many of them into parts."""


def commit_rows(workspace: Workspace, plan: WritePlan, written: Sequence[Written]) -> LoadResult:
    """Check the rows of all tasks together, and publish them as one commit."""
    ordered = sorted(written, key=lambda one: one.partition)
    with LoadInput() as inputs:
        count = 1 + max((one.partition for one in ordered), default=-1)
        inputs.sources = [
            Source(number, f"partition {number}", InMemory(b""), 0, unit="row")
            for number in range(count)
        ]
        asked = plan.options
        options = LoadOptions(plan.mode, asked.branch, actor=asked.actor, on_bad=asked.on_bad)
        request = LoadRequest(inputs, options, branch_id=plan.branch_identifier)
        schema = plan.ir_hash, plan.rules.catalog
        result = load(workspace, lambda: schema, request, _WrittenEngine(plan, ordered))
    # Images that had to be read again as rows are of no use any more.
    used = plan.form == "fragments"
    discard_rows(plan, [replace(one, fragments=()) for one in ordered] if used else ordered)
    return result


class _WrittenEngine:
    """An engine whose records were already read, checked and written by tasks of Spark."""

    name = "spark"

    def __init__(self, plan: WritePlan, written: Sequence[Written]) -> None:
        self.plan = plan
        self.written = written
        self._completed = 0

    def runner(self) -> Runner:
        return LocalRunner()

    def read(
        self,
        request: LoadRequest,
        rules: RowRules,  # noqa: ARG002 - the tasks had theirs
        directory: Path,
        report: ProgressReport,
        places: Places,  # noqa: ARG002 - the tasks wrote already
    ) -> ReadRecords:
        report.tell("reading")
        bad = BadRecords()
        for one in self.written:
            bad.add(one.bad)
            bad.total += one.bad_total - len(one.bad)
        if not request.skips:
            bad.end(request.inputs.sources, None)
        rows = _WrittenRows(self.plan, self.written, directory)
        if not rows.rows and self.plan.mode != "overwrite":
            return ReadRecords({}, bad)
        return ReadRecords({self.plan.table_key: rows}, bad)

    def complete(
        self, rules: RowRules, records: Incoming, ref: TableRef, directory: Path, tell: Tell
    ) -> Incoming:
        """Make whole rows of the rows of a patch, in the process of the commit."""
        assert isinstance(records, _WrittenRows)
        self._completed += 1
        return complete_here(
            rules,
            records.entity,
            records.records(),
            ref,
            directory / f"whole-{self._completed}.arrow",
            tell,
            nbytes=records.rows * ROW_BYTES,
            named=records.may_repeat,
            few_rows=FEW_ROWS,
        )

    def builds(self, _rows: int) -> Builds:
        return build_here

    def proves_rules(self, *_: object) -> bool:
        return False

    def discard(self) -> None:
        """Do nothing, as below."""

    def close(self) -> None:
        """Do nothing: the caller keeps or removes the files."""


class _WrittenRows:
    """The rows that tasks wrote, in the form of the incoming rows of a load."""

    def __init__(self, plan: WritePlan, written: Sequence[Written], directory: Path) -> None:
        self.plan = plan
        self.written = written
        self.directory = directory
        self.entity = plan.entity
        self.rows = sum(one.rows for one in written)
        self.may_repeat = plan.named
        self.any_made = any(one.any_made for one in written)
        self.unfilled = sum(one.unfilled for one in written)
        self._filled: FilledRows | None = None
        self._taken: TakenIds | None = None
        self._in_images: TakenIds | None = None
        self._takings = 0
        self._losers: pa.Array | None = None

    def stopper(self) -> None:
        """Do nothing: there is only one table to stage."""

    def frame(self, runner: Runner, columns: Sequence[str], *, as_read: bool = False) -> Frame:
        schema = self.entity.arrow_schema()
        extra = {ORDER: pa.field(ORDER, pa.int64()), MADE: pa.field(MADE, pa.bool_())}
        fields = [extra[name] if name in extra else schema.field(name) for name in columns]
        narrow = pa.schema([field.remove_metadata().with_nullable(True) for field in fields])
        wanted = [name for name in columns if name != ORDER]
        batches = (
            pa.RecordBatch.from_arrays([batch.column(name) for name in columns], schema=narrow)
            for batch in self._batches(wanted, as_read=as_read)
        )
        return runner.frame(pa.RecordBatchReader.from_batches(narrow, batches))

    def take_ids(self, runner: Runner, taken: Frame) -> bool:
        if self._takings == 0 and self.plan.form == "images":
            self._in_images = TakenIds.of(
                runner, self._taken_by_tasks(runner), self.directory / "ids-of-images"
            )
        before, self._losers = self._taken, None
        self._takings += 1
        self._taken = TakenIds.of(runner, taken, self.directory / f"ids-{self._takings}")
        return self._taken != before

    def _taken_by_tasks(self, runner: Runner) -> Frame:
        """Return the ids that rows took when tasks wrote the images."""
        schema = pa.schema({ORDER: pa.int64(), "id": pa.utf8()})
        batches = (
            pa.RecordBatch.from_arrays(batch.select([ORDER, TAKEN]).columns, schema=schema)
            for one in self.written
            if one.loose is not None
            for batch in read_data_file(self.plan.ref, one.loose, [ORDER, TAKEN])
        )
        taken = (batch.filter(batch.column("id").is_valid()) for batch in batches)
        return runner.frame(pa.RecordBatchReader.from_batches(schema, taken))

    def leave_out(self, runner: Runner, losers: Frame) -> int:
        self._losers = runner.collect(losers).column(ORDER).combine_chunks()
        return len(self._losers)

    def want_vectors(
        self, _runner: Runner, ref: TableRef, spool: VectorSpool, *, keep: bool
    ) -> None:
        if self._filled is None:
            self._filled = FilledRows(self.entity, self.directory / "filled.arrow")
        kept = ref if keep else None
        self._filled.want(self._read_files(None), self._losers, kept, spool)

    def fill_vectors(self, _runner: Runner, spool: VectorSpool) -> int:
        assert self._filled is not None
        return self._filled.fill(self._read_files(None), self._losers, spool)

    def records(self) -> Iterator[pa.RecordBatch]:
        """The rows that are not left out."""
        return drop_losers(self._batches(None), self._losers)

    def values_of(self, _runner: Runner, orders: Sequence[int]) -> dict[int, str]:
        return shown_rows(self.entity, self._batches(None), pa.array(orders, pa.int64()))

    def stage(self, table: Table, mode: LoadMode, on_rows: OnRows | None = None) -> Staged:  # noqa: ARG002
        fragments = [fragment for one in self.written for fragment in one.fragments]
        if self.plan.form != "rows" and not same_lineage(table.ref, self.plan.ref):
            raise ExpectedVersionMismatch(
                f"{self.entity.table_key} is another table than the one that rows were written for; "
                "write them again",
                table_key=self.entity.table_key,
                expected=self.plan.ref.version,
                actual=0,
            )
        if self.plan.form == "fragments":
            if mode == "overwrite":
                return stage_overwrite_fragments(table, fragments, table.schema)
            return stage_append_fragments(table, fragments)
        as_written = not self._losers and self._taken == self._in_images
        if self.plan.form == "images" and as_written:
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
        if table.ref == self.plan.ref:
            places = np.concatenate([one.replaced for one in self.written])
        else:
            found = match_again(table, fragments, self.plan.image_sizes)
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
                yield from image_rows(self.plan.ref, self.entity, one.fragments, one.loose)
            elif one.loose is not None:
                wanted = None if columns is None else [*columns, ORDER]
                yield from read_data_file(self.plan.ref, one.loose, wanted)
            else:
                yield from self._fragment_rows(one, columns)

    def _fragment_rows(
        self, one: Written, columns: Sequence[str] | None
    ) -> Iterator[pa.RecordBatch]:
        row = 1
        for name in data_files(one.fragments):
            for batch in read_data_file(self.plan.ref, name, columns):
                yield _add_order(batch, one.partition, row)
                row += batch.num_rows


def _add_order(batch: pa.RecordBatch, partition: int, row: int) -> pa.RecordBatch:
    """Return the batch with the order column, which fragments do not store."""
    order = np.arange(row, row + batch.num_rows, dtype=np.int64) | (partition << SOURCE_SHIFT)
    return batch.append_column(ORDER, pa.array(order))
