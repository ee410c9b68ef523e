"""An answer as text for people: its rows in columns that fit a screen."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from omnigraph.manifest.snapshot import Target


MAX_COLUMN_WIDTH = 80
MIN_COLUMN_WIDTH = 8
SEPARATOR = " | "
CUT = "…"

# Parts of one visible character: emoji and several scripts are spelled with them.
_JOINERS = "\u200c\u200d"


class Answer(Protocol):
    """What a rendering needs to know of a query's answer."""

    @property
    def query_name(self) -> str:
        """The query that was run."""
        ...

    @property
    def target(self) -> Target:
        """The state of the graph it was run on."""
        ...

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        ...

    @property
    def row_count(self) -> int:
        """How many rows there are."""
        ...

    def values(self, start: int = 0, length: int | None = None) -> list[Sequence[Any]]:
        """JSON values by column, of all rows or of some of them."""
        ...


def summary(answer: Answer) -> str:
    """How many rows came from where."""
    return summary_text(answer.row_count, answer.target, answer.query_name)


def summary_text(row_count: int, target: Target, query_name: str) -> str:
    """The line above the rows."""
    return printable(f"{row_count} rows from {target} via {query_name}")


def table_text(answer: Answer, *, limit: int | None = None, width: int | None = None) -> str:
    """The rows, or the first of them, below each other, in columns that fit ``width`` if possible."""
    names = [printable(name) for name in answer.columns]
    return f"{summary(answer)}\n{draw_table(names, list(cells(answer, 0, limit)), width)}"


def draw_table(names: Sequence[str], rows: Sequence[Sequence[str]], width: int | None) -> str:
    """The texts in columns under their names; the widest are cut until ``width`` holds them all."""
    lines = [names, *rows]
    natural = [max(map(_width, column)) for column in zip(*lines, strict=True)]
    widths = fitted(natural, width)
    head, *body = (SEPARATOR.join(map(_padded, line, widths)).rstrip() for line in lines)
    rule = "-+-".join("-" * size for size in widths)
    return "\n".join([head, rule, *body])


def _width(text: str) -> int:
    """How many cells of a screen the text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _padded(text: str, width: int) -> str:
    size = _width(text)
    if size > width:
        from rich.cells import set_cell_size

        text = set_cell_size(text, width - 1).rstrip() + CUT
        size = _width(text)
    return text + " " * (width - size)


def fitted(natural: Sequence[int], width: int | None) -> list[int]:
    """The widths of the columns: the widest give way until the screen holds them all."""
    widths = [min(size, MAX_COLUMN_WIDTH) for size in natural]
    if width is None:
        return widths
    room = width - len(SEPARATOR) * (len(widths) - 1)
    for cap in range(max(widths), MIN_COLUMN_WIDTH - 1, -1):
        if sum(min(size, cap) for size in widths) <= room:
            return [min(size, cap) for size in widths]
    return [min(size, MIN_COLUMN_WIDTH) for size in widths]


def cells(answer: Answer, start: int, length: int | None) -> Iterator[Sequence[str]]:
    """The texts of some rows, safe to show on a screen."""
    for row in zip(*answer.values(start, length), strict=True):
        yield [printable(_cell(value)) for value in row]


def _cell(value: Any) -> str:
    """Text as it is, everything else as compact JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def printable(text: str) -> str:
    """The text on one line, without anything that could steer a terminal."""
    return text if text.isprintable() else "".join(map(_spelled, text))


def _spelled(char: str) -> str:
    if char.isprintable() or char in _JOINERS or unicodedata.category(char) == "Zs":
        return char
    return char.encode("unicode_escape").decode("ascii")
