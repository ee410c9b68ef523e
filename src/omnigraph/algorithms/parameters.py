"""Checks of the numbers and words that tune an algorithm."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal, cast

from omnigraph.errors import BadRequest

EdgeDirection = Literal["out", "in", "both"]
_DIRECTIONS = ("out", "in", "both")


def number_between(
    name: str, value: object, least: float, most: float, *, open_end: bool = False
) -> float:
    """Return a finite number from ``least`` to ``most``; with ``open_end``, one above ``least``."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number:
        number = _as_float(cast("float", value))
        if (
            least <= number <= most
            and not math.isinf(number)
            and not (open_end and number == least)
        ):
            return number
    if open_end:
        wanted = f"a number above {least:g}"
    elif math.isinf(most):
        wanted = f"a number from {least:g} on"
    else:
        wanted = f"a number from {least:g} to {most:g}"
    raise BadRequest(f"{name} is {value!r}; give {wanted}")


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:  # a whole number beyond every float
        return math.inf


def rounds(value: object) -> int:
    """Return the most rounds to run."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise BadRequest(f"max_iterations is {value!r}; give a whole number from 1 on")
    return value


def edge_direction(value: object) -> EdgeDirection:
    """Return the direction in which edges are followed or counted."""
    if value not in _DIRECTIONS:
        raise BadRequest(f"direction is {value!r}; give one of {', '.join(_DIRECTIONS)}")
    return cast("EdgeDirection", value)


def ids(name: str, value: object) -> list[str] | None:
    """Return a list of ids without repeats, or None."""
    if value is None:
        return None
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise BadRequest(f"{name} is {value!r}; give a list of ids, or leave it out")
    given = list(value)
    for one in given:
        if not isinstance(one, str):
            raise BadRequest(f"an id in {name} is {one!r}; ids are texts")
    if not given:
        raise BadRequest(f"{name} is empty; give at least one id, or leave it out")
    return list(dict.fromkeys(given))
