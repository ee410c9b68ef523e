"""Write rows whose blobs are bytes, addresses, or files to take in.

Whether Lance stores an address or takes in what lies there is fixed for a whole write. So rows are
written apart: those with nothing to take in, and those with something. A row that has both an address
to store and a file to take in is written twice, and its columns are put together from the two files:
a fragment may have several data files, each with some of its columns.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from omnigraph.errors import StorageError
from omnigraph.storage.scratch import scratch_directory
from omnigraph.storage.tables.blobs.columns import as_blobs, blob_columns
from omnigraph.storage.tables.blobs.record_files import OpenedRows
from omnigraph.storage.tables.lance_import import lance_module

if TYPE_CHECKING:
    import pyarrow as pa

Rows: TypeAlias = "pa.Table | pa.RecordBatchReader"

INGEST_BATCH_ROWS = 256
"""Lance holds the small values (up to 64 KiB) of a batch that it takes in: at most 16 MiB of them."""
_NOTHING_TO_TAKE_IN = -1
_UNUSED_FIELD = -2  # how Lance marks a column of a data file that is not read any more


class WriteRows(Protocol):
    """Writes rows as fragments: ``ingest`` takes in the files behind addresses, else these are stored.

    ``by_rows``: a new file is begun by the number of rows alone, whatever their bytes.
    """

    def __call__(self, rows: Rows, *, ingest: bool, by_rows: bool = False) -> list[Any]:
        """Return the fragments."""


class Written(NamedTuple):
    """Fragments, and the row ids that were given for their rows, in the same order."""

    fragments: list[Any]
    row_ids: pa.Array | None


def write_apart(data: Rows, row_ids: pa.Array | None, write: WriteRows) -> Iterator[Written]:
    """Write all rows, each in the way it needs; ``row_ids`` has one entry per row, or is None."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(data, pa.Table):
        yield from _write_table(data, row_ids, write)
        return
    with scratch_directory() as directory:
        rest = _Rest(data, Path(directory) / "rows.arrow")
        plain = pa.RecordBatchReader.from_batches(data.schema, rest.other_rows())
        fragments = write(plain, ingest=False)
        mask = rest.mask()
        ids = left = None
        if row_ids is not None:
            ids, left = row_ids.filter(pc.invert(mask)), row_ids.filter(mask)
        yield Written(fragments, ids)
        if rest.any:
            yield from _write_table(rest.read(), left, write)


class _Rest:
    """Passes on the rows of a stream that have nothing to take in; keeps the others in a file."""

    def __init__(self, batches: Iterable[pa.RecordBatch], path: Path) -> None:
        self._batches = batches
        self._path = path
        self._masks: list[pa.Array] = []
        self.any = False

    def other_rows(self) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        import pyarrow.compute as pc

        writer = None
        try:
            for batch in self._batches:
                kept = pc.not_equal(_needs(batch), _NOTHING_TO_TAKE_IN)
                self._masks.append(kept)
                if not pc.any(kept, min_count=0).as_py():
                    yield batch
                    continue
                if writer is None:
                    self.any = True
                    writer = pa.ipc.new_file(str(self._path), batch.schema)
                writer.write_batch(batch.filter(kept))
                yield batch.filter(pc.invert(kept))
        finally:
            if writer is not None:
                writer.close()

    def mask(self) -> pa.Array:
        """Which rows of the stream were kept."""
        import pyarrow as pa

        return pa.concat_arrays(self._masks) if self._masks else pa.array([], pa.bool_())

    def read(self) -> pa.Table:
        """The rows that were kept, mapped from their file."""
        import pyarrow as pa

        return pa.ipc.open_file(pa.memory_map(str(self._path))).read_all()


def _write_table(data: pa.Table, row_ids: pa.Array | None, write: WriteRows) -> Iterator[Written]:
    import pyarrow as pa
    import pyarrow.compute as pc

    blobs = blob_columns(data.schema)
    needs = pa.chunked_array([_needs(batch) for batch in data.to_batches()], pa.int64())
    found = sorted(pc.unique(needs).to_pylist())
    for need in found:
        rows, ids = data, row_ids
        if len(found) > 1:
            chosen = pc.equal(needs, need)
            rows = data.filter(chosen)
            ids = None if row_ids is None else row_ids.filter(chosen.combine_chunks())
        if need == _NOTHING_TO_TAKE_IN:
            fragments = write(rows, ingest=False)
        elif need == 0:
            fragments = _take_in(rows, write)
        else:
            named = [name for bit, name in enumerate(blobs) if need >> bit & 1]
            fragments = _write_both_ways(rows, named, write)
        yield Written(fragments, ids)


def _needs(batch: pa.RecordBatch) -> pa.Array:
    """By row: which Blob columns are addresses to store (as bits), if there is something to take in."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    taken_in = np.zeros(batch.num_rows, bool)
    stored = np.zeros(batch.num_rows, np.int64)
    for bit, name in enumerate(blob_columns(batch.schema)):
        storage = batch.column(name).storage
        uris, sizes = (pc.is_valid(pc.struct_field(storage, part)) for part in ("uri", "size"))
        named, sized = (part.to_numpy(zero_copy_only=False) for part in (uris, sizes))
        taken_in |= named & sized
        stored |= (named & ~sized).astype(np.int64) << bit
    return pa.array(np.where(taken_in, stored, _NOTHING_TO_TAKE_IN), pa.int64())


def _take_in(rows: pa.Table, write: WriteRows, *, by_rows: bool = False) -> list[Any]:
    """Write rows and the files behind their addresses, a small batch at a time."""
    import pyarrow as pa

    with OpenedRows(rows, INGEST_BATCH_ROWS) as opened:
        reader = pa.RecordBatchReader.from_batches(rows.schema, opened.batches())
        return write(reader, ingest=True, by_rows=by_rows)


def _write_both_ways(rows: pa.Table, named: list[str], write: WriteRows) -> list[Any]:
    """Write rows of which the columns ``named`` are addresses to store and others have files to take in."""
    others = [name for name in blob_columns(rows.schema) if name not in named]
    first = _take_in(_emptied(rows, named), write, by_rows=True)
    second = write(_emptied(rows, others), ingest=False, by_rows=True)
    places = {rows.schema.get_field_index(name) for name in named}
    for fragment, other in zip(first, second, strict=True):
        if fragment.physical_rows != other.physical_rows:
            raise StorageError("Lance divided the same rows in two ways; repeat the write")
        fragment.files = [
            _only(fragment.files[0], rows.schema, set(range(rows.num_columns)) - places),
            _only(other.files[0], rows.schema, places),
        ]
    return first


def _emptied(rows: pa.Table, names: Iterable[str]) -> pa.Table:
    """The rows with empty bytes in some Blob columns."""
    import pyarrow as pa

    for name in names:
        at = rows.schema.get_field_index(name)
        count = rows.num_rows
        numbers = pa.nulls(count, pa.uint64())
        empty = pa.StructArray.from_arrays(
            [
                pa.array(itertools.repeat(b"", count), pa.large_binary(), size=count),
                pa.nulls(count, pa.utf8()),
                numbers,
                numbers,
            ],
            names=["data", "uri", "position", "size"],
        )
        rows = rows.set_column(at, rows.schema.field(at), as_blobs(empty))
    return rows


def _only(file: Any, schema: pa.Schema, places: set[int]) -> Any:
    """A data file of which only the columns at some places of the schema are read."""
    if len(file.fields) != len(schema.names):
        raise StorageError("Lance wrote a file with other columns than it was given; repeat it")
    return lance_module("fragment").DataFile(
        path=file.path,
        fields=[
            number if place in places else _UNUSED_FIELD for place, number in enumerate(file.fields)
        ],
        column_indices=file.column_indices,
        file_major_version=file.file_major_version,
        file_minor_version=file.file_minor_version,
        file_size_bytes=file.file_size_bytes,
    )
