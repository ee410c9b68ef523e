"""An answer as text: JSON, JSON lines, CSV, a table, or a list of names and values.

Each rendering comes in pieces that end in a newline, so that a large answer is never one text.
"""

from __future__ import annotations

import csv
import enum
import io
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from omnigraph.display.text import SEPARATOR, cell_text, fitted, padded, printable, width_of

if TYPE_CHECKING:
    from omnigraph.manifest.snapshot import Target


class Format(enum.StrEnum):
    """How a result is written."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"
    KV = "kv"


NO_ROWS = "(no rows)"

_ROWS_A_PIECE = 8_192


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

    def values(
        self, start: int = 0, length: int | None = None, *, js_safe: bool = False
    ) -> list[Sequence[Any]]:
        """JSON values by column, of all rows or of some of them."""
        ...

    def to_json(self, js_safe: bool = False) -> dict[str, Any]:
        """The whole answer as plain data."""
        ...


def render(
    answer: Answer, format: Format, *, ascii_only: bool = False, width: int | None = None
) -> Iterator[str]:
    """The result in a format.

    ``ascii_only`` escapes other characters in JSON; ``width`` is that of the screen a table must fit.
    """
    match format:
        case Format.JSON:
            yield _dumped(answer.to_json(js_safe=True), ascii_only, indent=2) + "\n"
        case Format.JSONL:
            yield from _jsonl(answer, ascii_only)
        case Format.CSV:
            yield from _csv(answer)
        case Format.KV:
            yield from _kv(answer)
        case Format.TABLE:
            yield table_text(answer, width=width) + "\n"


def summary(answer: Answer) -> str:
    """How many rows came from where."""
    return printable(f"{answer.row_count} rows from {answer.target} via {answer.query_name}")


def _dumped(value: Any, ascii_only: bool, indent: int | None = None) -> str:
    separators = (",", ":") if indent is None else None
    return json.dumps(value, ensure_ascii=ascii_only, indent=indent, separators=separators)


def _jsonl(answer: Answer, ascii_only: bool) -> Iterator[str]:
    metadata = {
        "kind": "metadata",
        "query_name": answer.query_name,
        "target": answer.target.to_json(),
        "row_count": answer.row_count,
    }
    yield _dumped(metadata, ascii_only) + "\n"
    names = answer.columns
    for rows in _pieces(answer, js_safe=True):
        yield "".join(
            _dumped(dict(zip(names, row, strict=True)), ascii_only) + "\n" for row in rows
        )


def _csv(answer: Answer) -> Iterator[str]:
    yield _csv_text([answer.columns])
    for rows in _pieces(answer):
        yield _csv_text([[cell_text(value) for value in row] for row in rows])


def _csv_text(rows: Sequence[Sequence[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _kv(answer: Answer) -> Iterator[str]:
    yield summary(answer) + "\n"
    if not answer.row_count:
        yield NO_ROWS + "\n"
    names = [printable(name) for name in answer.columns]
    number = 0
    for start in range(0, answer.row_count, _ROWS_A_PIECE):
        lines = []
        for row in cells(answer, start, _ROWS_A_PIECE):
            number += 1
            lines.append(f"row {number}")
            lines += [f"{name}: {text}" for name, text in zip(names, row, strict=True)]
        yield "\n".join(lines) + "\n"


def table_text(answer: Answer, *, limit: int | None = None, width: int | None = None) -> str:
    """The rows, or the first of them, below each other, in columns that fit ``width`` if possible."""
    lines = [[printable(name) for name in answer.columns], *cells(answer, 0, limit)]
    natural = [max(map(width_of, column)) for column in zip(*lines, strict=True)]
    widths = fitted(natural, width)
    head, *body = (SEPARATOR.join(map(padded, line, widths)).rstrip() for line in lines)
    rule = "-+-".join("-" * size for size in widths)
    return "\n".join([summary(answer), head, rule, *body])


def cells(answer: Answer, start: int, length: int | None) -> Iterator[Sequence[str]]:
    """The texts of some rows, safe to show on a screen."""
    for row in zip(*answer.values(start, length), strict=True):
        yield [printable(cell_text(value)) for value in row]


def _pieces(answer: Answer, *, js_safe: bool = False) -> Iterator[Iterator[Sequence[Any]]]:
    for start in range(0, answer.row_count, _ROWS_A_PIECE):
        yield zip(*answer.values(start, _ROWS_A_PIECE, js_safe=js_safe), strict=True)
