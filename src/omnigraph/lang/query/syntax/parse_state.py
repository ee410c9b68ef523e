"""The state of one parse: its text, its last tokens, and the values of tokens.

One parser serves all texts, also from several threads, so whatever belongs to a single parse is
kept here and not in the parser.
"""

from __future__ import annotations

import re
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, NoReturn, Protocol

from omnigraph.lang.source import Source, unescape
from omnigraph.spans import Span

INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**63 - 1

NESTING_LIMIT: Final = 64
"""How deep `not` blocks, lists and calls may nest, so that no recursive pass can overflow."""

OPEN: Final = frozenset({"LBRACE", "LBRACKET", "LPAR"})
CLOSE: Final = frozenset({"RBRACE", "RBRACKET", "RPAREN"})


_TRIVIA: Final = re.compile(r"(?:[ \t\r\n]|//[^\n]*+|/\*[\s\S]*?\*/)*+")
_CALLED: Final = re.compile(_TRIVIA.pattern + r"\(")


class Token(str):
    """A token: its text, terminal and place; lark's tokens have the same attributes."""

    __slots__ = ("end_pos", "start_pos", "type")

    type: str
    start_pos: int
    end_pos: int


@dataclass(slots=True)
class Reading:
    """A text being parsed, and the last two tokens taken from it."""

    source: Source
    before: Token | None = None
    last: Token | None = None
    operators: int = 0
    """How many operators were built, which may nest deeper than brackets do."""

    def take(self, token: Token) -> None:
        """Remember the next token."""
        self.before, self.last = self.last, token

    def is_called(self, token: Token) -> bool:
        """Whether a `(` follows a token."""
        return _CALLED.match(self.source.text, token.end_pos) is not None

    def rest_after(self, at: int) -> Span:
        """The place of everything that follows, white space and comments around it aside."""
        trivia = _TRIVIA.match(self.source.text, at)
        start = at if trivia is None else trivia.end()
        return self.source.span(start, len(self.source.text.rstrip()))


READING: ContextVar[Reading] = ContextVar("READING")


class Spanned(Protocol):
    """A node of the tree that knows its place."""

    @property
    def span(self) -> Span:
        """The place."""


def cover(first: Token | Spanned, last: Token | Spanned | None = None) -> Span:
    """The span from the start of `first` to the end of `last`."""
    last = first if last is None else last
    start = first.start_pos if isinstance(first, str) else first.span.start
    end = last.end_pos if isinstance(last, str) else last.span.end
    return READING.get().source.span(start, end)


def note_operator() -> None:
    """Count an operator of the text being parsed."""
    READING.get().operators += 1


def fail(message: str, span: Span, hint: str | None = None) -> NoReturn:
    """Raise a ParseError of the text being parsed."""
    READING.get().source.fail(message, span, hint)


def text_of(token: Token) -> str:
    """The value of a string token."""
    return unescape(READING.get().source, str(token), token.start_pos)


def whole(token: Token, sign: Token | None = None) -> int:
    """The value of an integer token with its sign, within signed 64 bit."""
    digits = token.lstrip("0") or "0"
    # The length is checked first because Python itself refuses very long digit strings.
    if len(digits) <= len(str(INT_MAX)):
        value = int(digits) if sign is None else -int(digits)
        if INT_MIN <= value <= INT_MAX:
            return value
    fail(
        "the integer does not fit signed 64 bit",
        cover(sign or token, token),
        f"integers range from {INT_MIN} to {INT_MAX}",
    )
