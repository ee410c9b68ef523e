"""Source text with positions, and the helpers that both languages share."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable
from typing import NoReturn, TypeVar

from omnigraph.errors import ParseError, SourceError
from omnigraph.spans import Span

Failure = TypeVar("Failure", bound=SourceError)

ESCAPES = {'"': '"', "\\": "\\", "n": "\n", "r": "\r", "t": "\t"}


class Source:
    """A text, with the line starts that turn offsets into lines and columns."""

    def __init__(self, text: str, filename: str | None = None) -> None:
        self.text = text
        self.filename = filename
        self._line_starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def span(self, start: int, end: int) -> Span:
        """A span inside the text, widened to one character where it would be empty."""
        if not 0 <= start < end <= len(self.text):
            size = len(self.text)
            start = max(0, min(start, size - 1))
            end = max(start + 1, min(end, size))
        line = bisect.bisect_right(self._line_starts, start)
        return Span(start, end, line, start - self._line_starts[line - 1] + 1)

    def error(
        self,
        kind: type[Failure],
        message: str,
        span: Span | None,
        hint: str | None = None,
        **details: object,
    ) -> Failure:
        """Make an error of this source, with the text for its underline."""
        return kind(
            message, span=span, source=self.text, filename=self.filename, hint=hint, **details
        )

    def fail(self, message: str, span: Span | None, hint: str | None = None) -> NoReturn:
        """Raise a ParseError of this source."""
        raise self.error(ParseError, message, span, hint)


def unescape(source: Source, raw: str, start: int) -> str:
    """The value of a double-quoted token that begins at `start`; an unknown escape is an error."""
    if "\\" not in raw:
        return raw[1:-1]
    out: list[str] = []
    at = 1
    while at < len(raw) - 1:
        char = raw[at]
        if char != "\\":
            out.append(char)
            at += 1
            continue
        escape = raw[at + 1]
        if escape not in ESCAPES:
            source.fail(
                f"unknown escape `\\{escape}` in a string",
                source.span(start + at, start + at + 2),
                'the escapes are \\" \\\\ \\n \\r \\t; a regex `\\d` is written "\\\\d"',
            )
        out.append(ESCAPES[escape])
        at += 2
    return "".join(out)


def escape(text: str) -> str:
    """The double-quoted literal that reads back as `text`."""
    table = {value: f"\\{key}" for key, value in ESCAPES.items()}
    return '"' + "".join(table.get(char, char) for char in text) + '"'


def one_of(words: Iterable[str]) -> str:
    """`a`, `b` or `c`: for messages that list what is allowed."""
    quoted = sorted(set(words))
    if len(quoted) < 2:
        return "".join(quoted)
    return f"{', '.join(quoted[:-1])} or {quoted[-1]}"
