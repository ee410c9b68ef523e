"""Bad records: collected while reading, then reported with file, line and reason.

The first ones are kept in memory, the others only counted, or written to disk where the caller wants
all of them: memory does not grow with their number.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, TextIO

from omnigraph.errors import BadRequest, ConstraintError, InputError, OmniGraphError
from omnigraph.pipeline.sources.locations import LocalFile
from omnigraph.pipeline.sources.sources import Source
from omnigraph.pipeline.sources.splits import number_lines
from omnigraph.storage.uris import Root
from omnigraph.validate.change_set import SHOWN


@dataclass(frozen=True, slots=True)
class Bad:
    """One bad record. ``violation`` names the declared rule it breaks; None where it cannot be read."""

    source: int
    offset: int
    reason: str
    violation: str | None = None


class BadRecords:
    """The bad records of one load, each with the first thing found wrong with it.

    ``spool`` is the file that gets all of them; without it only the first ones are kept.
    """

    def __init__(self, spool: Path | None = None) -> None:
        self.total = 0
        self.first: list[Bad] = []
        self._spool = spool
        self._out: TextIO | None = None

    def add(self, found: Iterable[Bad]) -> None:
        """Add those of one block; blocks come in the order of the input."""
        ordered = first_of_each(found)
        self.total += len(ordered)
        self.first += ordered[: SHOWN - len(self.first)]
        if ordered and self._spool is not None:
            if self._out is None:
                self._out = self._spool.open("w", encoding="utf-8")
            for bad in ordered:
                self._out.write(json.dumps([bad.source, bad.offset, bad.reason]) + "\n")

    def end(self, sources: Sequence[Source], rejects: Path | None) -> None:
        """Once all is read: if there are bad records, write them to ``rejects`` and raise their error."""
        if self.total:
            if rejects is not None:
                self.write(sources, rejects)
            raise self.error(sources)

    def write(self, sources: Sequence[Source], path: Path) -> None:
        """Write all of them as JSON lines."""
        if self._out is not None:
            self._out.close()
            self._out = None
        spooled = self.first if self._spool is None else _read_spooled(self._spool)
        write_rejects(path, describe_bad(sources, spooled))

    def error(self, sources: Sequence[Source]) -> OmniGraphError:
        """The error of a load that has bad records: the first one leads, `SHOWN` are listed."""
        first = list(describe_bad(sources, self.first))
        more = f" (and {self.total - 1} more bad records)" if self.total > 1 else ""
        message = f"{format_entry(first[0])}{more}"
        details = {"bad_records": {"total": self.total, "first": first}}
        violation = self.first[0].violation
        if violation is not None:
            return ConstraintError(message, violation=violation, **details)
        return InputError(message, **details)


def first_of_each(found: Iterable[Bad]) -> list[Bad]:
    """The first finding of each record, in the order of the input."""
    by_place: dict[tuple[int, int], Bad] = {}
    for bad in found:
        by_place.setdefault((bad.source, bad.offset), bad)
    return [by_place[place] for place in sorted(by_place)]


def describe_bad(sources: Sequence[Source], found: Iterable[Bad]) -> Iterator[dict[str, Any]]:
    """Entries `{source, line, reason}` (or `row`) of bad records that come in the order of the input."""
    for index, group in groupby(found, key=lambda bad: bad.source):
        source = sources[index]
        numbered: Iterator[tuple[int, Bad]]
        if source.unit == "row":
            numbered = ((source.row(bad.offset), bad) for bad in group)
        else:
            numbered = number_lines(source, ((bad.offset, bad) for bad in group))
        for number, bad in numbered:
            yield {"source": source.name, source.unit: number, "reason": bad.reason}


def format_entry(entry: dict[str, Any]) -> str:
    """An entry as the beginning of a message: the file, the line, what is wrong."""
    unit = "line" if "line" in entry else "row"
    return f"{entry['source']}, {unit} {entry[unit]}: {entry['reason']}"


def _read_spooled(path: Path) -> Iterator[Bad]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            yield Bad(*json.loads(line))


def prepare_rejects(path: Path, sources: Sequence[Source], root: Root) -> None:
    """Empty the file for bad records before any work; refuse a file of the graph or of the input."""
    with _writing(path):
        place = path.resolve()
        if root.is_local and place.is_relative_to(Path(root.path).resolve()):
            raise BadRequest(
                f'bad records cannot be written to "{path}", inside the graph; choose another place'
            )
        for source in sources:
            location = source.location
            if path.exists() and isinstance(location, LocalFile) and path.samefile(location.path):
                raise BadRequest(
                    f'bad records cannot be written to "{path}", which this load reads; choose '
                    "another file"
                )
    write_rejects(path, ())


def write_rejects(path: Path, entries: Iterable[dict[str, Any]]) -> None:
    """Write the entries as JSON lines, in place of whatever the file held."""
    with _writing(path), path.open("w", encoding="utf-8") as out:
        out.writelines(json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, RuntimeError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise BadRequest(
            f'bad records cannot be written to "{path}": {why}; choose another file'
        ) from None
