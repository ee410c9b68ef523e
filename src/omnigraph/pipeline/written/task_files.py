"""What a task does with the rows of one table that it has judged: it writes them, and reports the files.

`TaskFiles` takes rows as they come and writes them in the form that the plan of the load chose. The
files belong to the table's directory, but to no version of it: the driver makes them part of one, or they
are removed. A task that runs twice leaves files that no version names; cleanup removes them.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa

from omnigraph.errors import OmniGraphError
from omnigraph.lang.schema.catalog import EdgeType, Entity
from omnigraph.pipeline.rows.bad_records import Bad
from omnigraph.pipeline.rows.images import IMAGE_SIZES, ImageSizes
from omnigraph.pipeline.rows.row_rules import narrow_columns
from omnigraph.pipeline.rows.stored_rows import stored_rows
from omnigraph.pipeline.written.task_images import TaskImages
from omnigraph.storage.tables.loose_files import LooseFile, remove_loose_files
from omnigraph.storage.tables.staging import write_fragments
from omnigraph.storage.tables.table import open_table
from omnigraph.storage.tables.table_ref import TableRef

Form = Literal["fragments", "images", "rows"]

WAITING_BATCHES = 2
"""How many batches wait for the thread that writes them."""


@dataclass(frozen=True, slots=True)
class Destination:
    """Where tasks write the rows of one table, and in which form; it is sent to them.

    ``fragments`` become part of the table, and so do the ``images`` of a merge if the table does not change
    meanwhile. ``rows`` are files that are read again when the table is written.
    """

    entity: Entity
    ref: TableRef
    form: Form
    overwrite: bool = False
    image_sizes: ImageSizes = IMAGE_SIZES


@dataclass(frozen=True, slots=True)
class Written:
    """The result of one task: its files, or what is wrong with its rows.

    ``loose`` names a file beside the fragments. It has all columns, or only those that set rules
    look at, where they cannot be read from the fragments.
    """

    partition: int
    rows: int = 0
    fragments: tuple[Any, ...] = ()
    loose: str | None = None
    bad: tuple[Bad, ...] = ()
    bad_total: int = 0
    rejected: str | None = None
    """The file with all bad rows, where the caller wants them."""
    unfilled: int = 0
    """How many vectors are left to be made from their texts."""
    any_made: bool = False
    """Whether an id was made for some row."""
    cut: Mapping[str, int] = field(default_factory=dict)
    """By `Type.property`: how many values were finer than they are stored."""
    replaced: Any = field(default=None, compare=False)
    """The addresses of the rows that images replace."""
    job: str | None = None
    """The job whose mark protects the files (``storage/locks/write_marks.py``)."""


class TaskFiles:
    """The files of one task for one table, while it writes them."""

    def __init__(self, destination: Destination) -> None:
        self.destination = destination
        self.rows = 0
        self._loose = LooseFile(destination.ref)
        self._images: TaskImages | None = None
        self._fragments: _Fragments | None = None

    def add(self, batch: pa.RecordBatch, *, named: bool = True) -> None:
        """Write judged rows; those of images wait until enough have come together.

        ``named``: a row that is there may have the id of one of them.
        """
        if not batch.num_rows:
            return
        self.rows += batch.num_rows
        destination = self.destination
        if destination.form == "rows":
            self._loose.add(batch)
        elif destination.form == "images":
            if self._images is None:
                self._images = TaskImages(
                    destination.ref, destination.entity, self._loose, destination.image_sizes
                )
            entity = destination.entity
            takes = isinstance(entity, EdgeType) and entity.identity is not None
            self._images.add(batch, named=named or takes)
        else:
            if destination.entity.blob_properties:
                # The columns of set rules cannot be read from a file with blobs.
                self._loose.add(batch.select(narrow_columns(destination.entity)))
            if self._fragments is None:
                self._fragments = _Fragments(destination)
            self._fragments.add(batch)

    @property
    def held(self) -> int:
        """How many bytes of rows wait to be written."""
        return 0 if self._images is None else self._images.held

    def flush(self) -> None:
        """Write the rows that wait."""
        if self._images is not None:
            self._images.write()

    def close(self, partition: int, *, named: int, unfilled: int = 0) -> Written:
        """Finish the files and describe them; ``named`` of the rows had ids of their own.

        Of a merge, rows that lost to a later one of the same task are not among them.
        """
        self.flush()
        if self._fragments is not None:
            self._fragments.close()
        self._loose.close()
        return Written(
            partition,
            self.rows - (0 if self._images is None else self._images.lost),
            tuple(self._written),
            self._loose.name,
            unfilled=unfilled,
            any_made=named < self.rows,
            replaced=None if self._images is None else self._images.replaced,
        )

    @property
    def _written(self) -> list[Any]:
        fragments = [] if self._fragments is None else self._fragments.written
        return fragments if self._images is None else self._images.fragments

    def discard(self) -> None:
        """Remove what was written so far; nothing can be added any more."""
        if self._fragments is not None:
            self._fragments.abandon()
        with contextlib.suppress(OmniGraphError):
            self._loose.close()
        discard_files(self.destination.ref, self._written, [self._loose.name])


def discard_files(ref: TableRef, fragments: Iterable[Any], loose: Iterable[str | None]) -> None:
    """Remove the files of a task, except those that a version of the table names."""
    remove_loose_files(ref, [name for name in loose if name is not None], fragments)


class _Fragments:
    """Writes rows as fragments while they come: Lance pulls rows, so it works in a thread of its own."""

    def __init__(self, destination: Destination) -> None:
        self.destination = destination
        self.written: list[Any] = []
        self._failure: BaseException | None = None
        self._has_all = False
        self._waiting: queue.Queue[pa.RecordBatch | None] = queue.Queue(WAITING_BATCHES)
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def add(self, batch: pa.RecordBatch) -> None:
        """Hand rows to the thread; raise what it failed with."""
        if self._failure is not None:
            self.close()
        self._waiting.put(batch)

    def close(self) -> None:
        """Wait until all rows are written, or raise what went wrong."""
        self.abandon()
        if self._failure is not None:
            raise self._failure

    def abandon(self) -> None:
        """Wait until the thread has ended."""
        if self._thread.is_alive():
            self._waiting.put(None)
            self._thread.join()

    def _write(self) -> None:
        try:
            table = open_table(self.destination.ref)
            stored = stored_rows(self.destination.entity, table.schema, self._batches())
            reader = pa.RecordBatchReader.from_batches(table.schema, stored)
            mode: Literal["append", "overwrite"] = (
                "overwrite" if self.destination.overwrite else "append"
            )
            self.written = write_fragments(table, reader, mode=mode)
        except BaseException as error:  # noqa: BLE001 - raised again where rows come from
            self._failure = error
            # The caller that adds rows must not wait for a thread that has stopped taking them.
            for _ in self._batches():
                pass

    def _batches(self) -> Iterator[pa.RecordBatch]:
        while not self._has_all:
            batch = self._waiting.get()
            if batch is None:
                self._has_all = True
            else:
                yield batch
