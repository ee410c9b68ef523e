"""Where an export goes: a file or object that appears when it is complete, or a stream of the caller."""

from __future__ import annotations

import io
import os
import shutil
from abc import abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Self
from uuid import uuid4

from omnigraph.errors import BadRequest, StorageError
from omnigraph.storage import full_disk
from omnigraph.storage.objects.output_files import Compression, ObjectFile, compression_of, packer
from omnigraph.storage.store_kinds.known import STORE_KINDS, store_address
from omnigraph.storage.store_kinds.store_kind import StoreOptions
from omnigraph.types import shown_place

Out = str | os.PathLike[str] | IO[bytes] | IO[str]
"""A path, an `s3://` address, or a file that is open for writing bytes or text."""


class ExportOutput:
    """Takes pieces of UTF-8 text that end where a character ends, and counts their bytes."""

    takes_text = False
    """Whether it is a file of the caller's for text."""

    def __init__(self) -> None:
        self.bytes_written = 0

    def write(self, piece: bytes | memoryview) -> None:
        """Write a piece."""
        self._write(piece)
        self.bytes_written += len(piece)

    @abstractmethod
    def _write(self, piece: bytes | memoryview) -> None: ...

    def _end(self, *, complete: bool) -> None:
        """Make what was written visible, or leave nothing behind, as far as that is up to us."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._end(complete=kind is None)


def output_to(
    out: Out, *, durable: bool = False, options: StoreOptions | None = None
) -> ExportOutput:
    """Return the output for a path, an address in a store or an open file; refuse anything else.

    What goes to a name that ends in `.gz` or `.zst` is packed that way.

    ``durable``: a new file is on disk, with its name, before it counts as complete. ``options``
    win over the environment's.
    """
    if isinstance(out, str) and (address := store_address(out)) is not None:
        return _packed(address, _ObjectOutput(address, options))
    if isinstance(out, str | os.PathLike):
        name = os.fspath(out)
        return _packed(name, _file_output(name, durable=durable))
    if not callable(getattr(out, "write", None)):
        raise BadRequest(
            f"an export cannot be written to a Python {type(out).__name__}; give a path, or a file that "
            "is open for writing"
        )
    return _StreamOutput(out)


def _packed(name: str, output: ExportOutput) -> ExportOutput:
    compression = compression_of(name)
    return output if compression is None else _PackedOutput(output, compression)


def _file_output(name: object, *, durable: bool) -> ExportOutput:
    if not isinstance(name, str) or not _is_path(name):
        raise BadRequest(f"{name!r} is no path of a file to export to")
    if "://" in name:
        stores = " or ".join(kind.example("key") for kind in STORE_KINDS)
        raise BadRequest(
            f"an export is written to a local file or to {stores}, not to {shown_place(name)}; "
            "export to a file and copy it, or pass a file that is open for writing"
        )
    path = Path(name)
    if path.is_dir():
        raise BadRequest(
            f"{shown_place(name)} is a directory; give the path of a file, or the format of the files of "
            'types that it gets: format="csv", "parquet" or "arrow" (--format)'
        )
    if not path.parent.is_dir():
        raise BadRequest(f"there is no directory {shown_place(str(path.parent))}; create it first")
    if path.exists() and not path.is_file():
        return _DeviceOutput(path)
    # A link stays, and the file it leads to is replaced.
    return _FileOutput(path.resolve(), durable=durable)


def _is_path(name: str) -> bool:
    """Whether a file can have a name: half a surrogate pair, for one, has no bytes."""
    try:
        return bool(name) and b"\0" not in os.fsencode(name)
    except UnicodeEncodeError:
        return False


class _FileOutput(ExportOutput):
    """A file under a temporary name beside the one it gets in the end."""

    def __init__(self, path: Path, *, durable: bool = False) -> None:
        super().__init__()
        self._path = path
        self._durable = durable
        self._part = path.with_name(f".{path.name[:100]}.{uuid4().hex}.part")
        self._file: IO[bytes] | None = None

    def _write(self, piece: bytes | memoryview) -> None:
        try:
            self._opened().write(piece)
        except OSError as error:
            raise _failed(self._path, error) from error

    def _opened(self) -> IO[bytes]:
        if self._file is None:
            self._file = self._part.open("xb")
        return self._file

    def _end(self, *, complete: bool) -> None:
        try:
            if complete:
                self._close(self._opened())
                with suppress(FileNotFoundError):
                    shutil.copymode(self._path, self._part)
                self._part.replace(self._path)
                if self._durable:
                    _sync_directory(self._path.parent)
        except OSError as error:
            raise _failed(self._path, error) from error
        finally:
            if self._file is not None:
                with suppress(OSError):
                    self._file.close()
                self._part.unlink(missing_ok=True)

    def _close(self, file: IO[bytes]) -> None:
        if self._durable:
            file.flush()
            os.fsync(file.fileno())
        file.close()


class _PackedOutput(ExportOutput):
    """Packs what is written to another output; the bytes counted are those before that."""

    def __init__(self, output: ExportOutput, compression: Compression) -> None:
        super().__init__()
        self._output = output
        self._packer = packer(compression, output._write)  # noqa: SLF001 - an output as this one is

    def _write(self, piece: bytes | memoryview) -> None:
        self._packer.write(piece)

    def _end(self, *, complete: bool) -> None:
        whole = False
        try:
            if complete:
                self._packer.close()
            whole = complete
        finally:
            self._output._end(complete=whole)  # noqa: SLF001


def _sync_directory(path: Path) -> None:
    """Have the names in a directory on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class _ObjectOutput(ExportOutput):
    """An object in a store, which is there when it is complete."""

    def __init__(self, address: str, options: StoreOptions | None) -> None:
        super().__init__()
        self._object = ObjectFile(address, options)

    def _write(self, piece: bytes | memoryview) -> None:
        self._object.write(piece)

    def _end(self, *, complete: bool) -> None:
        self._object.end(complete=complete)


class _DeviceOutput(ExportOutput):
    """A pipe or a device, which cannot be replaced by a file."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._file: IO[bytes] | None = None

    def _write(self, piece: bytes | memoryview) -> None:
        try:
            if self._file is None:
                self._file = self._path.open("wb")
            self._file.write(piece)
        except OSError as error:
            raise _failed(self._path, error) from error

    def _end(self, *, complete: bool) -> None:
        try:
            if self._file is not None:
                self._file.close()
        except OSError as error:
            if complete:
                raise _failed(self._path, error) from error


def _failed(path: Path, error: OSError) -> StorageError:
    if full_disk.is_full(error):
        return full_disk.output_full(f"cannot write {shown_place(str(path))}", path)
    reason = error.strerror or str(error)
    return StorageError(f"cannot write {shown_place(str(path))}: {reason}; choose another place")


class _StreamOutput(ExportOutput):
    """A file of the caller, of bytes or of text. It stays open, and its errors are the caller's."""

    def __init__(self, stream: Any) -> None:
        super().__init__()
        self._stream = stream
        self._is_text = isinstance(stream, io.TextIOBase)
        if not isinstance(stream, io.IOBase):
            self._is_text = _takes_text(stream)
        self.takes_text = self._is_text

    def _write(self, piece: bytes | memoryview) -> None:
        if self._is_text:
            self._stream.write(str(piece, "utf-8"))
        elif isinstance(self._stream, io.RawIOBase):
            _write_raw(self._stream, memoryview(piece))
        else:
            self._stream.write(bytes(piece))


def _takes_text(stream: Any) -> bool:
    """Ask a file that does not say what it takes."""
    try:
        stream.write(b"")
    except TypeError:
        return True
    return False


def _write_raw(stream: io.RawIOBase, piece: memoryview) -> None:
    """Write to a file without a buffer, which may take a part at a time."""
    while len(piece):
        piece = piece[stream.write(piece) or 0 :]
