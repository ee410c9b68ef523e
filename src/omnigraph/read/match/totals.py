"""What aggregates need of variables that are no longer there.

A variable that nobody asks for is summed away. Where `sum($b.age)` is wanted, each node `$a` that is
left carries the count and the sum of the ages of its neighbours `$b`:

    a knows b (age 30), b2 (age 40)   ->   totals of a: counts 2, sums 70
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from omnigraph.read.kernels.arrays import Codes, Counts, Mask, Sums
from omnigraph.read.values.column import Column
from omnigraph.read.values.numbers import too_many

Best = Literal["min", "max"]

TOO_MANY = float(2**63)


@dataclass(frozen=True, slots=True)
class Totals:
    """What an aggregate needs to know of a variable that was summed away, one entry per code or row.

    ``counts`` is how often the argument is present, over all bindings the entry stands for. ``sums``
    is set for `sum` and `avg`; those of integers wrap at 2^64. ``best`` is set for `min` and `max`,
    together with ``want``: the code of the value in ``column.dictionary``, -1 where there is none.
    """

    counts: Counts
    column: Column
    sums: Sums | None = None
    best: Codes | None = None
    want: Best | None = None

    def at(self, rows: Codes | slice | Mask) -> Totals:
        """The entries at these positions."""
        return replace(
            self,
            counts=self.counts[rows],
            sums=None if self.sums is None else self.sums[rows],
            best=None if self.best is None else self.best[rows],
        )

    def times(self, weights: Counts) -> Totals:
        """The entries when every binding is repeated ``weights`` times."""
        return replace(
            self,
            counts=times(self.counts, weights),
            sums=None if self.sums is None else self.sums * weights,
        )

    def summed(self) -> Totals:
        """All entries added up to one."""
        best = self.best
        if best is not None:
            known = best[best >= 0]
            chosen = -1
            if len(known):
                chosen = known.min() if self.want == "min" else known.max()
            best = np.array([chosen], dtype=np.int32)
        return replace(
            self,
            counts=self.counts.sum(keepdims=True),
            sums=None if self.sums is None else self.sums.sum(keepdims=True),
            best=best,
        )


def concatenated(parts: Sequence[Totals]) -> Totals:
    """The entries of all parts, one after the other; the parts belong to one aggregate."""
    sums = [part.sums for part in parts if part.sums is not None]
    best = [part.best for part in parts if part.best is not None]
    return replace(
        parts[0],
        counts=np.concatenate([part.counts for part in parts]),
        sums=np.concatenate(sums) if sums else None,
        best=np.concatenate(best) if best else None,
    )


def times(left: Counts, right: Counts, at_most: int | None = None) -> Counts:
    """The products; refused when one passes 64 bits. None is larger than ``at_most``, where that is known."""
    is_small = at_most is not None and at_most < TOO_MANY
    if not is_small and left.size and right.size:
        bound = float(left.max()) * float(right.max())
        if bound >= TOO_MANY and (left.astype(np.float64) * right >= TOO_MANY).any():
            raise too_many()
    return left * right
