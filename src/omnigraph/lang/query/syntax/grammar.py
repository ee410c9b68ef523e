"""The lark parser of `grammar.lark`, and the precomputed tables that `driver` runs without lark.

Building lark's parser takes longer than most queries, so its tables are precomputed and shipped
beside the grammar. After a change of the grammar or of `ast.FUNCTIONS`, compute them again::

    python -m omnigraph.lang.query.syntax.grammar
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, Final, NoReturn, cast

from lark import Lark, Token
from lark.lark import PostLex
from lark.lexer import PatternStr
from lark.parse_tree_builder import maybe_create_child_filter
from lark.parsers.lalr_analysis import Shift

from omnigraph.lang.query.syntax import ast
from omnigraph.lang.query.syntax.build import Builder
from omnigraph.lang.query.syntax.parse_state import CLOSE, NESTING_LIMIT, OPEN, READING
from omnigraph.lang.source import Source

TABLES: Final = "tables.json"

_NESTING = {
    "NOT": "blocks of `not`, `exists` and `optional`",
    "LBRACKET": "lists",
    "LPAR": "parentheses",
}
_ALL = "brackets"
_OTHERS = 8
"""How many brackets stand around and in those that nest: of the query, of `match`, of bounds."""


@lru_cache(maxsize=2)
def lark_parser(*, builds: bool = True) -> Lark:
    """The lark parser, which says what is wrong with a text.

    One that ``builds`` nothing can also follow a text that the builder would refuse, such as half a query.
    """
    grammar = resources.files(__package__).joinpath("grammar.lark").read_text("utf-8")
    return Lark(
        grammar + _function_terminal(),
        parser="lalr",
        lexer="contextual",
        transformer=cast("Any", _Callbacks()) if builds else None,
        postlex=_Tokens(),
    )


def _function_terminal() -> str:
    """The terminal of the other function names, so that a new function needs no change of the grammar."""
    named = (name for name in ast.FUNCTIONS if name not in {*ast.COUNTING, *ast.DATED})
    names = " | ".join(f'"{name}"' for name in named)
    return f"\nFUNCTION.2: ({names}) _CALLED\n"


_BLOCK_WORDS = frozenset({"NOT", "EXISTS", "OPTIONALLY"})


class _Callbacks:
    """The builder's methods in the form lark calls them: with one list of children."""

    def __init__(self) -> None:
        self._builder = Builder()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._builder, name)
        return lambda children: method(*children)


class _Tokens(PostLex):
    """Sees every token between the lexer and the parser."""

    # With NAME in every state a word is always read whole: `limit5` is not `limit` and `5`. With
    # OTHER in every state each fault reaches the parser as a token, after it has passed here.
    always_accept = ("NAME", "OTHER")

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        """Pass the tokens on, and stop where brackets nest too deep."""
        reading = READING.get()
        nested: list[str] = []
        depth: Counter[str] = Counter()
        for token in stream:
            reading.take(cast("Any", token))
            if token.type in OPEN:
                after = reading.before
                kind = "NOT" if after is not None and after.type in _BLOCK_WORDS else token.type
                nested.append(kind)
                depth[kind] += 1
                if kind in _NESTING and depth[kind] > NESTING_LIMIT:
                    _too_deep(reading.source, _NESTING[kind], token)
                if len(nested) > NESTING_LIMIT + _OTHERS:
                    _too_deep(reading.source, _ALL, token)
            elif token.type in CLOSE and nested:
                depth[nested.pop()] -= 1
            yield token


def _too_deep(source: Source, what: str, token: Token) -> NoReturn:
    source.fail(
        f"{what} nest at most {NESTING_LIMIT} deep",
        source.span(cast("int", token.start_pos), cast("int", token.end_pos)),
    )


def tables() -> dict[str, Any]:
    """Compute the tables that `driver.Driver` reads, from lark's own; the result is deterministic.

    States are numbered in the order in which they are reached, names ascending. A rule is its
    origin, its size, the method that makes its value, whether a single child stands for it, and
    which of its children the method gets: ``None`` for all, else places, -1 for an absent one.
    """
    # lark does not promise any of this; the tests of this module fail if it changes.
    frontend: Any = lark_parser().parser
    table: Any = frontend.parser._parse_table  # noqa: SLF001
    lexers: Any = frontend.lexer.lexer.lexers
    (start,), (end,) = table.start_states.values(), table.end_states.values()
    numbers, rules, scanners = {start: 0}, dict[Any, int](), dict[str, int]()
    states = []
    for state in (reached := [start]):
        shifts, reduces = {}, {}
        for name, (action, to) in sorted(table.states[state].items(), key=lambda it: str(it[0])):
            if action is not Shift:
                reduces[str(name)] = rules.setdefault(to, len(rules))
                continue
            if to not in numbers:
                numbers[to] = len(numbers)
                reached.append(to)
            shifts[str(name)] = numbers[to]
        scanner = json.dumps(_scanner(lexers[state]))
        states.append([scanners.setdefault(scanner, len(scanners)), shifts, reduces])
    whole: Any = frontend.lexer.lexer.root_lexer
    return {
        "end": numbers[end],
        "skip": "|".join(_patterns(whole)[name] for name in sorted(whole.ignore_types)),
        "terminals": [
            [term.name, term.pattern.to_regexp()]
            for term in whole.terminals
            if not _is_word(whole, term) and term.name not in whole.ignore_types
        ],
        "scanners": [json.loads(scanner) for scanner in scanners],
        "rules": [_rule(rule) for rule in rules],
        "states": states,
    }


def _patterns(lexer: Any) -> dict[str, str]:
    return {term.name: term.pattern.to_regexp() for term in lexer.terminals}


def _is_word(lexer: Any, term: Any) -> bool:
    """Whether a terminal is one fixed word, which the lexer first reads as a name."""
    name = re.compile(_patterns(lexer)["NAME"])
    return isinstance(term.pattern, PatternStr) and bool(name.fullmatch(term.pattern.value))


def _scanner(lexer: Any) -> list[Any]:
    """The terminals of a state in the order they are tried, and the words among its names."""
    words = {term.pattern.value: term.name for term in lexer.terminals if _is_word(lexer, term)}
    left_out = {*words.values(), *lexer.ignore_types}
    return [[term.name for term in lexer.terminals if term.name not in left_out], words]


def _rule(rule: Any) -> list[Any]:
    size, options = len(rule.expansion), rule.options
    chosen = maybe_create_child_filter(
        rule.expansion, options.keep_all_tokens, False, options.empty_indices
    )
    alone = bool(options.expand1 and not rule.alias)
    # A repetition (`__query_star_0`) collects a list, which is inlined into the rule around it.
    called = rule.alias or rule.origin.name
    return [str(rule.origin.name), size, str(called), alone, _places(chosen, size)]


def _places(chosen: Any, size: int) -> list[Any] | None:
    if chosen is None:
        return None
    placed: list[Any] = []
    include, *absent = chosen.args
    for at, poured, *before in include:
        placed += [-1] * sum(before)
        placed.append([at] if poured else at)
    placed += [-1] * sum(absent)
    return None if placed == list(range(size)) else placed


def main() -> None:
    """Write the tables beside the grammar."""
    place = Path(__file__).with_name(TABLES)
    place.write_text(json.dumps(tables(), separators=(",", ":")) + "\n", "utf-8")


if __name__ == "__main__":
    main()
