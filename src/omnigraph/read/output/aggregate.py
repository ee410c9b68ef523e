"""Grouped output: rows of a match, batch by batch, into counts, sums and extremes per group.

Each batch is reduced to one row per group, then the partial results are merged. Group keys are looked up
only for the rows of the answer.

    return { $a.city, count($b) }   cities [0, 0, 1], weights [2, 1, 4]   ->   Oslo 3, Rome 4

Integers are added in 64 bits, which is exact as long as the largest value times the rows of a group
fits. Where it may not, ``UnsureError`` asks for the rows once more, to be added in 128 bits (``wide_sums``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.errors import BadRequest
from omnigraph.lang.query import ir
from omnigraph.read.kernels.arrays import Codes, Counts, Mask
from omnigraph.read.match.bindings import Bindings, joined
from omnigraph.read.match.totals import Totals
from omnigraph.read.output.grouping import (
    Amounts,
    Lines,
    Measure,
    Slot,
    given,
    merged,
    neutral,
    reduced,
)
from omnigraph.read.output.selection import Integers, Key, best, in_order, nulls_first
from omnigraph.read.thresholds import DEFAULTS, OutputThresholds
from omnigraph.read.values.column import Column
from omnigraph.read.values.numbers import MAX_COUNT, sortable, unsortable
from omnigraph.read.values.predicates import is_worth_all
from omnigraph.read.values.space import Space
from omnigraph.read.values.wide_sums import narrowed, products


class UnsureError(Exception):
    """A sum may have wrapped: run again with ``wide`` sums."""


class Aggregator:
    """Takes the rows of an aggregate plan and gives its answer.

    Properties of all entities are looked at only when the rows are many; codes and dictionaries
    then agree between batches. ``wide`` sums of integers are exact whatever they reach on the way; they
    are added from rows, so batches must not bring totals for them.
    """

    def __init__(
        self,
        plan: ir.ReadPlan,
        spaces: Mapping[str, Space],
        params: Mapping[str, Any],
        *,
        wide: bool = False,
        thresholds: OutputThresholds = DEFAULTS.output,
    ) -> None:
        self._plan, self._spaces, self._params, self._wide = plan, spaces, params, wide
        self._keys = [
            (at, column.expr)
            for at, column in enumerate(plan.columns)
            if isinstance(column.expr, ir.PropertyOf | ir.NodeId)
        ]
        self._aggregates = {
            at: column.expr
            for at, column in enumerate(plan.columns)
            if isinstance(column.expr, ir.Aggregate)
        }
        self._waiting: list[Bindings] = []
        self._waiting_rows = 0
        self._grouped_rows = thresholds.grouped_rows
        self._reduced: list[Lines] = []
        self._columns: dict[tuple[str, str], tuple[Column, bool]] = {}
        self._totals_columns: dict[int, Column] = {}
        self._spans: dict[int, tuple[int, int]] = {}

    def add(self, batch: Bindings) -> None:
        """Take a batch of rows."""
        batch = _without_absent(batch)
        if batch.count:
            self._waiting.append(batch)
            self._waiting_rows += batch.count
        if self._waiting_rows >= self._grouped_rows:
            self._flush(few=False)
            if sum(lines.length for lines in self._reduced[1:]) > self._reduced[0].length:
                self._reduced = [merged(self._reduced)]
                self._refuse_early()

    def _flush(self, few: bool) -> None:
        if self._waiting:
            self._reduced.append(reduced(self._lines(joined(self._waiting), few)))
        self._waiting.clear()
        self._waiting_rows = 0

    def finish(self) -> pa.Table:
        """The groups in order, as many as the plan wants."""
        self._flush(few=not self._reduced)
        if not self._reduced:
            self._reduced.append(self._no_rows())
        groups = self._checked(merged(self._reduced))
        chosen = self._chosen(groups)
        arrays = [self._output(at, groups, chosen) for at in range(len(self._plan.columns))]
        fields = [pa.field(column.name, column.type.arrow_type()) for column in self._plan.columns]
        return pa.Table.from_arrays(arrays, schema=pa.schema(fields))

    def _no_rows(self) -> Lines:
        return reduced(Lines(0, [np.zeros(0, np.int32) for _ in self._keys], None))

    # -------------------------------------------------------------- rows to lines

    def _lines(self, batch: Bindings, few: bool) -> Lines:
        keys = [self._key_codes(expr, batch, few) for _, expr in self._keys]
        measures: dict[Slot, Amounts] = {}
        for at, aggregate in self._aggregates.items():
            if at in batch.totals:
                measures.update(self._summed_away(at, aggregate, batch.totals[at]))
            elif isinstance(aggregate.arg, ir.PropertyOf):
                measures.update(self._measured(at, aggregate, aggregate.arg, batch, few))
        return Lines(batch.count, keys, batch.weights, measures)

    def _key_codes(self, expr: ir.PropertyOf | ir.NodeId, batch: Bindings, few: bool) -> Codes:
        codes = batch.codes[expr.var]
        return codes if isinstance(expr, ir.NodeId) else self._ranks(expr, codes, few)

    def _ranks(self, expr: ir.PropertyOf, codes: Codes, few: bool) -> Codes:
        column, by_code = self._column(expr, codes, few)
        return column.codes[codes] if by_code else column.codes

    def _column(self, expr: ir.PropertyOf, codes: Codes, few: bool) -> tuple[Column, bool]:
        """The property by code, or (False) by row when the rows are few."""
        from omnigraph.read.values.column import Column

        name, space = (expr.var, expr.property), self._spaces[expr.var]
        if name not in self._columns:
            if not few or is_worth_all(len(codes), space.size):
                self._columns[name] = space.column(expr.property), True
            else:
                self._columns[name] = Column(expr.type, space.values(expr.property, codes)), False
        return self._columns[name]

    def _summed_away(self, at: int, aggregate: ir.Aggregate, totals: Totals) -> dict[Slot, Amounts]:
        self._totals_columns[at] = totals.column
        measures: dict[Slot, Amounts] = {(at, "count"): totals.counts}
        function = aggregate.function
        if function in {"sum", "avg"}:
            measures[at, "sum"] = totals.sums
            if aggregate.is_whole_sum:
                assert not self._wide, "sums were to be made of rows"
                self._spans[at] = totals.column.span
        elif function in {"min", "max"}:
            assert totals.best is not None
            codes = totals.best.astype(np.int64)
            measures[at, function] = _or_neutral(codes, codes >= 0, function)
        return measures

    def _measured(
        self, at: int, aggregate: ir.Aggregate, arg: ir.PropertyOf, batch: Bindings, few: bool
    ) -> dict[Slot, Amounts]:
        codes, weights, function = batch.codes[arg.var], batch.weights, aggregate.function
        column, by_code = self._column(arg, codes, few)
        valid = column.valid
        if valid is not None and by_code:
            valid = valid[codes]
        present = valid if valid is None or weights is None else np.where(valid, weights, 0)
        measures: dict[Slot, Amounts] = {(at, "count"): present}
        if function in {"sum", "avg"}:
            numbers = column.numbers[codes] if by_code else column.numbers
            measures[at, "sum"] = self._summands(aggregate, numbers, weights)
            if aggregate.is_whole_sum:
                self._spans[at] = column.span
        elif function in {"min", "max"}:
            values = self._sortables(arg, column, codes if by_code else None)
            measures[at, function] = _or_neutral(values, valid, function)
        return measures

    def _summands(
        self, aggregate: ir.Aggregate, numbers: npt.NDArray[Any], weights: Counts | None
    ) -> npt.NDArray[Any]:
        if aggregate.is_whole_sum and self._wide:
            return products(numbers, weights)
        amounts = numbers.astype(np.int64 if aggregate.is_whole_sum else np.float64)
        if weights is not None:
            with np.errstate(over="ignore"):
                amounts *= weights
        return amounts

    def _sortables(self, arg: ir.PropertyOf, column: Column, codes: Codes | None) -> Counts:
        """Integers in the order of the values: of numbers themselves, of text its ranks."""
        is_number = arg.type.is_numeric
        values: npt.NDArray[Any] = column.numbers if is_number else column.codes
        if codes is not None:
            values = values[codes]
        return sortable(values) if is_number else values.astype(np.int64)

    # -------------------------------------------------------------- sums of integers

    def _checked(self, groups: Lines) -> Lines:
        """The groups with sums as int64, each exact, or the refusal of one that does not fit."""
        measures = dict(groups.measures)
        for at, (low, high) in self._spans.items():
            if self._wide:
                sums, fits = narrowed(given(measures[at, "sum"]))
                if not fits.all():
                    raise self._overflow(at)
                measures[at, "sum"] = sums
            elif max(-low, high) * int(given(measures[at, "count"]).max(initial=0)) > MAX_COUNT:
                raise UnsureError
        return Lines(groups.length, groups.keys, groups.rows, measures)

    def _refuse_early(self) -> None:
        """Refuse a sum that is too large already where more rows can only add to it."""
        [groups] = self._reduced
        for at, (low, high) in self._spans.items():
            if self._wide and (low >= 0 or high <= 0):
                _, fits = narrowed(given(groups.measures[at, "sum"]))
                if not fits.all():
                    raise self._overflow(at)

    def _overflow(self, at: int) -> BadRequest:
        name = _shown(self._aggregates[at])
        return BadRequest(
            f"runtime error: overflow: {name} is outside the range of an I64; narrow the match, add "
            "a property to `return` to get smaller groups, or store the property as F64",
            aggregate=name,
        )

    # -------------------------------------------------------------- groups to answer

    def _chosen(self, groups: Lines) -> Counts:
        """The positions of the groups that are shown, in order."""
        keys = [key for sort in self._plan.order for key in self._sort_keys(sort, groups)]
        for number, (_, expr) in enumerate(self._keys):
            keys.append(self._group_key(expr, groups.keys[number]))
        positions = np.arange(groups.length)
        if self._plan.limit is not None:
            positions = best(groups.length, keys, self._plan.limit)
        return in_order(positions, keys)

    def _group_key(self, expr: ir.PropertyOf | ir.NodeId, codes: Codes) -> Key:
        if isinstance(expr, ir.PropertyOf):
            return _key(codes)
        space = self._spaces[expr.var]
        return lambda at: space.ranks(codes[at])

    def _sort_keys(self, sort: ir.SortKey, groups: Lines) -> list[Key]:
        assert sort.column is not None, "an aggregate is ordered by its output columns"
        at = sort.column
        expr = self._plan.columns[at].expr
        if isinstance(expr, ir.PropertyOf | ir.NodeId):
            number = [position for position, _ in self._keys].index(at)
            key = self._group_key(expr, groups.keys[number])
            return [_reversed(key) if sort.descending else key]
        assert isinstance(expr, ir.Aggregate)
        keys = self._aggregate_keys(at, expr, groups)
        return [_key(~values if sort.descending else values) for values in keys]

    def _aggregate_keys(self, at: int, expr: ir.Aggregate, groups: Lines) -> list[Integers]:
        counts = self._counts(at, expr, groups)
        if expr.function == "count":
            return [counts]
        if not isinstance(expr.arg, ir.PropertyOf) and expr.function in {"min", "max", "avg"}:
            return [(counts > 0).astype(np.int8)]
        if expr.function in {"sum", "avg"}:
            return nulls_first(sortable(self._amounts(at, expr, groups, counts)), counts > 0)
        return nulls_first(self._measure(groups, at, expr.function), counts > 0)

    def _counts(self, at: int, expr: ir.Aggregate, groups: Lines) -> Counts:
        """How often the argument is there, per group."""
        rows = given(groups.rows)
        value = self._given(expr.arg)
        if value is not _ENTITY:
            return rows if value is not None else np.zeros_like(rows)
        if isinstance(expr.arg, ir.NodeId):
            return rows
        counts: Counts = self._measure(groups, at, "count")
        return counts

    def _amounts(
        self, at: int, expr: ir.Aggregate, groups: Lines, counts: Counts
    ) -> npt.NDArray[Any]:
        """The sum or average per group; of no value, 0."""
        value = self._given(expr.arg)
        is_given = value is not _ENTITY
        if expr.is_whole_sum:
            if not is_given:
                return self._measure(groups, at, "sum")
            value = value or 0
            if not -MAX_COUNT - 1 <= value * int(counts.max(initial=0)) <= MAX_COUNT:
                raise self._overflow(at)
            return counts * (value if counts.any() else 0)
        sums = counts * float(value or 0) if is_given else self._measure(groups, at, "sum")
        parts = np.maximum(counts, 1) if expr.function == "avg" else 1
        return np.asarray(sums / parts, np.float64)

    def _given(self, arg: ir.Operand) -> Any:
        """The value of a constant or parameter; ``_ENTITY`` for what rows have."""
        return ir.value_of(arg, self._params) if isinstance(arg, ir.Value) else _ENTITY

    def _measure(self, groups: Lines, at: int, measure: str) -> npt.NDArray[Any]:
        amounts = groups.measures.get((at, cast("Measure", measure)))
        return np.zeros(groups.length, np.int64) if amounts is None else amounts

    def _output(self, at: int, groups: Lines, chosen: Counts) -> pa.Array:
        column = self._plan.columns[at]
        kind = column.type.arrow_type()
        expr = column.expr
        if not isinstance(expr, ir.Aggregate):
            number = [position for position, _ in self._keys].index(at)
            return _typed(self._names(expr, groups.keys[number][chosen]), kind)
        counts = self._counts(at, expr, groups)[chosen]
        if expr.function == "count":
            return pa.array(counts, kind)
        if expr.function in {"sum", "avg"}:
            amounts = self._amounts(at, expr, groups, self._counts(at, expr, groups))
            return pa.array(amounts[chosen], kind, mask=counts == 0)
        value = self._given(expr.arg)
        if value is not _ENTITY:
            return pa.array([value], kind).take(pa.array(counts - counts, mask=counts == 0))
        extremes = self._measure(groups, at, expr.function)[chosen]
        return _typed(self._extreme(at, expr.arg, extremes, counts == 0), kind)

    def _names(self, expr: ir.Output, codes: Codes) -> pa.Array:
        if isinstance(expr, ir.NodeId):
            return self._spaces[expr.var].ids(codes)
        assert isinstance(expr, ir.PropertyOf)
        if not len(codes):
            return pa.nulls(0, expr.type.arrow_type())
        column, _ = self._columns[expr.var, expr.property]
        return column.dictionary.take(pa.array(codes, mask=codes < 0))

    def _extreme(self, at: int, arg: ir.Operand, values: Counts, absent: Mask) -> pa.Array:
        assert isinstance(arg, ir.PropertyOf)
        if absent.all():
            return pa.nulls(len(values), arg.type.arrow_type())
        column = self._totals_columns.get(at)
        if column is None and arg.type.is_numeric:
            dtype = np.dtype(arg.type.arrow_type().to_pandas_dtype())
            return pa.array(unsortable(values, dtype), mask=absent)
        if column is None:
            column, _ = self._columns[arg.var, arg.property]
        return column.dictionary.take(pa.array(np.where(absent, 0, values), mask=absent))


_ENTITY: Any = object()


def _without_absent(batch: Bindings) -> Bindings:
    """The batch without rows of weight zero."""
    if batch.weights is None or batch.weights.all():
        return batch
    return batch.at(np.flatnonzero(batch.weights))


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


def _key(values: Integers) -> Key:
    return lambda at: values[at]


def _reversed(key: Key) -> Key:
    return lambda at: ~key(at)


def _typed(array: pa.Array, kind: pa.DataType) -> pa.Array:
    return array if array.type == kind else array.cast(kind)


def _or_neutral(values: Counts, present: Mask | None, function: str) -> Counts:
    return values if present is None else np.where(present, values, neutral(function))
