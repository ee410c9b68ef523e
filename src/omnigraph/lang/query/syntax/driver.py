"""Runs lark's tables over a text without faults: without lark, and in less than half of its time.

A mutation may be a text of thousands of statements, and lark spends most of its time on what only a
broken text needs: lines and columns of every token, a history, a state that can be inspected. Here
the same states, terminals and callbacks are used without any of it, from tables that were made
beforehand (`grammar`). A text that does not pass is declined, whatever the reason, and lark reads it
to say what is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from sys import intern
from typing import Any, Final, NamedTuple

from omnigraph.errors import ParseError
from omnigraph.lang.query.syntax.parse_state import Token

_END: Final = "$END"

Match = Callable[[str, int], "re.Match[str] | None"]


class Declined(Exception):
    """The text is for lark to judge."""


class _Reduce(NamedTuple):
    """A rule: how many values it takes, what makes one of them, and what that one is called."""

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
    """The states by number, made when they are first entered: most texts need few of them."""

    def __init__(self, tables: Mapping[str, Any], builder: object) -> None:
        self._tables, self._builder = tables, builder
        self._patterns = dict(tables["terminals"])
        self._rules: dict[int, _Reduce] = {}
        self._matches: dict[int, Match] = {}
        self.match = self._compiled(self._patterns)

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
        """Reads the terminals of one scanner only."""
        if scanner not in self._matches:
            takes, _ = self._tables["scanners"][scanner]
            self._matches[scanner] = self._compiled(takes)
        return self._matches[scanner]

    def _compiled(self, names: Sequence[str] | Mapping[str, str]) -> Match:
        """One expression for all that is skipped and the token after it."""
        take = "|".join(f"(?P<{name}>{self._patterns[name]})" for name in names)
        return re.compile(f"(?:{self._tables['skip']})*+(?:{take})").match

    def _rule(self, number: int) -> _Reduce:
        if number not in self._rules:
            origin, size, called, alone, places = self._tables["rules"][number]
            make = None
            # A rule of one symbol that stands for it alone makes nothing: its value stays.
            if not (alone and size == 1 and places is None):
                make = _maker(getattr(self._builder, called, None), alone, places)
            self._rules[number] = _Reduce(size, make, intern(origin))
        return self._rules[number]


def _maker(
    method: Callable[..., Any] | None, alone: bool, places: Sequence[int | list[int]] | None
) -> Callable[[list[Any]], Any]:
    """What makes the value of a rule; without a method it is a list, poured out where it is used."""

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
            # Nobody else holds the list: a long one is not copied for every item it gets.
            chosen = chosen + values[place[0]] if chosen else values[place[0]]
        else:
            chosen.append(None if place < 0 else values[place])
    return chosen


class Driver:
    """The tables of a lark parser (LALR, contextual lexer), and the object that makes its values."""

    def __init__(
        self, tables: Mapping[str, Any], builder: object, nesting: Mapping[str, int], deepest: int
    ) -> None:
        """``nesting`` says which terminals open (1) and close (-1) what may nest so deep."""
        self._states = _States(tables, builder)
        self._end: int = tables["end"]
        self._nesting, self._deepest = nesting, deepest

    def run(self, text: str) -> Any:
        """What the builder makes of the text; ``Declined`` unless it is without fault."""
        try:
            text.encode()
            return self._run(text)
        except (KeyError, UnicodeEncodeError, ParseError):
            raise Declined from None

    def _run(self, text: str) -> Any:
        states, nesting, match = self._states, self._nesting, self._states.match
        depth, at, state = 0, 0, 0
        stack, values = [state], list[Any]()
        while True:
            takes, words, shifts, reduces, scanner = states[state]
            # All terminals are tried in the order of each scanner, so the first that matches is its
            # first one too, if it is one of its own.
            found = match(text, at)
            if found is None:  # some terminal matches any character, so this is the end
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
                state = self._reduced(reduces[kind], stack, values)
                _, _, shifts, reduces, _ = states[state]
            token = Token(word)
            token.type, token.start_pos, token.end_pos = kind, at - len(word), at
            state = shifts[kind]
            stack.append(state)
            values.append(token)
        while state != self._end:
            state = self._reduced(states[state].reduces[_END], stack, values)
        return values[-1]

    def _reduced(self, rule: _Reduce, stack: list[int], values: list[Any]) -> int:
        """Replace the values of a rule by the one it makes; the state after that."""
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
