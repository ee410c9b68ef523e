"""Damaged inputs: good ones that were cut, spliced, repeated and filled with what parsers stumble over."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from copy import deepcopy
from random import Random
from typing import Any, TypeVar

Input = TypeVar("Input", str, bytes)
Make = Callable[[Random], Any]

LONGEST = 1 << 16
"""No input is longer, so that time and memory tell of the parser and not of its input."""
ODD_TEXTS = (
    *("", " ", "\x00", "\n", "\r\n", "\ufeff", "\ud800", "é", "e\u0301", "\u2028", "😀", "\x1b[31m"),
    *("null", "true", "NaN", "Infinity", "-", "-0", "0", "007", "1e999", "1e-999", "0x10", "1_000"),
    *("9" * 30, "9" * 5000, "a" * 5000, "../..", "C:\\", "%00", "%2e%2e", "'", '"', "\\", "\\u", "\\ud800"),
    *("[" * 3000, '{"a":' * 3000, "(" * 3000, "-" * 300, "][", "}{", ",,", "=", ";", "--", "/*", "\\x"),
)  # fmt: skip
ODD_BYTES = (
    *(text.encode("utf-8", "surrogatepass") for text in ODD_TEXTS),
    *(
        b"\xff",
        b"\xfe\xff",
        b"\xc0\x80",
        b"\xf8\x88\x80\x80\x80",
        b"\xe2\x82",
        b"\x80",
        b"\x1f\x8b",
    ),
)
ODD_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**53 + 1, 2**63, 2**64, -(2**63), 10**400),
    *(0.0, -0.0, 0.5, 1e308, 1e-320, float("nan"), float("inf"), -float("inf")),
    *("", " ", "x", "\x00", "\ud800", "é" * 300, "main", "node:Person", "edge:Knows", "2020-02-30"),
    *([], {}, [[]], [None], {"": None}, [1, "a", None], {"id": 1}, {"a": {"b": [{}]}}),
)


def damaged(chance: Random, seeds: Sequence[Input], words: Sequence[Input]) -> Input:
    """A seed after a few accidents; now and then something that was never good."""
    text = chance.choice(seeds)
    if chance.random() < 0.03:
        text = text[:0]
    for _ in range(chance.choice((1, 1, 1, 2, 3, 6))):
        text = _accident(chance, text, seeds, words)
    return text[:LONGEST]


def _accident(chance: Random, text: Input, seeds: Sequence[Input], words: Sequence[Input]) -> Input:
    first = chance.randint(0, len(text))
    length = chance.choice((0, 1, 1, 2, 5, 20))
    rest = text[first + length :]
    match chance.randrange(8):
        case 0:
            return text[:first] + rest
        case 1 | 2:
            return text[:first] + chance.choice(words) + rest
        case 3:
            return text[:first] + text[first : first + length] * chance.choice((2, 3, 50)) + rest
        case 4:
            other = chance.choice(seeds)
            return text[:first] + other[chance.randint(0, len(other)) :]
        case 5:
            second = chance.randint(0, len(text))
            return text[:first] + text[second : second + length] + rest
        case 6:
            return text[:first]
        case _:
            return text[:first] + _any_character(chance, text) + text[first + 1 :]


def _any_character(chance: Random, like: Input) -> Input:
    if isinstance(like, bytes):
        return bytes([chance.randrange(256)])
    return chr(chance.choice((chance.randrange(128), chance.randrange(0x3000), 0xD800, 0x1F600)))


def damaged_json(chance: Random, documents: Sequence[Any]) -> str:
    """The JSON of a document with wrong values in it, or with a damaged text."""
    if chance.random() < 0.4:
        return damaged(chance, [json.dumps(chance.choice(documents))], ODD_TEXTS)
    return json.dumps(misshapen(chance, documents), ensure_ascii=chance.random() < 0.5)


def misshapen(chance: Random, documents: Sequence[Any]) -> Any:
    """A document in which a few values were replaced, removed, renamed, repeated or moved."""
    root = [deepcopy(chance.choice(documents))]
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        places = list(_places(root))
        holder, key = chance.choice(places)
        value: Any = deepcopy(chance.choice(ODD_VALUES))
        if chance.random() < 0.3:
            other, name = chance.choice(places)
            value = deepcopy(other[name])
        match chance.randrange(6):
            case 0 if holder is not root:
                del holder[key]
            case 1 if isinstance(holder, dict):
                holder[chance.choice((*ODD_TEXTS[:30], "id", "x", key + "_"))] = value
            case 2 if isinstance(holder, list) and holder is not root:
                holder.insert(key, value)
            case _:
                holder[key] = value
    return root[0]


def _places(root: list[Any]) -> Any:
    """Every value inside, by what holds it and its key there."""
    left: list[Any] = [root]
    while left:
        holder = left.pop()
        keys = range(len(holder)) if isinstance(holder, list) else list(holder)
        for key in keys:
            yield holder, key
            if isinstance(holder[key], list | dict):
                left.append(holder[key])
