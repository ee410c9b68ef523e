"""Rows as they arrive: integers that JavaScript cannot hold come as texts, lines in pieces of any size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from omnigraph.client.answer_checks import misfit
from omnigraph.errors import ApiError

Document = dict[str, Any]

_AN_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def whole_numbers(_: Mapping[str, str], answer: Document) -> Document:
    """Return the answer of a query with the integers of `bigint` columns as integers."""
    columns = bigint_columns(answer)
    if columns:
        for row in answer["rows"]:
            restore(row, columns)
    return answer


def bigint_columns(head: Mapping[str, Any]) -> list[str]:
    """Return the names of the columns whose integers may have come as texts."""
    return [column["name"] for column in head.get("schema", ()) if column["type"] == "bigint"]


def restore(row: Document, columns: Iterable[str]) -> Document:
    """Turn integers that came as texts back, in place."""
    for name in columns:
        value = row.get(name)
        if isinstance(value, str):
            try:
                row[name] = int(value)
            except ValueError:
                raise _foreign(f"column `{name[:80]}` has a text that is no number") from None
    return row


class LineSplitter:
    """Cuts a stream of bytes into lines; what comes after the last line break waits for its end."""

    def __init__(self) -> None:
        self._begun = b""

    def feed(self, piece: bytes) -> list[bytes]:
        """Return the lines that a piece completes, without their breaks."""
        *lines, self._begun = (self._begun + piece).split(b"\n")
        return lines

    def finish(self) -> Iterator[bytes]:
        """Yield the last line, if it has no break."""
        if self._begun:
            yield self._begun


class AnswerLines:
    """The lines of a query's answer: one about the rows, which is ``head``, then as many rows as it says."""

    def __init__(self) -> None:
        self.head: Document | None = None
        self._splitter = LineSplitter()
        self._rows = 0

    def feed(self, piece: bytes) -> list[bytes]:
        """Return the lines of the rows that a piece completes."""
        return self._taken(self._splitter.feed(piece))

    def finish(self) -> list[bytes]:
        """Return the last row, if its line has no break; an answer that lacks some is refused."""
        rest = self._taken(list(self._splitter.finish()))
        if self.head is None:
            raise _foreign("the answer is empty")
        if self._rows != self.head["row_count"]:
            raise _foreign(f"the answer has {self._rows:,} rows of {self.head['row_count']:,}")
        return rest

    def _taken(self, lines: list[bytes]) -> list[bytes]:
        if self.head is None and lines:
            self.head = decoded_line(lines[0])
            if (fault := misfit("query", {**self.head, "rows": []})) is not None:
                raise _foreign(f"the first line of the answer is not about rows ({fault})")
            lines = lines[1:]
        self._rows += len(lines)
        return lines


class RowReader:
    """Reads the lines of a query's answer."""

    def __init__(self) -> None:
        self._lines = AnswerLines()
        self._columns: list[str] | None = None

    def feed(self, piece: bytes) -> Iterator[Document]:
        """Yield the rows that a piece completes."""
        yield from self._decoded(self._lines.feed(piece))

    def finish(self) -> Iterator[Document]:
        """Yield the last row, if its line has no break."""
        yield from self._decoded(self._lines.finish())

    def _decoded(self, lines: list[bytes]) -> Iterator[Document]:
        if self._columns is None and self._lines.head is not None:
            self._columns = bigint_columns(self._lines.head)
        for line in lines:
            yield restore(decoded_line(line), self._columns or ())


def decoded_line(line: bytes) -> Document:
    """Return the object of a line."""
    try:
        document = msgspec.json.decode(line)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise _no_object()
    return document


def object_text(line: bytes) -> str:
    """Return a line that is an object as it is."""
    try:
        _AN_OBJECT.decode(line)
        return line.decode()
    except (ValueError, RecursionError):
        raise _no_object() from None


def _no_object() -> ApiError:
    return _foreign("a line of the answer is no JSON object")


def _foreign(what: str) -> ApiError:
    return ApiError(f"{what}; check what stands between here and the server", kind="foreign_answer")
