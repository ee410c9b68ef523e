"""Query text as tokens, also where it is not finished or not right.

The parser of the language refuses a text as a whole. At a prompt most texts are half a query, so
statements are cut, completed and coloured by these tokens instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple


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
_ENDS = {Kind.COMMENT: ("open_comment", "*/"), Kind.STRING: ("open_string", '"')}


class Token(NamedTuple):
    """A piece of a text. A string or comment that the text ends in has ``is_open``."""

    kind: Kind
    text: str
    start: int
    is_open: bool = False

    @property
    def end(self) -> int:
        """Where the token ends in the text."""
        return self.start + len(self.text)


def tokens(text: str, start: int = 0) -> Iterator[Token]:
    """Yield the tokens of a text from a place on; together they are the whole text."""
    for match in _TOKEN.finditer(text, start):
        kind = Kind(next(name for name in Kind if match[name] is not None))
        is_open = False
        if kind in _ENDS:
            group, closing = _ENDS[kind]
            is_open = match[group] is not None and match[group] != closing
        yield Token(kind, match[0], match.start(), is_open)


def meaningful(text: str) -> list[Token]:
    """Return the tokens of a text without white space and comments."""
    return [token for token in tokens(text) if token.kind not in {Kind.SPACE, Kind.COMMENT}]
