"""What is asked of a match: whose codes, which totals, and how many rows at first.

For example:

    return { $a.name, sum($b.age) }   ->   kept {"a"}, totals {1: sum of $b.age}

A variable that nobody asks for is summed away. Each node `$a` that is left then carries ``Totals``, the count and the
sum of the ages of its neighbours `$b`:

    a knows b (age 30), b2 (age 40)   ->   totals of a: COUNT 2, WHOLE_SUM 70
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from omnigraph.lang.query import ir
from omnigraph.read.kernels.arrays import Codes, Counts, Index, Mask
from omnigraph.read.match.measures import COUNT, Entries, Measure
from omnigraph.read.values.column import Column
from omnigraph.read.values.expressions import variables_of


@dataclass(frozen=True, slots=True)
class Total:
    """An expression over one variable that may be summed away, and its measures beside the count."""

    arg: ir.Expr
    measures: tuple[Measure, ...]

    @property
    def var(self) -> str:
        """The variable."""
        (name,) = variables_of(self.arg)
        return name


@dataclass(frozen=True, slots=True)
class Wanted:
    """The codes of the ``kept`` variables, and by output column ``totals`` over properties of the others."""

    kept: frozenset[str]
    totals: Mapping[int, Total] = field(default_factory=dict)
    batch: int | None = None
    """How many rows the first batch needs at most: a limit without an order."""
    among: Mapping[str, Codes] = field(default_factory=dict)
    """Variables that are only wanted with some of their codes."""
    is_boolean: bool = False
    """Whether it does not matter how many rows of the match a row stands for."""


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
