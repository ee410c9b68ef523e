"""Where bytes lie and how they are read: files, objects in a store, memory; plain or compressed.

A location is a small value that is pickled to worker processes and opened there. One in a store carries the
endpoint and credentials that it was found with, as addresses of tables do, because a worker may have
another environment. A failure to read is raised as an error that names the source.
"""

from __future__ import annotations

import contextlib
import gzip
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import pyarrow as pa

from omnigraph.errors import BadRequest, InputError, OmniGraphError
from omnigraph.storage.objects.output_files import Compression

if TYPE_CHECKING:
    from obstore.store import ObjectStore

    from omnigraph.storage.uris import Root

_STORE_BUFFER = 8 << 20


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A file on this machine."""

    path: str

    def size(self) -> int:
        """The length in bytes."""
        return Path(self.path).stat().st_size

    def open(self) -> BinaryIO:
        """Open the bytes from the first on; the stream is seekable."""
        return Path(self.path).open("rb")


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object in a bucket, and the options that it is reached with."""

    bucket: Root
    key: str
    options: Mapping[str, str] = field(compare=False, repr=False)

    @property
    def name(self) -> str:
        """The address."""
        return f"{self.bucket}/{self.key}"

    def size(self) -> int:
        """The length in bytes."""
        import obstore

        return obstore.head(self.store(), self.key)["size"]

    def open(self) -> BinaryIO:
        """Open the bytes from the first on; the stream is seekable."""
        import obstore

        reader = obstore.open_reader(self.store(), self.key, buffer_size=_STORE_BUFFER)
        return cast("BinaryIO", _ObjectReader(reader))

    def store(self) -> ObjectStore:
        """Open the bucket."""
        from omnigraph.storage.objects.stores import open_bucket

        return open_bucket(self.bucket, given=self.options)


@dataclass(frozen=True, slots=True)
class InMemory:
    """Bytes that the caller passed in."""

    data: bytes = field(repr=False)

    def size(self) -> int:
        """The length in bytes."""
        return len(self.data)

    def open(self) -> BinaryIO:
        """Open the bytes from the first on; the stream is seekable."""
        return io.BytesIO(self.data)


Location = LocalFile | StoredObject | InMemory


class _ObjectReader(io.RawIOBase):
    """An obstore reader with the interface of a Python file."""

    def __init__(self, reader: Any) -> None:
        super().__init__()
        self._reader = reader

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        # obstore takes None, not -1, for "the rest".
        return bytes(self._reader.read(None if size is None or size < 0 else size))

    def readinto(self, buffer: Any, /) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return int(self._reader.seek(offset, whence))

    def tell(self) -> int:
        return int(self._reader.tell())


@contextlib.contextmanager
def open_plain(
    location: Location, compression: Compression | None, name: str
) -> Iterator[BinaryIO]:
    """Open the uncompressed bytes of a location; failures inside the block name the source.

    The stream is seekable only where the location is not compressed.
    """
    with readable(name, compression), location.open() as stream:
        if compression is not None and location.size() == 0:
            raise InputError(
                f'"{name}" is empty, and so not {compression} data; check that it is whole',
                source=name,
            )
        if compression is None:
            yield stream
        elif compression == "gzip":
            with gzip.GzipFile(fileobj=stream) as plain:
                yield cast("BinaryIO", plain)
        else:
            import pyarrow as pa

            # It closes the stream it reads from, which nothing else uses.
            with pa.CompressedInputStream(pa.PythonFile(stream, mode="r"), compression) as plain:
                yield plain


@contextlib.contextmanager
def readable(name: str, compression: Compression | None = None) -> Iterator[None]:
    """Turn what the block raises while it reads a source into an error that names the source."""
    try:
        yield
    except OmniGraphError:
        raise
    except FileNotFoundError:
        raise BadRequest(f'there is no "{name}" to read; check the path', source=name) from None
    except IsADirectoryError:
        raise BadRequest(f'"{name}" is a directory, not a file', source=name) from None
    except PermissionError:
        raise BadRequest(
            f'"{name}" cannot be read: permission denied; check its permissions', source=name
        ) from None
    except Exception as error:
        if _is_store_failure(error):
            from omnigraph.storage.objects.store_errors import translate
            from omnigraph.storage.store_kinds.known import shown_cause

            raise translate(error, "read", name, "its store") from shown_cause(error)
        # Those of Arrow are of many kinds; a damaged file may show as a type it does not have.
        known = isinstance(error, OSError | EOFError | ValueError | pa.ArrowException)
        if not known and not _is_zlib(error):
            raise
        what = f"as {compression} data " if compression else ""
        cause = str(error).split("\n", 1)[0]
        raise InputError(
            f'"{name}" cannot be read {what}to its end: {cause}; check that it is whole',
            source=name,
        ) from error


def _is_store_failure(error: Exception) -> bool:
    return type(error).__module__.startswith("obstore")


def _is_zlib(error: Exception) -> bool:
    return type(error).__module__ == "zlib"
