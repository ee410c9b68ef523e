"""New images of rows: what a merge writes, and whether that still fits once the table has moved on.

An image is the new content of a row, written under the row id of the row it replaces. A merge looks up
which of its rows replace a row of the table, and writes all of them as fragments that keep the row ids of
the replaced rows. A load that lost its race does not write them again: as long as the table has the same
ids under the same row ids, only the addresses of the replaced rows are looked up again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.lang.schema.catalog import Entity
from omnigraph.pipeline.load_options import LoadMode
from omnigraph.pipeline.rows.stored_rows import stored_rows
from omnigraph.storage.tables.blobs.blob_columns import blob_columns
from omnigraph.storage.tables.loose_files import data_files, read_data_file
from omnigraph.storage.tables.row_places import LookUpSizes, find_places
from omnigraph.storage.tables.staging import (
    MAX_ROWS_PER_FILE,
    Staged,
    row_ids_of,
    stage_append_fragments,
    stage_overwrite_fragments,
    write_fragments,
)
from omnigraph.storage.tables.table import Table, open_table
from omnigraph.storage.tables.table_ref import TableRef

WriteForm = Literal["append", "overwrite"]
"""What fragments that replace no row are written as."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageSizes(LookUpSizes):
    """How much the writer of images does at a time; no size changes what is stored."""

    held_bytes: int = 128 << 20
    """A writer holds this many bytes of its rows, to sort them by the row ids that they keep."""


IMAGE_SIZES: Final = ImageSizes()


class Images:
    """Rows of a merge on their way into fragments: those that replace a row first, sorted.

    ``table``: the table, where it is open already.
    """

    def __init__(
        self,
        ref: TableRef,
        entity: Entity,
        sizes: ImageSizes = IMAGE_SIZES,
        table: Table | None = None,
    ) -> None:
        self.ref = ref
        self.sizes = sizes
        self.entity = entity
        self.fragments: list[Any] = []
        self._replaced: list[pa.Array] = []
        self._waiting: list[pa.RecordBatch] = []
        self._table = table
        self._any_named = False

    def add(self, batch: pa.RecordBatch, *, named: bool = True) -> None:
        """Add rows; they are written once enough have come together.

        ``named``: a row of the table may have the id of one of them.
        """
        self._waiting.append(batch)
        self._any_named = self._any_named or named
        rows = sum(one.num_rows for one in self._waiting)
        if rows >= MAX_ROWS_PER_FILE or self.held >= self.sizes.held_bytes:
            self.write()

    @property
    def held(self) -> int:
        """How many bytes of rows wait to be written."""
        return sum(one.nbytes for one in self._waiting)

    def write(self) -> None:
        """Write the rows added since the last time."""
        if not self._waiting:
            return
        if self._table is None:
            self._table = open_table(self.ref)
        rows = self.assign_ids(self._table, pa.concat_batches(self._waiting))
        asked = rows.column("id") if self._any_named else rows.column("id").slice(0, 0)
        self._waiting, self._any_named = [], False
        stored = find_places(self._table, asked, self.sizes)
        place = pc.index_in(rows.column("id"), stored.column("id").combine_chunks())
        row_ids = _once(stored.column("_rowid").combine_chunks().take(place))
        order = pc.sort_indices(pa.table({"id": row_ids}), [("id", "ascending")])  # nulls last
        # Ascending row ids are stored as a few ranges, and new rows, which have none yet, come last as Lance
        # wants it.
        rows, row_ids = rows.take(order), row_ids.take(order)
        self.note(rows)
        schema = self._table.schema
        reader = pa.RecordBatchReader.from_batches(schema, stored_rows(self.entity, schema, [rows]))
        self.fragments += write_fragments(self._table, reader, row_ids)
        self._replaced.append(stored.column("_rowaddr").combine_chunks().take(place.drop_null()))

    def assign_ids(self, table: Table, rows: pa.RecordBatch) -> pa.RecordBatch:  # noqa: ARG002
        """The rows that are to be stored, under their ids."""
        return rows

    def note(self, rows: pa.RecordBatch) -> None:
        """Called with the rows in the order of the fragments, before they are written."""

    @property
    def replaced(self) -> npt.NDArray[np.uint64]:
        """The addresses of the rows that were found."""
        return np.concatenate([np.empty(0, np.uint64), *(one.to_numpy() for one in self._replaced)])


def _once(row_ids: pa.Array) -> pa.Array:
    """Let only one row keep a repeated row id, because Lance refuses repeats. Such images are not used."""
    replacing = row_ids.drop_null()
    if len(pc.unique(replacing)) == len(replacing):
        return row_ids
    is_first = np.zeros(len(row_ids), np.bool_)
    places = np.flatnonzero(row_ids.is_valid())
    is_first[places[np.unique(replacing.to_numpy(), return_index=True)[1]]] = True
    return pc.if_else(pa.array(is_first), row_ids, pa.scalar(None, row_ids.type))


def match_again(
    table: Table, fragments: Sequence[Any], sizes: ImageSizes = IMAGE_SIZES
) -> npt.NDArray[np.uint64] | None:
    """The addresses of the rows that images replace now; None when the images do not fit any more.

    They fit as long as the table still has the replaced ids under the same row ids, and none of the
    others. Fragments with blobs cannot be read again as a file, and never fit.
    """
    if blob_columns(table.schema):
        return None
    found: list[Any] = [np.empty(0, np.uint64)]
    for fragment in fragments:
        ids = _ids_of(table.ref, fragment)
        their_ids = row_ids_of(fragment)
        stored = find_places(table, ids, sizes)
        place = pc.index_in(ids, stored.column("id").combine_chunks())
        row_ids = stored.column("_rowid").combine_chunks().take(place)
        if not row_ids.slice(0, len(their_ids)).equals(their_ids) or row_ids.null_count != len(
            ids
        ) - len(their_ids):
            return None
        addresses = stored.column("_rowaddr").combine_chunks().take(place.slice(0, len(their_ids)))
        found.append(addresses.to_numpy())
    return np.concatenate(found)


def _ids_of(ref: TableRef, fragment: Any) -> pa.Array:
    batches = [b for name in data_files([fragment]) for b in read_data_file(ref, name, ["id"])]
    return pa.Table.from_batches(batches).column("id").combine_chunks()


class KeptFragments:
    """Fragments that were written for a table, kept for the next attempt.

    Files lie in the directory of the table's branch, so they can be used for that very branch only, at
    any version. ``form`` is what they were written as.
    """

    def __init__(self) -> None:
        self._known: tuple[tuple[str, str | None, str | None], str] | None = None
        self._fragments: Sequence[Any] = ()

    def of(self, table: Table, form: str) -> Sequence[Any] | None:
        """What was written for this table in this form; None where it must be written."""
        return self._fragments if self._known == (_lineage(table.ref), form) else None

    def keep(self, table: Table, form: str, fragments: Sequence[Any]) -> Sequence[Any]:
        """Remember what was written."""
        self._known = (_lineage(table.ref), form)
        self._fragments = fragments
        return fragments

    def stage(
        self, table: Table, mode: LoadMode, write: Callable[[WriteForm], Sequence[Any]]
    ) -> Staged:
        """Stage the rows of an append or an overwrite, which ``write`` writes unless they are kept."""
        form: WriteForm = "overwrite" if mode == "overwrite" else "append"
        fragments = self.of(table, form)
        if fragments is None:
            fragments = self.keep(table, form, write(form))
        if form == "overwrite":
            return stage_overwrite_fragments(table, fragments, table.schema)
        return stage_append_fragments(table, fragments)

    def drop(self) -> None:
        """Forget the fragments, because the rows have changed."""
        self._known, self._fragments = None, ()


def _lineage(ref: TableRef) -> tuple[str, str | None, str | None]:
    return ref.uri, ref.branch, ref.branch_id


def same_lineage(one: TableRef, other: TableRef) -> bool:
    """Whether two addresses mean the very same branch of a table, at any version."""
    return _lineage(one) == _lineage(other)
