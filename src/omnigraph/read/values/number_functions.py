"""Arithmetic on columns. What has no value, such as a sum beyond I64 or a division by zero, is null.

[9223372036854775807, 2] + 1   ->   [null, 3]
[7, -7] % 4                    ->   [3, -3]
[2.5, -2.5, nan] rounded       ->   [3, -3, null]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from omnigraph.read.kernels.arrays import Mask
from omnigraph.read.values.column import Column
from omnigraph.read.values.derived import Computed
from omnigraph.read.values.operands import Given
from omnigraph.types import PropType

Numbers = npt.NDArray[Any]
Argument = Column | Given
LEAST, MOST = -(2**63), 2**63 - 1
_BEYOND = 2.0**63


def valid_of(*args: Argument) -> Mask | None:
    """Which rows have all of these values; None when all do. A given value is never null here."""
    found: Mask | None = None
    for one in args:
        valid = None if isinstance(one, Given) else one.valid
        if valid is not None:
            found = valid if found is None else found & valid
    return found


def without(valid: Mask | None, bad: Mask | None) -> Mask | None:
    """The valid rows less the bad ones."""
    if bad is None:
        return valid
    return ~bad if valid is None else valid & ~bad


def reals(arg: Argument) -> Numbers:
    """Numbers as F64."""
    if isinstance(arg, Given):
        return np.array(arg.value, np.float64)
    return arg.numbers.astype(np.float64, copy=False)


def wholes(arg: Argument) -> tuple[Numbers, Mask | None]:
    """Integers as I64, and which of them an I64 cannot hold."""
    if isinstance(arg, Given):
        beyond = not LEAST <= arg.value <= MOST
        return np.array(0 if beyond else arg.value, np.int64), np.array(True) if beyond else None
    numbers = arg.numbers
    if numbers.dtype == np.uint64:
        return numbers.view(np.int64), numbers > np.uint64(MOST)
    return numbers.astype(np.int64, copy=False), None


def _span(arg: Argument) -> tuple[int, int]:
    return (arg.value, arg.value) if isinstance(arg, Given) else arg.span


def _arithmetic(
    operation: Callable[[Any, Any], Any],
    bounds: Callable[[tuple[int, int], tuple[int, int]], tuple[int, int]],
    wrapped: Callable[[Numbers, Numbers, Numbers], Mask],
) -> Callable[[PropType, Argument, Argument], Column]:
    """An operation on integers or floats. ``wrapped`` finds the results beyond I64, where ``bounds`` allow some."""

    def kernel(type: PropType, left: Argument, right: Argument) -> Column:
        if type.is_float:
            return Computed(type, operation(reals(left), reals(right)), valid_of(left, right))
        (a, left_bad), (b, right_bad) = wholes(left), wholes(right)
        result = operation(a, b)
        bad = _either(left_bad, right_bad)
        low, high = bounds(_span(left), _span(right))
        if low < LEAST or high > MOST:
            bad = _either(bad, wrapped(a, b, result))
        return Computed(type, result, without(valid_of(left, right), _whole(bad, result)))

    return kernel


def _either(one: Mask | None, other: Mask | None) -> Mask | None:
    if one is None or other is None:
        return other if one is None else one
    return one | other


def _whole(bad: Mask | None, like: Numbers) -> Mask | None:
    """A mask with a place for every row: that of a given value alone has one for all."""
    return None if bad is None else np.broadcast_to(bad, like.shape)


def _product_wrapped(a: Numbers, b: Numbers, result: Numbers) -> Mask:
    divisor = np.where(a == 0, 1, a)
    odd = (a == -1) & (b == LEAST)
    wrapped: Mask = (a != 0) & (odd | (result // np.where(odd, 1, divisor) != b))
    return wrapped


def _product_bounds(one: tuple[int, int], two: tuple[int, int]) -> tuple[int, int]:
    ends = [a * b for a in one for b in two]
    return min(ends), max(ends)


add = _arithmetic(
    np.add,
    lambda one, two: (one[0] + two[0], one[1] + two[1]),
    lambda a, b, result: ((a ^ result) & (b ^ result)) < 0,
)
subtract = _arithmetic(
    np.subtract,
    lambda one, two: (one[0] - two[1], one[1] - two[0]),
    lambda a, b, result: ((a ^ b) & (a ^ result)) < 0,
)
multiply = _arithmetic(np.multiply, _product_bounds, _product_wrapped)


def divide(type: PropType, left: Argument, right: Argument) -> Column:
    """A quotient in F64; null where it is divided by zero."""
    a, b = reals(left), reals(right)
    zero = b == 0
    bad = _whole(zero, np.broadcast_to(a, np.broadcast_shapes(a.shape, b.shape)))
    return Computed(type, a / b, without(valid_of(left, right), bad if zero.any() else None))


def remainder(type: PropType, left: Argument, right: Argument) -> Column:
    """What is left of a division of integers; it has the sign of the dividend."""
    (a, left_bad), (b, right_bad) = wholes(left), wholes(right)
    zero = b == 0
    # By -1 nothing is left; the least integer has no quotient there.
    result = np.fmod(a, np.where(zero | (b == -1), 1, b))
    bad = _either(_either(left_bad, right_bad), zero if zero.any() else None)
    return Computed(type, result, without(valid_of(left, right), _whole(bad, result)))


def negate(type: PropType, arg: Argument) -> Column:
    """The number with the other sign."""
    if type.is_float:
        return Computed(type, -reals(arg), valid_of(arg))
    numbers, bad = wholes(arg)
    least = numbers == LEAST if _span(arg)[0] == LEAST else None
    return Computed(type, -numbers, without(valid_of(arg), _either(bad, least)))


def absolute(type: PropType, arg: Argument) -> Column:
    """The number without its sign."""
    if type.is_float:
        return Computed(type, np.abs(reals(arg)), valid_of(arg))
    numbers, bad = wholes(arg)
    least = numbers == LEAST if _span(arg)[0] == LEAST else None
    return Computed(type, np.abs(numbers), without(valid_of(arg), _either(bad, least)))


def _half_away(numbers: Numbers) -> Numbers:
    return np.copysign(np.floor(np.abs(numbers) + 0.5), numbers)


def _to_whole(rounding: Callable[[Numbers], Numbers]) -> Callable[[PropType, Column], Column]:
    """A rounding of floats to I64; integers stay what they are."""

    def kernel(type: PropType, arg: Column) -> Column:
        if not arg.type.is_float:
            numbers, bad = wholes(arg)
            return Computed(type, numbers, without(valid_of(arg), bad))
        rounded = rounding(reals(arg))
        fits = (rounded >= -_BEYOND) & (rounded < _BEYOND)
        integers = np.where(fits, rounded, 0.0).astype(np.int64)
        return Computed(type, integers, without(valid_of(arg), ~fits))

    return kernel


floor = _to_whole(np.floor)
ceil = _to_whole(np.ceil)
_round = _to_whole(_half_away)


def round_half_away(type: PropType, arg: Column, digits: Given | None = None) -> Column:
    """Halves away from zero: to an integer, or to some digits after the point."""
    if digits is None:
        return _round(type, arg)
    scale = float(10**digits.value)
    numbers = reals(arg)
    scaled = np.abs(numbers) * scale + 0.5
    finite = np.isfinite(scaled)
    rounded = np.copysign(np.floor(scaled) / scale, numbers)
    return Computed(type, rounded, without(valid_of(arg), ~finite))


def to_f64(type: PropType, arg: Argument) -> Column:
    """An integer, or a float of single precision, as F64."""
    return Computed(type, reals(arg), valid_of(arg))
