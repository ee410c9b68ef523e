"""Candidates of one variable: the codes that can still match, each with a weight.

A weight says how many bindings a code stands for; a code of weight zero is dead. Weights and totals come
from neighbours that were summed away, and are aligned with ``codes``. Without ``codes`` every code is
listed, in order.

    Candidates(5)                           0, 1, 2, 3, 4, each once
    Candidates(5, codes=[1, 4])             1 and 4
    … .join(weights=[2, 1], totals={})      1 stands for two bindings, 4 for one
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from omnigraph.read.kernels.arrays import Codes, Counts, Floats, Mask
from omnigraph.read.match.measures import TOO_MANY, times
from omnigraph.read.match.wanted import Totals
from omnigraph.read.values.numbers import MAX_COUNT, too_many

Aligned = TypeVar("Aligned", Codes, Counts, Floats)


@dataclass(frozen=True, slots=True)
class Candidates:
    """The codes of one variable that may still be part of a match."""

    size: int
    codes: Codes | None = None
    weights: Counts | None = None
    totals: Mapping[int, Totals] = field(default_factory=dict)
    members: Mask | None = field(default=None, compare=False)
    """Which codes are listed, over all codes, where that is known anyway."""
    at_most: int | None = field(default=None, compare=False)
    """An upper bound of the weights, if one is known without looking at them."""

    @property
    def is_full(self) -> bool:
        """Whether every code is a candidate, once, without totals."""
        return self.codes is None and self.weights is None and not self.totals

    @property
    def count(self) -> int:
        """How many codes are listed."""
        return self.size if self.codes is None else len(self.codes)

    @property
    def nbytes(self) -> int:
        """The bytes of its codes and weights."""
        return sum(one.nbytes for one in (self.codes, self.weights) if one is not None)

    def listed(self) -> Codes:
        """The codes, ascending."""
        return np.arange(self.size, dtype=np.int32) if self.codes is None else self.codes

    def mask(self) -> Mask:
        """Which codes are alive, over all codes."""
        if self.codes is None:
            return np.ones(self.size, dtype=np.bool_) if self.weights is None else self.weights != 0
        mask = np.zeros(self.size, dtype=np.bool_)
        mask[self.codes if self.weights is None else self.codes[self.weights != 0]] = True
        return mask

    def spread_out(self, values: Aligned, empty: float = 0) -> Aligned:
        """Values aligned with the listed codes, as an array over all codes."""
        if self.codes is None:
            return values
        out = np.full(self.size, empty, dtype=values.dtype)
        out[self.codes] = values
        return out

    def places(self, codes: Codes) -> Codes:
        """Where each code stands in the list; -1 where it does not."""
        if self.codes is None:
            return codes
        # A search takes several steps for each code, a table two passes over all possible codes.
        if len(codes) * 4 < self.size:
            return positions(self.codes, codes)
        table = np.full(self.size, -1, dtype=np.int32)
        table[self.codes] = np.arange(len(self.codes), dtype=np.int32)
        return table.take(codes)

    def has(self, codes: Codes) -> Mask:
        """Which of these codes are listed."""
        if self.members is not None:
            return self.members.take(codes)
        if self.codes is None or len(codes) * 4 < self.size:
            return self.places(codes) >= 0
        marked = np.zeros(self.size, dtype=np.bool_)
        marked[self.codes] = True
        return marked.take(codes)

    def multiplicities(self) -> Counts:
        """The weight of every listed code."""
        return np.ones(self.count, dtype=np.int64) if self.weights is None else self.weights

    def total(self) -> int:
        """How many bindings there are."""
        if self.weights is None:
            return self.count
        if self.fits or float(self.weights.sum(dtype=float)) < TOO_MANY / 2:
            return int(self.weights.sum())
        # Floats are not exact near the bound; sums of halves are.
        found = (int((self.weights >> 32).sum()) << 32) + int((self.weights & 0xFFFFFFFF).sum())
        if found > MAX_COUNT:
            raise too_many()
        return found

    @property
    def most(self) -> int | None:
        """A bound of every weight, where one is known without looking."""
        return 1 if self.weights is None else self.at_most

    @property
    def fits(self) -> bool:
        """Whether it is known that all weights together stay below 64 bits."""
        return self.weights is None or (
            self.at_most is not None and self.at_most * self.count < TOO_MANY
        )

    def summed(self) -> tuple[Counts, dict[int, Totals]]:
        """All codes merged into one weight and one total each, as a variable without links counts for every
        row."""
        weights = np.array([self.total()], dtype=np.int64)
        return weights, {key: entry.summed() for key, entry in self.totals.items()}

    def only(self, mask: Mask) -> Candidates:
        """Keep the codes that a mask over all codes selects."""
        if self.is_full:
            return Candidates(self.size, np.flatnonzero(mask).astype(np.int32), members=mask)
        if self.codes is None:
            return self._at(np.flatnonzero(mask).astype(np.int32))
        return self._at(mask.take(self.codes))

    def only_listed(self, mask: Mask) -> Candidates:
        """Keep the codes that a mask aligned with the listed codes selects."""
        return self._at(mask)

    def among(self, codes: Codes) -> Candidates:
        """Keep the codes that are among these, which are ascending and distinct."""
        if self.codes is None:
            return self._at(codes)
        if self.weights is None and not self.totals:
            return Candidates(self.size, self._among(codes))
        if len(codes) * 8 < len(self.codes):
            at = positions(self.codes, codes)
            return self._at(at[at >= 0])
        marked = np.zeros(self.size, dtype=np.bool_)
        marked[codes] = True
        return self._at(marked.take(self.codes))

    def _among(self, codes: Codes) -> Codes:
        """The listed codes among these: by a search for few, by marks for many."""
        assert self.codes is not None
        few, many = sorted((self.codes, codes), key=len)
        found: Codes
        if self.members is not None:
            found = codes[self.members[codes]]
        elif len(few) * 64 < len(many):
            found = few[positions(many, few) >= 0]
        else:
            marked = np.zeros(self.size, dtype=np.bool_)
            marked[few] = True
            found = many[marked[many]]
        return found

    def without(self, codes: Codes) -> Candidates:
        """Drop these codes, which are ascending and distinct."""
        keep = np.ones(self.size, dtype=np.bool_)
        keep[codes] = False
        return self.only(keep)

    def alive(self) -> Candidates:
        """Drop dead codes."""
        if self.weights is None:
            return self
        keep = self.weights != 0
        return self if keep.all() else self._at(keep)

    def mostly_alive(self) -> Candidates:
        """Drop dead codes, unless carrying them along is cheaper: when most are alive and have no totals."""
        if self.weights is None or self.codes is not None or self.totals:
            return self.alive()
        living = np.count_nonzero(self.weights)
        return self if living * 4 >= self.size else self.alive()

    def _at(self, rows: Codes | Mask) -> Candidates:
        """The listed codes at these places, or those that a mask selects."""
        # Places and `take` are some times as fast as a mask in brackets.
        places = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
        return Candidates(
            self.size,
            np.asarray(places, np.int32) if self.codes is None else self.codes.take(places),
            None if self.weights is None else self.weights.take(places),
            {at: totals.at(places) for at, totals in self.totals.items()},
            at_most=self.at_most,
        )

    def join(
        self, weights: Counts, totals: Mapping[int, Totals], at_most: int | None = None
    ) -> Candidates:
        """Sum a neighbour away: multiply in its message, which is aligned with the listed codes."""
        mine = self.weights
        summed = {at: entry.times(weights) for at, entry in self.totals.items()}
        for at, entry in totals.items():
            summed[at] = entry if mine is None else entry.times(mine)
        if mine is not None:
            if at_most is not None:
                at_most = None if self.at_most is None else self.at_most * at_most
            weights = times(mine, weights, at_most)
        return Candidates(self.size, self.codes, weights, summed, at_most=at_most)


def refuse_wrap(child: Candidates, add: Callable[[Counts], Counts]) -> None:
    """Refuse weights of which a sum passes 64 bits; ``add`` makes the sums.

    Halves of 32 bits cannot wrap. They are added up only where all weights together are too many.
    """
    weights = child.weights
    if child.fits or weights is None or float(weights.sum(dtype=float)) < TOO_MANY / 2:
        return
    high, low = add(weights >> 32), add(weights & 0xFFFFFFFF)
    if (high + (low >> 32) >= 2**31).any():
        raise too_many()


def positions(within: Codes, codes: Codes) -> Codes:
    """Where each code stands in an ascending list; -1 where it does not."""
    if not len(within):
        return np.full(len(codes), -1, dtype=np.int32)
    at = np.searchsorted(within, codes)
    at[at == len(within)] = 0
    return np.where(within[at] == codes, at, -1).astype(np.int32)


def distinct(codes: Codes, size: int) -> Codes:
    """The distinct codes, ascending. All are below ``size``, so many can be marked instead of sorted."""
    if len(codes) * 16 < size:
        return np.unique(codes)
    marked = np.zeros(size, dtype=np.bool_)
    marked[codes] = True
    return np.flatnonzero(marked).astype(np.int32)
