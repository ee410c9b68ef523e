"""The aggregate functions of the engine: which measures each one needs, and how they become its result.

Measures are merged while variables are summed away and rows are grouped (``match/measures.py``); a function
only looks at the result, one entry per group. Which functions there are, and what they take, is the language's
business (``lang/query/aggregates.py``).

    avg($b.age)   needs FLOAT_SUM beside the count
    COUNT 2, 0   FLOAT_SUM 70.0, 0.0   ->   35.0, null

Sums of integers are exact or refused. Integers are added in 64 bits, which is exact as long as the largest value times
the rows of a group fits. Where it may not, ``UnsureError`` asks for the rows once more, to be added in 128 bits
(``values.numbers``).

    values up to 2**62, at most 1 row in a group   ->   the sums of 64 bits are exact
    values up to 2**62, up to 3 rows in a group    ->   UnsureError; then 2**63 is refused, 2**62 is not
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph.errors import BadRequest
from omnigraph.lang.query import ir
from omnigraph.read.kernels.arrays import Counts, Mask
from omnigraph.read.match.measures import (
    COUNT,
    FLOAT_SUM,
    GREATEST,
    LEAST,
    WHOLE_SUM,
    WIDE_SUM,
    Entries,
    Measure,
)
from omnigraph.read.output.grouping import Lines, given
from omnigraph.read.output.selection import Integers, nulls_first
from omnigraph.read.values.column import Column
from omnigraph.read.values.numbers import MAX_COUNT, narrowed, sortable
from omnigraph.types import PropType


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
        case _:
            shown = "…"
    return f"{aggregate.function}({shown})"


@dataclass(frozen=True, slots=True)
class Measured:
    """What is known of an aggregate's argument, one entry per group.

    ``counts`` says how often it is there. ``measures`` has what the function asked for; of a group that never
    had the argument, any number. Entries of ``LEAST`` and ``GREATEST`` only sort like the values (ranks, or
    ``sortable`` integers) and must never be calculated with: ``values_of(entries, absent)`` gives the
    values themselves, null where the mask is true.
    """

    counts: Counts
    measures: Mapping[Measure, Entries]
    values_of: Callable[[Counts, Mask], pa.Array]


class Result(ABC):
    """One aggregate of every group."""

    @abstractmethod
    def sort_keys(self) -> list[Integers]:
        """Integers that sort like the results, the first key leading; null sorts first."""

    @abstractmethod
    def at(self, groups: Counts, kind: pa.DataType) -> pa.Array:
        """The results of these groups."""


@dataclass(frozen=True, slots=True)
class Numbers(Result):
    """A number per group; null where it is not ``present`` (None: present everywhere)."""

    numbers: Entries
    present: Mask | None = None

    def sort_keys(self) -> list[Integers]:
        """The numbers; null first."""
        keys = sortable(self.numbers)
        return [keys] if self.present is None else nulls_first(keys, self.present)

    def at(self, groups: Counts, kind: pa.DataType) -> pa.Array:
        """The numbers of these groups."""
        absent = None if self.present is None else ~self.present[groups]
        return pa.array(self.numbers[groups], kind, mask=absent)


class OneNumber(Numbers):
    """The same number in every group that has one: rounding must not order the groups, so they tie."""

    def sort_keys(self) -> list[Integers]:
        """Whether it is there."""
        assert self.present is not None, "a group without rows has no number"
        return [self.present.astype(np.int8)]


@dataclass(frozen=True, slots=True)
class OneValue(Result):
    """The same value in every group where it is present."""

    value: Any
    present: Mask

    def sort_keys(self) -> list[Integers]:
        """Whether it is there."""
        return [self.present.astype(np.int8)]

    def at(self, groups: Counts, kind: pa.DataType) -> pa.Array:
        """The value, or null."""
        places = np.zeros(len(groups), np.int64)
        return pa.array([self.value], kind).take(pa.array(places, mask=~self.present[groups]))


@dataclass(frozen=True, slots=True)
class GroupValues(Result):
    """A value per group, as a sortable integer, and what makes values of such integers."""

    integers: Counts
    present: Mask
    values_of: Callable[[Counts, Mask], pa.Array]

    def sort_keys(self) -> list[Integers]:
        """The integers; null first."""
        return nulls_first(self.integers, self.present)

    def at(self, groups: Counts, kind: pa.DataType) -> pa.Array:
        """The values of these groups."""
        values = self.values_of(self.integers[groups], ~self.present[groups])
        return values if values.type == kind else values.cast(kind)


class MeasuredFunction(ABC):
    """One function: the measures it needs, and its result."""

    @abstractmethod
    def measures(self, expr: ir.Aggregate) -> tuple[Measure, ...]:
        """What it needs of a property beside the count."""

    @abstractmethod
    def finish(self, expr: ir.Aggregate, measured: Measured) -> Result:
        """The result for a property or a node."""

    @abstractmethod
    def of_value(self, expr: ir.Aggregate, value: Any, counts: Counts) -> Result:
        """The result for a constant or parameter that is there ``counts`` times; ``value`` may be null."""


class _Count(MeasuredFunction):
    """`count`: how often the argument is there."""

    def measures(self, expr: ir.Aggregate) -> tuple[Measure, ...]:  # noqa: ARG002
        return ()

    def finish(self, expr: ir.Aggregate, measured: Measured) -> Result:  # noqa: ARG002
        return Numbers(measured.counts)

    def of_value(self, expr: ir.Aggregate, value: Any, counts: Counts) -> Result:  # noqa: ARG002
        return Numbers(counts)


class _Sum(MeasuredFunction):
    """`sum`: of integers exact or refused, of floats as floats add; null for no value."""

    def measures(self, expr: ir.Aggregate) -> tuple[Measure, ...]:
        return (WHOLE_SUM if _is_whole(expr) else FLOAT_SUM,)

    def finish(self, expr: ir.Aggregate, measured: Measured) -> Result:
        [sums] = self.measures(expr)
        return Numbers(measured.measures[sums], measured.counts > 0)

    def of_value(self, expr: ir.Aggregate, value: Any, counts: Counts) -> Result:
        if not _is_whole(expr):
            return Numbers(counts * float(value or 0), counts > 0)
        value = value or 0
        if not -MAX_COUNT - 1 <= value * int(counts.max(initial=0)) <= MAX_COUNT:
            raise overflow(expr)
        # Of a value beyond 64 bits there are no rows.
        return Numbers(counts * (value if counts.any() else 0), counts > 0)


def _is_whole(expr: ir.Aggregate) -> bool:
    return isinstance(expr.type, PropType) and expr.type.is_integer


class _Average(MeasuredFunction):
    """`avg`: a float, added as floats; null for no value."""

    def measures(self, expr: ir.Aggregate) -> tuple[Measure, ...]:  # noqa: ARG002
        return (FLOAT_SUM,)

    def finish(self, expr: ir.Aggregate, measured: Measured) -> Result:  # noqa: ARG002
        counts = measured.counts
        return Numbers(measured.measures[FLOAT_SUM] / np.maximum(counts, 1), counts > 0)

    def of_value(self, expr: ir.Aggregate, value: Any, counts: Counts) -> Result:  # noqa: ARG002
        return OneNumber(counts * float(value or 0) / np.maximum(counts, 1), counts > 0)


class _Extreme(MeasuredFunction):
    """`min` or `max`: a value of the argument; null for no value."""

    def __init__(self, measure: Measure) -> None:
        self._measure = measure

    def measures(self, expr: ir.Aggregate) -> tuple[Measure, ...]:  # noqa: ARG002
        return (self._measure,)

    def finish(self, expr: ir.Aggregate, measured: Measured) -> Result:  # noqa: ARG002
        integers = measured.measures[self._measure]
        return GroupValues(integers, measured.counts > 0, measured.values_of)

    def of_value(self, expr: ir.Aggregate, value: Any, counts: Counts) -> Result:  # noqa: ARG002
        return OneValue(value, counts > 0)


FUNCTIONS: Mapping[str, MeasuredFunction] = {
    "count": _Count(),
    "sum": _Sum(),
    "avg": _Average(),
    "min": _Extreme(LEAST),
    "max": _Extreme(GREATEST),
}


def measures_of(expr: ir.Aggregate) -> tuple[Measure, ...]:
    """What an aggregate needs of its argument beside the count."""
    return FUNCTIONS[expr.function].measures(expr)


def aggregates_of(plan: ir.ReadPlan) -> list[ir.Aggregate]:
    """The aggregates in the columns of a plan, each once, as they are numbered everywhere."""
    found: list[ir.Aggregate] = []
    for column in plan.columns:
        for aggregate in _aggregates_in(column.expr):
            if aggregate not in found:
                found.append(aggregate)
    return found


def _aggregates_in(expr: ir.Output | ir.Condition) -> Iterator[ir.Aggregate]:
    if isinstance(expr, ir.Aggregate):
        yield expr
        return
    for part in ir.parts_of(expr):
        yield from _aggregates_in(part)


def only_counts(plan: ir.ReadPlan) -> bool:
    """Whether counts are all a plan needs, so that rows with a sign cancel out exactly."""
    found = aggregates_of(plan)
    return bool(found) and all(one.function == "count" and not one.distinct for one in found)
