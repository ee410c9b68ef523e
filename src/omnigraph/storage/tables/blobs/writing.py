"""Write rows whose blobs are bytes, addresses, or files to take in.

Whether Lance stores an address or takes in what lies there is fixed for a whole write. So rows are
written apart: those with nothing to take in, and those with something. A row that has both an address
to store and a file to take in is written twice, and its columns are put together from the two files:
a fragment may have several data files, each with some of its columns.

Lance opens a file by its name, some time after the row was judged. So what it gets is a name that only
this process gives away: that of a file which is already open, and was reached without following a link.
Lance reads the files of a batch before it asks for the batch after the next one; then they are closed.
"""

from __future__ import annotations

import itertools
import os
import shutil
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, TypeAlias

from omnigraph.errors import InputError, StorageError
from omnigraph.storage.local_files import open_real, path_of_record_file
from omnigraph.storage.scratch import scratch_directory
from omnigraph.storage.tables.blobs.blob_columns import as_blobs, blob_columns
from omnigraph.storage.tables.lance_import import lance_module
from omnigraph.types import shown_place

if TYPE_CHECKING:
    import pyarrow as pa


OPEN_FILES = 64
"""How many files a batch may have open; those of two batches are open at the same time."""
_OPEN_BATCHES = 2
_DESCRIPTORS = Path("/proc/self/fd")


class OpenedRows:
    """Rows in small batches, every file that a record named under the name of one that is open.

    As a context manager it closes the files at its end, and raises what was wrong with one of them
    instead of what Lance makes of that.
    """

    def __init__(self, rows: pa.Table, batch_rows: int) -> None:
        self._rows = rows
        self._columns = blob_columns(rows.schema)
        self._batch_rows = min(batch_rows, max(1, OPEN_FILES // len(self._columns)))
        self._opened: deque[_OpenFiles] = deque()
        self._refused: InputError | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, *_: object
    ) -> None:
        while self._opened:
            self._opened.popleft().close()
        if error is not None and self._refused is not None:
            raise self._refused from None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The batches; the files of a batch are open until the one after the next is asked for."""
        for batch in self._rows.to_batches(max_chunksize=self._batch_rows):
            while len(self._opened) >= _OPEN_BATCHES:
                self._opened.popleft().close()
            self._opened.append(_OpenFiles())
            try:
                named = _named_anew(batch, self._columns, self._opened[-1])
            except InputError as refused:
                self._refused = refused
                raise
            yield named


class _OpenFiles:
    """Open files of one batch, each under a name that is used once."""

    def __init__(self) -> None:
        self._directory: Any = None
        self._numbers = itertools.count()
        self._open: list[int] = []

    def name(self, path: str, end: int) -> str:
        """Open the file at a real path, at least ``end`` bytes long; return an address for Lance."""
        try:
            file = open_real(path)
        except (OSError, ValueError) as error:
            raise _changed(path) from error
        self._open.append(file)
        if os.fstat(file).st_size < end:
            raise _changed(path)
        if self._directory is None:
            self._directory = scratch_directory()
        place = Path(self._directory.name) / str(next(self._numbers))
        if _DESCRIPTORS.is_dir():
            place.symlink_to(_DESCRIPTORS / str(file))
        else:
            with os.fdopen(os.dup(file), "rb") as source, place.open("wb") as copy:
                shutil.copyfileobj(source, copy)
        return place.as_uri()

    def close(self) -> None:
        """Take the names away, then close the files: a number may be given to another file."""
        if self._directory is not None:
            self._directory.cleanup()
            self._directory = None
        while self._open:
            os.close(self._open.pop())


def _changed(path: str) -> InputError:
    return InputError(
        f"the file {shown_place(path)} was changed, moved or replaced while it was taken in; nothing was "
        "written, load the records again",
        source=path,
    )


def _named_anew(batch: pa.RecordBatch, columns: list[str], files: _OpenFiles) -> pa.RecordBatch:
    import pyarrow as pa
    import pyarrow.compute as pc

    for column in columns:
        at = batch.schema.get_field_index(column)
        values = batch.column(at).storage
        parts = {part.name: pc.struct_field(values, part.name) for part in values.type}
        uris = parts["uri"].to_pylist()
        named = {row: path for row, uri in enumerate(uris) if (path := path_of_record_file(uri))}
        if not named:
            continue
        for row, path in named.items():
            uris[row] = files.name(path, parts["size"][row].as_py())
        parts["uri"] = pa.array(uris, parts["uri"].type)
        found = pa.StructArray.from_arrays(
            list(parts.values()), fields=list(values.type), mask=values.is_null()
        )
        batch = batch.set_column(at, batch.schema.field(at), as_blobs(found))
    return batch


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


class WrittenFragments(NamedTuple):
    """Fragments, and the row ids that were given for their rows, in the same order."""

    fragments: list[Any]
    row_ids: pa.Array | None


def write_apart(
    data: Rows, row_ids: pa.Array | None, write: WriteRows
) -> Iterator[WrittenFragments]:
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
        yield WrittenFragments(fragments, ids)
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
                apart = pc.not_equal(_needs(batch), _NOTHING_TO_TAKE_IN)
                self._masks.append(apart)
                if not pc.any(apart, min_count=0).as_py():
                    yield batch
                    continue
                if writer is None:
                    self.any = True
                    writer = pa.ipc.new_file(str(self._path), batch.schema)
                writer.write_batch(batch.filter(apart))
                yield batch.filter(pc.invert(apart))
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


def _write_table(
    data: pa.Table, row_ids: pa.Array | None, write: WriteRows
) -> Iterator[WrittenFragments]:
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
        yield WrittenFragments(fragments, ids)


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
