"""Grouped output: rows of a match, batch by batch, into one row of aggregates per group.

Each batch is reduced to one row per group, then the partial results are merged. Group keys are looked up
only for the rows of the answer. `return distinct` is the same without aggregates.

    return { $a.city, count($b) }   cities [0, 0, 1], weights [2, 1, 4]   ->   Oslo 3, Rome 4
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph.cancel import look
from omnigraph.lang.query import ir
from omnigraph.read.kernels.arrays import Counts, Mask
from omnigraph.read.limits import NO_LIMITS, ReadLimits
from omnigraph.read.match.bindings import Bindings, joined
from omnigraph.read.match.measures import COUNT, ArgumentRows
from omnigraph.read.output.aggregate_functions import (
    FUNCTIONS,
    Measured,
    Result,
    WholeSums,
    aggregates_of,
    measures_of,
)
from omnigraph.read.output.grouped_rows import GroupedRows
from omnigraph.read.output.grouping import Amounts, Lines, Slot, given, merged, reduced
from omnigraph.read.output.listings import Listing, is_listing
from omnigraph.read.output.row_values import Coder, RowSource, RowValues
from omnigraph.read.thresholds import DEFAULTS, OutputThresholds
from omnigraph.read.values.column import Column, Space
from omnigraph.read.values.expressions import evaluate, variables_of
from omnigraph.read.values.numbers import unsortable
from omnigraph.read.values.operands import Judge, Supply
from omnigraph.types import PropType, from_arrow, from_integers

Measures = dict[Slot, Amounts]


class Aggregator:
    """Takes the rows of an aggregate or distinct plan and gives its answer.

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
        limits: ReadLimits = NO_LIMITS,
        judge: Judge | None = None,
        supply: Supply | None = None,
    ) -> None:
        self._plan, self._params, self._limits = plan, params, limits
        nullable = frozenset(one.name for one in plan.variables if one.nullable)
        self._source = RowSource(spaces, params, nullable, judge, supply)
        self.found = 0
        """How many groups the answer has, shown or not; known when it is finished."""
        self._values = RowValues(self._source)
        self._keys: dict[int, Coder] = {
            at: self._values.coder(column.expr)
            for at, column in enumerate(plan.columns)
            if not ir.has_aggregate(column.expr) and variables_of(column.expr)
        }
        self._aggregates = dict(enumerate(aggregates_of(plan)))
        self._listings = {
            number: Listing(expr, self._values.coder(expr.arg))
            for number, expr in self._aggregates.items()
            if expr.arg is not None and self._is_listed(expr)
        }
        self._waiting: list[Bindings] = []
        self._waiting_rows = 0
        self._grouped_rows = thresholds.grouped_rows
        self._reduced: list[Lines] = []
        self._carried_columns: dict[int, Column] = {}
        self._sums = WholeSums(self._aggregates, wide=wide)
        self._results: dict[int, Result] = {}

    def _is_listed(self, expr: ir.Aggregate) -> bool:
        if is_listing(expr):
            return True
        # Ranks of texts that are made row by row do not compare between batches.
        is_text = isinstance(expr.type, PropType) and expr.type.is_text
        arg = expr.arg
        assert isinstance(arg, ir.Expr), "no extreme is one of shapes"
        return is_text and bool(variables_of(arg)) and self._values.of(arg).is_by_row

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
                self._sums.refuse_early(self._reduced[0])

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
        groups = self._sums.checked(merged(self._reduced))
        rows = GroupedRows(
            self._plan, self._params, groups, self._keys, partial(self._result, groups=groups)
        )
        chosen = rows.chosen(self._limits)
        self.found = rows.found
        return rows.table(chosen, self._limits)

    def _no_rows(self) -> Lines:
        if self._plan.distinct and not self._keys:
            return Lines(0, [], np.zeros(0, np.int64))
        return reduced(Lines(0, [np.zeros(0, np.int32) for _ in self._keys], None))

    # -------------------------------------------------------------- rows to lines

    def _lines(self, batch: Bindings, few: bool) -> Lines:
        keys = [key.codes(batch, few) for key in self._keys.values()]
        measures: Measures = {}
        for number, aggregate in self._aggregates.items():
            look()
            if number in self._listings:
                self._listings[number].add(batch, keys, few)
            elif self._is_of_rows(aggregate.arg):
                assert isinstance(aggregate.arg, ir.Expr)
                measures.update(self._entries(number, aggregate.arg, batch, few))
        return Lines(batch.count, keys, batch.weights, measures)

    def _is_of_rows(self, arg: ir.Expr | ir.Shape | None) -> bool:
        """Whether an argument has other values in other rows: no constant, no entity that is always there."""
        if arg is None or not variables_of(arg):
            return False
        if isinstance(arg, ir.NodeId | ir.EdgeId | ir.RowNumber):
            return arg.var in self._source.nullable
        return True

    def _entries(self, number: int, arg: ir.Expr, batch: Bindings, few: bool) -> Measures:
        """The measures of an aggregate over the rows of a batch."""
        if number in batch.totals:
            totals = batch.totals[number]
            self._carried_columns[number] = totals.column
            for measure in totals.measures:
                assert self._sums.measure_of(measure) is measure, "wide sums are made of rows"
                self._sums.watch(number, measure, totals.column)
            carried = totals.measures.items()
            return {(number, measure): measure.of_carried(entries) for measure, entries in carried}
        if isinstance(arg, ir.NodeId | ir.EdgeId):
            there = self._values.coder(arg).codes(batch, few) >= 0
            weights = batch.weights
            return {(number, COUNT): there if weights is None else np.where(there, weights, 0)}
        column, codes = self._values.of(arg).read(batch, few)
        argument = ArgumentRows.of(column, codes, batch.weights)
        entries: Measures = {(number, COUNT): COUNT.of_rows(argument)}
        for needed in measures_of(self._aggregates[number]):
            self._sums.watch(number, needed, column)
            measure = self._sums.measure_of(needed)
            entries[number, measure] = measure.of_rows(argument)
        return entries

    # -------------------------------------------------------------- groups to results

    def _result(self, expr: ir.Aggregate, groups: Lines) -> Result:
        """An aggregate for all groups."""
        [number] = [at for at, one in self._aggregates.items() if one == expr]
        if number not in self._results:
            look()
            self._results[number] = self._made(number, expr, groups)
        return self._results[number]

    def _made(self, number: int, expr: ir.Aggregate, groups: Lines) -> Result:
        if number in self._listings:
            return self._listings[number].finish(groups)
        function = FUNCTIONS[expr.function]
        rows = given(groups.rows)
        if expr.arg is None or variables_of(expr.arg):
            return function.finish(expr, self._measured(number, expr, groups, rows))
        value = self._constant(expr.arg)
        return function.of_value(expr, value, np.zeros_like(rows) if value is None else rows)

    def _constant(self, arg: ir.Expr | ir.Shape) -> Any:
        """The stored value of an argument that is the same in all rows."""
        assert not isinstance(arg, ir.Shape), "a shape belongs to a variable"
        if isinstance(arg, ir.Value):
            return ir.value_of(arg, self._params)
        column = evaluate(arg, self._source.rows({}, 1))
        [value] = from_arrow(column.type, column.array)
        return value

    def _measured(self, number: int, expr: ir.Aggregate, groups: Lines, rows: Counts) -> Measured:
        # Where there were no rows, there are no measures either.
        zeros = np.zeros(groups.length, np.int64)
        measures = {
            measure: given(groups.measures.get((number, measure), zeros))
            for measure in (COUNT, *measures_of(expr))
        }
        counts = measures[COUNT] if self._is_of_rows(expr.arg) else rows
        return Measured(counts, measures, partial(self._extremes, number, expr))

    def _extremes(
        self, number: int, expr: ir.Aggregate, integers: Counts, absent: Mask
    ) -> pa.Array:
        """The values that entries of `LEAST` and `GREATEST` stand for; null where ``absent``."""
        assert isinstance(expr.type, PropType)
        kind = expr.type
        if absent.all():
            return pa.nulls(len(integers), kind.arrow_type())
        column = self._carried_columns.get(number)
        if column is None and kind.is_temporal:
            return from_integers(pa.array(integers, mask=absent), kind.arrow_type())
        if column is None and kind.is_numeric:
            dtype = np.dtype(kind.arrow_type().to_pandas_dtype())
            return pa.array(unsortable(integers, dtype), mask=absent)
        if column is None:
            assert isinstance(expr.arg, ir.Expr)
            column = self._values.of(expr.arg).last
            assert column is not None, "a value is there, so it was read"
        return column.dictionary.take(pa.array(np.where(absent, 0, integers), mask=absent))


def _without_absent(batch: Bindings) -> Bindings:
    """The batch without rows of weight zero."""
    if batch.weights is None or batch.weights.all():
        return batch
    return batch.at(np.flatnonzero(batch.weights))
