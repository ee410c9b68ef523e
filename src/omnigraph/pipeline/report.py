"""Bad records: gathered while reading, then told with file, line and reason."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omnigraph.errors import ConstraintError, InputError, OmniGraphError
from omnigraph.pipeline.sources import Source
from omnigraph.pipeline.splits import line_numbers

SHOWN = 20


@dataclass(frozen=True, slots=True)
class Bad:
    """One bad record. `violation` is set where a declared rule is broken, not the record's form."""

    source: int
    offset: int
    reason: str
    violation: str | None = None


class BadRecords:
    """All bad records of one load, each with the first thing found wrong with it."""

    def __init__(self) -> None:
        self._found: dict[tuple[int, int], Bad] = {}

    def add(self, source: int, offset: int, reason: str, violation: str | None = None) -> None:
        """Note one."""
        self._found.setdefault((source, offset), Bad(source, offset, reason, violation))

    def __len__(self) -> int:
        return len(self._found)

    def told(self, sources: Sequence[Source], limit: int | None = None) -> list[dict[str, Any]]:
        """`{source, line, reason}` (or `row`) of each, in the order of the input."""
        chosen = [self._found[place] for place in sorted(self._found)[:limit]]
        numbers = _numbers(sources, chosen)
        return [
            {
                "source": sources[bad.source].name,
                sources[bad.source].unit: numbers[bad.source, bad.offset],
                "reason": bad.reason,
            }
            for bad in chosen
        ]

    def write(self, sources: Sequence[Source], path: Path) -> None:
        """All of them as JSON lines."""
        lines = (json.dumps(entry, ensure_ascii=False) for entry in self.told(sources))
        path.write_text("".join(f"{line}\n" for line in lines), "utf-8")

    def error(self, sources: Sequence[Source]) -> OmniGraphError:
        """The error of a load that has bad records: the first one leads, 20 are listed."""
        first = self.told(sources, SHOWN)
        lead = first[0]
        leading = self._found[min(self._found)]
        unit = sources[leading.source].unit
        more = f" (and {len(self) - 1} more bad records)" if len(self) > 1 else ""
        message = f"{lead['source']}, {unit} {lead[unit]}: {lead['reason']}{more}"
        details = {"bad_records": {"total": len(self), "first": first}}
        if leading.violation is not None:
            return ConstraintError(message, violation=leading.violation, **details)
        return InputError(message, **details)


def _numbers(sources: Sequence[Source], chosen: Sequence[Bad]) -> Mapping[tuple[int, int], int]:
    numbers: dict[tuple[int, int], int] = {}
    for index in {bad.source for bad in chosen}:
        offsets = [bad.offset for bad in chosen if bad.source == index]
        if sources[index].unit == "row":
            numbers |= {(index, offset): offset for offset in offsets}
        else:
            found = line_numbers(sources[index], offsets)
            numbers |= {(index, offset): found[offset] for offset in offsets}
    return numbers
