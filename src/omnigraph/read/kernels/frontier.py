"""Loops that follow one hop, from rows to their targets.

Row 0 has the targets 1 and 2, row 2 the target 0:

    pull(csr, [5, 1, 7])      -> [8, 0, 5]                        every row adds up its targets
    push(csr, [0, 2], [1, 1]) -> [0, 1, 2], [1, 1, 1]             targets add up their rows
    expand(csr, [0, 2])       -> [0, 0, 1], [1, 2, 0]             all pairs of a row and a target

Loops that Numba makes at least 1.5 times as fast on some million edges have a twin in ``frontier_numba``, which must
give the same results; ``twins`` chooses. Those without one (``push``, ``expand``) only move memory, and NumPy moves
it as fast.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from omnigraph.cancel import look
from omnigraph.read.kernels.arrays import (
    Adjacency,
    Codes,
    Counts,
    Floats,
    Index,
    Mask,
    MultiAdjacency,
    average_length,
    row_lengths,
)
from omnigraph.read.kernels.csr import Csr
from omnigraph.read.kernels.twins import with_twin

Summed = TypeVar("Summed", Counts, Floats)

# Targets an intersection or a merge looks at together; bounds what it holds at a time.
CHUNK = 1 << 20
# Pairs of a group and a target that are counted together.
CELLS = 1 << 22
# Entries a sum looks at together, so that what it gathers stays in the processor's cache.
BLOCK = 1 << 17


@with_twin(lambda csr, *_: 12e-9 * len(csr.indices))
def pull(csr: Adjacency, x: Summed, /, *, block: int = BLOCK) -> Summed:
    """For every row the sum of ``x`` over its targets; integers wrap at 2^64.

    About ``block`` entries, in whole rows, are gathered at a time.
    """
    sums = np.zeros(csr.shape[0], x.dtype)
    filled, starts = _filled(csr)
    if not len(starts):
        return sums
    entries = len(csr.indices)
    # Cut at rows: a row in two blocks would be summed in two parts, which for floats is another sum.
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


@with_twin(lambda csr, *_: 4e-9 * len(csr.indices))
def pull_count(csr: Adjacency, mask: Mask, /) -> Counts:
    """For every row how many of its targets ``mask`` holds for."""
    counts = np.zeros(csr.shape[0], np.int64)
    filled, starts = _filled(csr)
    if len(starts):
        # Bytes, because `reduceat` of booleans would say whether, not how many.
        gathered = mask.view(np.uint8).take(csr.indices)
        counts[filled] = np.add.reduceat(gathered, starts, dtype=np.int64)
    return counts


@with_twin(lambda csr, *_: 12e-9 * len(csr.indices))
def pull_any(csr: Adjacency, mask: Mask, /) -> Mask:
    """For every row whether ``mask`` holds for one of its targets."""
    found = np.zeros(csr.shape[0], np.bool_)
    filled, starts = _filled(csr)
    if len(starts):
        found[filled] = np.logical_or.reduceat(mask.take(csr.indices), starts)
    return found


@with_twin(lambda csr, *_: 12e-9 * len(csr.indices))
def pull_min(csr: Adjacency, x: Codes, /) -> Codes:
    """For every row the smallest ``x`` of its targets, where -1 stands for none."""
    # Unsigned, -1 is larger than every code.
    best = np.full(csr.shape[0], -1, np.int32).view(np.uint32)
    filled, starts = _filled(csr)
    if len(starts):
        best[filled] = np.minimum.reduceat(x.view(np.uint32).take(csr.indices), starts)
    return best.view(np.int32)


@with_twin(lambda csr, *_: 12e-9 * len(csr.indices))
def pull_max(csr: Adjacency, x: Codes, /) -> Codes:
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
    """The distinct targets of the given rows, ascending, each with the sum of its rows' ``x``.

    A row given twice counts twice.
    """
    index, targets = expand(csr, codes)
    # Few targets are sorted; for many, an array with a place for every target costs less than sorting.
    if len(targets) * 8 < csr.shape[1]:
        order = np.argsort(targets, kind="stable")
        targets = targets[order]
        starts = starts_of_runs(targets)
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


def starts_of_runs(ordered: npt.NDArray[np.integer]) -> Index:
    """Where each run of equal numbers begins."""
    if not len(ordered):
        return np.zeros(0, np.int64)
    return np.concatenate(([0], np.flatnonzero(ordered[1:] != ordered[:-1]) + 1))


def expand(csr: Adjacency, rows: Codes) -> tuple[Index, Codes]:
    """Every target of every given row, beside the place of the row in ``rows``."""
    index, entries = entries_of(csr, rows)
    return index, csr.indices.take(entries)


@with_twin(lambda csr, rows, *_: 40e-9 * len(rows) * average_length(csr))
def expand_merged(
    csr: Adjacency,
    rows: Codes,
    starts: Index,
    weights: Counts | None,
    /,
    *,
    cells: int = CELLS,
    chunk: int = CHUNK,
) -> tuple[Index, Codes, Counts]:
    """The distinct targets of groups of rows, each with the sum of the weights of the rows it is reached from.

    Group ``g`` are the rows from ``starts[g]`` to ``starts[g + 1]``. The first array holds the group and
    ascends; without ``weights`` every row counts once. Sums wrap at 2^64. ``cells`` bounds the pairs of a group and a target looked at together, ``chunk`` the targets of some rows.
    """
    size = max(csr.shape[1], 1)
    # A table of all targets for as many groups as fit at a time: counting there needs no sort of pairs.
    step = max(1, cells // size)
    found = []
    for first in range(0, len(starts) - 1, step):
        part = starts[first : first + step + 1]
        group_of = np.repeat(np.arange(len(part) - 1) * size, np.diff(part))
        sums = np.zeros((len(part) - 1) * size, np.int64)
        seen = np.zeros(len(sums), np.bool_)
        for begin, end in cut(row_lengths(csr, rows[part[0] : part[-1]]), chunk):
            look()
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
    index, entries = entries_of(multi, rows)
    return index, multi.indices.take(entries), multi.positions.take(entries)


def entries_of(csr: Adjacency, rows: Codes) -> tuple[Index, Index]:
    """The place in ``rows`` and the place among all entries, for every entry of the given rows."""
    starts = csr.indptr.take(rows)
    lengths = csr.indptr[1:].take(rows) - starts
    index = np.repeat(np.arange(len(rows)), lengths)
    before = np.cumsum(lengths) - lengths
    # Entry k of the answer is entry k - before of its row: one addition each, and no range for every row.
    entries = (starts - before).take(index)
    entries += np.arange(len(index))
    return index, entries


def cut(lengths: Index, chunk: int) -> list[tuple[int, int]]:
    """Ranges whose lengths together are about ``chunk``."""
    total = np.cumsum(lengths)
    if not len(total):
        return []
    cuts = np.searchsorted(total, np.arange(chunk, total[-1], chunk))
    bounds = np.unique(np.concatenate(([0], cuts, [len(lengths)]))).tolist()
    return list(pairwise(bounds))
