"""The rows that tasks wrote, as a load sees them: set rules read them from files, staging uses the files.

Where the files cannot be used as they are, their rows are read again and written once more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph.errors import ExpectedVersionMismatch
from omnigraph.pipeline.load_options import LoadMode
from omnigraph.pipeline.progress import OnRows
from omnigraph.pipeline.rows.filled_rows import FilledRows
from omnigraph.pipeline.rows.row_images import KeptFragments, match_again, same_lineage
from omnigraph.pipeline.rows.stored_rows import (
    Spellings,
    TakenIds,
    drop_losers,
    shown_rows,
)
from omnigraph.pipeline.rows.vector_spool import VectorSpool
from omnigraph.pipeline.written.task_files import (
    TAKEN,
    Destination,
    Form,
    WrittenFiles,
    discard_files,
)
from omnigraph.pipeline.written.written_reader import WrittenReader, rule_file, write_again
from omnigraph.runner.local_runner import FEW_ROWS
from omnigraph.runner.runner import Frame, Runner
from omnigraph.storage.tables.loose_files import read_data_file
from omnigraph.storage.tables.staging import (
    Staged,
    stage_append_fragments,
    stage_overwrite_fragments,
    stage_replace_rows,
)
from omnigraph.storage.tables.table import Table
from omnigraph.storage.tables.table_ref import TableRef
from omnigraph.validate.change_set import MADE, ORDER


class WrittenRows:
    """The rows that tasks wrote for one table, as the incoming rows of a load.

    ``again`` is what a caller does whose rows were written for another table: "write" or "load".
    """

    def __init__(
        self,
        destination: Destination,
        written: Sequence[WrittenFiles],
        directory: Path,
        spellings: Spellings | None = None,
        *,
        again: str = "write",
    ) -> None:
        self.destination = destination
        self.written = written
        self.directory = directory
        self.entity = destination.entity
        self.spellings = spellings or Spellings()
        self.rows = sum(one.rows for one in written)
        self.any_made = any(one.named < one.rows for one in written)
        self.unfilled = sum(one.unfilled for one in written)
        self._any_named = any(one.named for one in written)
        self._again = again
        self._filled: FilledRows | None = None
        self._taken: TakenIds | None = None
        self._in_images: TakenIds | None = None
        self._takings = 0
        self._losers: pa.Array | None = None
        self._rewritten = KeptFragments()
        self._rewritten_without: tuple[pa.Array | None, TakenIds | None] = (None, None)
        self._rewrites: list[tuple[TableRef, Any]] = []
        self._is_told = False

    @property
    def may_repeat(self) -> bool:
        """Whether two rows may have one id."""
        return self._any_named or self._taken is not None

    @property
    def is_final(self) -> bool:
        """Whether the values in the files are those that are stored."""
        changed = self.spellings or self._taken is not None or _count(self._losers)
        return not changed

    @property
    def reading(self) -> WrittenReader:
        """How the rows are read, as far as it is known by now what becomes of them."""
        return WrittenReader(self.destination, self.spellings, self._taken, self._losers)

    def stopper(self) -> None:
        """Do nothing: tables are staged one after another, and most rows are written already."""

    # -- what set rules look at

    def frame(self, runner: Runner, columns: Sequence[str], *, as_read: bool = False) -> Frame:
        """Some columns that set rules look at, read from the files; those of few rows stay in memory."""
        narrow = self.narrow(columns, as_read=as_read)
        return runner.frame(narrow.read_all() if self.rows <= FEW_ROWS else narrow)

    def narrow(self, columns: Sequence[str], *, as_read: bool) -> pa.RecordBatchReader:
        """Read columns that set rules look at."""
        schema, reading = self.narrow_schema(columns), self.reading
        batches = (
            pa.RecordBatch.from_arrays([batch.column(name) for name in columns], schema=schema)
            for one in self.written
            for batch in reading.batches(one, columns, as_read=as_read)
        )
        return pa.RecordBatchReader.from_batches(schema, batches)

    def narrow_schema(self, columns: Sequence[str]) -> pa.Schema:
        """The types of columns that set rules look at."""
        schema = self.entity.arrow_schema()
        extra = {ORDER: pa.field(ORDER, pa.int64()), MADE: pa.field(MADE, pa.bool_())}
        fields = [extra[name] if name in extra else schema.field(name) for name in columns]
        return pa.schema([field.remove_metadata().with_nullable(True) for field in fields])

    def rule_files(self) -> Iterator[tuple[str, int]]:
        """Yield the files with the columns that set rules look at, and how many rows they have."""
        for one in self.written:
            file = rule_file(self.destination, one)
            if file is not None:
                yield file, one.rows
            else:
                yield from ((part.files[0].path, part.physical_rows) for part in one.fragments)

    # -- what rules decide

    def take_ids(self, runner: Runner, taken: Frame) -> bool:
        """Replace the ids of records; say whether that changes any."""
        # What tasks assumed is noted once: only if the rules come to the same ids can the images be used.
        if self._takings == 0 and self.destination.form == "images":
            self._in_images = TakenIds.of(
                runner, self._taken_by_tasks(runner), self._id_file("images")
            )
        # Who loses depends on the ids, so it is asked again.
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
        self._losers = runner.collect(losers).column(ORDER).combine_chunks().sort()
        return len(self._losers)

    # -- whole rows

    def want_vectors(
        self, _runner: Runner, ref: TableRef, spool: VectorSpool, *, keep: bool
    ) -> None:
        """Ask for the vectors that are missing."""
        if self._filled is None:
            path = self.directory / f"filled-{self.entity.name}.arrow"
            self._filled = FilledRows(self.entity, path)
        elif keep:
            # Which vectors are kept may have changed with the table.
            self._rewritten.drop()
        self._filled.want(self._as_written(), self._losers, ref if keep else None, spool)

    def fill_vectors(self, _runner: Runner, spool: VectorSpool) -> int:
        """Put the vectors into the rows, and return how many are still missing."""
        assert self._filled is not None
        return self._filled.fill(self._as_written(), self._losers, spool)

    def records(self) -> Iterator[pa.RecordBatch]:
        """The rows that are not left out."""
        rows = self._as_written() if self._filled is None else self._filled.batches()
        return drop_losers(rows, self._losers)

    def _as_written(self) -> Iterator[pa.RecordBatch]:
        reading = self.reading
        return (batch for one in self.written for batch in reading.batches(one))

    def values_of(self, _runner: Runner, orders: Sequence[int]) -> dict[int, str]:
        """The values of records by column, as JSON; none of fragments with blobs, which need their table."""
        if self.destination.form == "fragments" and self.entity.blob_properties:
            return {}
        return shown_rows(self.entity, self._as_written(), pa.array(orders, pa.int64()))

    # -- staging

    def stage(self, table: Table, mode: LoadMode, on_rows: OnRows | None = None) -> Staged:
        """Stage the files as they are, or write the rows again where they do not fit."""
        # Lance ties files to the directory they were written for; another branch of the table is another one.
        if self.destination.form != "rows" and not same_lineage(table.ref, self.destination.ref):
            raise ExpectedVersionMismatch(
                f"{self.entity.table_key} is another table than the one that rows were written for; "
                f"{self._again} them again",
                table_key=self.entity.table_key,
                expected=self.destination.ref.version,
                actual=0,
            )
        staged = self._staged_as_written(table, mode) or self._staged_again(table, mode)
        if on_rows is not None and not self._is_told:
            on_rows(self.rows - _count(self._losers))
            self._is_told = True
        return staged

    def _staged_as_written(self, table: Table, mode: LoadMode) -> Staged | None:
        """Stage the files as they are; None where other rows are to be stored than they have."""
        fragments = [fragment for one in self.written for fragment in one.fragments]
        if self.destination.form == "fragments" and self.is_final:
            if mode == "overwrite":
                return stage_overwrite_fragments(table, fragments, table.schema)
            return stage_append_fragments(table, fragments)
        changed = self.spellings or _count(self._losers) or self._taken != self._in_images
        if self.destination.form != "images" or changed:
            return None
        # The very version that tasks looked up their rows in: the addresses they found hold.
        if table.ref == self.destination.ref:
            known = [one.replaced for one in self.written if one.replaced is not None]
            return _replacing(table, np.concatenate([np.empty(0, np.uint64), *known]), fragments)
        # The table moved on, perhaps by a compaction: row ids stay what they are, addresses do not.
        places = match_again(table, fragments, self.destination.image_sizes)
        return None if places is None else _replacing(table, places, fragments)

    def _staged_again(self, table: Table, mode: LoadMode) -> Staged:
        """Write the rows once more, unless that was done already in an earlier attempt."""
        without = (self._losers, self._taken)
        if self._rewritten_without != without:
            self._rewritten.drop()
        self._rewritten_without = without
        # Rows with made ids replace nothing, so a merge of them is an append.
        if mode != "merge" or not self.may_repeat:
            return self._rewritten.stage(
                table, mode, lambda _: self._write(table, "fragments", mode)[0]
            )
        fragments = self._rewritten.of(table, "images")
        places = None if fragments is None else match_again(table, fragments)
        if fragments is None or places is None:
            fragments, places = self._write(table, "images", mode)
            self._rewritten.keep(table, "images", fragments)
        return _replacing(table, places, fragments)

    def _write(self, table: Table, form: Form, mode: LoadMode) -> tuple[list[Any], Any]:
        """Return new fragments, and the addresses of the rows that they replace."""
        to = replace(self.destination, ref=table.ref, form=form, overwrite=mode == "overwrite")
        done = self.write_again(to) if self.rows else []
        fragments = [fragment for one in done for fragment in one.fragments]
        self._rewrites += [(table.ref, fragment) for fragment in fragments]
        places = [one.replaced for one in done if one.replaced is not None]
        return fragments, np.concatenate([np.empty(0, np.uint64), *places])

    def write_again(self, to: Destination) -> list[WrittenFiles]:
        """Write the rows in this process."""
        return [write_again(self.records(), to)]

    def remove_files(self, *, failed: bool) -> None:
        """Remove every file that did not become part of the table.

        Of a load that did not fail, fragments that need not be written again are part of it.
        """
        fragments = [fragment for one in self.written for fragment in one.fragments]
        if self.destination.form == "fragments" and not failed and not self._rewrites:
            # They are named by a version now; what is removed here would be missing there.
            fragments = []
        discard_files(self.destination.ref, fragments, [one.loose for one in self.written])
        for ref in dict.fromkeys(ref for ref, _ in self._rewrites):
            discard_files(ref, [one for other, one in self._rewrites if other == ref], [])


def _replacing(table: Table, places: Any, fragments: Sequence[Any]) -> Staged:
    if not len(places):
        return stage_append_fragments(table, fragments)
    return stage_replace_rows(table, places, fragments)


def _count(losers: pa.Array | None) -> int:
    return 0 if losers is None else len(losers)
