"""Cut text into statements: queries, which end when their braces close, and dot commands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from omnigraph.cli.shell.tokens import Kind, tokens

TAKES_QUERY = (".explain", ".profile")
"""Dot commands that are followed by a query, which may go on over several lines."""

_DOT = re.compile(r"\.\w*")


@dataclass(frozen=True, slots=True)
class Statement:
    """One query or dot command: its text, and the line on which it starts, counted from 1."""

    text: str
    line: int
    is_finished: bool = True

    @property
    def is_dot(self) -> bool:
        """Whether it is a dot command."""
        return self.text.startswith(".")


def split_dot(text: str) -> tuple[str, str]:
    """Return the word of a dot command, and what follows it."""
    found = _DOT.match(text)
    word = "" if found is None else found[0]
    return word, text[len(word) :].strip()


class Splitter:
    """Cuts lines into statements as they come.

    Text that cannot become a query, such as `hello`, ends with its line, so that it fails at once and
    does not wait for braces that will never come. Between statements `;` is ignored.
    """

    def __init__(self) -> None:
        self._text = ""
        self._line = 1
        self._start_again()

    def _start_again(self) -> None:
        """Prepare for the statement at the beginning of the text."""
        self._has_begun = False
        self._scanned = 0
        self._depth = 0
        self._first: str | None = None  # the first word of the query

    def feed(self, lines: str) -> Iterator[Statement]:
        """Take whole lines and yield the statements that end in them."""
        self._text += lines
        while (end := self._end()) is not None:
            yield self._cut(end)

    def finish(self) -> Statement | None:
        """Return what is left when no more lines come, or None if that is nothing."""
        for statement in self.feed("\n"):
            return statement  # its line had no newline
        text = self._text.rstrip()
        return Statement(text, self._line, is_finished=False) if text else None

    def _cut(self, end: int) -> Statement:
        """Return the statement that ends here, and go on behind it."""
        text = self._text[:end]
        statement = Statement(text.rstrip(), self._line)
        self._line += text.count("\n")
        self._text = self._text[end:]
        self._start_again()
        return statement

    def _end(self) -> int | None:
        """Return where the first statement ends, or None if it goes on."""
        if not self._has_begun:
            self._skip_to_statement()
            if self._text.startswith("."):
                return self._dot_end()
        return self._query_end()

    def _skip_to_statement(self) -> None:
        """Drop white space, comments and `;` at the beginning of the text."""
        at = 0
        for token in tokens(self._text):
            between = token.kind in {Kind.SPACE, Kind.COMMENT} or token.text == ";"
            if token.is_open or not between:
                break
            at = token.end
        self._line += self._text.count("\n", 0, at)
        self._text = self._text[at:]

    def _dot_end(self) -> int | None:
        """Return the end of a dot command, which is that of its line or of its query."""
        newline = self._text.find("\n")
        if newline < 0:
            return None
        word, query = split_dot(self._text[:newline])
        if word not in TAKES_QUERY or not query:
            return newline
        self._has_begun, self._scanned = True, len(word)
        return self._query_end()

    def _query_end(self) -> int | None:
        for token in tokens(self._text, self._scanned):
            if token.is_open:
                return None  # scanned again from its beginning when there is more
            if token.kind is Kind.SPACE:
                is_query = self._first in {None, "query"}
                if "\n" in token.text and self._depth == 0 and not is_query:
                    return token.start + token.text.index("\n")
            elif token.kind is not Kind.COMMENT:
                self._has_begun = True
                self._first = self._first or token.text
                self._depth += {"{": 1, "}": -1}.get(token.text, 0)
                if token.text == "}" and self._depth <= 0:
                    return token.end
            self._scanned = token.end
        return None


def is_complete(text: str) -> bool:
    """Return whether Enter should run the text: it ends with a whole statement, or is blank."""
    splitter = Splitter()
    for _ in splitter.feed(f"{text}\n"):
        pass
    return splitter.finish() is None
