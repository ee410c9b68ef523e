"""Sums of integers that are exact or refused.

Integers are added in 64 bits, which is exact as long as the largest value times the rows of a group fits. Where
it may not, ``UnsureError`` asks for the rows once more, to be added in 128 bits (``wide_sums``).

    values up to 2**62, at most 1 row in a group   ->   the sums of 64 bits are exact
    values up to 2**62, up to 3 rows in a group    ->   UnsureError; then 2**63 is refused, 2**62 is not
"""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph.errors import BadRequest
from omnigraph.lang.query import ir
from omnigraph.read.match.measures import COUNT, WHOLE_SUM, WIDE_SUM, Entries, Measure
from omnigraph.read.output.grouping import Lines, given
from omnigraph.read.values.column import Column
from omnigraph.read.values.numbers import MAX_COUNT
from omnigraph.read.values.wide_sums import narrowed


class UnsureError(Exception):
    """A sum may have wrapped: run again with ``wide`` sums."""


class WholeSums:
    """Watches over the sums of integers among the aggregates of one answer.

    ``wide`` sums are exact whatever they reach on the way; they are added from rows.
    """

    def __init__(self, aggregates: Mapping[int, ir.Aggregate], *, wide: bool) -> None:
        self._aggregates = aggregates
        self._wide = wide
        self._spans: dict[int, tuple[int, int]] = {}

    def measure_of(self, measure: Measure) -> Measure:
        """The measure that is grouped where this one is needed."""
        return WIDE_SUM if self._wide and measure is WHOLE_SUM else measure

    def watch(self, at: int, measure: Measure, column: Column) -> None:
        """Take note of the values that an output column adds up, if it adds up integers."""
        if measure is WHOLE_SUM:
            self._spans[at] = column.span

    def checked(self, groups: Lines) -> Lines:
        """The groups with sums as int64, each exact, or the refusal of one that does not fit."""
        measures = dict(groups.measures)
        for at, (low, high) in self._spans.items():
            if self._wide:
                measures[at, WHOLE_SUM] = self._narrowed(at, given(measures.pop((at, WIDE_SUM))))
            elif max(-low, high) * int(given(measures[at, COUNT]).max(initial=0)) > MAX_COUNT:
                raise UnsureError
        return Lines(groups.length, groups.keys, groups.rows, measures)

    def refuse_early(self, groups: Lines) -> None:
        """Refuse a sum that is too large already where more rows can only add to it."""
        for at, (low, high) in self._spans.items():
            if self._wide and (low >= 0 or high <= 0):
                self._narrowed(at, given(groups.measures[at, WIDE_SUM]))

    def _narrowed(self, at: int, limbs: Entries) -> Entries:
        sums, fits = narrowed(limbs)
        if not fits.all():
            raise overflow(self._aggregates[at])
        return sums


def overflow(aggregate: ir.Aggregate) -> BadRequest:
    """The refusal of an aggregate whose result an I64 cannot hold."""
    name = _shown(aggregate)
    return BadRequest(
        f"runtime error: overflow: {name} is outside the range of an I64; narrow the match, add "
        "a property to `return` to get smaller groups, or store the property as F64",
        aggregate=name,
    )


def _shown(aggregate: ir.Aggregate) -> str:
    match aggregate.arg:
        case ir.PropertyOf() as arg:
            shown = f"${arg.var}.{arg.property}"
        case ir.ParamRef() as arg:
            shown = f"${arg.name}"
        case ir.Const() as arg:
            shown = str(arg.value)
        case ir.NodeId() as arg:
            shown = f"${arg.var}"
    return f"{aggregate.function}({shown})"
