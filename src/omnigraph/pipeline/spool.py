"""What a load puts on disk for itself, and the directory for it.

A frame may be evaluated more than once and an iterator only once; a file has bytes and offsets. So
records that a program hands over one by one are written down as JSON lines.
"""

from __future__ import annotations

import base64
import errno
import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

from omnigraph.errors import InputError, StorageError
from omnigraph.types import ExternalBlob, blob_to_text

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextmanager
def scratch() -> Iterator[Path]:
    """A directory that lasts as long as the block; a disk without room for it is told as that."""
    try:
        made = tempfile.TemporaryDirectory(prefix="omnigraph-")
    except OSError as error:
        raise _no_scratch(error) from error
    with made as directory:
        try:
            yield Path(directory)
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            raise _no_scratch(error) from error


def _no_scratch(error: OSError) -> StorageError:
    return StorageError(
        f"a load needs room for temporary files: {error.strerror or error}; free some, or set TMPDIR "
        "to a directory that has it"
    )


def spool_records(records: Iterable[Mapping[str, Any]], path: Path) -> None:
    """Write one line per record. Dates, bytes and blobs become the text that loads as them."""
    with path.open("wb") as out:
        for number, record in enumerate(records, start=1):
            out.write(_line(record, number))


def _line(record: Mapping[str, Any], number: int) -> bytes:
    try:
        try:
            return _COMPACT.encode(dict(record)).encode() + b"\n"
        except UnicodeEncodeError:
            return _ESCAPED.encode(dict(record)).encode() + b"\n"
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"record {number} cannot be written as JSON: {error}; use strings, numbers, booleans, "
            "dates, bytes, lists and dicts",
            record=number,
        ) from None


def _plain(value: object) -> Any:
    """The JSON form of a Python value that JSON has no word for."""
    if isinstance(value, date):  # a datetime is one too
        return value.isoformat()
    if isinstance(value, bytes | bytearray | memoryview):
        return "base64:" + base64.b64encode(value).decode()
    if isinstance(value, ExternalBlob):
        return blob_to_text(value)
    if isinstance(value, Mapping):
        return dict(value)
    # NumPy and its kin know their own plain form.
    tolist = getattr(value, "tolist", None)
    if callable(tolist):
        return tolist()
    raise TypeError(f"a Python {type(value).__name__} has no JSON form")


_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_plain)
# A lone surrogate has no bytes; escaped, it reaches the reader, which can say where it stands.
_ESCAPED = json.JSONEncoder(separators=(",", ":"), default=_plain)
