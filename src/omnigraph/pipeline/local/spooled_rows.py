"""The incoming rows of the local engine: one Arrow file per table, so memory does not grow with them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.cores import usable_cores
from omnigraph.errors import StorageError
from omnigraph.lang.schema.catalog import Entity
from omnigraph.memory import give_back
from omnigraph.pipeline.load_options import LoadMode
from omnigraph.pipeline.local.parallel import in_order
from omnigraph.pipeline.progress import OnRows, report_rows
from omnigraph.pipeline.rows.filled_rows import FilledRows
from omnigraph.pipeline.rows.row_images import (
    Images,
    KeptFragments,
    WriteForm,
    match_again,
)
from omnigraph.pipeline.rows.stored_rows import (
    Spellings,
    TakenIds,
    drop_losers,
    respell,
    shown_rows,
    stored_rows,
)
from omnigraph.pipeline.rows.vector_spool import VectorSpool
from omnigraph.runner.runner import Frame, Runner
from omnigraph.storage.tables.staging import (
    MAX_ROWS_PER_FILE,
    Staged,
    stage_append_fragments,
    stage_replace_rows,
    write_fragments,
)
from omnigraph.storage.tables.table import Table, open_table
from omnigraph.storage.tables.table_ref import TableRef
from omnigraph.validate.change_set import ORDER

FULL_PART_ROWS = MAX_ROWS_PER_FILE * 9 // 10
"""Rows of a part on average at most; parts end where batches do, and none should need two files."""
LEAST_PART_ROWS = MAX_ROWS_PER_FILE // 2
"""Rows of a part on average at least."""


class SpooledRows:
    """The incoming rows of one table, in a file on this machine; up to ``few_rows`` in memory."""

    def __init__(self, entity: Entity, path: Path, few_rows: int) -> None:
        self._few_rows = few_rows
        self.entity = entity
        self.rows = 0
        self.unfilled = 0
        self.any_named = False
        self.any_made = False
        self._path = path
        self._sizes: list[int] = []
        self._taken: TakenIds | None = None
        self._takings = 0
        self._writer: Any = None
        self._losers: pa.Array | None = None
        self._written_without: pa.Array | None = None
        self._kept = KeptFragments()
        self._filled: FilledRows | None = None
        self._stopped = threading.Event()

    @property
    def may_repeat(self) -> bool:
        """Whether two rows may have one id."""
        return self.any_named or self._taken is not None

    def stopper(self) -> Callable[[], object]:
        """A function that makes the next ``stage`` give up, to be called from another thread."""
        self._stopped = threading.Event()
        return self._stopped.set

    def add(self, batch: pa.RecordBatch) -> None:
        """Append rows: `id`, implicit columns, properties, and the order column."""
        if self._writer is None:
            self._writer = pa.ipc.new_file(str(self._path), batch.schema)
        self._writer.write_batch(batch)
        self._sizes.append(batch.num_rows)
        self.rows += batch.num_rows

    def finish(self) -> None:
        """End the writing; from now on the rows can be read."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def replace_text(self, spellings: Spellings) -> None:
        """Replace values of text columns (column to old to new) in every row."""
        old, self._path = self._path, self._path.with_suffix(".changed")
        self.rows, self._sizes = 0, []
        for batch in _read(old):
            self.add(respell(batch, spellings))
        self.finish()
        old.unlink()

    def frame(self, runner: Runner, columns: Sequence[str], *, as_read: bool = False) -> Frame:
        """Some columns as a frame of the runner, which reads the mapped file.

        Where ids were taken, the runner gets a copy with the new ids.
        """
        with pa.ipc.open_file(pa.memory_map(str(self._path))) as reader:
            whole = reader.read_all()
        if as_read or self._taken is None:
            return runner.frame(whole.select(list(columns)))
        rows = whole.select(list(dict.fromkeys([*columns, "id", ORDER])))
        changed = map(self._taken.apply_to, rows.to_batches())
        wanted = (batch.select(list(columns)) for batch in changed)
        reader = pa.RecordBatchReader.from_batches(rows.select(list(columns)).schema, wanted)
        return runner.frame(reader.read_all() if self.rows <= self._few_rows else reader)

    def take_ids(self, runner: Runner, taken: Frame) -> bool:
        """Remember the ids that records take; returns whether they differ from those before."""
        before, self._losers = self._taken, None
        self._takings += 1
        path = self._path.with_suffix(f".ids-{self._takings}")
        self._taken = TakenIds.of(runner, taken, path)
        changed = self._taken != before
        if changed:
            self._kept.drop()
            self._losers = None
        return changed

    def leave_out(self, runner: Runner, losers: Frame) -> int:
        """Remember the records that are not to be written, and return their number."""
        found = runner.collect(losers).column(ORDER).combine_chunks()
        self._losers = found.take(pc.sort_indices(found))
        if self._written_without is not None and not self._losers.equals(self._written_without):
            self._kept.drop()
        self._written_without = self._losers
        return len(self._losers)

    @property
    def nbytes(self) -> int:
        """The size of the rows on disk."""
        return self._path.stat().st_size

    def records(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """The rows that are not left out; with ``columns`` no others are read, as they came."""
        if columns is None:
            return drop_losers(self._batches(), self._losers)
        return drop_losers(_read(self._path, columns=[*columns, ORDER]), self._losers)

    def values_of(self, _runner: Runner, orders: Sequence[int]) -> dict[int, str]:
        """The values of records by column, as JSON, found by their order."""
        return shown_rows(self.entity, _read(self._path), pa.array(orders, pa.int64()))

    def want_vectors(
        self, _runner: Runner, ref: TableRef, spool: VectorSpool, *, keep: bool
    ) -> None:
        """Ask for the vectors that are missing; with ``keep`` those of the table are kept."""
        if self._filled is None:
            self._filled = FilledRows(self.entity, self._path.with_suffix(".filled"))
        elif keep:
            # Which vectors are kept may have changed with the table.
            self._kept.drop()
        self._filled.want(_read(self._path), self._losers, ref if keep else None, spool)

    def fill_vectors(self, _runner: Runner, spool: VectorSpool) -> int:
        """Write the rows with their vectors, and return how many are still missing."""
        assert self._filled is not None
        return self._filled.fill(_read(self._path), self._losers, spool)

    def stage(self, table: Table, mode: LoadMode, on_rows: OnRows | None = None) -> Staged:
        """Write the rows for the table, reusing the files of an earlier attempt where they fit."""
        if mode == "merge" and self.may_repeat:
            return self._stage_merge(table, on_rows)
        return self._kept.stage(table, mode, lambda form: self._write(table, form, on_rows))

    def _write(self, table: Table, form: WriteForm, on_rows: OnRows | None) -> list[Any]:
        """Write the rows as fragments; those of many rows on all cores."""

        def write(part: range | None) -> list[Any]:
            # Lance may change a handle, so each thread needs one of its own.
            into = table if part is None else open_table(table.ref)
            stored = stored_rows(self.entity, table.schema, self._batches(part), self._losers)
            rows = pa.RecordBatchReader.from_batches(table.schema, report_rows(stored, on_rows))
            return write_fragments(into, rows, mode=form)

        if self._filled is not None or self._taken is not None or self.entity.blob_properties:
            return write(None)
        parts = divided(self._sizes, usable_cores())
        if len(parts) == 1:
            return write(None)
        work = (partial(write, part) for part in parts)
        written = in_order(work, stop=self._stopped.set)
        fragments = [fragment for some in written for fragment in some]
        give_back()
        return fragments

    def _stage_merge(self, table: Table, on_rows: OnRows | None) -> Staged:
        fragments = self._kept.of(table, "images")
        places = None if fragments is None else match_again(table, fragments)
        if fragments is None or places is None:
            images = Images(table.ref, self.entity, table=table)
            for batch in report_rows(drop_losers(self._batches(), self._losers), on_rows):
                images.add(batch)
            images.write()
            places = images.replaced
            fragments = self._kept.keep(table, "images", images.fragments)
        if not len(places):
            return stage_append_fragments(table, fragments)
        return stage_replace_rows(table, places, fragments)

    def _batches(self, part: range | None = None) -> Iterator[pa.RecordBatch]:
        rows = _read(self._path, part) if self._filled is None else self._filled.batches()
        for batch in rows:
            if self._stopped.is_set():
                raise StorageError("the load was stopped; nothing was changed, load again")
            yield batch if self._taken is None else self._taken.apply_to(batch)


def divided(sizes: Sequence[int], cores: int) -> list[range]:
    """Batches of these sizes in parts, each for one fragment: as many for every core where that pays.

    What fits into one fragment stays together, because every read pays for each fragment.
    """
    rows = sum(sizes)
    least = max(1, -(-rows // FULL_PART_ROWS))
    even = min(-(-least // cores) * cores, rows // LEAST_PART_ROWS)
    count = 1 if least == 1 else max(least, even)
    parts: list[range] = []
    start = seen = 0
    for at, size in enumerate(sizes, 1):
        seen += size
        if len(parts) < count - 1 and seen * count >= rows * (len(parts) + 1):
            parts.append(range(start, at))
            start = at
    return [*parts, range(start, len(sizes))]


def _read(
    path: Path, part: range | None = None, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    # Not mapped: what was read of a mapped file counts as memory of the process until its end.
    with pa.OSFile(str(path)) as file:
        options = pa.ipc.IpcReadOptions()
        if columns is not None:
            names = pa.ipc.open_file(file).schema.names
            options.included_fields = [names.index(column) for column in columns]
        with pa.ipc.open_file(file, options=options) as reader:
            for at in range(reader.num_record_batches) if part is None else part:
                batch = reader.get_batch(at)
                # A copy where columns were chosen: Arrow allots memory for all of them.
                yield batch if columns is None else pa.concat_batches([batch.slice(0, 0), batch])
