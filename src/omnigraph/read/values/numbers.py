"""Numbers by mathematical value: comparison across types, integers that sort like them, and sums of 128 bits.

For example:

    2**53 + 1 (I64) > 2.0**53 (F64)   is true here; NumPy rounds the integer and calls them equal
    sortable([1.5, -2.0, nan])        three integers in the order 2nd, 1st, 3rd

A sum that passes 64 bits on its way or at its end is added in an int64 array of four rows, its limbs: the number is the
sum of ``limb[k] * 2**(32 * k)``.

    2**32 + 5   ->   limbs [5, 1, 0, 0]

In settled numbers the first three limbs are at least 0 and below 2**32, and the last carries the sign. The
sum over all rows of a query never passes 128 bits: a number has at most 64, and rows are counted in 63.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from omnigraph.errors import ResourceLimit
from omnigraph.read.kernels.arrays import Counts, Mask
from omnigraph.storage.filters import OPERATORS, ComparisonOp

Numbers = npt.NDArray[Any]


MIRRORED: dict[ComparisonOp, ComparisonOp] = {
    "=": "=",
    "!=": "!=",
    "<": ">",
    "<=": ">=",
    ">": "<",
    ">=": "<=",
}
MAX_COUNT = 2**63 - 1
_WHOLE = 2.0**53
_LOW_63 = 2**63 - 1


def compare_numbers(left: Numbers, op: ComparisonOp, right: Numbers) -> Mask:
    """Two arrays of numbers by mathematical value, whatever their types."""
    for whole, real, order in ((left, right, op), (right, left, MIRRORED[op])):
        if whole.dtype.kind in "iu" and whole.dtype.itemsize == 8 and real.dtype.kind == "f":
            return _whole_and_real(whole, order, real)
    if left.dtype.kind == "f" or right.dtype.kind == "f":
        left, right = left.astype(np.float64, copy=False), right.astype(np.float64, copy=False)
    # NumPy (since 1.25) compares signed with unsigned integers exactly.
    held: Mask = OPERATORS[op](left, right)
    return held


def _whole_and_real(whole: Numbers, op: ComparisonOp, real: Numbers) -> Mask:
    """64-bit integers against floats. Rounding keeps order, so only what rounds to equal is open."""
    real = real.astype(np.float64, copy=False)
    rounded = whole.astype(np.float64)
    held: Mask = OPERATORS[op](rounded, real)
    is_open = np.flatnonzero((rounded == real) & (np.abs(real) >= _WHOLE))
    if is_open.size:
        reals, wholes = real[is_open], whole[is_open]
        # A float at the first power of two beyond the type was rounded up to it: every integer is less.
        beyond = reals >= 2.0 ** (63 if whole.dtype.kind == "i" else 64)
        exact = np.where(beyond, 0.0, reals).astype(whole.dtype)
        verdict = OPERATORS[op](wholes, exact)
        held[is_open] = np.where(beyond, op in {"<", "<=", "!="}, verdict)
    return held


def sortable(numbers: Numbers) -> Counts:
    """64-bit integers in the order of the numbers, equal only for equal ones; NaN is the largest."""
    if numbers.dtype.kind == "f":
        # Adding zero turns -0.0 into 0.0.
        bits = (numbers.astype(np.float64) + 0.0).view(np.int64)
        bits[np.isnan(numbers)] = _LOW_63
        return bits ^ ((bits >> 63) & _LOW_63)
    if numbers.dtype == np.uint64:
        flipped: Counts = (numbers ^ np.uint64(2**63)).view(np.int64)
        return flipped
    return numbers.astype(np.int64, copy=False)


def unsortable(integers: Counts, dtype: np.dtype[Any]) -> Numbers:
    """The numbers that ``sortable`` made the integers from."""
    if dtype.kind == "f":
        bits = integers ^ ((integers >> 63) & _LOW_63)
        return bits.view(np.float64).astype(dtype)
    if dtype == np.uint64:
        return integers.view(np.uint64) ^ np.uint64(2**63)
    return integers.astype(dtype)


def too_many() -> ResourceLimit:
    """The refusal of a count that an I64 cannot hold."""
    return ResourceLimit(
        f"a count of this query passes {MAX_COUNT}, the largest I64; narrow the match",
        resource="count",
        limit=MAX_COUNT,
        actual=None,
    )


_LOW = 0xFFFFFFFF


def products(values: npt.NDArray[Any], weights: Counts | None) -> Counts:
    """Integers of up to 64 bits, signed or not, times counts (None: each once), as limbs."""
    low = np.uint64(_LOW)
    half = np.uint64(32)
    is_negative = values < 0
    size = values.astype(np.uint64)
    size = np.where(is_negative, ~size + np.uint64(1), size)
    times = np.ones(len(values), np.uint64) if weights is None else weights.astype(np.uint64)
    a, b, c, d = size & low, size >> half, times & low, times >> half
    least, crossed, other, most = a * c, a * d, b * c, b * d
    second = (least >> half) + (crossed & low) + (other & low)
    third = (second >> half) + (crossed >> half) + (other >> half) + (most & low)
    limbs = np.stack([least & low, second & low, third & low, (third >> half) + (most >> half)])
    signed = limbs.astype(np.int64)
    return settled(np.where(is_negative, -signed, signed))


def settled(limbs: Counts) -> Counts:
    """The same numbers with every limb but the last within 0 and 2**32."""
    limbs = limbs.copy()
    for at in range(3):
        limbs[at + 1] += limbs[at] >> 32
        limbs[at] &= _LOW
    return limbs


def narrowed(limbs: Counts) -> tuple[Counts, Mask]:
    """Settled numbers as int64, and which of them fit."""
    low = limbs[0] | (limbs[1] << 32)
    high = limbs[2] + (limbs[3] << 32)
    return low, high == low >> 63
