"""Adjacency in compressed rows: neighbours once, or once per stored edge.

For example:

    pairs (0, 2), (0, 1), (2, 0) of three rows   ->   indptr [0, 2, 2, 3], indices [1, 2, 0]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from omnigraph.read.kernels.arrays import Bits, Codes, Counts, Floats, Mask

Keys = npt.NDArray[np.uint64]


_KEY_BITS = 64
# Rows whose degrees an estimate looks at, or nearly twice as many.
_SAMPLE = 1 << 15
_MADE = ("degrees", "some_degrees", "is_filled", "filled")
# Bits for all pairs are made up to this number of bytes,
_BITS_BYTES = 1 << 26
# up to this number of bytes for each byte of the neighbours,
_BITS_ROOM = 32
# and for at least one pair to look up per this number of neighbours.
_BITS_PAIRS = 8
# Up to this number of entries that go or come, whole pieces are copied instead of looking at every entry.
_MOVED_BY_HAND = 64
# Up to this number of places are searched one by one.
_SEARCHED_BY_HAND = 16


class _Rows:
    """What is known of adjacency by its rows."""

    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[np.int32]

    @property
    def entries(self) -> int:
        """How many entries there are."""
        return len(self.indices)

    def at(self, rows: Codes) -> Self:  # noqa: ARG002 - there may be a cheaper form of few rows
        """Adjacency in which these rows are as they are here, to read them from."""
        return self

    @cached_property
    def degrees(self) -> Counts:
        """How many entries each row has."""
        return np.diff(self.indptr)

    @cached_property
    def most(self) -> int:
        """How many entries a row has at most."""
        return int(self.degrees.max(initial=0))

    @cached_property
    def some_degrees(self) -> Floats:
        """The degrees of some rows at equal distances, or of all where these are not many."""
        return self.degrees[:: sample_step(len(self.degrees))].astype(float)

    @cached_property
    def is_filled(self) -> Mask:
        """Which rows have an entry."""
        return self.degrees > 0

    @cached_property
    def filled(self) -> Codes:
        """The rows that have an entry, ascending."""
        return np.flatnonzero(self.is_filled).astype(np.int32)


def sample_step(count: int) -> int:
    """At which distance items are looked at, so that these are not many."""
    return -(-max(1, count) // _SAMPLE)


@dataclass(frozen=True)
class Csr(_Rows):
    """Adjacency without repeats: row ``r`` has ``indices[indptr[r]:indptr[r + 1]]``, ascending."""

    ARRAYS: ClassVar = ("indptr", "indices")

    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[np.int32]
    shape: tuple[int, int]

    @cached_property
    def function(self) -> Codes | None:
        """Where no row has two neighbours: the one of every row, or -1. Otherwise None."""
        rows = self.shape[0]
        if self.entries > rows or self.most > 1:
            return None
        if self.entries == rows:
            return self.indices
        found = np.full(rows, -1, np.int32)
        found[self.filled] = self.indices
        return found

    def bits_for(self, pairs: int) -> Bits | None:
        """A bit for every pair of a row and a column, eight in a byte: whether the column is in the row.

        None where that takes too much room, or more time to make than looking for ``pairs`` pairs.
        """
        bits: Bits | None = self.__dict__.get("_bits")
        if bits is not None or pairs * _BITS_PAIRS < self.entries:
            return bits
        size = self.shape[0] * self.shape[1] // 8 + 1
        if size > _BITS_BYTES or size > _BITS_ROOM * self.indices.nbytes:
            return None
        bits = np.zeros(size, np.uint8)
        if len(self.indices):
            keys = np.repeat(np.arange(self.shape[0]) * self.shape[1], self.degrees)
            keys += self.indices
            # Keys ascend, so those that share a byte are neighbours and are joined before they are stored.
            # Storing them one by one would lose bits: of equal places NumPy keeps the last value.
            places = keys >> 3
            starts = np.flatnonzero(np.diff(places, prepend=-1))
            values = np.left_shift(1, keys & 7).astype(np.uint8)
            bits[places[starts]] = np.bitwise_or.reduceat(values, starts)
        self.__dict__["_bits"] = bits
        return bits

    def without_loops(self) -> Csr:
        """The same pairs but those of a row and a column with the same number."""
        rows = np.repeat(np.arange(self.shape[0], dtype=np.int32), self.degrees)
        places = np.flatnonzero(rows != self.indices)
        return Csr(np.searchsorted(places, self.indptr), self.indices.take(places), self.shape)

    def where_equal(self, of_rows: Codes, of_columns: Codes) -> Csr:
        """The pairs of a row and a column with the same number, where -1 is none."""
        numbers = np.repeat(of_rows, self.degrees)
        kept = numbers == of_columns.take(self.indices)
        kept &= numbers >= 0
        places = np.flatnonzero(kept)
        return Csr(np.searchsorted(places, self.indptr), self.indices.take(places), self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of everything made so far."""
        made = (self.__dict__.get(name) for name in (*_MADE, "function", "_bits"))
        more: int = sum(one.nbytes for one in made if one is not None and one is not self.indices)
        return self.indptr.nbytes + self.indices.nbytes + more

    def renumbered(self, rows: Codes, columns: Codes, shape: tuple[int, int]) -> Csr:
        """The same pairs under the new numbers of rows and columns, which ascend as the old do.

        A row or column without pairs may have lost its number (-1).
        """
        kept = rows >= 0
        indptr = np.zeros(shape[0] + 1, np.int64)
        indptr[rows[kept] + 1] = self.degrees[kept]
        return Csr(np.cumsum(indptr), columns.take(self.indices), shape)

    def with_pairs(self, rows: Codes, columns: Codes) -> Csr:
        """The same pairs and these. Adding a few costs a copy instead of a sort."""
        # Few pairs are sorted; the many that are there stay in order, and a search says where the few belong.
        keys = np.unique(pair_keys(rows, columns))
        rows, columns = (keys >> np.uint64(32)).astype(np.int32), keys.astype(np.int32)
        places = self._lower_bounds(rows, columns)
        known = places < self.indptr[rows + 1]
        known[known] = self.indices[places[known]] == columns[known]
        new = ~known
        indices = _with(self.indices, places[new], columns[new])
        return Csr(_moved(self.indptr, rows[new], 1), indices, self.shape)

    def _lower_bounds(self, rows: Codes, columns: Codes) -> Counts:
        """Where in its row each column is, or would have to be: few one by one, many all at once."""
        if len(rows) <= _SEARCHED_BY_HAND:
            ends = zip(*(self.indptr.take(ends).tolist() for ends in (rows, rows + 1)), strict=True)
            found = [
                begin + int(self.indices[begin:end].searchsorted(column))
                for (begin, end), column in zip(ends, columns.tolist(), strict=True)
            ]
            return np.array(found, np.int64)
        return _searched(self.indptr, rows, lambda places: self.indices[places] < columns)

    def difference(self, repeats: Keys, gone: Keys, new: Keys) -> Difference:
        """What few pairs that went, and few that came, change of the distinct pairs of a list.

        Pairs are keys as in ``pair_keys``. ``repeats`` are those of the list before beyond the first of each, ascending.
        """
        keys, which = np.unique(np.concatenate([gone, new]), return_inverse=True)
        rows, columns = (keys >> np.uint64(32)).astype(np.int32), keys.astype(np.int32)
        places = self._lower_bounds(rows, columns)
        there = places < self.indptr[rows + 1]
        there[there] = self.indices[places[there]] == columns[there]
        steps = np.repeat([-1, 1], [len(gone), len(new)])
        first, last = (np.searchsorted(repeats, keys, side) for side in ("left", "right"))
        counts = there + last - first + np.bincount(which, steps, len(keys)).astype(np.int64)
        lost, came = there & (counts == 0), ~there & (counts > 0)
        again = np.repeat(keys, np.maximum(counts - 1, 0))
        return Difference(rows[lost], places[lost], rows[came], columns[came], keys, again)

    def changed(self, repeats: Keys, difference: Difference) -> tuple[Csr, Keys]:
        """The distinct pairs of a list, and its repeats, after few of its pairs went and few came."""
        lost, places, came, columns, keys, again = difference
        made = self
        if len(lost):
            indptr = _moved(self.indptr, lost, -1)
            made = Csr(indptr, _without(self.indices, places), self.shape)
        if len(came):
            made = made.with_pairs(came, columns)
        others = repeats[~np.isin(repeats, keys)]
        return made, np.sort(np.concatenate([others, again]))


class Difference(NamedTuple):
    """What changes of the distinct pairs of a list, and of its repeats."""

    lost: Codes
    """The rows of the pairs that are there no more, ascending,"""
    places: Counts
    """and where these pairs were."""
    came: Codes
    """The rows of the pairs that are new, ascending,"""
    columns: Codes
    """and their columns."""
    keys: Keys
    """All pairs that went or came,"""
    again: Keys
    """and those of them that are there more than once now, beyond the first of each."""


@dataclass(frozen=True)
class MultiCsr(_Rows):
    """Adjacency with one entry per stored edge, whose position is beside it.

    The entries of a row ascend by neighbour.
    """

    ARRAYS: ClassVar = ("indptr", "indices", "positions")

    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[np.int32]
    positions: npt.NDArray[np.int32]
    shape: tuple[int, int]

    @property
    def nbytes(self) -> int:
        """The bytes of everything made so far."""
        made = (self.__dict__.get(name) for name in _MADE)
        more: int = sum(one.nbytes for one in made if one is not None)
        return self.indptr.nbytes + self.indices.nbytes + self.positions.nbytes + more

    def changed(self, gone: Entries, new: Entries) -> MultiCsr:
        """The same without few entries and with few others, whose positions are in no other entry of their rows."""
        left = self
        if len(gone[0]):
            places = np.sort(self._lower_bounds(*gone))
            left = MultiCsr(
                _moved(self.indptr, np.sort(gone[0]), -1),
                _without(self.indices, places),
                _without(self.positions, places),
                self.shape,
            )
        if not len(new[0]):
            return left
        order = np.lexsort(new[::-1])
        rows, columns, positions = (part[order] for part in new)
        places = left._lower_bounds(rows, columns, positions)
        return MultiCsr(
            _moved(left.indptr, rows, 1),
            _with(left.indices, places, columns),
            _with(left.positions, places, positions),
            self.shape,
        )

    def _lower_bounds(self, rows: Codes, columns: Codes, positions: Codes) -> Counts:
        def is_before(places: Counts) -> Mask:
            near = self.indices[places]
            found: Mask = near < columns
            found |= (near == columns) & (self.positions[places] < positions)
            return found

        return _searched(self.indptr, rows, is_before)


Entries = tuple[Codes, Codes, Codes]
"""Rows, columns and positions."""


def _moved(indptr: npt.NDArray[np.int64], rows: Codes, step: int) -> npt.NDArray[np.int64]:
    """Where rows begin when each of some rows, ascending, has an entry more (``step`` 1) or less (-1)."""
    if len(rows) > _MOVED_BY_HAND:
        return indptr + step * np.cumsum(np.bincount(rows + 1, minlength=len(indptr)))
    moved = indptr.copy()
    cuts = [*(rows + 1).tolist(), len(indptr)]
    for count, (first, end) in enumerate(pairwise(cuts), 1):
        moved[first:end] += step * count
    return moved


def _without(values: Codes, places: Counts) -> Codes:
    """All values but those at some places, ascending."""
    if len(places) > _MOVED_BY_HAND:
        return np.delete(values, places)
    begins, ends = [0, *(places + 1).tolist()], [*places.tolist(), len(values)]
    parts = [values[begin:end] for begin, end in zip(begins, ends, strict=True)]
    return np.concatenate(parts)


def _with(values: Codes, places: Counts, more: Codes) -> Codes:
    """All values, and before those at some places, ascending, one more each."""
    if len(places) > _MOVED_BY_HAND:
        return np.insert(values, places, more)
    parts, begin = [], 0
    for at, place in enumerate(places.tolist()):
        parts += [values[begin:place], more[at : at + 1]]
        begin = place
    return np.concatenate([*parts, values[begin:]])


def _searched(
    indptr: npt.NDArray[np.int64], rows: Codes, is_before: Callable[[Counts], Mask]
) -> Counts:
    """For each of some searches the first place of its row that is not before what it looks for."""
    low, high = indptr[rows], indptr[rows + 1]
    while (searching := low < high).any():
        # Searches that have ended look at place 0, which is always there, and ignore what they see.
        middle = np.where(searching, (low + high) // 2, 0)
        smaller = searching & is_before(middle)
        low = np.where(smaller, middle + 1, low)
        high = np.where(searching & ~smaller, middle, high)
    return low


def pair_keys(rows: Codes, columns: Codes) -> Keys:
    """Pairs of a row and a column, each as one integer that sorts as they do."""
    return _packed(rows, columns, 32)


def csr_of(rows: Codes, columns: Codes, shape: tuple[int, int]) -> Csr:
    """The distinct pairs of a row and a column."""
    return csr_and_repeats(rows, columns, shape)[0]


def csr_and_repeats(rows: Codes, columns: Codes, shape: tuple[int, int]) -> tuple[Csr, Keys]:
    """The distinct pairs of a row and a column, and ascending those that came again."""
    # Row and column in one integer each: sorting those is faster than any sort of pairs.
    keys = pair_keys(rows, columns)
    keys.sort()
    repeats = keys[:0]
    if keys.size > 1:
        fresh = np.empty(keys.size, np.bool_)
        fresh[0] = True
        np.not_equal(keys[1:], keys[:-1], out=fresh[1:])
        if not fresh.all():
            repeats = keys[~fresh]
            keys = keys[fresh]
    return Csr(_starts(keys, shape[0], 32), keys.astype(np.int32), shape), repeats


def multi_csr_of(rows: Codes, columns: Codes, positions: Codes, shape: tuple[int, int]) -> MultiCsr:
    """The pairs of a row and a column, each with its position."""
    place_bits = int(positions.max(initial=0)).bit_length()
    column_bits = shape[1].bit_length()
    if shape[0].bit_length() + column_bits + place_bits <= _KEY_BITS:
        # All three in one integer: the sort carries them along.
        row_shift = column_bits + place_bits
        keys = _packed(rows, columns, column_bits)
        keys = _packed(keys, positions, place_bits)
        keys.sort()
        positions = (keys & np.uint64((1 << place_bits) - 1)).astype(np.int32)
        near = keys >> np.uint64(place_bits) & np.uint64((1 << column_bits) - 1)
        starts = _starts(keys, shape[0], row_shift)
        return MultiCsr(starts, near.astype(np.int32), positions, shape)
    # Too many bits for one integer: sorted by column first and then, stably, by row.
    by_column, _ = _ordered(columns)
    by_row, keys = _ordered(rows[by_column])
    order = by_column[by_row]
    return MultiCsr(_starts(keys, shape[0], 32), columns[order], positions[order], shape)


Pairs = tuple[Codes, Codes]


def csr_by_parts(pairs: Sequence[Pairs], shape: tuple[int, int], most: int) -> Iterator[Csr]:
    """The distinct pairs of a row and a column, some consecutive rows at a time.

    A part has about ``most`` pairs, more where one row has. The pairs may lie in files: no copy of all is made.
    """
    for rows, columns, _, part in _parts(pairs, shape, most, with_loops=True):
        yield csr_of(rows, columns, part)


def multi_csr_by_parts(
    pairs: Sequence[Pairs], shape: tuple[int, int], most: int
) -> Iterator[MultiCsr]:
    """The pairs of a row and a column with their positions, some consecutive rows at a time.

    Where pairs are given both ways, a loop counts once.
    """
    for rows, columns, positions, part in _parts(pairs, shape, most, with_loops=False):
        yield multi_csr_of(rows, columns, positions, part)


def _parts(
    pairs: Sequence[Pairs], shape: tuple[int, int], most: int, *, with_loops: bool
) -> Iterator[tuple[Codes, Codes, Codes, tuple[int, int]]]:
    """Rows counted from the first of a part, columns and positions of all pairs of it, and its shape."""
    counts = np.zeros(shape[0], np.int64)
    for rows, _ in pairs:
        # In slices: the ends may be mapped from a file, and a whole copy of them is what is to be avoided.
        for at in range(0, rows.size, most):
            counts += np.bincount(rows[at : at + most], minlength=shape[0])
    ends = np.cumsum(counts)
    first = 0
    while first < shape[0]:
        before = int(ends[first - 1]) if first else 0
        # A row is never divided, whatever it holds.
        last = max(first + 1, int(np.searchsorted(ends, before + most, side="right")))
        found = [
            _between(rows[at : at + most], columns[at : at + most], at, first, last, keeps_loops)
            for (rows, columns), keeps_loops in zip(pairs, (True, with_loops), strict=False)
            for at in range(0, rows.size, most)
        ]
        chosen = [np.concatenate(some) for some in zip(*found, strict=True)]
        if not chosen:
            chosen = [np.empty(0, np.int32)] * 3
        yield chosen[0], chosen[1], chosen[2], (last - first, shape[1])
        first = last


def _between(
    rows: Codes, columns: Codes, at: int, first: int, last: int, keeps_loops: bool
) -> tuple[Codes, Codes, Codes]:
    """The pairs with a row in a range, and their positions; ``at`` is that of the first pair."""
    chosen = (rows >= first) & (rows < last)
    if not keeps_loops:
        chosen &= rows != columns
    places = np.flatnonzero(chosen)
    positions = (places + at).astype(np.int32)
    return rows[places] - np.int32(first), columns[places], positions


def _packed(high: npt.NDArray[Any], low: Codes, bits: int) -> Keys:
    """Two columns of codes in one integer; the lower one takes this number of bits."""
    keys = high.astype(np.uint64)
    keys <<= np.uint64(bits)
    # Unsigned, so that no sign spreads into the upper half.
    keys |= low.view(np.uint32)
    return keys


def _ordered(codes: Codes) -> tuple[npt.NDArray[np.uint32], Keys]:
    """The stable order of the codes, and the codes in that order from the 32nd bit on.

    Two sorts of integers that carry their places are faster than one sort of places.
    """
    keys = _packed(codes, np.arange(codes.size, dtype=np.int32), 32)
    keys.sort()
    return keys.astype(np.uint32), keys


def _starts(keys: Keys, rows: int, shift: int) -> Counts:
    """Where each row begins among ascending keys that have it from this bit on."""
    firsts = np.arange(rows + 1, dtype=np.uint64) << np.uint64(shift)
    return np.searchsorted(keys, firsts).astype(np.int64, copy=False)
