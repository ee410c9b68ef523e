"""Rows of a match while they are enumerated: they grow by variables, and still carry totals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from omnigraph.read.kernels.arrays import Codes, Counts
from omnigraph.read.match.bindings import Bindings, Carried
from omnigraph.read.match.candidates import Candidates, Totals


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows on their way: codes by variable, and what each row stands for."""

    count: int
    codes: Mapping[str, Codes]
    weights: Counts | None = None
    totals: Mapping[int, Totals] = field(default_factory=dict)

    def at(self, index: np.ndarray | slice) -> Batch:
        """The rows at these positions, repeats included, or by a mask."""
        codes = {name: column[index] for name, column in self.codes.items()}
        weights = None if self.weights is None else self.weights[index]
        totals = {key: entry.at(index) for key, entry in self.totals.items()}
        if isinstance(index, slice):
            count = len(range(*index.indices(self.count)))
        else:
            count = int(index.sum()) if index.dtype == bool else len(index)
        return Batch(count, codes, weights, totals)

    def binding(self, name: str, codes: Codes) -> Batch:
        """The same rows with one more variable."""
        return Batch(self.count, {**self.codes, name: codes}, self.weights, self.totals)

    def only(self, names: frozenset[str]) -> Batch:
        """The same rows with fewer variables."""
        codes = {name: column for name, column in self.codes.items() if name in names}
        return Batch(self.count, codes, self.weights, self.totals)

    def join(self, weights: Counts | None, totals: Mapping[int, Totals]) -> Batch:
        """The same rows, each standing for that many times more."""
        if weights is None and not totals:
            return self
        if weights is None:
            weights = np.ones(self.count, dtype=np.int64)
        both = Candidates(self.count, None, self.weights, self.totals).join(weights, totals)
        return Batch(self.count, self.codes, both.weights, both.totals)

    def bindings(self, kept: frozenset[str], unit: Candidates) -> Bindings:
        """The batch as consumers get it, times what was summed away apart from every row."""
        rows = self.only(kept)
        if not unit.is_full:
            every = np.zeros(rows.count, dtype=np.int32)
            rows = rows.join(
                unit.multiplicities()[every],
                {key: entry.at(every) for key, entry in unit.totals.items()},
            )
        carried = {
            key: Carried(entry.counts, entry.column, entry.sums, entry.best)
            for key, entry in rows.totals.items()
        }
        return Bindings(rows.count, rows.codes, rows.weights, carried)
