"""What is asked of a match: whose codes, which totals, and how many rows at first.

For example:

    return { $a.name, sum($b.age) }   ->   kept {"a"}, totals {1: sum of $b.age}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from omnigraph.lang.query import ir
from omnigraph.read.kernels.arrays import Codes
from omnigraph.read.match.measures import Measure


@dataclass(frozen=True, slots=True)
class Total:
    """A property of a variable that may be summed away, and its measures beside the count."""

    arg: ir.PropertyOf
    measures: tuple[Measure, ...]


@dataclass(frozen=True, slots=True)
class Wanted:
    """The codes of the ``kept`` variables, and by output column ``totals`` over properties of the others."""

    kept: frozenset[str]
    totals: Mapping[int, Total] = field(default_factory=dict)
    batch: int | None = None
    """How many rows the first batch needs at most: a limit without an order."""
    among: Mapping[str, Codes] = field(default_factory=dict)
    """Variables that are only wanted with some of their codes."""
