"""What a task does with the rows of one table that it has judged: it writes them, and reports the files.

`TaskFiles` takes rows as they come and writes them in the form that the plan of the load chose. The
files belong to the table's directory, but to no version of it: the driver makes them part of one, or they
are removed. A task that runs twice leaves files that no version names; cleanup removes them.

A task of a merge looks up which rows of the pinned version its rows replace, and writes them as fragments that
keep those rows' ids (`TaskImages`). Edges without an id take one there (``edge_ids``). The load uses
the fragments as they are, if the table still has the same rows, no id came twice, and the edges of
all tasks together take the same ids. Otherwise they are read again as rows (`written_reader`).
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import OmniGraphError
from omnigraph.lang.schema.catalog import EdgeType, Entity
from omnigraph.pipeline.load_options import LoadMode
from omnigraph.pipeline.rows.row_images import IMAGE_SIZES, Images, ImageSizes
from omnigraph.pipeline.rows.row_rules import narrow_columns
from omnigraph.pipeline.rows.stored_rows import stored_rows
from omnigraph.runner.local_runner import LocalRunner
from omnigraph.runner.runner import distinct
from omnigraph.storage.tables.loose_files import LooseFile, remove_loose_files
from omnigraph.storage.tables.staging import write_fragments
from omnigraph.storage.tables.table import Table, open_table
from omnigraph.storage.tables.table_ref import TableRef
from omnigraph.validate import rules
from omnigraph.validate.change_set import MADE, ORDER
from omnigraph.validate.committed import KEY_LIMIT, filter_by_ends

Form = Literal["fragments", "images", "rows"]

WAITING_BATCHES = 2
"""How many batches wait for the thread that writes them."""


TAKEN = "0taken"
"""The column with the id that an edge took; `id` beside it is the one that was made for it."""
OWN = "0own"


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


def form_of(entity: Entity, mode: LoadMode, *, is_final: bool, named: bool = True) -> Form:
    """Return what tasks write of a type: the most direct form that can still become the right rows.

    ``is_final``: the table has a place for the rows already, they are whole, and none will be left out.
    ``named``: a row may have the id of one that is there.
    """
    # Vectors are made by the commit, each text once, which tasks that run again could not.
    if not is_final or entity.embeds:
        return "rows"
    takes = isinstance(entity, EdgeType) and entity.identity is not None
    merges = mode == "merge" and named
    if (merges or takes) and entity.blob_properties:
        # They may have to be read again, which files of a table with blobs cannot be.
        return "rows"
    return "images" if merges else "fragments"


@dataclass(frozen=True, slots=True)
class WrittenFiles:
    """The files that one task wrote for one table.

    ``loose`` names a file beside the fragments. Of ``rows`` it has all columns. Beside ``images``, and
    fragments with blobs, it has the columns that set rules look at; beside other fragments the order of
    their rows, unless they follow each other from ``first_order`` on.
    """

    partition: int
    rows: int = 0
    fragments: tuple[Any, ...] = ()
    loose: str | None = None
    first_order: int | None = None
    named: int = 0
    """How many rows have an id that another row may have, too."""
    unfilled: int = 0
    """How many vectors are left to be made from their texts."""
    replaced: Any = field(default=None, compare=False)
    """The addresses of the rows that images replace."""


class TaskFiles:
    """The files of one task for one table, while it writes them."""

    def __init__(self, destination: Destination) -> None:
        self.destination = destination
        self.rows = 0
        self._loose = LooseFile(destination.ref)
        self._orders = _Orders(self._loose)
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
            else:
                self._orders.add(batch)
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

    def close(self, partition: int, *, named: int, unfilled: int = 0) -> WrittenFiles:
        """Finish the files and describe them; ``named`` of the rows had ids of their own.

        Of a merge, rows that lost to a later one of the same task are not among them.
        """
        self.flush()
        if self._fragments is not None:
            self._fragments.close()
        self._loose.close()
        return WrittenFiles(
            partition,
            self.rows - (0 if self._images is None else self._images.lost),
            tuple(self._written),
            self._loose.name,
            self._orders.first if self._loose.name is None else None,
            named=named,
            unfilled=unfilled,
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


class _Orders:
    """The order of rows in fragments, which do not store it.

    As long as the rows follow each other in the input, and their ids were made, only the first is noted.
    From then on all are in the file, with those before.
    """

    def __init__(self, loose: LooseFile) -> None:
        self.first: int | None = None
        self._loose = loose
        self._next = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Note the order of more rows."""
        columns = [name for name in (ORDER, MADE) if name in batch.schema.names]
        if self._loose.name is None:
            orders = batch.column(ORDER).to_numpy()
            if self.first is None:
                self.first = self._next = int(orders[0])
            expected = np.arange(self._next, self._next + len(orders))
            all_made = MADE not in columns or pc.all(batch.column(MADE)).as_py()
            # The usual case costs no file: rows in the order of the input, with ids that were made.
            if all_made and np.array_equal(orders, expected):
                self._next += len(orders)
                return
            if self._next > self.first:
                self._loose.add(implied_orders(self.first, self._next - self.first, columns))
        self._loose.add(batch.select(columns))


def implied_orders(first: int, rows: int, columns: Iterable[str]) -> pa.RecordBatch:
    """Return the order of rows that follow each other, and that their ids were made."""
    orders = pa.array(np.arange(first, first + rows, dtype=np.int64))
    values = {ORDER: orders, MADE: pa.array(np.ones(rows, np.bool_))}
    return pa.RecordBatch.from_pydict({name: values[name] for name in columns})


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


class TaskImages(Images):
    """The images of one task. What set rules look at is also in ``noted``, in the fragments' order."""

    def __init__(self, ref: TableRef, entity: Entity, noted: LooseFile, sizes: ImageSizes) -> None:
        super().__init__(ref, entity, sizes)
        self.noted = noted
        self.columns = narrow_columns(entity)
        self.lost = 0
        """How many rows were left out because a later one has their id."""

    def assign_ids(self, table: Table, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Give edges without an id that of the stored edge with the same identity.

        Rows of all other types have their ids for good, so only the last one of each id is written.
        """
        taken = _taken_ids(table, self.entity, rows)
        if taken is None:
            last = _last_of_each(rows)
            self.lost += rows.num_rows - last.num_rows
            return last
        own = rows.column("id")
        rows = rows.append_column(TAKEN, taken).append_column(OWN, own)
        return with_ids(rows, pc.coalesce(taken, own))

    def note(self, rows: pa.RecordBatch) -> None:
        """Write the columns that set rules look at, with the ids as they were read."""
        columns = self.columns
        if TAKEN in rows.schema.names:
            rows, columns = with_ids(rows, rows.column(OWN)), [*columns, TAKEN]
        self.noted.add(rows.select(columns))


def _last_of_each(rows: pa.RecordBatch) -> pa.RecordBatch:
    if len(pc.unique(rows.column("id"))) == rows.num_rows:
        return rows
    orders = pa.table({"id": rows.column("id"), ORDER: rows.column(ORDER)})
    last = orders.group_by("id").aggregate([(ORDER, "max")]).column(f"{ORDER}_max")
    return rows.filter(pc.is_in(rows.column(ORDER), last.combine_chunks()))


def with_ids(rows: pa.RecordBatch, ids: pa.Array) -> pa.RecordBatch:
    """Return the rows with other ids."""
    at = rows.schema.get_field_index("id")
    return rows.set_column(at, rows.schema.field(at), ids)


def _taken_ids(table: Table, entity: Entity, rows: pa.RecordBatch) -> pa.Array | None:
    """Return for each row the id that it takes from a stored edge; None for types without identity."""
    if not isinstance(entity, EdgeType) or entity.identity is None:
        return None
    if not pc.any(rows.column(MADE)).as_py():
        return pa.nulls(rows.num_rows, pa.utf8())
    runner = LocalRunner()
    try:
        pending = runner.frame(pa.Table.from_batches([rows.select(narrow_columns(entity))]))
        where = filter_by_ends(entity, lambda side: distinct(runner, pending, side, KEY_LIMIT))
        held = runner.scan(table.ref, ["id", *entity.identity_columns], where)
        text = rules.identified_edges(entity.identity, entity.identity_since)
        taken = runner.ask(text, {"pend": pending, "com": held})
    finally:
        runner.close()
    place = pc.index_in(rows.column(ORDER), taken.column(ORDER).combine_chunks())
    return taken.column("id").combine_chunks().take(place)
