"""The loops over one hop that Numba makes at least 1.5 times as fast: the same results as in ``frontier``.

Each adds up in the array of its results instead of in a variable: the compiler would gather what a variable adds up
with vector instructions, which for the few targets of a row takes twice as long.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from omnigraph.read.kernels.arrays import (
    Adjacency,
    Bits,
    Codes,
    Counts,
    Floats,
    Index,
    Mask,
    row_lengths,
)
from omnigraph.read.kernels.numba_loops import Targets, compiled, frozen, frozen_rows, in_pieces

Summed = TypeVar("Summed", Counts, Floats)


def pull(csr: Adjacency, x: Summed) -> Summed:
    """For every row the sum of ``x`` over its targets; integers wrap."""
    sums = np.zeros(csr.shape[0], x.dtype)
    indptr, indices = frozen_rows(csr)
    in_pieces(_pull, csr.indptr, indptr, indices, frozen(x), sums)
    return sums


@compiled
def _pull(first: int, last: int, indptr: Index, indices: Targets, x: Summed, sums: Summed) -> None:
    for v in range(first, last):
        for entry in range(indptr[v], indptr[v + 1]):
            sums[v] += x[indices[entry]]


def pull_count(csr: Adjacency, mask: Mask) -> Counts:
    """For every row how many of its targets ``mask`` holds for."""
    counts = np.zeros(csr.shape[0], np.int64)
    indptr, indices = frozen_rows(csr)
    in_pieces(_pull_count, csr.indptr, indptr, indices, frozen(mask).view(np.uint8), counts)
    return counts


@compiled
def _pull_count(
    first: int, last: int, indptr: Index, indices: Targets, mask: Bits, counts: Counts
) -> None:
    for v in range(first, last):
        for entry in range(indptr[v], indptr[v + 1]):
            counts[v] += mask[indices[entry]]


def pull_any(csr: Adjacency, mask: Mask) -> Mask:
    """For every row whether ``mask`` holds for one of its targets."""
    found = np.zeros(csr.shape[0], np.bool_)
    indptr, indices = frozen_rows(csr)
    in_pieces(_pull_any, csr.indptr, indptr, indices, frozen(mask), found)
    return found


@compiled
def _pull_any(
    first: int, last: int, indptr: Index, indices: Targets, mask: Mask, found: Mask
) -> None:
    for v in range(first, last):
        for entry in range(indptr[v], indptr[v + 1]):
            if mask[indices[entry]]:
                found[v] = True
                break


def pull_min(csr: Adjacency, x: Codes) -> Codes:
    """For every row the smallest ``x`` of its targets, where -1 stands for none."""
    best = np.full(csr.shape[0], 0xFFFFFFFF, np.uint32)
    indptr, indices = frozen_rows(csr)
    # Unsigned, -1 is larger than every code.
    in_pieces(_pull_min, csr.indptr, indptr, indices, frozen(x).view(np.uint32), best)
    return best.view(np.int32)


@compiled
def _pull_min(
    first: int, last: int, indptr: Index, indices: Targets, x: Targets, best: Targets
) -> None:
    for v in range(first, last):
        for entry in range(indptr[v], indptr[v + 1]):
            best[v] = min(best[v], x[indices[entry]])


def pull_max(csr: Adjacency, x: Codes) -> Codes:
    """For every row the largest ``x`` of its targets, where -1 stands for none."""
    best = np.full(csr.shape[0], -1, np.int32)
    indptr, indices = frozen_rows(csr)
    in_pieces(_pull_max, csr.indptr, indptr, indices, frozen(x), best)
    return best


@compiled
def _pull_max(
    first: int, last: int, indptr: Index, indices: Targets, x: Codes, best: Codes
) -> None:
    for v in range(first, last):
        for entry in range(indptr[v], indptr[v + 1]):
            best[v] = max(best[v], x[indices[entry]])


def expand_merged(
    csr: Adjacency, rows: Codes, starts: Index, weights: Counts | None
) -> tuple[Index, Codes, Counts]:
    """The distinct targets of groups of rows, with the sum of the weights of the rows they are reached from."""
    groups = len(starts) - 1
    reached = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(row_lengths(csr, rows), out=reached[1:])
    effort = reached.take(starts)
    # Room for every target a group can have, and for the one that is written before it is known.
    bounds = np.zeros(groups + 1, np.int64)
    np.cumsum(np.minimum(np.diff(effort), csr.shape[1]) + 1, out=bounds[1:])
    targets, sums = np.empty(bounds[-1], np.uint32), np.empty(bounds[-1], np.int64)
    counts = np.zeros(groups, np.int64)
    given = None if weights is None else frozen(weights)
    in_pieces(
        _merge,
        effort + np.arange(groups + 1),
        *frozen_rows(csr),
        frozen(rows),
        frozen(starts),
        given,
        csr.shape[1],
        frozen(bounds),
        targets,
        sums,
        counts,
    )
    group = np.repeat(np.arange(groups), counts)
    places = (bounds[:-1] - (np.cumsum(counts) - counts)).take(group)
    places += np.arange(len(group))
    return group, targets.take(places).view(np.int32), sums.take(places)


@compiled
def _merge(
    first: int,
    last: int,
    indptr: Index,
    indices: Targets,
    rows: Codes,
    starts: Index,
    weights: Counts | None,
    size: int,
    bounds: Index,
    targets: Targets,
    sums: Counts,
    counts: Counts,
) -> None:
    total = np.zeros(size, np.int64)
    seen = np.zeros(size, np.bool_)
    for group in range(first, last):
        begin, count = bounds[group], 0
        for i in range(starts[group], starts[group + 1]):
            weight = np.int64(1) if weights is None else weights[i]
            for entry in range(indptr[rows[i]], indptr[rows[i] + 1]):
                w = indices[entry]
                # Without a branch: the next target overwrites one that was known.
                targets[begin + count] = w
                count += not seen[w]
                seen[w] = True
                total[w] += weight
        for place in range(begin, begin + count):
            w = targets[place]
            sums[place] = total[w]
            total[w] = 0
            seen[w] = False
        counts[group] = count
