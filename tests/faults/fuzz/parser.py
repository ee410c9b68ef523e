"""What a parser is to these tests: inputs, a function that reads them, and how it may refuse."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

ULID = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
GRAPH = "6f1c2a52-0a53-4c0e-9a0e-3b2f7f1c2d11"


@dataclass(frozen=True)
class Parser:
    """``make`` gives an input, ``read`` reads it; an error that is not in ``refuses`` is a defect.

    ``inputs``: how many inputs one call of ``make`` gives, where a parser judges each by itself.
    """

    make: Callable[[Random], Any]
    read: Callable[[Any], Any]
    refuses: tuple[type[Exception], ...]
    inputs: int = 1


PARSERS: dict[str, Callable[[Path], Parser]] = {}
"""Every parser, made for a directory of its own."""
SLOW = {"operator file": 20}
"""So many times as long as the others take per input: YAML is read by a library in Python."""


def parser(make: Callable[[Path], Parser]) -> Callable[[Path], Parser]:
    """Add a parser to the list, under the name of the function that makes it."""
    PARSERS[make.__name__.strip("_").replace("_", " ")] = make
    return make
