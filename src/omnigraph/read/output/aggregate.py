"""Grouped output: rows of a match, batch by batch, into one row of aggregates per group.

Each batch is reduced to one row per group, then the partial results are merged. Group keys are looked up
only for the rows of the answer.

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
from omnigraph.read.kernels.arrays import Codes, Counts, Mask
from omnigraph.read.limits import NO_LIMITS, ReadLimits
from omnigraph.read.match.bindings import Bindings, joined
from omnigraph.read.match.measures import COUNT, ArgumentRows
from omnigraph.read.output.aggregate_functions import (
    FUNCTIONS,
    Measured,
    Result,
    WholeSums,
    measures_of,
)
from omnigraph.read.output.grouping import (
    Amounts,
    Lines,
    Slot,
    given,
    merged,
    reduced,
)
from omnigraph.read.output.selection import Integers, Key, best, in_order
from omnigraph.read.thresholds import DEFAULTS, OutputThresholds
from omnigraph.read.values.column import Column, Space
from omnigraph.read.values.numbers import unsortable
from omnigraph.read.values.predicates import is_worth_all
from omnigraph.types import from_integers

Measures = dict[Slot, Amounts]


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
        limits: ReadLimits = NO_LIMITS,
    ) -> None:
        self._plan, self._spaces, self._params = plan, spaces, params
        self._limits = limits
        self.found = 0
        """How many groups the answer has, shown or not; known when it is finished."""
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
        self._carried_columns: dict[int, Column] = {}
        self._sums = WholeSums(self._aggregates, wide=wide)
        self._results: dict[int, Result] = {}

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
        chosen = self._chosen(groups)
        arrays = [self._output(at, groups, chosen) for at in range(len(self._plan.columns))]
        self._limits.check_bytes(sum(array.nbytes for array in arrays))
        fields = [pa.field(column.name, column.type.arrow_type()) for column in self._plan.columns]
        return pa.Table.from_arrays(arrays, schema=pa.schema(fields))

    def _no_rows(self) -> Lines:
        return reduced(Lines(0, [np.zeros(0, np.int32) for _ in self._keys], None))

    # -------------------------------------------------------------- rows to lines

    def _lines(self, batch: Bindings, few: bool) -> Lines:
        keys = [self._key_codes(expr, batch, few) for _, expr in self._keys]
        measures: Measures = {}
        for at, aggregate in self._aggregates.items():
            if isinstance(aggregate.arg, ir.PropertyOf):
                measures.update(self._entries(at, aggregate.arg, batch, few))
        return Lines(batch.count, keys, batch.weights, measures)

    def _key_codes(self, expr: ir.PropertyOf | ir.NodeId, batch: Bindings, few: bool) -> Codes:
        codes = batch.codes[expr.var]
        return codes if isinstance(expr, ir.NodeId) else self._ranks(expr, codes, few)

    def _ranks(self, expr: ir.PropertyOf, codes: Codes, few: bool) -> Codes:
        column, by_code = self._column(expr, codes, few)
        return column.codes[codes] if by_code else column.codes

    def _column(self, expr: ir.PropertyOf, codes: Codes, few: bool) -> tuple[Column, bool]:
        """The property by code, or (False) by row when the rows are few."""
        name, space = (expr.var, expr.property), self._spaces[expr.var]
        if name not in self._columns:
            if not few or is_worth_all(len(codes), space.size):
                self._columns[name] = space.column(expr.property), True
            else:
                self._columns[name] = Column(expr.type, space.values(expr.property, codes)), False
        return self._columns[name]

    def _entries(self, at: int, arg: ir.PropertyOf, batch: Bindings, few: bool) -> Measures:
        """The measures of an output column over the rows of a batch."""
        if at in batch.totals:
            totals = batch.totals[at]
            self._carried_columns[at] = totals.column
            for measure in totals.measures:
                assert self._sums.measure_of(measure) is measure, "wide sums are made of rows"
                self._sums.watch(at, measure, totals.column)
            carried = totals.measures.items()
            return {(at, measure): measure.of_carried(entries) for measure, entries in carried}
        codes = batch.codes[arg.var]
        column, by_code = self._column(arg, codes, few)
        argument = ArgumentRows.of(column, codes if by_code else None, batch.weights)
        entries: Measures = {(at, COUNT): COUNT.of_rows(argument)}
        for needed in measures_of(self._aggregates[at]):
            self._sums.watch(at, needed, column)
            measure = self._sums.measure_of(needed)
            entries[at, measure] = measure.of_rows(argument)
        return entries

    # -------------------------------------------------------------- groups to answer

    def _chosen(self, groups: Lines) -> Counts:
        """The positions of the groups that are shown, in order."""
        keys = [key for sort in self._plan.order for key in self._sort_keys(sort, groups)]
        for number, (_, expr) in enumerate(self._keys):
            keys.append(self._group_key(expr, groups.keys[number]))
        limit = self._plan.limit
        self.found = groups.length if limit is None else min(groups.length, limit)
        self._limits.check_rows(self.found)
        positions = np.arange(groups.length)
        shown = self._limits.shown(limit)
        if shown is not None:
            positions = best(groups.length, keys, shown)
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
        keys = self._result(at, groups).sort_keys()
        return [_key(~values if sort.descending else values) for values in keys]

    def _result(self, at: int, groups: Lines) -> Result:
        """The aggregate in an output column, for all groups."""
        look()
        if at not in self._results:
            expr = self._aggregates[at]
            function = FUNCTIONS[expr.function]
            rows = given(groups.rows)
            if isinstance(expr.arg, ir.Value):
                value = ir.value_of(expr.arg, self._params)
                counts = np.zeros_like(rows) if value is None else rows
                self._results[at] = function.of_value(expr, value, counts)
            else:
                self._results[at] = function.finish(expr, self._measured(at, expr, groups, rows))
        return self._results[at]

    def _measured(self, at: int, expr: ir.Aggregate, groups: Lines, rows: Counts) -> Measured:
        # Where there were no rows, there are no measures either.
        zeros = np.zeros(groups.length, np.int64)
        measures = {
            measure: given(groups.measures.get((at, measure), zeros))
            for measure in (COUNT, *measures_of(expr))
        }
        counts = rows if isinstance(expr.arg, ir.NodeId) else measures[COUNT]
        return Measured(counts, measures, partial(self._extremes, at, expr.arg))

    def _output(self, at: int, groups: Lines, chosen: Counts) -> pa.Array:
        column = self._plan.columns[at]
        kind = column.type.arrow_type()
        if at in self._aggregates:
            return self._result(at, groups).at(chosen, kind)
        number = [position for position, _ in self._keys].index(at)
        names = self._names(column.expr, groups.keys[number][chosen])
        return names if names.type == kind else names.cast(kind)

    def _names(self, expr: ir.Output, codes: Codes) -> pa.Array:
        if isinstance(expr, ir.NodeId):
            return self._spaces[expr.var].ids(codes)
        assert isinstance(expr, ir.PropertyOf)
        if not len(codes):
            return pa.nulls(0, expr.type.arrow_type())
        column, _ = self._columns[expr.var, expr.property]
        return column.dictionary.take(pa.array(codes, mask=codes < 0))

    def _extremes(self, at: int, arg: ir.Operand, integers: Counts, absent: Mask) -> pa.Array:
        """The values that entries of `LEAST` and `GREATEST` stand for; null where ``absent``."""
        assert isinstance(arg, ir.PropertyOf)
        if absent.all():
            return pa.nulls(len(integers), arg.type.arrow_type())
        column = self._carried_columns.get(at)
        if column is None and arg.type.is_temporal:
            return from_integers(pa.array(integers, mask=absent), arg.type.arrow_type())
        if column is None and arg.type.is_numeric:
            dtype = np.dtype(arg.type.arrow_type().to_pandas_dtype())
            return pa.array(unsortable(integers, dtype), mask=absent)
        if column is None:
            column, _ = self._columns[arg.var, arg.property]
        return column.dictionary.take(pa.array(np.where(absent, 0, integers), mask=absent))


def _without_absent(batch: Bindings) -> Bindings:
    """The batch without rows of weight zero."""
    if batch.weights is None or batch.weights.all():
        return batch
    return batch.at(np.flatnonzero(batch.weights))


def _key(values: Integers) -> Key:
    return lambda at: values[at]


def _reversed(key: Key) -> Key:
    return lambda at: ~key(at)
