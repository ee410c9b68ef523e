"""Which file each line of a body came from: a server knows the body alone, and calls it `body`."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping
from typing import Any, Final

Document = dict[str, Any]

RECORDS: Final = "<records>"
BYTES: Final = "<bytes>"
_BODY: Final = "body"
_LABEL: Final = r"((?:[a-z]+ error: )?)"
_PLACE: Final = re.compile(_LABEL + r"body, line (\d+)")
_NAMED: Final = re.compile(
    _LABEL + r'((?:the header of )?"body"|body(?=, row | cannot be read as ))'
)


class SentSources:
    """The sources of one body, as they are sent."""

    def __init__(self, *names: str) -> None:
        self._names = list(names)
        self._first_lines = [1] * len(names)

    def begin(self, name: str, line: int) -> None:
        """Note that a source begins at this line of the body; records go on where they were."""
        if self._names and self._names[-1] == name == RECORDS:
            return
        self._names.append(name)
        self._first_lines.append(line)

    def place(self, line: int) -> tuple[str, int]:
        """Return the source of a line of the body, and which line it is there."""
        at = bisect_right(self._first_lines, line) - 1
        return (self._names[at], line - self._first_lines[at] + 1) if at >= 0 else (_BODY, line)

    def told(self, document: Mapping[str, Any]) -> Document:
        """Return an answer, or the body of an error, with the names of the sources in it."""
        shown = dict(document)
        if not self._names:
            return shown
        if isinstance(text := shown.get("error"), str):
            shown["error"] = self._text(text)
        if isinstance(bad := shown.get("bad_records"), dict):
            shown["bad_records"] = {**bad, "first": self._records(bad.get("first"))}
        return shown

    def _text(self, text: str) -> str:
        """Return a message with the name of the source where it begins with that of the body."""
        if (found := _PLACE.match(text)) is not None:
            name, line = self.place(int(found[2]))
            return f"{found[1]}{name}, line {line}{text[found.end() :]}"
        if len(self._names) == 1 and (found := _NAMED.match(text)) is not None:
            return found[1] + found[2].replace(_BODY, self._names[0]) + text[found.end() :]
        return text

    def _records(self, records: object) -> object:
        if not isinstance(records, list):
            return records
        return [self._record(one) if isinstance(one, dict) else one for one in records]

    def _record(self, record: Document) -> Document:
        line = record.get("line")
        if record.get("source") != _BODY:
            return record
        if isinstance(line, int) and line > 0:
            name, line = self.place(line)
            return {**record, "source": name, "line": line}
        return {**record, "source": self._names[0]} if len(self._names) == 1 else record
