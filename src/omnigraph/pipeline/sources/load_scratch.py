"""The scratch directory of a load, and records of a program written there as JSON lines.

An iterator can be read only once and has no offsets; a file can be read again and in parts. So the
records that a program passes one by one are written to a file first.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any, Final

from omnigraph.errors import InputError, StorageError
from omnigraph.lang.schema.catalog import Catalog, EntityType
from omnigraph.storage import full_disk
from omnigraph.storage.scratch import scratch_directory
from omnigraph.types import BlobAddress, Family
from omnigraph.types.python import record_form


@contextmanager
def scratch() -> Iterator[Path]:
    """A directory that lasts as long as the block; a full disk is reported with what to do about it."""
    try:
        made = scratch_directory()
    except OSError as error:
        raise _no_scratch(error) from error
    with made as directory:
        try:
            yield Path(directory)
        except OSError as error:
            if error.errno != errno.EFBIG and not full_disk.is_full(error):
                raise
            raise _no_scratch(error) from error


def _no_scratch(error: OSError) -> StorageError:
    if full_disk.is_full(error):
        return full_disk.scratch_full("a load needs room for temporary files")
    return StorageError(
        f"a load needs room for temporary files: {error.strerror or error}; free some, or set TMPDIR "
        "to a directory that has it"
    )


def spool_records(
    records: Iterable[Mapping[str, Any]], path: Path, catalog: Catalog | None = None
) -> None:
    """Write one line per record. Dates, bytes and blobs become the text that loads as such a value.

    That text would also fit a String, so with a ``catalog`` such values are refused where the property
    is of another type.
    """
    writer = _Lines(catalog)
    with path.open("wb") as out:
        for number, record in enumerate(records, start=1):
            out.write(writer.line(record, number))


class _Lines:
    """Writes records as lines of JSON."""

    def __init__(self, catalog: Catalog | None) -> None:
        self._catalog = catalog
        self._has_special = False
        self._compact = json.JSONEncoder(
            ensure_ascii=False, separators=(",", ":"), default=self._plain
        )
        # A lone surrogate has no bytes; escaped, it reaches the reader, which can say where it is.
        self._escaped = json.JSONEncoder(separators=(",", ":"), default=self._plain)

    def line(self, record: Mapping[str, Any], number: int) -> bytes:
        self._has_special = False
        try:
            try:
                line = self._compact.encode(dict(record)).encode()
            except UnicodeEncodeError:
                line = self._escaped.encode(dict(record)).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise InputError(
                f"record {number} cannot be written as JSON: {error}; use strings, numbers, "
                "booleans, dates, bytes, lists and dicts",
                record=number,
            ) from None
        if self._has_special and self._catalog is not None:
            _refuse_misplaced(self._catalog, record, number)
        return line + b"\n"

    def _plain(self, value: object) -> Any:
        """The JSON form of a Python value that JSON does not know."""
        self._has_special |= isinstance(value, (*_DATES, *_BYTES))
        return record_form(value)


_DATES: Final = (date,)
_BYTES: Final = (bytes, bytearray, memoryview, BlobAddress)
_TAKEN: Final[dict[Family, tuple[type, ...]]] = {Family.TEMPORAL: _DATES, Family.BLOB: _BYTES}


def _refuse_misplaced(catalog: Catalog, record: Mapping[str, Any], number: int) -> None:
    """Refuse the first date or bytes value in a place that would take its text for something else."""
    entity = _entity(catalog, record)
    data = record.get("data") or {}
    if entity is None or not isinstance(data, Mapping):
        return  # the reader says what is wrong with such a record
    # The ends of an edge may be dates: they are the key text of themselves.
    given: list[tuple[str, str, tuple[type, ...], Any]] = [
        (end, "the id of a node", _DATES, record.get(end)) for end in ("from", "to")
    ]
    given.append(("id", "a string", (), data.get("id")))
    for name, prop in entity.properties.items():
        scalar = prop.type.scalar
        taken = _TAKEN.get(scalar.traits.family, ())
        given.append((f"{name} ({prop.type})", f"a value of {scalar}", taken, data.get(name)))
    for place, wanted, taken, value in given:
        for item in _special_values(value):
            if not isinstance(item, taken):
                raise InputError(
                    f"record {number}: {entity.name}.{place}: expected {wanted}, got a Python "
                    f"{type(item).__name__}; convert it first",
                    record=number,
                )


def _special_values(value: Any) -> Iterator[object]:
    """The dates, bytes and blobs in a value of a record."""
    if isinstance(value, _DATES + _BYTES):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _special_values(item)
    elif callable(getattr(value, "tolist", None)):
        yield from _special_values(value.tolist())


def _entity(catalog: Catalog, record: Mapping[str, Any]) -> EntityType | None:
    node, edge = record.get("type"), record.get("edge")
    if isinstance(node, str):
        return catalog.nodes.get(node)
    return catalog.edge(edge) if isinstance(edge, str) else None
