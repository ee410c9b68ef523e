"""The loops over pairs of rows compiled by Numba: the same results as in ``pairs``."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from omnigraph.cancel import look
from omnigraph.read.kernels.arrays import Adjacency, Bits, Codes, Counts, Index, Mask, row_lengths
from omnigraph.read.kernels.numba_loops import Targets, compiled, frozen, frozen_rows, in_pieces

Worth = npt.NDArray[np.uint8] | Counts

# Two rows are compared directly where both together have up to this number of targets,
_SHORT = 64
# or one of them up to this number;
_FEW = 3
# all pairs of their targets, where there are no more than this number.
_TINY = 16


def contains(csr: Adjacency, a: Codes, b: Codes) -> Mask:
    """For every pair whether ``b`` is a target of row ``a``."""
    found = np.empty(len(a), np.bool_)
    effort = range(0, 16 * len(a) + 1, 16)
    in_pieces(_contains, effort, *frozen_rows(csr), frozen(a), frozen(b).view(np.uint32), found)
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
    effort = range(0, 4 * len(a) + 1, 4)
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
    effort = range(0, 16 * len(a) + 1, 16)
    given = (*frozen_rows(left), *frozen_rows(right), frozen(a), frozen(b), worth)
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
        if targets is None and worth is None and of_left * of_right <= _TINY:
            # Every target with every other, without a branch on what is found.
            found_here = np.int64(0)
            for place in range(x, x_end):
                for other in range(y, y_end):
                    found_here += left_indices[place] == right_indices[other]
            counts[i] = found_here
            continue
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
    of_left, of_right = row_lengths(left, a), row_lengths(right, b)
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
            *frozen_rows(marked),
            *frozen_rows(scanned),
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
