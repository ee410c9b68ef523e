"""Read blobs: what is known of one without opening it, ranges of its bytes, or all of them."""

from __future__ import annotations

import contextlib
import hashlib
import io
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from omnigraph.errors import StorageError
from omnigraph.storage.filters import Condition, filter_expression
from omnigraph.storage.tables.blobs.blob_columns import BlobPlaces
from omnigraph.storage.tables.table import Table
from omnigraph.storage.tables.table_errors import lance_errors

INLINE = 0
EXTERNAL = 3

Reading = Callable[[], AbstractContextManager[None]]

PIECE_BYTES = 4 << 20
"""The most of a blob that is ever held in memory at once."""


@dataclass(frozen=True, slots=True)
class BlobFacts:
    """A blob without its bytes. ``size`` and ``etag`` are None for an external one.

    The ETag names the place of the bytes: the data file, whose name is unique and which never changes,
    and the row in it. Equal ETags mean equal bytes. A row that is written again (an update of another
    property, compaction) gets another one.
    """

    size: int | None
    external_uri: str | None = None
    etag: str | None = None


@dataclass(frozen=True, slots=True)
class FoundRow:
    """A row by its address, with the facts about one of its blobs; None where that is null."""

    address: int
    facts: BlobFacts | None


def find_blob(table: Table, column: str, entity_id: str) -> FoundRow | None:
    """The row of an entity and the facts about its blob; None where there is no such row.

    No file of a blob is opened.
    """
    where = filter_expression(table.schema, [Condition("id", "=", entity_id)])
    rows = table.read([column], where, with_row_address=True).to_pylist()
    if not rows:
        return None
    address = rows[0]["_rowaddr"]
    return FoundRow(address, blob_facts(BlobPlaces(table), address, column, rows[0][column]))


def blob_facts(
    places: BlobPlaces, address: int, column: str, descriptor: dict[str, Any] | None
) -> BlobFacts | None:
    """Return what Lance's description of a blob says of it; None for none."""
    if descriptor is None:
        return None
    if descriptor["kind"] == EXTERNAL:
        return BlobFacts(None, descriptor["blob_uri"])
    place = places.of(address, column)
    name = f"{place.stem} {place.field} {address & 0xFFFF_FFFF}"
    return BlobFacts(descriptor["size"], etag=hashlib.sha256(name.encode()).hexdigest()[:32])


def read_at(table: Table, column: str, addresses: Sequence[int]) -> list[bytes | None]:
    """The bytes of the blobs of rows, in the order asked for; external ones are fetched too."""
    if not addresses:
        return []
    with lance_errors(f"reading blobs {column} of {table.ref}"):
        pairs = table.dataset.read_blobs(column, addresses=list(addresses), preserve_order=True)
    if len(pairs) != len(addresses):
        raise StorageError(
            f"{table.ref} has only {len(pairs)} of the {len(addresses)} blobs asked for; "
            "reopen the graph and repeat the read"
        )
    return [data for _, data in pairs]


def open_blob(
    table: Table, column: str, address: int, reading: Reading = contextlib.nullcontext
) -> BlobStream:
    """The bytes of a managed blob as a readable, seekable binary stream.

    Every read happens inside a context made by ``reading``, which may say more about a storage error.
    """
    with lance_errors(f"opening a blob {column} of {table.ref}"):
        files = table.dataset.take_blobs(column, addresses=[address])
    if len(files) != 1 or files[0] is None:
        raise StorageError(f"{table.ref} has no such row any more; reopen the graph")
    return BlobStream(files[0], f"reading a blob {column} of {table.ref}", reading)


class BlobStream(io.RawIOBase):
    """The bytes of one blob. What is asked for is read, at most ``PIECE_BYTES`` at a time."""

    def __init__(self, file: Any, doing: str, reading: Reading) -> None:
        super().__init__()
        self._reading = reading
        self._file = file
        self._doing = doing
        self._at = 0
        self.size: int = file.size()

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the place of the next byte that is read."""
        self._check_open()
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Go to a byte; beyond the end nothing is read."""
        self._check_open()
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.size}.get(whence)
        if start is None:
            raise ValueError(f"whence is {whence}; give 0, 1 or 2")
        if start + offset < 0:
            raise ValueError(f"there is no byte {start + offset} to go to")
        self._at = start + offset
        return self._at

    def readinto(self, buffer: Any, /) -> int:
        """Read into a buffer, up to one piece; 0 at the end."""
        view = memoryview(buffer).cast("B")
        data = self._next(len(view))
        view[: len(data)] = data
        return len(data)

    def read(self, size: int | None = -1, /) -> bytes:
        """Read as many bytes as asked for, or all that are left; fewer only at the end."""
        left = max(0, self.size - self._at)
        wanted = left if size is None or size < 0 else min(size, left)
        if wanted <= PIECE_BYTES:
            return self._next(wanted)
        whole = bytearray(wanted)
        view, filled = memoryview(whole), 0
        while filled < wanted:
            data = self._next(wanted - filled)
            view[filled : filled + len(data)] = data
            filled += len(data)
        return bytes(whole)

    def readall(self) -> bytes:
        """Read all that is left, in pieces as large as may be."""
        return self.read()

    def _next(self, wanted: int) -> bytes:
        self._check_open()
        wanted = min(wanted, PIECE_BYTES, max(0, self.size - self._at))
        if not wanted:
            return b""
        with self._reading(), lance_errors(self._doing):
            data: bytes = self._file.read_range(self._at, wanted)
        if len(data) != wanted:
            raise StorageError(f"{self._doing} failed: a file is shorter than it was; restore it")
        self._at += wanted
        return data

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("the blob is closed; open it again")

    def close(self) -> None:
        """Free what the stream holds."""
        if not self.closed:
            self._file.close()
        super().close()
