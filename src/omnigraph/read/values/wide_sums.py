"""Integers of 128 bits, for sums that pass 64 bits on their way or at their end.

An array of them is an int64 array of four rows, its limbs: the number is the sum of ``limb[k] * 2**(32 * k)``.

    2**32 + 5   ->   limbs [5, 1, 0, 0]

In settled numbers the first three limbs are at least 0 and below 2**32, and the last carries the sign. The
sum over all rows of a query never passes 128 bits: a number has at most 64, and rows are counted in 63.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from omnigraph.read.kernels.arrays import Counts, Mask

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
