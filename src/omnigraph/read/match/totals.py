"""What aggregates need of variables that are no longer there.

A variable that nobody asks for is summed away. Where `sum($b.age)` is wanted, each node `$a` that is
left carries the count and the sum of the ages of its neighbours `$b`:

    a knows b (age 30), b2 (age 40)   ->   totals of a: COUNT 2, WHOLE_SUM 70
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from omnigraph.read.kernels.arrays import Codes, Counts, Index, Mask
from omnigraph.read.match.measures import COUNT, Entries, Measure
from omnigraph.read.values.column import Column


@dataclass(frozen=True, slots=True)
class Totals:
    """The measures of one aggregate over a variable that was summed away, one entry per code or row.

    ``measures`` always has the ``COUNT`` of the argument, over all bindings the entry stands for. Codes of
    values are those of ``column``.
    """

    column: Column
    measures: Mapping[Measure, Entries]

    @classmethod
    def of_codes(cls, column: Column, measures: Sequence[Measure], codes: Any) -> Totals:
        """The totals of a variable that has not been summed away yet, at these codes."""
        return cls(column, {one: one.of_codes(column, codes) for one in (COUNT, *measures)})

    def each(self, change: Callable[[Measure, Entries], Entries]) -> Totals:
        """The totals with the entries of every measure changed."""
        return Totals(self.column, {one: change(one, of) for one, of in self.measures.items()})

    def at(self, rows: Codes | Index | slice | Mask) -> Totals:
        """The entries at these positions."""
        return self.each(lambda _, entries: entries[rows])

    def times(self, weights: Counts) -> Totals:
        """The entries when every binding is repeated ``weights`` times."""
        return self.each(lambda measure, entries: measure.repeated(entries, weights))

    def summed(self) -> Totals:
        """All entries merged into one."""
        return self.each(lambda measure, entries: measure.total(entries))

    def combined(self, other: Totals) -> Totals:
        """The entries of two totals of one aggregate, merged position by position."""
        return self.each(lambda measure, of: measure.combined(of, other.measures[measure]))


def concatenated(parts: Sequence[Totals]) -> Totals:
    """The entries of all parts, one after the other; the parts belong to one aggregate."""
    return parts[0].each(
        lambda measure, _: np.concatenate([part.measures[measure] for part in parts])
    )
