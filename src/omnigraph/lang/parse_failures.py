"""Turns lark's parse failures into ParseErrors that a person can act on.

Both languages share it. lark names terminals; each language passes the words to show instead.
The fault is always located in the text itself, because the token lark reports may come from its
context-free fallback lexer and be meaningless.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from omnigraph.errors import ParseError
from omnigraph.lang.source import Source, one_of, unescape

if TYPE_CHECKING:
    from lark import Lark
    from lark.exceptions import UnexpectedInput

END = "$END"

_STRING = re.compile(r'"[^"\\]*(?:\\[\s\S][^"\\]*)*"')
_FOUND = re.compile(_STRING.pattern + r"|[0-9]+\.[0-9]+|\$?\w+|->|\.\.|[\s\S]")
_CURLY_QUOTES = "“”„«»‘’"
_SHOWN = 40

Advice = tuple[str | None, str | None]
"""A message that replaces the usual "expected …, found …", and a hint; either may be None."""

Advise = Callable[[str, frozenset[str]], Advice]
"""A language's own advice, given the text found (empty at the end) and the terminals expected."""


def run(
    parser: Lark, source: Source, names: Mapping[str, str], advise: Advise | None = None
) -> Any:
    """Parse the source; a failure is raised as the ParseError that `translate` makes of it."""
    from lark.exceptions import UnexpectedInput

    _check_encoding(source)
    steps: Any = parser.parse_interactive(source.text)
    try:
        tokens = steps.exhaust_lexer()
        return steps.feed_eof(tokens[-1] if tokens else None)
    except UnexpectedInput as error:
        # lark's own `expected` also lists terminals that would only fit in another context.
        expected = frozenset(steps.accepts())
        raise translate(source, error, expected, names, advise) from None


def translate(
    source: Source,
    error: UnexpectedInput,
    expected: frozenset[str],
    names: Mapping[str, str],
    advise: Advise | None = None,
) -> ParseError:
    """Make the ParseError for a lark failure; `names` has the words for each terminal."""
    from lark.exceptions import UnexpectedToken

    if isinstance(error, UnexpectedToken) and error.token.type == END:
        # lark reports the end of the text at the last token.
        start = error.token.start_pos or 0
        found, span = "", source.span(start, error.token.end_pos or start + 1)
    else:
        start = cast("int", error.pos_in_stream)
        lexical = _lexical(source, start)
        if lexical is not None:
            return lexical
        match = _FOUND.match(source.text, start)
        found = match.group() if match else ""
        span = source.span(start, start + len(found))
    message, hint = advise(found, expected) if advise is not None else (None, None)
    if message is None:
        words = one_of(names.get(name, name) for name in _listed(expected))
        message = f"expected {words}, found {quoted(found)}"
    return source.error(ParseError, message, span, hint)


def quoted(found: str) -> str:
    """Quote the text found at the fault for a message: one line, invisible characters escaped."""
    if not found:
        return "the end of the source"
    if len(found) == 1 and (not found.isprintable() or unicodedata.combining(found)):
        return f"the character U+{ord(found):04X}"
    line = found.partition("\n")[0].rstrip("\r")
    return f"`{found}`" if line == found and len(line) <= _SHOWN else f"`{line[:_SHOWN]}…`"


def _check_encoding(source: Source) -> None:
    try:
        source.text.encode()
    except UnicodeEncodeError as error:
        span = source.span(error.start, error.end)
        source.fail("the source is not valid Unicode text: a lone surrogate", span)


def _listed(expected: frozenset[str]) -> frozenset[str]:
    """The terminals worth listing: "end of text" only where nothing else may follow."""
    rest = expected - {END}
    return rest or expected


def _lexical(source: Source, at: int) -> ParseError | None:
    """The error for a fault that is plain without the grammar, such as an open string; else None."""
    text = source.text
    char = text[at]
    if char == '"':
        return _string(source, at)
    if text.startswith("/*", at):
        return source.error(
            ParseError,
            "unterminated comment",
            source.span(at, at + 2),
            "close it with `*/`; comments do not nest",
        )
    if char == "#":
        return source.error(
            ParseError,
            "`#` does not start a comment",
            source.span(at, at + 1),
            "write `// …` or `/* … */`",
        )
    if char == "'" or char in _CURLY_QUOTES:
        return source.error(
            ParseError,
            f"`{char}` does not start a string",
            source.span(at, at + 1),
            'a string stands in plain double quotes: "…"',
        )
    return _non_ascii(source, at)


def _string(source: Source, at: int) -> ParseError | None:
    match = _STRING.match(source.text, at)
    if match is None:
        return source.error(
            ParseError,
            "unterminated string",
            source.span(at, at + 1),
            'close it with `"`; a quote inside is written `\\"`',
        )
    try:
        unescape(source, match.group(), at)
    except ParseError as unknown_escape:
        return unknown_escape
    return None


def _continues_a_word(char: str) -> bool:
    """Whether a character belongs to a word, combining accents included."""
    return char.isalnum() or char == "_" or unicodedata.combining(char) != 0


def _non_ascii(source: Source, at: int) -> ParseError | None:
    text = source.text
    start = end = at
    while start > 0 and _continues_a_word(text[start - 1]):
        start -= 1
    while end < len(text) and _continues_a_word(text[end]):
        end += 1
    word = text[start:end]
    if word.isascii():
        return None
    return source.error(
        ParseError,
        f"a name may hold only ASCII letters, digits and `_`, found `{word}`",
        source.span(start, start + len(word)),
    )
