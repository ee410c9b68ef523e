"""Loops over pairs of rows: whether one is a target of the other, and which targets two rows share.

Row 0 has the targets 1 and 2, row 2 the target 1:

    contains(csr, [0, 2], [2, 2])          -> [True, False]   is the second a target of the first?
    common_count(csr, [0], csr, [2])       -> [1]             how many targets do both rows have?
    common_expand(csr, [0], csr, [2])      -> [0], [1]        and which?

Each has a compiled twin in ``pairs_numba``, which must give the same results; ``twins`` chooses.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from omnigraph.cancel import look
from omnigraph.read.kernels.arrays import (
    Adjacency,
    Bits,
    Codes,
    Counts,
    Index,
    Mask,
    average_length,
    row_lengths,
)
from omnigraph.read.kernels.csr import Csr
from omnigraph.read.kernels.frontier import CHUNK, cut, expand, starts_of_runs
from omnigraph.read.kernels.twins import in_numpy, with_twin


def _seconds(left: Adjacency, a: Codes, right: Adjacency, *_: object) -> float:
    """How long NumPy takes to compare some pairs of rows, roughly."""
    return 300e-9 * len(a) * min(average_length(left), average_length(right))


@with_twin(lambda _csr, a, _b: 300e-9 * len(a))
def contains(csr: Adjacency, a: Codes, b: Codes, /) -> Mask:
    """For every pair ``(a[i], b[i])`` whether ``b[i]`` is a target of row ``a[i]``."""
    if not len(csr.indices):
        return np.zeros(len(a), np.bool_)
    # One step of all binary searches at a time.
    low, end = csr.indptr.take(a), csr.indptr[1:].take(a)
    high = end
    # As many steps as the longest row needs; shorter ones are through before and stay where they are.
    for _ in range(int((high - low).max(initial=0)).bit_length()):
        middle = (low + high) >> 1
        before = (csr.indices.take(middle, mode="clip") < b) & (low < high)
        low = np.where(before, middle + 1, low)
        high = np.where(before, high, middle)
    found: Mask = (low < end) & (csr.indices.take(low, mode="clip") == b)
    return found


@with_twin(lambda _bits, _columns, a, _b: 15e-9 * len(a))
def marked(bits: Bits, columns: int, a: Codes, b: Codes, /) -> Mask:
    """For every pair whether its bit is set, where row ``a[i]`` has ``columns`` bits, eight in a byte."""
    places = a.astype(np.int64)
    places *= columns
    places += b
    # The lowest three bits survive the cut to a byte, and a byte is an eighth of the memory to go through.
    inner = places.astype(np.uint8)
    inner &= 7
    places >>= 3
    found = bits.take(places)
    found >>= inner
    found &= 1
    return found.view(np.bool_)


@with_twin(_seconds)
def common_count(
    left: Adjacency,
    a: Codes,
    right: Adjacency,
    b: Codes,
    weights: Counts | None = None,
    mask: Mask | None = None,
    /,
    *,
    chunk: int = CHUNK,
) -> Counts:
    """For every pair how many targets row ``a[i]`` of left and row ``b[i]`` of right share.

    ``mask`` says which targets count, ``weights`` how much each is worth; sums wrap at 2^64.
    ``chunk`` bounds the targets looked at together.
    """
    counts = np.zeros(len(a), np.int64)
    for pairs, swap in _chunks(left, a, right, b, chunk):
        total = np.zeros(len(pairs), np.int64)
        for index, targets in _halves(left, a.take(pairs), right, b.take(pairs), swap, mask):
            if weights is None:
                total += np.bincount(index, minlength=len(pairs))
            elif len(index):
                runs = starts_of_runs(index)
                total[index.take(runs)] = np.add.reduceat(weights.take(targets), runs)
        counts[pairs] = total
    return counts


@with_twin(_seconds)
def common_expand(
    left: Adjacency,
    a: Codes,
    right: Adjacency,
    b: Codes,
    mask: Mask | None = None,
    /,
    *,
    chunk: int = CHUNK,
) -> tuple[Index, Codes]:
    """For every pair every target that row ``a[i]`` of left and row ``b[i]`` of right share.

    The first array holds the place ``i`` of the pair; both ascend, the targets within a pair. ``chunk``
    bounds the targets looked at together.
    """
    places, shared = [np.zeros(0, np.int64)], [np.zeros(0, np.int32)]
    for pairs, swap in _chunks(left, a, right, b, chunk):
        index, targets = _shared(left, a.take(pairs), right, b.take(pairs), swap, mask)
        places.append(pairs.take(index))
        shared.append(targets)
    return np.concatenate(places), np.concatenate(shared)


def _chunks(
    left: Adjacency, a: Codes, right: Adjacency, b: Codes, chunk: int
) -> Iterator[tuple[Index, Mask]]:
    """The pairs that both have targets, in parts whose shorter rows together are about ``chunk`` long.

    With each part comes which of its pairs have the shorter row on the right.
    """
    of_left, of_right = row_lengths(left, a), row_lengths(right, b)
    swap = of_left > of_right
    lengths = np.minimum(of_left, of_right)
    pairs = np.flatnonzero(lengths)
    for first, last in cut(lengths.take(pairs), chunk):
        look()
        part = pairs[first:last]
        yield part, swap.take(part)


def _shared(
    left: Adjacency, a: Codes, right: Adjacency, b: Codes, swap: Mask, mask: Mask | None
) -> tuple[Index, Codes]:
    """The targets that the rows of each pair share, beside the place of the pair."""
    halves = list(_halves(left, a, right, b, swap, mask))
    index = np.concatenate([half[0] for half in halves])
    targets = np.concatenate([half[1] for half in halves])
    # A pair is wholly in one half, its targets ascending.
    order = np.argsort(index, kind="stable")
    return index.take(order), targets.take(order)


def _halves(
    left: Adjacency, a: Codes, right: Adjacency, b: Codes, swap: Mask, mask: Mask | None
) -> Iterator[tuple[Index, Codes]]:
    """Look every target of the shorter row, which is the right one where ``swap``, up in the longer one."""
    yield _looked_up(left, a, right, b, np.flatnonzero(~swap), mask)
    yield _looked_up(right, b, left, a, np.flatnonzero(swap), mask)


def _looked_up(
    short: Adjacency, a: Codes, long: Adjacency, b: Codes, chosen: Index, mask: Mask | None
) -> tuple[Index, Codes]:
    index, targets = expand(short, a.take(chosen))
    if mask is not None:
        kept = np.flatnonzero(mask.take(targets))
        index, targets = index.take(kept), targets.take(kept)
    rows = b.take(chosen).take(index)
    bits = long.bits_for(len(rows)) if isinstance(long, Csr) else None
    if bits is None:
        found = in_numpy(contains)(long, rows, targets)
    else:
        found = in_numpy(marked)(bits, long.shape[1], rows, targets)
    places = np.flatnonzero(found)
    return chosen.take(index.take(places)), targets.take(places)
