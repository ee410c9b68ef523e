"""Rows that name files of this machine, as Lance can take the files in.

Lance opens a file by its name, some time after the row was judged. So what it gets is a name that only
this process gives away: that of a file which is already open, and was reached without following a link.
Lance reads the files of a batch before it asks for the batch after the next one; then they are closed.
"""

from __future__ import annotations

import itertools
import os
import shutil
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from omnigraph.errors import InputError
from omnigraph.storage.local_files import open_real, path_of_record_file
from omnigraph.storage.scratch import scratch_directory
from omnigraph.storage.tables.blobs.columns import as_blobs, blob_columns
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
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
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
