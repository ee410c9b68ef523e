"""Files that are written piece by piece: packed as their names say, or to an object store.

A new object appears when it is complete.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import PurePath
from typing import IO, TYPE_CHECKING, Any, Literal, Self, cast

from omnigraph.errors import BadRequest, OmniGraphError
from omnigraph.storage.objects.store_errors import translate
from omnigraph.storage.objects.stores import open_bucket
from omnigraph.storage.store_kinds.known import kind_of, shown_cause
from omnigraph.storage.uris import Root, split_address

if TYPE_CHECKING:
    from omnigraph.storage.store_kinds.store_kind import StoreOptions


Compression = Literal["gzip", "zstd"]

_SUFFIXES: dict[str, Compression] = {".gz": "gzip", ".zst": "zstd"}
_GZIP_LEVEL = 6


def compression_of(name: str) -> Compression | None:
    """How a file is compressed, by its name."""
    return _SUFFIXES.get(PurePath(name).suffix.lower())


class _Sink:
    """What the packers of libraries write to: a function that takes the packed bytes."""

    closed = False

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write
        self._written = 0

    def write(self, piece: Any) -> int:
        data = bytes(piece)
        self._write(data)
        self._written += len(data)
        return len(data)

    def flush(self) -> None:
        """Nothing is kept back."""

    def tell(self) -> int:
        return self._written

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def close(self) -> None:
        """What the bytes are written to is not ours to close."""


def packer(compression: Compression, write: Callable[[bytes], object]) -> IO[bytes]:
    """A file to write to, which hands on packed bytes; closing it hands on the last of them.

    The same bytes are packed the same way at any time, and under any name.
    """
    sink = _Sink(write)
    if compression == "gzip":
        packed = gzip.GzipFile("", "wb", _GZIP_LEVEL, cast("IO[bytes]", sink), mtime=0)
        return cast("IO[bytes]", packed)
    import pyarrow as pa

    return cast("IO[bytes]", pa.CompressedOutputStream(pa.PythonFile(sink, mode="w"), compression))


PART_BYTES = 8 << 20
"""The bytes of a part, at least: a store takes 10,000 of them, so the largest object has 80 GB."""


class ObjectFile:
    """One object that is being written. Until ``end``, readers see the object before it, if there is one."""

    def __init__(self, address: str, options: StoreOptions | None = None) -> None:
        root = Root.parse(address, options)
        if not root.path or address.endswith("/"):
            kind = kind_of(root.canonical)
            assert kind is not None
            raise BadRequest(f'"{address}" names no object; write {kind.example("key")}')
        self.address = root.canonical
        self._bucket, self._key = split_address(self.address, options)
        self._file: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.end(complete=kind is None)

    def write(self, piece: bytes | memoryview) -> None:
        """Write a piece."""
        try:
            self._opened().write(memoryview(piece).cast("B"))  # obstore takes no other buffers
        except Exception as error:  # noqa: BLE001 - it is raised as ours
            raise self._failed(error) from shown_cause(error)

    def end(self, *, complete: bool) -> None:
        """Make the object visible, or drop what was written of it."""
        try:
            if complete:
                self._opened().close()
            elif self._file is not None:
                # Leaving the block with an error takes the parts back that are in the store already.
                self._file.__exit__(KeyboardInterrupt, None, None)
        except Exception as error:  # noqa: BLE001 - it is raised as ours
            if complete:
                raise self._failed(error) from shown_cause(error)

    def _opened(self) -> Any:
        if self._file is None:
            import obstore

            bucket = open_bucket(self._bucket)
            self._file = obstore.open_writer(bucket, self._key, buffer_size=PART_BYTES)
        return self._file

    def _failed(self, error: Exception) -> OmniGraphError:
        if isinstance(error, OmniGraphError):
            return error
        return translate(error, "write", self._key, str(self._bucket))
