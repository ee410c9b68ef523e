"""The ends of Lance's files, of data and of manifests: where what they hold begins, and whether it can.

A reader believes the footer: one with a wrong count makes Lance (pylance 14) ask for more memory than there
is, which ends the process. So a file of doubtful origin is looked at here first. The end of a file of data:

    offset 0    where the metadata of the columns begins      u64
           8    where the table of their offsets begins       u64
           16   where the table of global buffers begins      u64
           24   number of global buffers                      u32
           28   number of columns                             u32
           32   version of the format, major and minor        u16, u16
           36   "LANC"

A fork does not copy the files of the version it was made from. Its manifests name their places as absolute
addresses, the base paths, in field 18, so they are wrong once the whole table lies somewhere else. The file of
a manifest, from its end:

    4 bytes  "LANC"
    4 bytes  version of the format
    8 bytes  where the manifest begins
             a length of 4 bytes and the message of the manifest, up to here

What stands before the manifest (its transaction, its indexes) is found by distances from the beginning
of the file, so only the message changes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from omnigraph.errors import StorageError
from omnigraph.storage.lance_format.protobuf import (
    MessageField,
    bytes_field,
    number_field,
    raw_fields,
)

FOOTER_BYTES: Final = 40
_FOOTER: Final = struct.Struct("<QQQIIHH4s")
_MAGIC: Final = b"LANC"
_ENTRY_BYTES: Final = 16  # an offset and a length
_PADDING: Final = 64


def footer_fault(tail: bytes, size: int) -> str | None:
    """What is wrong with the last ``FOOTER_BYTES`` of a Lance file of that size; None if nothing is."""
    if size < FOOTER_BYTES or len(tail) < FOOTER_BYTES:
        return f"it has only {size} bytes"
    columns, offsets, buffers, buffer_count, column_count, _, _, magic = _FOOTER.unpack(
        tail[-FOOTER_BYTES:]
    )
    if magic != _MAGIC:
        return "it does not end as a Lance file does"
    end = size - FOOTER_BYTES
    if not columns <= offsets <= buffers <= end:
        return "its footer points outside of it"
    slack = (
        buffers - offsets - column_count * _ENTRY_BYTES,
        end - buffers - buffer_count * _ENTRY_BYTES,
    )
    if not all(0 <= one < _PADDING for one in slack):
        return "its footer counts something else than it holds"
    return None


_MANIFEST_END: Final = struct.Struct("<QHH4s")
_LENGTH: Final = struct.Struct("<I")
_BASE_PATH: Final = 18
"""The field of a manifest that holds one base path."""
_PATH: Final = 4
"""The field of a base path that holds the address."""
_FRAGMENTS: Final = 2
"""The field of a manifest that holds one fragment."""
_FILES: Final = 2
"""The field of a fragment that holds one file of rows."""
_FILE_PATH: Final = 1
"""The field of such a file with its name in the directory of data."""
_FILE_SIZE: Final = 6
"""The field of such a file with its size."""


def with_base_paths(file: bytes, change: Callable[[str], str]) -> bytes | None:
    """Return the file of a manifest with every base path changed; None if that changes nothing."""
    begin, message = _message(file)
    changed = b"".join(
        bytes_field(_BASE_PATH, _with_path(field.value, change))
        if field.number == _BASE_PATH and isinstance(field.value, bytes)
        else field.raw
        for field in raw_fields(message)
    )
    if changed == message:
        return None
    return file[:begin] + _LENGTH.pack(len(changed)) + changed + file[-_MANIFEST_END.size :]


def with_data_files(file: bytes, change: Callable[[str], tuple[str, int] | None]) -> bytes | None:
    """Return the file of a manifest in which fragments name other files of rows; None if that changes nothing.

    ``change`` is asked for the new name and the size of a file; None leaves it. The new file must have the same
    columns and rows at the same places.
    """
    begin, message = _message(file)

    def of_file(field: MessageField) -> bytes:
        if field.number != _FILES or not isinstance(field.value, bytes):
            return field.raw
        inner = list(raw_fields(field.value))
        path = next((one.value for one in inner if one.number == _FILE_PATH), b"")
        new = change(path.decode()) if isinstance(path, bytes) else None
        if new is None:
            return field.raw
        changed = {
            _FILE_PATH: bytes_field(_FILE_PATH, new[0].encode()),
            _FILE_SIZE: number_field(_FILE_SIZE, new[1]),
        }
        return bytes_field(_FILES, b"".join(changed.get(one.number, one.raw) for one in inner))

    changed = b"".join(
        bytes_field(_FRAGMENTS, b"".join(map(of_file, raw_fields(field.value))))
        if field.number == _FRAGMENTS and isinstance(field.value, bytes)
        else field.raw
        for field in raw_fields(message)
    )
    if changed == message:
        return None
    return file[:begin] + _LENGTH.pack(len(changed)) + changed + file[-_MANIFEST_END.size :]


def base_paths(file: bytes) -> list[str]:
    """Return the base paths that the file of a manifest names."""
    found: list[str] = []

    def note(path: str) -> str:
        found.append(path)
        return path

    with_base_paths(file, note)
    return found


def _message(file: bytes) -> tuple[int, bytes]:
    """Return where the manifest begins in its file, and its message."""
    if len(file) < _MANIFEST_END.size:
        raise _unreadable()
    begin, _, _, magic = _MANIFEST_END.unpack(file[-_MANIFEST_END.size :])
    start = begin + _LENGTH.size
    if magic != _MAGIC or start > len(file) - _MANIFEST_END.size:
        raise _unreadable()
    (length,) = _LENGTH.unpack(file[begin:start])
    if start + length + _MANIFEST_END.size != len(file):
        raise _unreadable()
    return begin, file[start : start + length]


def _with_path(base: bytes, change: Callable[[str], str]) -> bytes:
    """Return the message of a base path with its address changed."""
    return b"".join(
        bytes_field(_PATH, change(field.value.decode()).encode())
        if field.number == _PATH and isinstance(field.value, bytes)
        else field.raw
        for field in raw_fields(base)
    )


def _unreadable() -> StorageError:
    return StorageError("the file is no Lance manifest that this omnigraph can read")
