"""From `.gq` text to the syntax tree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache, partial
from importlib import resources
from typing import Final, NoReturn, cast

from lark import Lark, Token
from lark.lark import PostLex

from omnigraph.lang import failures
from omnigraph.lang.query import ast
from omnigraph.lang.query.advice import NAMES, advise
from omnigraph.lang.query.build import Builder
from omnigraph.lang.query.driver import Declined, Driver
from omnigraph.lang.query.reading import READING, Reading
from omnigraph.lang.source import Source

NESTING_LIMIT: Final = 64
"""How deep `not` blocks, lists and calls may nest, so that no recursive pass can overflow."""

_NESTING = {"NOT": "`not` blocks", "LBRACKET": "lists", "LPAR": "calls"}
_OPEN = frozenset({"LBRACE", "LBRACKET", "LPAR"})
_CLOSE = frozenset({"RBRACE", "RBRACKET", "RPAREN"})


def parse(text: str, filename: str | None = None) -> ast.QueryFile:
    """The queries of a source; any fault is a ParseError with its place."""
    reading = Reading(Source(text, filename))
    outer = READING.set(reading)
    try:
        try:
            made = _driver().run(text)
        except Declined:
            made = failures.run(_parser(), reading.source, NAMES, partial(advise, reading))
        return cast("ast.QueryFile", made)
    finally:
        READING.reset(outer)


@lru_cache(maxsize=1)
def _driver() -> Driver:
    nesting = {**dict.fromkeys(_OPEN, 1), **dict.fromkeys(_CLOSE, -1)}
    return Driver(_parser(), nesting, NESTING_LIMIT)


@lru_cache(maxsize=1)
def _parser() -> Lark:
    grammar = resources.files(__package__).joinpath("grammar.lark").read_text("utf-8")
    return Lark(
        grammar,
        parser="lalr",
        lexer="contextual",
        transformer=Builder(),
        postlex=_Tokens(),
    )


class _Tokens(PostLex):
    """The tokens on their way from the lexer to the parser."""

    # With NAME in every state a word is always read whole: `limit5` is not `limit` and `5`. With
    # OTHER in every state each fault is met by the parser, after its token has passed here.
    always_accept = ("NAME", "OTHER")

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        """Pass the tokens on, and stop where brackets nest too deep."""
        reading = READING.get()
        nested: list[str] = []
        depth: Counter[str] = Counter()
        for token in stream:
            reading.take(token)
            if token.type in _OPEN:
                after = reading.before
                kind = "NOT" if after is not None and after.type == "NOT" else token.type
                nested.append(kind)
                depth[kind] += 1
                if kind in _NESTING and depth[kind] > NESTING_LIMIT:
                    _too_deep(reading.source, kind, token)
            elif token.type in _CLOSE and nested:
                depth[nested.pop()] -= 1
            yield token


def _too_deep(source: Source, kind: str, token: Token) -> NoReturn:
    source.fail(
        f"{_NESTING[kind]} nest at most {NESTING_LIMIT} deep",
        source.span(cast("int", token.start_pos), cast("int", token.end_pos)),
    )
