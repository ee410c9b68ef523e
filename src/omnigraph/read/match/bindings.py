"""Rows of a match on their way through the engine: columns of dense integers.

A code stands for one entity of its variable: the ordinal of a node, or the position of a stored edge.
Properties are looked up late, by code. The match `$a knows $b`, where ada (0) knows bob (1) and cy (2):

    Bindings(2, {"a": [0, 0], "b": [1, 2]})                 both variables are asked for
    Bindings(1, {"a": [0]}, weights=[2])                    only $a is: one row stands for two
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from omnigraph.read.kernels.arrays import Codes, Counts
from omnigraph.read.match.candidates import Candidates
from omnigraph.read.match.wanted import Totals, concatenated


@dataclass(frozen=True, slots=True)
class Bindings:
    """A batch of rows: for each variable that is still needed the code of its entity.

    A row stands for ``weights`` rows of the match (None: for one), which differ only in variables
    nobody asks for. ``totals`` holds, by the position of its output column, what an aggregate over
    such a variable needs.
    """

    count: int
    codes: Mapping[str, Codes]
    weights: Counts | None = None
    totals: Mapping[int, Totals] = field(default_factory=dict)

    def at(self, index: np.ndarray | slice) -> Bindings:
        """The rows at these positions, repeats included, or by a mask."""
        if isinstance(index, slice):
            codes = {name: column[index] for name, column in self.codes.items()}
            weights = None if self.weights is None else self.weights[index]
            totals = {key: entry.at(index) for key, entry in self.totals.items()}
            return Bindings(len(range(*index.indices(self.count))), codes, weights, totals)
        if index.dtype == bool:
            index = np.flatnonzero(index)
            if len(index) == self.count:
                return self
        # `take` is some times as fast as brackets.
        codes = {name: column.take(index) for name, column in self.codes.items()}
        weights = None if self.weights is None else self.weights.take(index)
        totals = {key: entry.at(index) for key, entry in self.totals.items()}
        return Bindings(len(index), codes, weights, totals)

    @property
    def nbytes(self) -> int:
        """The bytes of its columns and weights."""
        weights = 0 if self.weights is None else self.weights.nbytes
        return weights + sum(column.nbytes for column in self.codes.values())

    def total(self) -> int:
        """How many rows of the match these rows stand for; refused beyond 64 bits."""
        if self.weights is None:
            return self.count
        return int(Candidates(self.count, None, self.weights).total())

    def binding(self, name: str, codes: Codes) -> Bindings:
        """The same rows with one more variable."""
        return Bindings(self.count, {**self.codes, name: codes}, self.weights, self.totals)

    def only(self, names: frozenset[str]) -> Bindings:
        """The same rows without the other variables."""
        codes = {name: column for name, column in self.codes.items() if name in names}
        return Bindings(self.count, codes, self.weights, self.totals)

    def join(self, weights: Counts | None, totals: Mapping[int, Totals]) -> Bindings:
        """The same rows, each standing for ``weights`` times as many rows of the match."""
        if weights is None and not totals:
            return self
        if weights is None:
            weights = np.ones(self.count, dtype=np.int64)
        both = Candidates(self.count, None, self.weights, self.totals).join(weights, totals)
        return Bindings(self.count, self.codes, both.weights, both.totals)

    def times(self, unit: Candidates) -> Bindings:
        """The same rows, with the weight and totals of ``unit`` multiplied in: the one candidate that
        collects variables which were summed away and are linked to none that is left."""
        if unit.is_full:
            return self
        every = np.zeros(self.count, dtype=np.int32)
        totals = {key: entry.at(every) for key, entry in unit.totals.items()}
        return self.join(unit.multiplicities()[every], totals)


def joined(batches: Sequence[Bindings]) -> Bindings:
    """Several batches of one match as one."""
    if len(batches) == 1:
        return batches[0]
    weights = None
    if any(batch.weights is not None for batch in batches):
        weights = np.concatenate(
            [np.ones(b.count, np.int64) if b.weights is None else b.weights for b in batches]
        )
    return Bindings(
        sum(batch.count for batch in batches),
        {name: np.concatenate([b.codes[name] for b in batches]) for name in batches[0].codes},
        weights,
        {at: concatenated([b.totals[at] for b in batches]) for at in batches[0].totals},
    )
