"""Rows of a match on their way through the engine: columns of dense integers.

A code stands for one entity within the space of its variable (``spaces``): the ordinal of a node, or
the position of a stored edge. Properties are looked at late, by code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from omnigraph.read.kernels.arrays import Codes, Counts, Sums
from omnigraph.read.values.column import Column


@dataclass(frozen=True, slots=True)
class Carried:
    """What an aggregate needs of a variable that was summed away, one entry a row.

    ``counts`` is how often the argument is present, over all bindings the row stands for. ``sums`` is
    set for `sum` and `avg`; those of integers wrap at 2^64. ``best`` is set for `min` and `max`: the code of the value in
    ``column.dictionary``, -1 where there is none.
    """

    counts: Counts
    column: Column
    sums: Sums | None = None
    best: Codes | None = None

    def at(self, rows: Counts) -> Carried:
        """The entries of these rows."""
        sums = None if self.sums is None else self.sums[rows]
        best = None if self.best is None else self.best[rows]
        return Carried(self.counts[rows], self.column, sums, best)


@dataclass(frozen=True, slots=True)
class Bindings:
    """A batch of rows: for each variable that is still needed the code of its entity.

    A row stands for ``weights`` rows of the match (None: for one), which differ only in variables
    nobody asks for. ``carried`` holds, by the position of its output column, what an aggregate over
    such a variable needs.
    """

    rows: int
    codes: Mapping[str, Codes]
    weights: Counts | None = None
    carried: Mapping[int, Carried] = field(default_factory=dict)

    def at(self, rows: Counts) -> Bindings:
        """The rows at these positions."""
        codes = {name: column[rows] for name, column in self.codes.items()}
        weights = None if self.weights is None else self.weights[rows]
        carried = {key: entry.at(rows) for key, entry in self.carried.items()}
        return Bindings(len(rows), codes, weights, carried)


def joined(batches: Sequence[Bindings]) -> Bindings:
    """Several batches of one match as one."""
    if len(batches) == 1:
        return batches[0]
    weights = None
    if any(batch.weights is not None for batch in batches):
        weights = np.concatenate(
            [np.ones(b.rows, np.int64) if b.weights is None else b.weights for b in batches]
        )
    return Bindings(
        sum(batch.rows for batch in batches),
        {name: np.concatenate([b.codes[name] for b in batches]) for name in batches[0].codes},
        weights,
        {at: _carried([batch.carried[at] for batch in batches]) for at in batches[0].carried},
    )


def _carried(parts: Sequence[Carried]) -> Carried:
    sums = [part.sums for part in parts if part.sums is not None]
    best = [part.best for part in parts if part.best is not None]
    return Carried(
        np.concatenate([part.counts for part in parts]),
        parts[0].column,
        np.concatenate(sums) if sums else None,
        np.concatenate(best) if best else None,
    )
