"""Cut text into statements: declared queries, which end when their braces close, queries without a name,
which end at an empty line or a `;`, and dot commands.

The parser of the language refuses a text as a whole. At a prompt most texts are half a query, so
statements are cut, coloured and searched for variables by tokens that any text has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from omnigraph.cli.formats import Format

Completes = str | tuple[str, ...] | None

HELP = """\
A statement is a query. It ends at an empty line or a `;`, a declared one when its braces close:

  match { $p: Person $p.age >= 18 } return { $p.name } limit 10;
  query join($name: String) { insert Person { name: $name } }

Tab completes, Ctrl-C stops what runs or clears the line, Ctrl-D leaves.
"""
_TOKEN = re.compile(
    r"""
      (?P<space>[ \t\r\n]+)
    | (?P<comment>//[^\n]*+ | /\*(?:[^*]|\*(?!/))*+(?P<open_comment>\*/|\Z))
    | (?P<string>"[^"\\]*+(?:\\[\s\S][^"\\]*+)*+(?P<open_string>"|\\?\Z))
    | (?P<variable>\$[A-Za-z0-9_]*)
    | (?P<type>[A-Z][A-Za-z0-9_]*)
    | (?P<word>[a-z_][A-Za-z0-9_]*)
    | (?P<number>-?[0-9]+(?:\.[0-9]+)?)
    | (?P<sign>[\s\S])
    """,
    re.VERBOSE,
)
TAKES_QUERY = (".explain", ".profile")
"""Dot commands that are followed by a query, which may go on over several lines."""
_DOT = re.compile(r"\.\w*")
_ANONYMOUS = frozenset(
    {"match", "for", "insert", "upsert", "update", "delete", "end", "assert", "("}
)
"""How a query without a name begins. Its braces close too early to tell where it ends."""
_EMPTY_LINE = re.compile(r"\n[ \t\r]*\n")


@dataclass(frozen=True, slots=True)
class Dot:
    """A dot command: its word, how its arguments are written, what it does, what completes them."""

    word: str
    takes: str
    about: str
    completes: Completes = None

    @property
    def usage(self) -> str:
        """The command as it is written."""
        return f"{self.word} {self.takes}".rstrip()


DOTS = (
    Dot(".help", "", "list these commands"),
    Dot(".branch", "[NAME]", "work on this branch; without a name, list the branches", "branch"),
    Dot(
        ".at",
        "[STATE]",
        "read BRANCH@VERSION, commit:ID, tag:NAME or time:T; without one, the head again",
        "target",
    ),
    Dot(".schema", "[TYPE]", "show the schema, or the declaration of one type", "type"),
    Dot(".params", "[JSON]", "set the parameters of statements; without JSON, show them"),
    Dot(
        ".format",
        "[FORMAT]",
        f"how rows are printed: {', '.join(Format)}",
        tuple(map(str, Format)),
    ),
    Dot(".explain", "[QUERY]", "show what a query would do; without one, the last query"),
    Dot(".profile", "[QUERY]", "run a query and show where the time goes; or the last query"),
    Dot(".load", "FILE [MODE]", "load JSON lines as one commit; append, merge, patch or overwrite"),
    Dot(".quit", "", "leave, as Ctrl-D does"),
)


class Kind(StrEnum):
    """What a token is."""

    SPACE = "space"
    COMMENT = "comment"
    STRING = "string"
    VARIABLE = "variable"
    TYPE = "type"
    WORD = "word"
    NUMBER = "number"
    SIGN = "sign"


_ENDS = {Kind.COMMENT: ("open_comment", "*/"), Kind.STRING: ("open_string", '"')}


class ShellToken(NamedTuple):
    """A piece of a text. A string or comment that the text ends in has ``is_open``."""

    kind: Kind
    text: str
    start: int
    is_open: bool = False

    @property
    def end(self) -> int:
        """Where the token ends in the text."""
        return self.start + len(self.text)


def tokens(text: str, start: int = 0) -> Iterator[ShellToken]:
    """Yield the tokens of a text from a place on; together they are the whole text."""
    for match in _TOKEN.finditer(text, start):
        kind = Kind(next(name for name in Kind if match[name] is not None))
        is_open = False
        if kind in _ENDS:
            group, closing = _ENDS[kind]
            is_open = match[group] is not None and match[group] != closing
        yield ShellToken(kind, match[0], match.start(), is_open)


def meaningful(text: str) -> list[ShellToken]:
    """Return the tokens of a text without white space and comments."""
    return [token for token in tokens(text) if token.kind not in {Kind.SPACE, Kind.COMMENT}]


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
    begun = _DOT.match(text)
    word = "" if begun is None else begun[0]
    return word, text[len(word) :].strip()


class Splitter:
    """Cuts lines into statements as they come.

    Text that cannot become a query, such as `hello`, ends with its line, so that it fails at once and
    does not wait for braces that will never come. Between statements `;` is ignored. A declaration waits
    for the line after it, where a query without a name may begin that uses it.
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
        self._declared: int | None = None  # where the declaration ends that waits for what follows

    def feed(self, lines: str) -> Iterator[Statement]:
        """Take whole lines and yield the statements that end in them."""
        self._text += lines
        while (end := self._end()) is not None:
            yield self._cut(end)

    def finish(self) -> Statement | None:
        """Return the last statement when no more lines come, finished or not; None if nothing is left."""
        for statement in self.feed("\n\n"):
            return statement  # its line had no newline, or it waited for more
        text = self._text.rstrip()
        return Statement(text, self._line, is_finished=False) if text else None

    @property
    def is_at_end(self) -> bool:
        """Whether nothing is left, or only a declaration that waits for what may follow."""
        return self._declared is not None or not self._text.strip() or self._is_trivial()

    def _is_trivial(self) -> bool:
        between = [token for token in tokens(self._text) if token.text != ";"]
        trivia = {Kind.SPACE, Kind.COMMENT}
        return all(token.kind in trivia and not token.is_open for token in between)

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
            if token.is_open:  # scanned again from its beginning when there is more
                return self._declared
            end = self._end_at(token)
            if end is not None:
                return end
            # White space may go on with the next line.
            is_last = token.kind is Kind.SPACE and token.end == len(self._text)
            self._scanned = token.start if is_last else token.end
        return None

    def _end_at(self, token: ShellToken) -> int | None:
        """Take the next token; return where the statement ends, if it shows that."""
        if token.kind is Kind.COMMENT:  # one of several lines stands between statements
            return self._declared if "\n" in token.text else None
        if token.kind is Kind.SPACE:
            return self._end_at_space(token)
        if self._declared is not None:
            if token.text not in _ANONYMOUS:
                return self._declared
            self._first, self._declared = token.text, None
        self._has_begun = True
        self._first = self._first or token.text
        self._depth += {"{": 1, "}": -1}.get(token.text, 0)
        if self._depth > 0:
            return None
        if self._first in _ANONYMOUS:
            return token.start if token.text == ";" else None
        if token.text == "}":
            if self._first != "query":
                return token.end
            self._declared = token.end
        return None

    def _end_at_space(self, token: ShellToken) -> int | None:
        if "\n" not in token.text or self._depth > 0 or self._first is None:
            return None
        if self._declared is not None or self._first in _ANONYMOUS:
            empty = _EMPTY_LINE.search(token.text)
            return None if empty is None else self._declared or token.start
        return None if self._first == "query" else token.start + token.text.index("\n")


def is_complete(text: str) -> bool:
    """Return whether Enter should run the text: it ends with a whole statement, or is blank.

    At a prompt a declaration runs when its braces close. One that another query uses is entered with it.
    """
    splitter = Splitter()
    for _ in splitter.feed(f"{text}\n"):
        pass
    return splitter.is_at_end
