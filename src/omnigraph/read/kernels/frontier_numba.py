"""The loops over adjacency compiled by Numba: the same functions as in `frontier_numpy`.

The compiled loops hold no lock, so large ones run in pieces on several threads. Numba's own threads
are not used: its fallback scheduler ends the process when two threads enter it at once.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from omnigraph.cancel import look
from omnigraph.read.kernels.arrays import (
    Adjacency,
    Bits,
    Codes,
    Counts,
    Floats,
    Mask,
    MultiAdjacency,
)
from omnigraph.read.kernels.numba_threads import compiled, frozen, in_pieces

Index = npt.NDArray[np.int64]
Targets = npt.NDArray[np.uint32]
Worth = npt.NDArray[np.uint8] | Counts
Summed = TypeVar("Summed", Counts, Floats)

# Two rows are compared directly where both together have up to this number of targets,
_SHORT = 64
# or one of them up to this number.
_FEW = 3


def _arrays(csr: Adjacency) -> tuple[Index, Targets]:
    # Unsigned, so that compiled code need not ask whether an index counts from the end.
    return frozen(csr.indptr), frozen(csr.indices).view(np.uint32)


def _lengths(csr: Adjacency, rows: Codes) -> Index:
    lengths: Index = csr.indptr[1:].take(rows) - csr.indptr.take(rows)
    return lengths


def pull(csr: Adjacency, x: Summed) -> Summed:
    """For every row the sum of ``x`` over its targets; integers wrap."""
    sums = np.empty(csr.shape[0], x.dtype)
    indptr, indices = _arrays(csr)
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
    indptr, indices = _arrays(csr)
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
    indptr, indices = _arrays(csr)
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
    indptr, indices = _arrays(csr)
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
    indptr, indices = _arrays(csr)
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
    total = int(_lengths(csr, codes).sum())
    seen = np.zeros(csr.shape[1], np.bool_)
    found = np.empty(min(total, csr.shape[1]) + 1, np.int32)
    count = _push(*_arrays(csr), frozen(codes), x, sums, seen, found)
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
    np.cumsum(_lengths(csr, rows), out=reached[1:])
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
        *_arrays(csr),
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
    np.cumsum(_lengths(csr, rows), out=ends[1:])
    index, targets = np.empty(ends[-1], np.int64), np.empty(ends[-1], np.uint32)
    edges = np.empty(0 if positions is None else ends[-1], np.int32)
    in_pieces(
        _expand, ends, frozen(ends), *_arrays(csr), positions, frozen(rows), index, targets, edges
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


def contains(csr: Adjacency, a: Codes, b: Codes) -> Mask:
    """For every pair whether ``b`` is a target of row ``a``."""
    found = np.empty(len(a), np.bool_)
    effort = np.arange(0, 16 * len(a) + 1, 16)
    in_pieces(_contains, effort, *_arrays(csr), frozen(a), frozen(b).view(np.uint32), found)
    return found


@compiled
def _contains(
    first: int, last: int, indptr: Index, indices: Targets, a: Codes, b: Targets, found: Mask
) -> None:
    for i in range(first, last):
        found[i] = _is_in(indices, indptr[a[i]], indptr[a[i] + 1], b[i])


@compiled
def _is_in(indices: Targets, low: int, end: int, wanted: int) -> bool:
    """Binary search in a row, without a branch on what it finds."""
    length = end - low
    if length == 0:
        return False
    while length > 1:
        half = length >> 1
        low += half * (indices[low + half] <= wanted)
        length -= half
    found: bool = indices[low] == wanted
    return found


def marked(bits: Bits, columns: int, a: Codes, b: Codes) -> Mask:
    """For every pair whether its bit is set, where row ``a`` has ``columns`` bits."""
    found = np.empty(len(a), np.bool_)
    effort = np.arange(0, 4 * len(a) + 1, 4)
    in_pieces(_marked, effort, frozen(bits), columns, frozen(a), frozen(b), found)
    return found


@compiled
def _marked(
    first: int, last: int, bits: Bits, columns: int, a: Codes, b: Codes, found: Mask
) -> None:
    for i in range(first, last):
        place = np.uint64(np.int64(a[i]) * columns + b[i])
        found[i] = bits[place >> np.uint64(3)] >> (place & np.uint64(7)) & 1


def common_count(
    left: Adjacency,
    a: Codes,
    right: Adjacency,
    b: Codes,
    weights: Counts | None = None,
    mask: Mask | None = None,
) -> Counts:
    """For every pair how many targets row ``a`` of left and row ``b`` of right share.

    ``mask`` says which targets count, ``weights`` how much each is worth; sums wrap.
    """
    counts = np.zeros(len(a), np.int64)
    worth = _worth(left.shape[1], weights, mask)
    _common(left, a, right, b, worth, counts, None)
    return counts


def common_expand(
    left: Adjacency, a: Codes, right: Adjacency, b: Codes, mask: Mask | None = None
) -> tuple[Index, Codes]:
    """For every pair every target that row ``a`` of left and row ``b`` of right share.

    The first array holds the place of the pair; both ascend, the targets within a pair.
    """
    counts = common_count(left, a, right, b, None, mask)
    ends = np.cumsum(counts)
    targets = np.empty(ends[-1] if len(ends) else 0, np.uint32)
    # From here on the counts are where the targets of a pair go.
    _common(left, a, right, b, _worth(left.shape[1], None, mask), ends - counts, targets)
    return np.repeat(np.arange(len(a)), counts), targets.view(np.int32)


def _worth(size: int, weights: Counts | None, mask: Mask | None) -> Worth | None:
    """What each target counts for; None: 1."""
    if weights is None:
        return None if mask is None else frozen(mask).view(np.uint8)
    return frozen(weights if mask is None else np.where(mask, weights, 0)[:size])


def _common(
    left: Adjacency,
    a: Codes,
    right: Adjacency,
    b: Codes,
    worth: Worth | None,
    counts: Counts,
    targets: Targets | None,
) -> None:
    """Short rows are compared pair by pair; the pairs of long ones are put in order first, see ``_intersect``."""
    is_long = np.zeros(len(a), np.bool_)
    effort = np.arange(0, 16 * len(a) + 1, 16)
    given = (*_arrays(left), *_arrays(right), frozen(a), frozen(b), worth)
    in_pieces(_compare, effort, *given, is_long, counts, targets)
    if is_long.any():
        _intersect(left, a, right, b, worth, counts, targets, is_long)


@compiled
def _compare(
    first: int,
    last: int,
    left_indptr: Index,
    left_indices: Targets,
    right_indptr: Index,
    right_indices: Targets,
    a: Codes,
    b: Codes,
    worth: Worth | None,
    is_long: Mask,
    counts: Counts,
    targets: Targets | None,
) -> None:
    for i in range(first, last):
        x, x_end = left_indptr[a[i]], left_indptr[a[i] + 1]
        y, y_end = right_indptr[b[i]], right_indptr[b[i] + 1]
        of_left, of_right = x_end - x, y_end - y
        shorter = min(of_left, of_right)
        if shorter > _FEW and of_left + of_right > _SHORT:
            is_long[i] = True
            continue
        total = np.int64(0)
        if shorter * 8 < max(of_left, of_right):
            # A search for each target of the shorter row.
            in_left = of_left < of_right
            for place in range(shorter):
                w = left_indices[x + place] if in_left else right_indices[y + place]
                if in_left:
                    found = _is_in(right_indices, y, y_end, w)
                else:
                    found = _is_in(left_indices, x, x_end, w)
                if found:
                    value = np.int64(1) if worth is None else np.int64(worth[w])
                    if targets is not None and value:
                        targets[counts[i] + total] = w
                    total += value
        else:
            while x < x_end and y < y_end:
                v, w = left_indices[x], right_indices[y]
                if v == w:
                    value = np.int64(1) if worth is None else np.int64(worth[w])
                    if targets is not None and value:
                        targets[counts[i] + total] = w
                    total += value
                x += v <= w
                y += w <= v
        if targets is None:
            counts[i] = total


def _intersect(
    left: Adjacency,
    a: Codes,
    right: Adjacency,
    b: Codes,
    worth: Worth | None,
    counts: Counts,
    targets: Targets | None,
    wanted: Mask,
) -> None:
    """Mark the targets of the longer row of a wanted pair and look at those of the shorter.

    Pairs with the same longer row come together, so that it is marked once.
    """
    of_left, of_right = _lengths(left, a), _lengths(right, b)
    no_marks = np.zeros(0, np.uint8 if worth is None else worth.dtype)
    swap = of_left < of_right
    for marked, m, scanned, s, lengths, chosen in (
        (left, a, right, b, of_right, wanted & ~swap),
        (right, b, left, a, of_left, wanted & swap),
    ):
        pairs = np.flatnonzero(chosen)
        if not len(pairs):
            continue
        rows = m[pairs]
        if np.any(rows[1:] < rows[:-1]):
            order = np.argsort(rows)
            look()
            pairs, rows = pairs[order], rows[order]
        effort = np.zeros(len(pairs) + 1, np.int64)
        np.cumsum(lengths[pairs] + 1, out=effort[1:])
        in_pieces(
            _meet,
            effort,
            *_arrays(marked),
            *_arrays(scanned),
            frozen(rows),
            frozen(s),
            frozen(pairs),
            marked.shape[1],
            no_marks,
            worth,
            counts,
            targets,
        )


@compiled
def _meet(
    first: int,
    last: int,
    indptr: Index,
    indices: Targets,
    scanned_indptr: Index,
    scanned_indices: Targets,
    rows: Codes,
    scanned_rows: Codes,
    pairs: Index,
    size: int,
    no_marks: Worth,
    worth: Worth | None,
    counts: Counts,
    targets: Targets | None,
) -> None:
    marks = np.zeros(size, no_marks.dtype)
    run = first
    while run < last:
        row, end, effort = rows[run], run, 0
        while end < last and rows[end] == row:
            s = scanned_rows[pairs[end]]
            effort += scanned_indptr[s + 1] - scanned_indptr[s]
            end += 1
        low, high = indptr[row], indptr[row + 1]
        # Marking is a step for every target, searching several for every target looked up.
        searching = high - low > 8 * effort
        if not searching:
            for entry in range(low, high):
                w = indices[entry]
                marks[w] = 1 if worth is None else worth[w]
        for k in range(run, end):
            i = pairs[k]
            s = scanned_rows[i]
            total = np.int64(0)
            for entry in range(scanned_indptr[s], scanned_indptr[s + 1]):
                w = scanned_indices[entry]
                if searching:
                    value = np.int64(_is_in(indices, low, high, w))
                    if worth is not None:
                        value *= np.int64(worth[w])
                else:
                    value = np.int64(marks[w])
                if targets is not None and value:
                    targets[counts[i] + total] = w
                total += value
            if targets is None:
                counts[i] = total
        if not searching:
            for entry in range(low, high):
                marks[indices[entry]] = 0
        run = end
