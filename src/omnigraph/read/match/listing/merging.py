"""Rows that become equal when a variable is no longer needed, merged into one that counts for all of them.

    $a knows $b, $b knows $c, $b is needed no more:  a [0, 0, 0], b [1, 2, 3], each of whom knows 7 and 8
    two rows instead of six:                         a [0, 0], c [7, 8], weights [3, 3]

Around a long circle the ways multiply with every step, while there are never more pairs of its two ends than
pairs of nodes. So the next variable is found for all rows of a group at once, and each is written down once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from omnigraph.cancel import look
from omnigraph.read.kernels import frontier, pairs
from omnigraph.read.kernels.arrays import Codes, Counts, Index
from omnigraph.read.kernels.csr import Csr
from omnigraph.read.match.bindings import Bindings
from omnigraph.read.match.links.link import pieces
from omnigraph.read.match.measures import TOO_MANY

# Fewer rows are not worth merging.
_FEW = 1024
# Rows that have to be sorted into groups first must become this many times as many by the step.
_GROWTH = 4
# If a group leads to at least one in this number of all nodes, several of its rows lead to the same ones.
_SHARE = 32

# Pairs of two ends whose ways are counted together.
_CELLS = 1 << 19


class _Groups(NamedTuple):
    """Rows in which those that agree in what is needed come one after the other."""

    rows: Bindings
    starts: Index
    """Where each group begins, and the end of the last."""
    codes: dict[str, Codes]
    """What a group agrees in."""

    @property
    def most(self) -> float:
        """The largest number of rows of the match that a group stands for: no row it leads to stands for more."""
        weights = self.rows.weights
        if weights is None:
            return float(self.rows.count)
        return float(np.add.reduceat(weights.astype(float), self.starts[:-1]).max())


def expand_merged(
    rows: Bindings, needed: frozenset[str], origin: str, csr: Csr, name: str, limit: int
) -> Iterator[Bindings] | None:
    """Bind a variable to the neighbours of another one that is needed no more, equal rows once each.

    The batches have about ``limit`` rows. None where little would be merged.
    """
    names = [one for one in rows.codes if one in needed]
    if rows.count < _FEW or rows.totals or not 1 <= len(names) <= 2:
        return None
    sizes = csr.degrees.take(rows.codes[origin])
    made = int(sizes.sum())
    if made < rows.count:
        return None
    groups = _groups_of(rows, names, can_sort=made >= _GROWTH * rows.count)
    if groups is None or made * _SHARE < (len(groups.starts) - 1) * csr.shape[1]:
        return None
    if groups.most >= TOO_MANY / 2:  # Floats are not exact to the last row.
        return None
    return _expanded(groups, origin, csr, name, limit)


def _groups_of(rows: Bindings, names: list[str], *, can_sort: bool) -> _Groups | None:
    keys: Codes | Index = rows.codes[names[0]]
    for name in names[1:]:
        more = rows.codes[name]
        keys = keys.astype(np.int64) * (int(more.max()) + 1) + more
    if np.any(keys[1:] < keys[:-1]):
        if not can_sort:
            return None
        order = np.argsort(keys, kind="stable")
        rows, keys = rows.at(order), keys.take(order)
    firsts = np.flatnonzero(keys[1:] != keys[:-1]) + 1
    starts = np.concatenate([[0], firsts, [rows.count]])
    codes = {name: rows.codes[name].take(starts[:-1]) for name in names}
    return _Groups(rows, starts, codes)


def _expanded(groups: _Groups, origin: str, csr: Csr, name: str, limit: int) -> Iterator[Bindings]:
    rows, starts = groups.rows, groups.starts
    origins, weights = rows.codes[origin], rows.weights
    reached = np.add.reduceat(csr.degrees.take(origins), starts[:-1])
    for part in pieces(np.minimum(reached, csr.shape[1]), limit):
        look()
        first, last = starts[part.start], starts[part.stop]
        group, targets, sums = frontier.expand_merged(
            csr,
            origins[first:last],
            starts[part.start : part.stop + 1] - first,
            None if weights is None else weights[first:last],
        )
        codes = {one: column[part].take(group) for one, column in groups.codes.items()}
        yield Bindings(len(group), {**codes, name: targets}, sums)


def common_counts(
    first: Csr,
    a: Codes,
    second: Csr,
    b: Codes,
    back: Csr,
    weights: Counts | None,
    cells: int = _CELLS,
) -> Counts:
    """For every pair how many targets row ``a`` of first and row ``b`` of second share, or what they are worth.

    ``back`` is ``second`` the other way round. Where many pairs have the same left end, all ways from there
    to any right end are counted together, up to ``cells`` pairs at a time; otherwise the two rows of each pair are compared.
    """
    lefts = first.filled
    ways = first.degrees, back.degrees
    size = back.shape[1]
    if len(a) * 8 < len(lefts) or not len(lefts) or len(lefts) * size > 400 * len(a):
        return pairs.common_count(first, a, second, b, weights)
    compared = 2 * int(np.minimum(ways[0].take(a), second.degrees.take(b)).sum()) + 20 * len(a)
    followed = 4 * int(ways[1].take(first.indices).sum()) + 5 * len(a) + len(lefts) * size // 2
    step = max(1, cells // size)
    is_sorted = len(lefts) <= step or bool(np.all(a[1:] >= a[:-1]))
    if followed >= compared or not is_sorted:
        return pairs.common_count(first, a, second, b, weights)
    counts = np.zeros(len(a), np.int64)
    for at in range(0, len(lefts), step):
        look()
        some = lefts[at : at + step]
        low, high = (
            (0, len(a)) if len(lefts) <= step else np.searchsorted(a, [some[0], some[-1] + 1])
        )
        if low == high:
            continue
        starts = first.indptr[some[0]], first.indptr[some[-1] + 1]
        between = first.indices[slice(*starts)]
        ends = np.append(first.indptr.take(some), starts[1]) - starts[0]
        worth = None if weights is None else weights.take(between)
        group, targets, sums = frontier.expand_merged(back, between, ends, worth)
        table = np.zeros((len(some) + 1) * size, np.int64)
        table[group * size + targets] = sums
        # Rows without neighbours find nothing in the last part of the table.
        places = np.full(int(some[-1]) + 1 - int(some[0]), len(some), np.int64)
        places[some - some[0]] = np.arange(len(some))
        inside = (a[low:high] >= some[0]) & (a[low:high] <= some[-1])
        where = np.where(inside, places.take(a[low:high] - some[0], mode="clip"), len(some))
        where *= size
        where += b[low:high]
        counts[low:high] = table.take(where)
    return counts
