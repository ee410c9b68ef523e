"""Places in source text, and how an error shows one: the line with carets below the fault."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

# A longer line is cut around the fault, and this many characters before it are shown.
_SHOWN_LINE = 200
_SHOWN_BEFORE = 60


class Span(NamedTuple):
    """A range of source text: character offsets, and the 1-based line and column of its start."""

    start: int
    end: int
    line: int
    column: int

    def to_json(self) -> dict[str, int]:
        """Return the public form; offsets count code points."""
        return {"start": self.start, "end": self.end, "line": self.line, "column": self.column}


def underline(source: str, span: Span, filename: str | None) -> Iterator[str]:
    """Yield the lines of a snippet: the place, the source line, and carets below the span."""
    text, at = _clipped_line(source, span)
    width = max(1, min(span.end - span.start, len(text) - at))
    number = str(span.line)
    gutter = " " * len(number)
    lead = "".join("\t" if char == "\t" else " " for char in text[:at])
    yield f"{gutter}--> {filename or '<source>'}:{span.line}:{span.column}"
    yield f"{gutter} |"
    yield f"{number} | {text}"
    yield f"{gutter} | {lead}{'^' * width}"


def _clipped_line(source: str, span: Span) -> tuple[str, int]:
    """Return the line of a span, and where in it the span starts; a long line is cut around it."""
    start = source.rfind("\n", 0, span.start) + 1
    end = source.find("\n", start)
    line = source[start : end if end >= 0 else len(source)].rstrip("\r")
    at = span.start - start
    if len(line) <= _SHOWN_LINE:
        return line, at
    left = max(0, at - _SHOWN_BEFORE)
    right = left + _SHOWN_LINE
    before, after = "…" if left else "", "…" if right < len(line) else ""
    return before + line[left:right] + after, at - left + len(before)
