"""Runs the parser's own tables over a text without faults, in less than half of lark's time.

A mutation may be a text of thousands of statements, and lark spends most of its time on what only a
broken text needs: lines and columns of every token, a history, a state that can be inspected. Here
the same states, terminals and callbacks are used without any of it. A text that does not pass is
declined, whatever the reason, and lark reads it again to say what is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from sys import intern
from typing import Any, Final, NamedTuple

from lark import Lark, Token
from lark.lexer import PatternStr
from lark.parse_tree_builder import ExpandSingleChild
from lark.parsers.lalr_analysis import Shift

from omnigraph.errors import ParseError

_END: Final = "$END"


class Declined(Exception):
    """The text is for lark to judge."""


class _Reduce(NamedTuple):
    """A rule: how many values it takes, what makes one of them, and what that one is called."""

    size: int
    make: Callable[[list[Any]], Any] | None
    origin: str


class _State(NamedTuple):
    """One state of the parser: how it reads a token, and where each token or value leads."""

    match: Callable[[str, int], re.Match[str] | None]
    words: dict[str, str]
    shifts: dict[str, int]
    reduces: dict[str, _Reduce]


class _States(dict[int, _State]):
    """The states by number, made when they are first entered: most texts need few of them."""

    def __init__(self, parser: Lark) -> None:
        # None of this is promised by lark: the tests of this module fail if it is ever different.
        frontend: Any = parser.parser
        self.table: Any = frontend.parser._parse_table  # noqa: SLF001
        self._callbacks: Any = frontend.parser.parser.callbacks
        self._lexers: Any = frontend.lexer.lexer.lexers
        self._scanners: dict[int, tuple[Any, dict[str, str]]] = {}

    def __missing__(self, number: int) -> _State:
        lexer = self._lexers[number]
        if id(lexer) not in self._scanners:
            self._scanners[id(lexer)] = _scanner(lexer.terminals, lexer.ignore_types)
        made = self[number] = _State(*self._scanners[id(lexer)], {}, {})
        for name, (action, to) in self.table.states[number].items():
            # The names are tokens of lark's own, which compare slowly.
            if action is Shift:
                made.shifts[intern(str(name))] = to
            else:
                made.reduces[intern(str(name))] = _reduce(to, self._callbacks[to])
        return made


def _reduce(rule: Any, make: Any) -> _Reduce:
    # A rule of one symbol that stands for it alone makes nothing: its value stays where it is.
    alone = len(rule.expansion) == 1 and isinstance(make, ExpandSingleChild)
    return _Reduce(len(rule.expansion), None if alone else make, intern(str(rule.origin.name)))


def _scanner(terminals: list[Any], ignored: frozenset[str]) -> tuple[Any, dict[str, str]]:
    """One expression for all that is skipped and the token after it, and the words among names."""
    patterns = {term.name: term.pattern.to_regexp() for term in terminals}
    name = re.compile(patterns["NAME"])
    words = {
        term.pattern.value: intern(term.name)
        for term in terminals
        if isinstance(term.pattern, PatternStr) and name.fullmatch(term.pattern.value)
    }
    left_out = {*words.values(), *ignored}
    skip = "|".join(patterns[each] for each in sorted(ignored))
    take = "|".join(f"(?P<{n}>{pattern})" for n, pattern in patterns.items() if n not in left_out)
    return re.compile(f"(?:{skip})*+(?:{take})").match, words


class Driver:
    """A lark parser (LALR, contextual lexer, callbacks while parsing) without its comforts."""

    def __init__(self, parser: Lark, nesting: Mapping[str, int], deepest: int) -> None:
        """``nesting`` says which terminals open (1) and close (-1) what may nest so deep."""
        self._states = _States(parser)
        (self._start,) = self._states.table.start_states.values()
        (self._end,) = self._states.table.end_states.values()
        self._nesting, self._deepest = nesting, deepest

    def run(self, text: str) -> Any:
        """What the callbacks make of the text; ``Declined`` unless it is without fault."""
        try:
            text.encode()
            return self._run(text)
        except (KeyError, UnicodeEncodeError, ParseError):
            raise Declined from None

    def _run(self, text: str) -> Any:
        states, nesting = self._states, self._nesting
        depth, at, state = 0, 0, self._start
        stack, values = [state], list[Any]()
        while True:
            match, words, shifts, reduces = states[state]
            found = match(text, at)
            if found is None:  # some terminal matches any character, so this is the end
                break
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
                _, _, shifts, reduces = states[state]
            # What `Token(…)` does for the attributes that are used.
            token = str.__new__(Token, word)
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
