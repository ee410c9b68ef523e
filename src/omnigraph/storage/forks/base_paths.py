"""Base paths in a file of a Lance manifest: the places where a fork finds the files of its parents.

A fork does not copy the files of the version it was made from. Its manifests (pylance 14) name their places
as absolute addresses, in field 18, so they are wrong once the whole table lies somewhere else. The file of a
manifest, from its end:

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
from omnigraph.storage.lance_format.protobuf import bytes_field, raw_fields

_MAGIC: Final = b"LANC"
_FOOTER: Final = struct.Struct("<QHH4s")
_LENGTH: Final = struct.Struct("<I")
_BASE_PATH: Final = 18
"""The field of a manifest that holds one base path."""
_PATH: Final = 4
"""The field of a base path that holds the address."""


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
    return file[:begin] + _LENGTH.pack(len(changed)) + changed + file[-_FOOTER.size :]


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
    if len(file) < _FOOTER.size:
        raise _unreadable()
    begin, _, _, magic = _FOOTER.unpack(file[-_FOOTER.size :])
    start = begin + _LENGTH.size
    if magic != _MAGIC or start > len(file) - _FOOTER.size:
        raise _unreadable()
    (length,) = _LENGTH.unpack(file[begin:start])
    if start + length + _FOOTER.size != len(file):
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
