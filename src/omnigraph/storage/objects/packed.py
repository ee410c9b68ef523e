"""Files that are packed, as their names say: which way, and how one is written."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import PurePath
from typing import IO, Any, Literal, cast

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
