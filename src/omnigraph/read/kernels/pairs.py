"""Loops over pairs of rows: whether one is a target of the other, and which targets two rows share.

Row 0 has the targets 1 and 2, row 2 the target 1:

    contains(csr, [0, 2], [2, 2])          -> [True, False]   is the second a target of the first?
    common_count(csr, [0], csr, [2])       -> [1]             how many targets do both rows have?
    common_expand(csr, [0], csr, [2])      -> [0], [1]        and which?

Each loop exists twice, in NumPy and compiled by Numba; ``dispatch`` chooses.
"""

from __future__ import annotations

from omnigraph.read.kernels import pairs_numpy
from omnigraph.read.kernels.arrays import (
    Adjacency,
    Bits,
    Codes,
    Counts,
    Index,
    Mask,
    average_length,
)
from omnigraph.read.kernels.dispatch import Dispatch

dispatcher = Dispatch("omnigraph.read.kernels.pairs_numba")


def contains(csr: Adjacency, a: Codes, b: Codes) -> Mask:
    """For every pair ``(a[i], b[i])`` whether ``b[i]`` is a target of row ``a[i]``."""
    chosen = dispatcher.choose(pairs_numpy.contains, 300 * len(a))
    return chosen(csr, a, b)


def marked(bits: Bits, columns: int, a: Codes, b: Codes) -> Mask:
    """For every pair whether its bit is set, where row ``a[i]`` has ``columns`` bits, eight in a byte."""
    chosen = dispatcher.choose(pairs_numpy.marked, 15 * len(a))
    return chosen(bits, columns, a, b)


def common_count(
    left: Adjacency,
    a: Codes,
    right: Adjacency,
    b: Codes,
    weights: Counts | None = None,
    mask: Mask | None = None,
) -> Counts:
    """For every pair how many targets row ``a[i]`` of left and row ``b[i]`` of right share.

    ``mask`` says which targets count, ``weights`` how much each is worth; sums wrap at 2^64.
    """
    chosen = dispatcher.choose(
        pairs_numpy.common_count, 300 * len(a) * min(average_length(left), average_length(right))
    )
    return chosen(left, a, right, b, weights, mask)


def common_expand(
    left: Adjacency, a: Codes, right: Adjacency, b: Codes, mask: Mask | None = None
) -> tuple[Index, Codes]:
    """For every pair every target that row ``a[i]`` of left and row ``b[i]`` of right share.

    The first array holds the place ``i`` of the pair; both ascend, the targets within a pair.
    """
    chosen = dispatcher.choose(
        pairs_numpy.common_expand, 300 * len(a) * min(average_length(left), average_length(right))
    )
    return chosen(left, a, right, b, mask)
