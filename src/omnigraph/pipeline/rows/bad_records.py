"""Bad records: collected while a load reads and judges, then reported with file, line and reason.

The first ones are kept in memory, the others only counted, or written to disk where the caller wants
all of them: there memory grows by two numbers for each. The file of rejects that gets them as JSON lines is on
this machine, or an object in S3.
"""

from __future__ import annotations

import heapq
import json
import os
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from omnigraph.errors import BadRequest, ConstraintError, InputError, OmniGraphError
from omnigraph.pipeline.formats.reject_lines import is_reject
from omnigraph.pipeline.formats.typed_batch import Cuts, order_of
from omnigraph.pipeline.sources.locations import LocalFile, StoredObject
from omnigraph.pipeline.sources.sources import InputSource
from omnigraph.pipeline.sources.splits import number_lines, numbered_texts
from omnigraph.storage.objects.output_files import ObjectFile
from omnigraph.storage.store_kinds.known import store_address
from omnigraph.storage.store_kinds.store_kind import StoreOptions
from omnigraph.storage.uris import Root
from omnigraph.validate.change_set import SHOWN

_NOTHING = {"record": None}


@dataclass(frozen=True, slots=True)
class Bad:
    """One bad record. ``violation`` names the declared rule it breaks; None where it cannot be read."""

    source: int
    offset: int
    reason: str
    violation: str | None = None
    property: str | None = None
    """The property that is wrong, or several, separated by commas; None where no one is to blame."""
    record: str | None = None
    """What a reject says of a row, as JSON. The record of a line is read again from its source."""
    unknown: str | None = None
    """The type or property that it names and the schema lacks: `node:Ship`, `node:Ship.built`."""

    def plain_reason(self) -> str:
        """What is wrong, without any value of the record: what is kept for ever says no more than that."""
        if self.violation is not None:
            return f"it breaks a rule of its type ({self.violation})"
        return "it cannot be read" if self.property is None else "a value does not fit its property"

    def place(self) -> tuple[int, int]:
        """Where it stands in the input; places are in the order of the input."""
        return self.source, self.offset


class Mark(NamedTuple):
    """How many bad records there were at some moment."""

    total: int
    first: tuple[Bad, ...]
    spooled: int
    end: int


class RejectedRecords:
    """The bad records of one load, each with the first thing found wrong with it.

    ``spool`` is the file that gets all of them; without it only the first ones are kept, ``shown`` of them.
    ``cut`` counts values of records, good ones too, that were given finer than they are stored.
    """

    def __init__(self, spool: Path | None = None, shown: int = SHOWN) -> None:
        self.total = 0
        self.first: list[Bad] = []
        self.cut = Cuts()
        self._spool = spool
        self._shown = shown
        self._end = 0
        self._places = array("q")
        self._starts = array("q")

    def add(self, found: Iterable[Bad]) -> None:
        """Add some. No record may be added twice, in two calls."""
        ordered = first_of_each(found)
        self.total += len(ordered)
        known = self.first
        if len(known) < self._shown or (ordered and ordered[0].place() < known[-1].place()):
            self.first = heapq.nsmallest(self._shown, [*known, *ordered], key=Bad.place)
        if not ordered or self._spool is None:
            return
        with self._spool.open("ab") as out:
            for bad in ordered:
                self._places.append(order_of(bad.source, bad.offset))
                self._starts.append(self._end)
                self._end += out.write(json.dumps(astuple(bad)).encode() + b"\n")

    def mark(self) -> Mark:
        """Note how many there are, for ``back_to``."""
        return Mark(self.total, tuple(self.first), len(self._places), self._end)

    def back_to(self, mark: Mark) -> None:
        """Forget those that were added since the mark was made."""
        self.total, self.first = mark.total, list(mark.first)
        del self._places[mark.spooled :], self._starts[mark.spooled :]
        if self._spool is not None and self._end > mark.end:
            os.truncate(self._spool, mark.end)
        self._end = mark.end

    def end(self, sources: Sequence[InputSource], rejects: Rejects | None) -> None:
        """Once all is judged: if there are bad records, write them to ``rejects`` and raise their error."""
        if self.total:
            if rejects is not None:
                self.write(sources, rejects)
            raise self.error(sources)

    def write(self, sources: Sequence[InputSource], path: Rejects) -> None:
        """Write all of them as JSON lines, in the order of the input."""
        found = self.first if self._spool is None or not self._end else self._spooled(self._spool)
        write_rejects(path, describe_bad(sources, found, whole=True))

    def _spooled(self, spool: Path) -> Iterator[Bad]:
        starts = np.frombuffer(self._starts, np.int64)
        with spool.open("rb") as file:
            for start in starts[np.argsort(np.frombuffer(self._places, np.int64))].tolist():
                file.seek(start)
                yield Bad(*json.loads(file.readline()))

    def report(self, sources: Sequence[InputSource], *, plain: bool = False) -> dict[str, Any]:
        """How many there are, and the first of them; with ``plain`` reasons no value is in it.

        A plain one is kept for ever, and therefore short, however many the caller wants to see.
        """
        first = self.first
        if plain:
            # The record may have named the property, too: one that its type does not have.
            first = [
                replace(bad, reason=bad.plain_reason(), property=None) for bad in first[:SHOWN]
            ]
        return {"total": self.total, "first": list(describe_bad(sources, first))}

    def error(self, sources: Sequence[InputSource]) -> OmniGraphError:
        """The error of a load that has bad records: the first one leads, the first ones are listed."""
        report = self.report(sources)
        more = f" (and {self.total - 1} more bad records)" if self.total > 1 else ""
        message = f"{format_entry(report['first'][0])}{more}"
        unknown = sorted({bad.unknown for bad in self.first if bad.unknown is not None})
        details = {"bad_records": report, **({"unknown": unknown} if unknown else {})}
        violation = self.first[0].violation
        if violation is not None:
            return ConstraintError(message, violation=violation, **details)
        return InputError(message, **details)


def first_of_each(found: Iterable[Bad]) -> list[Bad]:
    """The first finding of each record, in the order of the input."""
    by_place: dict[tuple[int, int], Bad] = {}
    for bad in found:
        by_place.setdefault(bad.place(), bad)
    return [by_place[place] for place in sorted(by_place)]


def describe_bad(
    sources: Sequence[InputSource], found: Iterable[Bad], *, whole: bool = False
) -> Iterator[dict[str, Any]]:
    """Entries `{source, line, reason, property}` (or `row`) of bad records in the order of the input.

    ``whole`` entries have the `record` too, as `formats/reject_lines.py` says.
    """
    for index, group in groupby(found, key=lambda bad: bad.source):
        source = sources[index]
        numbered: Iterator[tuple[int, Bad, Any]]
        if source.unit == "row":
            numbered = ((source.row(bad.offset), bad, _row(bad)) for bad in group)
        else:
            places = ((bad.offset, bad) for bad in group)
            if whole:
                texts = numbered_texts(source, places)
                numbered = ((number, bad, _record(text)) for number, bad, text in texts)
            else:
                numbered = ((number, bad, None) for number, bad in number_lines(source, places))
        for number, bad, record in numbered:
            entry = {"source": source.name, source.unit: number, "reason": bad.reason}
            entry["property"] = bad.property
            yield {**entry, **record} if whole else entry


def _row(bad: Bad) -> dict[str, Any]:
    # JSON has no NaN and no infinite numbers: they are written as texts.
    return _NOTHING if bad.record is None else json.loads(bad.record, parse_constant=str)


def _record(line: bytes) -> dict[str, Any]:
    """The record of a line, or its text where that is not JSON or says more than its values."""
    text = line.decode(errors="replace")
    try:
        record = json.loads(text, object_pairs_hook=_named_once)
        json.dumps(record, allow_nan=False)
    except (ValueError, RecursionError):
        return {"record": text}
    if isinstance(record, dict) and is_reject(record):
        return {name: record[name] for name in ("type", "edge", "record") if name in record}
    return {"record": record}


def _named_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice in one object")
    return found


def format_entry(entry: dict[str, Any]) -> str:
    """An entry as the beginning of a message: the file, the line, what is wrong."""
    unit = "line" if "line" in entry else "row"
    return f"{entry['source']}, {unit} {entry[unit]}: {entry['reason']}"


@dataclass(frozen=True, slots=True)
class RejectsObject:
    """An object in a store for bad records, and how it is reached."""

    address: str
    options: StoreOptions | None = field(repr=False)

    def __str__(self) -> str:
        return self.address


Rejects = Path | RejectsObject
"""Where bad records are written to."""


def rejects_file(given: str | Path, store: StoreOptions | None) -> Rejects:
    """The file for bad records that a caller names: a path, or an address in a store."""
    address = store_address(given) if isinstance(given, str) else None
    return Path(given) if address is None else RejectsObject(address, store)


def prepare_rejects(path: Rejects, sources: Sequence[InputSource], root: Root) -> None:
    """Empty the file for bad records before any work; refuse a file of the graph or of the input."""
    if isinstance(path, RejectsObject):
        _refuse_object(path, sources, root)
    else:
        _refuse_path(path, sources, root)
    write_rejects(path, ())


def _refuse_object(place: RejectsObject, sources: Sequence[InputSource], root: Root) -> None:
    at = Root.parse(place.address)
    inside = (at.scheme, at.bucket) == (root.scheme, root.bucket) and f"{at.path}/".startswith(
        f"{root.path}/" if root.path else ""
    )
    if not root.is_local and inside:
        raise _refused(place, "inside the graph; choose another place")
    for source in sources:
        location = source.location
        if isinstance(location, StoredObject) and location.name == at.canonical:
            raise _refused(place, "which this load reads; choose another file")


def _refuse_path(path: Path, sources: Sequence[InputSource], root: Root) -> None:
    with _writing(path):
        place = path.resolve()
        if root.is_local and place.is_relative_to(Path(root.path).resolve()):
            raise _refused(path, "inside the graph; choose another place")
        for source in sources:
            location = source.location
            if path.exists() and isinstance(location, LocalFile) and path.samefile(location.path):
                raise _refused(path, "which this load reads; choose another file")


def _refused(place: Rejects, why: str) -> BadRequest:
    return BadRequest(f'bad records cannot be written to "{place}", {why}')


def write_rejects(path: Rejects, entries: Iterable[dict[str, Any]]) -> None:
    """Write the entries as JSON lines, in place of whatever the file held."""
    lines = (f"{_json_line(entry)}\n" for entry in entries)
    if isinstance(path, Path):
        with _writing(path), path.open("w", encoding="utf-8") as out:
            out.writelines(lines)
        return
    with ObjectFile(path.address, path.options) as made:
        for line in lines:
            made.write(line.encode())


def _json_line(entry: dict[str, Any]) -> str:
    text = json.dumps(entry, ensure_ascii=False)
    # Half of a surrogate pair, which a bad record may hold, is no UTF-8 and stays an escape.
    return text if text.isascii() or _is_unicode(text) else json.dumps(entry)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, RuntimeError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise BadRequest(
            f'bad records cannot be written to "{path}": {why}; choose another file'
        ) from None
