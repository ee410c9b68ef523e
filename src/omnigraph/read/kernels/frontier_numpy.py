"""The loops over adjacency in NumPy: always there, and the measure for the compiled ones."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from omnigraph.read.kernels.arrays import (
    Adjacency,
    Bits,
    Codes,
    Counts,
    Floats,
    Mask,
    MultiAdjacency,
)
from omnigraph.read.kernels.csr import Csr

Index = npt.NDArray[np.int64]
Summed = TypeVar("Summed", Counts, Floats)


# Targets an intersection or a merge looks at together; bounds what it holds at a time.
CHUNK = 1 << 20
# Pairs of a group and a target that are counted together.
CELLS = 1 << 22
# Entries a sum looks at together, so that what it gathers stays in the processor's cache.
BLOCK = 1 << 17


def pull(csr: Adjacency, x: Summed, block: int = BLOCK) -> Summed:
    """For every row the sum of ``x`` over its targets; integers wrap.

    About ``block`` entries, in whole rows, are gathered at a time.
    """
    sums = np.zeros(csr.shape[0], x.dtype)
    filled, starts = _filled(csr)
    if not len(starts):
        return sums
    entries = len(csr.indices)
    cuts = np.searchsorted(starts, np.arange(block, entries, block))
    bounds = np.unique(np.concatenate(([0], cuts, [len(starts)])))
    found = np.empty(len(starts), x.dtype)
    for first, last in pairwise(bounds.tolist()):
        begin = starts[first]
        end = starts[last] if last < len(starts) else entries
        gathered = x.take(csr.indices[begin:end])
        np.add.reduceat(gathered, starts[first:last] - begin, out=found[first:last])
    sums[filled] = found
    return sums


def pull_count(csr: Adjacency, mask: Mask) -> Counts:
    """For every row how many of its targets ``mask`` holds for."""
    counts = np.zeros(csr.shape[0], np.int64)
    filled, starts = _filled(csr)
    if len(starts):
        gathered = mask.view(np.uint8).take(csr.indices)
        counts[filled] = np.add.reduceat(gathered, starts, dtype=np.int64)
    return counts


def pull_any(csr: Adjacency, mask: Mask) -> Mask:
    """For every row whether ``mask`` holds for one of its targets."""
    found = np.zeros(csr.shape[0], np.bool_)
    filled, starts = _filled(csr)
    if len(starts):
        found[filled] = np.logical_or.reduceat(mask.take(csr.indices), starts)
    return found


def pull_min(csr: Adjacency, x: Codes) -> Codes:
    """For every row the smallest ``x`` of its targets, where -1 stands for none."""
    # Unsigned, -1 is larger than every code.
    best = np.full(csr.shape[0], -1, np.int32).view(np.uint32)
    filled, starts = _filled(csr)
    if len(starts):
        best[filled] = np.minimum.reduceat(x.view(np.uint32).take(csr.indices), starts)
    return best.view(np.int32)


def pull_max(csr: Adjacency, x: Codes) -> Codes:
    """For every row the largest ``x`` of its targets, where -1 stands for none."""
    best = np.full(csr.shape[0], -1, np.int32)
    filled, starts = _filled(csr)
    if len(starts):
        best[filled] = np.maximum.reduceat(x.take(csr.indices), starts)
    return best


def _filled(csr: Adjacency) -> tuple[Codes | Mask, Index]:
    # `reduceat` gives an empty segment a value of its neighbour, so empty rows are left out.
    if isinstance(csr, Csr):
        return csr.filled, csr.indptr.take(csr.filled)
    filled = csr.indptr[1:] > csr.indptr[:-1]
    return filled, csr.indptr[:-1][filled]


def push(csr: Adjacency, codes: Codes, x: Summed) -> tuple[Codes, Summed]:
    """The distinct targets of some rows, ascending, with the sum of the rows' ``x``."""
    index, targets = expand(csr, codes)
    if len(targets) * 8 < csr.shape[1]:
        order = np.argsort(targets, kind="stable")
        targets = targets[order]
        starts = _starts_of_runs(targets)
        if not len(starts):
            return targets, np.zeros(0, x.dtype)
        return targets[starts], np.add.reduceat(x[index[order]], starts)
    sums = np.zeros(csr.shape[1], x.dtype)
    np.add.at(sums, targets, x[index])
    reached = _distinct(targets, csr.shape[1])
    return reached, sums[reached]


def push_any(csr: Adjacency, codes: Codes) -> Codes:
    """The distinct targets of some rows, ascending."""
    return _distinct(expand(csr, codes)[1], csr.shape[1])


def _distinct(targets: Codes, size: int) -> Codes:
    if len(targets) * 8 < size:
        return np.unique(targets)
    seen = np.zeros(size, np.bool_)
    seen[targets] = True
    return np.flatnonzero(seen).astype(np.int32)


def _starts_of_runs(ordered: npt.NDArray[np.integer]) -> Index:
    if not len(ordered):
        return np.zeros(0, np.int64)
    return np.concatenate(([0], np.flatnonzero(ordered[1:] != ordered[:-1]) + 1))


def expand(csr: Adjacency, rows: Codes) -> tuple[Index, Codes]:
    """Every target of every given row, beside the place of the row in ``rows``."""
    index, entries = _entries(csr, rows)
    return index, csr.indices.take(entries)


def expand_merged(
    csr: Adjacency,
    rows: Codes,
    starts: Index,
    weights: Counts | None,
    cells: int = CELLS,
    chunk: int = CHUNK,
) -> tuple[Index, Codes, Counts]:
    """The distinct targets of groups of rows, with the sum of the weights of the rows they are reached from.

    ``cells`` bounds the pairs of a group and a target looked at together, ``chunk`` the targets of some rows.
    """
    size = max(csr.shape[1], 1)
    step = max(1, cells // size)
    found = []
    for first in range(0, len(starts) - 1, step):
        part = starts[first : first + step + 1]
        group_of = np.repeat(np.arange(len(part) - 1) * size, np.diff(part))
        sums = np.zeros((len(part) - 1) * size, np.int64)
        seen = np.zeros(len(sums), np.bool_)
        for begin, end in _cut(_lengths(csr, rows[part[0] : part[-1]]), chunk):
            index, targets = expand(csr, rows[part[0] + begin : part[0] + end])
            keys = group_of[begin:end].take(index)
            keys += targets
            seen[keys] = True
            if weights is None:
                np.add.at(sums, keys, 1)
            else:
                np.add.at(sums, keys, weights[part[0] + begin : part[0] + end].take(index))
        keys = np.flatnonzero(seen)
        group, target = np.divmod(keys, size)
        found.append((group + first, target.astype(np.int32), sums.take(keys)))
    if not found:
        return np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int64)
    group, target, sums = map(np.concatenate, zip(*found, strict=True))
    return group, target, sums


def expand_multi(multi: MultiAdjacency, rows: Codes) -> tuple[Index, Codes, Codes]:
    """Every stored edge of every given row: the row's place in ``rows``, target, edge position."""
    index, entries = _entries(multi, rows)
    return index, multi.indices.take(entries), multi.positions.take(entries)


def _entries(csr: Adjacency, rows: Codes) -> tuple[Index, Index]:
    starts = csr.indptr.take(rows)
    lengths = csr.indptr[1:].take(rows) - starts
    index = np.repeat(np.arange(len(rows)), lengths)
    before = np.cumsum(lengths) - lengths
    entries = (starts - before).take(index)
    entries += np.arange(len(index))
    return index, entries


def contains(csr: Adjacency, a: Codes, b: Codes) -> Mask:
    """For every pair whether ``b`` is a target of row ``a``."""
    if not len(csr.indices):
        return np.zeros(len(a), np.bool_)
    # One step of all binary searches at a time.
    low, end = csr.indptr.take(a), csr.indptr[1:].take(a)
    high = end
    for _ in range(int((high - low).max(initial=0)).bit_length()):
        middle = (low + high) >> 1
        before = (csr.indices.take(middle, mode="clip") < b) & (low < high)
        low = np.where(before, middle + 1, low)
        high = np.where(before, high, middle)
    found: Mask = (low < end) & (csr.indices.take(low, mode="clip") == b)
    return found


def marked(bits: Bits, columns: int, a: Codes, b: Codes) -> Mask:
    """For every pair whether its bit is set, where row ``a`` has ``columns`` bits."""
    places = a.astype(np.int64)
    places *= columns
    places += b
    inner = places.astype(np.uint8)
    inner &= 7
    places >>= 3
    found = bits.take(places)
    found >>= inner
    found &= 1
    return found.view(np.bool_)


def common_count(
    left: Adjacency,
    a: Codes,
    right: Adjacency,
    b: Codes,
    weights: Counts | None = None,
    mask: Mask | None = None,
    chunk: int = CHUNK,
) -> Counts:
    """For every pair how many targets row ``a`` of left and row ``b`` of right share.

    ``mask`` says which targets count, ``weights`` how much each is worth; sums wrap.
    ``chunk`` bounds the targets looked at together.
    """
    counts = np.zeros(len(a), np.int64)
    for pairs, swap in _chunks(left, a, right, b, chunk):
        total = np.zeros(len(pairs), np.int64)
        for index, targets in _halves(left, a.take(pairs), right, b.take(pairs), swap, mask):
            if weights is None:
                total += np.bincount(index, minlength=len(pairs))
            elif len(index):
                runs = _starts_of_runs(index)
                total[index.take(runs)] = np.add.reduceat(weights.take(targets), runs)
        counts[pairs] = total
    return counts


def common_expand(
    left: Adjacency,
    a: Codes,
    right: Adjacency,
    b: Codes,
    mask: Mask | None = None,
    chunk: int = CHUNK,
) -> tuple[Index, Codes]:
    """For every pair every target that row ``a`` of left and row ``b`` of right share.

    The first array holds the place of the pair; both ascend, the targets within a pair. ``chunk``
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
    of_left, of_right = _lengths(left, a), _lengths(right, b)
    swap = of_left > of_right
    lengths = np.minimum(of_left, of_right)
    pairs = np.flatnonzero(lengths)
    for first, last in _cut(lengths.take(pairs), chunk):
        part = pairs[first:last]
        yield part, swap.take(part)


def _cut(lengths: Index, chunk: int) -> list[tuple[int, int]]:
    """Ranges whose lengths together are about ``chunk``."""
    total = np.cumsum(lengths)
    if not len(total):
        return []
    cuts = np.searchsorted(total, np.arange(chunk, total[-1], chunk))
    bounds = np.unique(np.concatenate(([0], cuts, [len(lengths)]))).tolist()
    return list(pairwise(bounds))


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
        found = contains(long, rows, targets)
    else:
        found = marked(bits, long.shape[1], rows, targets)
    places = np.flatnonzero(found)
    return chosen.take(index.take(places)), targets.take(places)


def _lengths(csr: Adjacency, rows: Codes) -> Index:
    lengths: Index = csr.indptr[1:].take(rows) - csr.indptr.take(rows)
    return lengths
