"""Parses `.gq` text into a syntax tree, with lark's tables but without lark, in less than half of its time.

A mutation may have thousands of statements, and lark spends most of its time on what only a broken
text needs: lines and columns of every token, a history, a state that can be inspected. Here the
same states, terminals and callbacks run without any of that, from precomputed tables (`grammar`).
A text that does not pass is declined, whatever the reason, and lark parses it again to say what is
wrong.
"""

from __future__ import annotations

import json
import pkgutil
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from sys import intern
from typing import Any, Final, NamedTuple, cast

from omnigraph.cancel import look
from omnigraph.errors import ParseError
from omnigraph.lang.query.syntax import ast
from omnigraph.lang.query.syntax.build import Builder
from omnigraph.lang.query.syntax.parse_state import (
    CLOSE,
    NESTING_LIMIT,
    OPEN,
    READING,
    Reading,
    Token,
)
from omnigraph.lang.query.syntax.tree_walk import refuse_depth
from omnigraph.lang.source import Source

_END: Final = "$END"
_LOOK_EVERY: Final = 1000
"""After so many characters the parser looks whether it should stop."""
_FEW: Final = 32
"""So many operators cannot nest too deep, nor can brackets: the limit of both is far below."""

Match = Callable[[str, int], "re.Match[str] | None"]


class Declined(Exception):
    """The text is not parsed here; lark has to say what is wrong with it."""


class _Reduce(NamedTuple):
    """A rule: how many values it takes, what combines them, and the symbol of the result."""

    size: int
    make: Callable[[list[Any]], Any] | None
    origin: str


class _State(NamedTuple):
    """One state of the parser: the terminals and words it reads, and where each leads."""

    takes: frozenset[str]
    words: dict[str, str]
    shifts: dict[str, int]
    reduces: dict[str, _Reduce]
    scanner: int


class _States(dict[int, _State]):
    """The states by number, built when first entered: most texts need only a few."""

    def __init__(self, tables: Mapping[str, Any], builder: object) -> None:
        self._tables, self._builder = tables, builder
        self._patterns = dict(tables["terminals"])
        self._rules: dict[int, _Reduce] = {}
        self._matches: dict[int, Match] = {}
        self.match = self._compiled(self._patterns)
        self.signs = _signs(self._patterns)

    def __missing__(self, number: int) -> _State:
        scanner, shifts, reduces = self._tables["states"][number]
        takes, words = self._tables["scanners"][scanner]
        made = self[number] = _State(
            frozenset(takes),
            {word: intern(name) for word, name in words.items()},
            {intern(name): to for name, to in shifts.items()},
            {intern(name): self._rule(rule) for name, rule in reduces.items()},
            scanner,
        )
        return made

    def again(self, scanner: int) -> Match:
        """Match the terminals of one scanner only."""
        if scanner not in self._matches:
            takes, _ = self._tables["scanners"][scanner]
            self._matches[scanner] = self._compiled(takes)
        return self._matches[scanner]

    def _compiled(self, names: Sequence[str] | Mapping[str, str]) -> Match:
        """Compile one expression for everything that is skipped and the token after it."""
        take = "|".join(f"(?P<{name}>{self._patterns[name]})" for name in names)
        return re.compile(f"(?:{self._tables['skip']})*+(?:{take})").match

    def _rule(self, number: int) -> _Reduce:
        if number not in self._rules:
            origin, size, called, alone, places = self._tables["rules"][number]
            make = None
            # A rule that only wraps one symbol builds nothing: the value is passed on.
            if not (alone and size == 1 and places is None):
                make = _maker(getattr(self._builder, called, None), alone, places)
            self._rules[number] = _Reduce(size, make, intern(origin))
        return self._rules[number]


def _signs(patterns: Mapping[str, str]) -> dict[str, str]:
    """The terminals that are one sign, by that sign; no other terminal and no comment begins with it."""
    single = {name: re.fullmatch(r"\\?(\W)", pattern) for name, pattern in patterns.items()}
    return {
        found[1]: intern(name) for name, found in single.items() if found and found[1] not in "<>/"
    }


def _maker(
    method: Callable[..., Any] | None, alone: bool, places: Sequence[int | list[int]] | None
) -> Callable[[list[Any]], Any]:
    """The function for a rule's value; without a method it is a list, inlined where it is used."""

    def make(values: list[Any]) -> Any:
        if places is not None:
            values = _chosen(values, places)
        if alone and len(values) == 1:
            return values[0]
        return values if method is None else method(*values)

    return make


def _chosen(values: list[Any], places: Sequence[int | list[int]]) -> list[Any]:
    chosen: list[Any] = []
    for place in places:
        if isinstance(place, list):
            # Nothing else refers to the list, so it can grow in place instead of being copied.
            chosen = chosen + values[place[0]] if chosen else values[place[0]]
        else:
            chosen.append(None if place < 0 else values[place])
    return chosen


class Driver:
    """Runs the tables of a lark parser (LALR, contextual lexer); a builder makes the values."""

    def __init__(
        self, tables: Mapping[str, Any], builder: object, nesting: Mapping[str, int], deepest: int
    ) -> None:
        """``nesting`` has the terminals that open (1) and close (-1) a level; ``deepest`` is the limit."""
        self._states = _States(tables, builder)
        self._end: int = tables["end"]
        self._nesting, self._deepest = nesting, deepest
        self._ways: dict[tuple[int, int, str], int] = {}

    def run(self, text: str) -> Any:
        """Parse the text and return what the builder made; ``Declined`` when anything is wrong."""
        try:
            text.encode()
            return self._run(text)
        except (KeyError, UnicodeEncodeError, ParseError):
            raise Declined from None

    def _run(self, text: str) -> Any:
        states, nesting, match = self._states, self._nesting, self._states.match
        signs = states.signs
        depth, at, looked, state = 0, 0, 0, 0
        stack, values = [state], list[Any]()
        while True:
            takes, words, shifts, reduces, scanner = states[state]
            # Half of all tokens are one sign, often after one space, which needs no expression.
            if text[at : at + 1] == " ":
                at += 1
            word = text[at : at + 1]
            kind = signs.get(word, "")
            if kind:
                at += 1
            else:
                # The terminals are tried in the order that every scanner has, so the first match is
                # also the scanner's first, provided that the terminal belongs to it.
                found = match(text, at)
                if (
                    found is None
                ):  # a terminal matches any character, so this is the end of the text
                    break
                kind = found.lastgroup or ""
                if kind not in takes:
                    found = states.again(scanner)(text, at)
                    assert found is not None
                    kind = found.lastgroup or ""
                word = found[kind]
                kind = words.get(word, kind)
                at = found.end()
            if kind in nesting:
                depth += nesting[kind]
                if depth > self._deepest:
                    raise Declined
            while kind not in shifts:
                rule = reduces[kind]
                if rule.make is None:
                    state = stack[-1] = self._passed_on(stack[-2], state, kind)
                else:
                    state = self._reduced(rule, stack, values)
                _, _, shifts, reduces, _ = states[state]
            token = Token(word)
            token.type, token.start_pos, token.end_pos = kind, at - len(word), at
            state = shifts[kind]
            stack.append(state)
            values.append(token)
            if at > looked:
                look()
                looked = at + _LOOK_EVERY
        while state != self._end:
            state = self._reduced(states[state].reduces[_END], stack, values)
        return values[-1]

    def _passed_on(self, before: int, state: int, kind: str) -> int:
        """The state after all rules that only wrap the last symbol, as a variable is a factor, a product,
        an expression. There are many of them for each token, so the way is remembered."""
        key = before, state, kind
        end = self._ways.get(key)
        if end is None:
            end = state
            while (
                kind in (reduces := self._states[end].reduces)
                and kind not in self._states[end].shifts
            ):
                if reduces[kind].make is not None:
                    break
                end = self._states[before].shifts[reduces[kind].origin]
            self._ways[key] = end
        return end

    def _reduced(self, rule: _Reduce, stack: list[int], values: list[Any]) -> int:
        """Replace the values of a rule by its result, and return the state that follows."""
        size, make, origin = rule
        if make is None:
            stack.pop()
        elif size:
            made = make(values[-size:])
            del values[-size:], stack[-size:]
            values.append(made)
        else:
            values.append(make([]))
        state = self._states[stack[-1]].shifts[origin]
        stack.append(state)
        return state


__all__ = ["NESTING_LIMIT", "parse"]


def parse(text: str, filename: str | None = None) -> ast.QueryFile:
    """The queries of a source; any fault is a ParseError with its place."""
    reading = Reading(Source(text, filename))
    outer = READING.set(reading)
    try:
        made = None
        with suppress(Declined):
            made = _driver().run(text)
        # Outside of the handler: what is wrong with the text is all that an error shows.
        file = cast("ast.QueryFile", _by_lark(reading) if made is None else made)
        if reading.operators > _FEW:
            refuse_depth(file)
        return file
    finally:
        READING.reset(outer)


def _by_lark(reading: Reading) -> object:
    from omnigraph.lang import parse_failures
    from omnigraph.lang.query.syntax.advice import NAMES, advise
    from omnigraph.lang.query.syntax.grammar import lark_parser

    return parse_failures.run(lark_parser(), reading.source, NAMES, partial(advise, reading))


@lru_cache(maxsize=1)
def _driver() -> Driver:
    # Not by a path: on Spark's executors the package may lie in a zip file.
    tables = json.loads(pkgutil.get_data(__package__, "tables.json") or b"")
    nesting = {**dict.fromkeys(OPEN, 1), **dict.fromkeys(CLOSE, -1)}
    return Driver(tables, Builder(), nesting, NESTING_LIMIT)
