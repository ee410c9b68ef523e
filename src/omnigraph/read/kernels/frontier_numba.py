"""The loops over one hop compiled by Numba: the same functions as in `frontier_numpy`."""

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
    MultiAdjacency,
    row_lengths,
)
from omnigraph.read.kernels.numba_threads import Targets, compiled, frozen, frozen_rows, in_pieces

Summed = TypeVar("Summed", Counts, Floats)


def pull(csr: Adjacency, x: Summed) -> Summed:
    """For every row the sum of ``x`` over its targets; integers wrap."""
    sums = np.empty(csr.shape[0], x.dtype)
    indptr, indices = frozen_rows(csr)
    in_pieces(_pull, csr.indptr, indptr, indices, frozen(x), sums)
    return sums


@compiled
def _pull(first: int, last: int, indptr: Index, indices: Targets, x: Summed, sums: Summed) -> None:
    for v in range(first, last):
        total = x.dtype.type(0)
        for entry in range(indptr[v], indptr[v + 1]):
            total += x[indices[entry]]
        sums[v] = total


def pull_count(csr: Adjacency, mask: Mask) -> Counts:
    """For every row how many of its targets ``mask`` holds for."""
    counts = np.empty(csr.shape[0], np.int64)
    indptr, indices = frozen_rows(csr)
    in_pieces(_pull_count, csr.indptr, indptr, indices, frozen(mask).view(np.uint8), counts)
    return counts


@compiled
def _pull_count(
    first: int, last: int, indptr: Index, indices: Targets, mask: Bits, counts: Counts
) -> None:
    for v in range(first, last):
        total = np.int64(0)
        for entry in range(indptr[v], indptr[v + 1]):
            total += mask[indices[entry]]
        counts[v] = total


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
    best = np.empty(csr.shape[0], np.uint32)
    indptr, indices = frozen_rows(csr)
    # Unsigned, -1 is larger than every code.
    in_pieces(_pull_min, csr.indptr, indptr, indices, frozen(x).view(np.uint32), best)
    return best.view(np.int32)


@compiled
def _pull_min(
    first: int, last: int, indptr: Index, indices: Targets, x: Targets, best: Targets
) -> None:
    for v in range(first, last):
        least = np.uint32(0xFFFFFFFF)
        for entry in range(indptr[v], indptr[v + 1]):
            least = min(least, x[indices[entry]])
        best[v] = least


def pull_max(csr: Adjacency, x: Codes) -> Codes:
    """For every row the largest ``x`` of its targets, where -1 stands for none."""
    best = np.empty(csr.shape[0], np.int32)
    indptr, indices = frozen_rows(csr)
    in_pieces(_pull_max, csr.indptr, indptr, indices, frozen(x), best)
    return best


@compiled
def _pull_max(
    first: int, last: int, indptr: Index, indices: Targets, x: Codes, best: Codes
) -> None:
    for v in range(first, last):
        most = np.int32(-1)
        for entry in range(indptr[v], indptr[v + 1]):
            most = max(most, x[indices[entry]])
        best[v] = most


def push(csr: Adjacency, codes: Codes, x: Summed) -> tuple[Codes, Summed]:
    """The distinct targets of some rows, ascending, with the sum of the rows' ``x``."""
    sums = np.zeros(csr.shape[1], x.dtype)
    reached = _reached(csr, codes, frozen(x), sums)
    return reached, sums[reached]


def push_any(csr: Adjacency, codes: Codes) -> Codes:
    """The distinct targets of some rows, ascending."""
    return _reached(csr, codes, None, None)


def _reached(csr: Adjacency, codes: Codes, x: Summed | None, sums: Summed | None) -> Codes:
    total = int(row_lengths(csr, codes).sum())
    seen = np.zeros(csr.shape[1], np.bool_)
    found = np.empty(min(total, csr.shape[1]) + 1, np.int32)
    count = _push(*frozen_rows(csr), frozen(codes), x, sums, seen, found)
    # Looking at all marks is cheaper than sorting many targets.
    if count * 16 > csr.shape[1]:
        return np.flatnonzero(seen).astype(np.int32)
    return np.sort(found[:count])


@compiled
def _push(
    indptr: Index,
    indices: Targets,
    codes: Codes,
    x: Summed | None,
    sums: Summed | None,
    seen: Mask,
    found: Codes,
) -> int:
    count = 0
    for i in range(len(codes)):
        v = codes[i]
        for entry in range(indptr[v], indptr[v + 1]):
            w = indices[entry]
            # Without a branch: the next target overwrites one that was known.
            found[count] = w
            count += not seen[w]
            seen[w] = True
            if x is not None and sums is not None:
                sums[w] += x[i]
    return count


def expand(csr: Adjacency, rows: Codes) -> tuple[Index, Codes]:
    """Every target of every given row, beside the place of the row in ``rows``."""
    return _expanded(csr, rows, None)[:2]


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


def expand_multi(multi: MultiAdjacency, rows: Codes) -> tuple[Index, Codes, Codes]:
    """Every stored edge of every given row: the row's place in ``rows``, target, edge position."""
    return _expanded(multi, rows, frozen(multi.positions))


def _expanded(csr: Adjacency, rows: Codes, positions: Codes | None) -> tuple[Index, Codes, Codes]:
    ends = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(row_lengths(csr, rows), out=ends[1:])
    index, targets = np.empty(ends[-1], np.int64), np.empty(ends[-1], np.uint32)
    edges = np.empty(0 if positions is None else ends[-1], np.int32)
    in_pieces(
        _expand,
        ends,
        frozen(ends),
        *frozen_rows(csr),
        positions,
        frozen(rows),
        index,
        targets,
        edges,
    )
    return index, targets.view(np.int32), edges


@compiled
def _expand(
    first: int,
    last: int,
    ends: Index,
    indptr: Index,
    indices: Targets,
    positions: Codes | None,
    rows: Codes,
    index: Index,
    targets: Targets,
    edges: Codes,
) -> None:
    for i in range(first, last):
        shift = indptr[rows[i]] - ends[i]
        for place in range(ends[i], ends[i + 1]):
            index[place] = i
            targets[place] = indices[place + shift]
            if positions is not None:
                edges[place] = positions[place + shift]
