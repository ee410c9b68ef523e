"""The answer of a query in the formats that `--format` names.

Each comes in pieces that end in a newline, so that a large answer is never one text. They are made
from the document of the query, so that they do not depend on where it was run.
"""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from omnigraph.display.text import (
    MAX_COLUMN_WIDTH,
    cell_text,
    counted,
    fitted,
    grid,
    natural_widths,
    printable,
    query_text,
    rule,
)
from omnigraph.service.documents import Document, Streamed, ascii_json

NO_ROWS = "(no rows)"
TABLE_ROWS = 10_000
"""The number of rows a table shows by default: a longer one is hard to read on a screen."""
QUOTE = '"'
_MUST_QUOTE = re.compile(r'[,"\r\n]')


class Format(enum.StrEnum):
    """How rows are written."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"
    KV = "kv"


@dataclass(frozen=True, slots=True)
class TableStyle:
    """How wide a table may be: on the screen (None: there is none), and in each column.

    A value that is wider is cut, or wrapped onto more lines.
    """

    screen: int | None = None
    column: int = MAX_COLUMN_WIDTH
    wraps: bool = False


def render(
    answer: Streamed,
    format: Format,
    *,
    ascii_only: bool = False,
    style: TableStyle = TableStyle(),  # noqa: B008 - it cannot be changed
) -> Iterator[str]:
    """Return the answer in a format; ``ascii_only`` escapes other characters in JSON."""
    match format:
        case Format.JSON | Format.JSONL:
            pieces = _json(answer) if format is Format.JSON else _jsonl(answer)
            yield from map(ascii_json, pieces) if ascii_only else pieces
        case Format.CSV:
            yield from _csv(answer)
        case Format.KV:
            yield from _kv(answer)
        case Format.TABLE:
            yield _table(answer, style)


def _json(answer: Streamed) -> Iterator[str]:
    yield from answer.json_text(pretty=True)
    yield "\n"


def _jsonl(answer: Streamed) -> Iterator[str]:
    facts = {name: answer.head[name] for name in ("query_name", "target", "row_count")}
    yield _compact({"kind": "metadata", **facts}) + "\n"
    for texts in answer.pieces:
        yield "".join(f"{text}\n" for text in texts)


def _csv(answer: Streamed) -> Iterator[str]:
    yield _csv_text([answer.head["columns"]])
    for rows in answer.values():
        yield _csv_text([cell_text(value) for value in row.values()] for row in rows)


def _csv_text(rows: Iterable[Sequence[str]]) -> str:
    return "".join(f"{_csv_line(row)}\n" for row in rows)


def _csv_line(row: Sequence[str]) -> str:
    # By hand: the csv module leaves a lone CR unquoted, which readers take for the end of a line.
    line = ",".join(
        f'"{text.replace(QUOTE, QUOTE * 2)}"' if _MUST_QUOTE.search(text) else text for text in row
    )
    return line or '""'  # one empty value, not an empty line, which readers skip


def _kv(answer: Streamed) -> Iterator[str]:
    yield _summary(answer.head) + "\n"
    if not answer.head["row_count"]:
        yield NO_ROWS + "\n"
    names = list(map(printable, answer.head["columns"]))
    number = 0
    for rows in _cells(answer):
        lines = []
        for row in rows:
            number += 1
            lines.append(f"row {number}")
            lines += [f"{name}: {text}" for name, text in zip(names, row, strict=True)]
        yield "\n".join(lines) + "\n"


def _table(answer: Streamed, style: TableStyle) -> str:
    """Return the rows below each other; the widest columns give way until the screen holds them all."""
    names = list(map(printable, answer.head["columns"]))
    lines = [names, *(row for rows in _cells(answer) for row in rows)]
    widths = fitted(natural_widths(lines), style.screen, style.column)
    head, body = (grid(part, widths, wraps=style.wraps) for part in (lines[:1], lines[1:]))
    return "\n".join([_summary(answer.head), *head, rule(widths), *body]) + "\n"


def _summary(head: Document) -> str:
    from omnigraph.manifest.snapshot import Target

    target = Target(**head["target"])
    return printable(
        f"{counted(head['row_count'], 'row')} from {target} via {query_text(head['query_name'])}"
    )


def _cells(answer: Streamed) -> Iterator[list[list[str]]]:
    """Return the texts of the rows, safe to show on a screen, a piece at a time."""
    for rows in answer.values():
        yield [[printable(cell_text(value)) for value in row.values()] for row in rows]


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
