"""The groups of an answer as its rows: which of them are kept, in which order, and what they show.

return { $a.city, sum($b.age) / count($b) as mean } having { mean > 30 } order { mean } limit 1
groups Oslo (70, 2), Rome (20, 1)   ->   mean [35, 20]   ->   Oslo
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph.cancel import look
from omnigraph.lang.query import ir
from omnigraph.read.kernels.arrays import Counts
from omnigraph.read.limits import ReadLimits
from omnigraph.read.output.aggregate_functions import Result
from omnigraph.read.output.grouping import Lines
from omnigraph.read.output.row_values import Coder
from omnigraph.read.output.selection import At, Key, best, column_keys, in_order
from omnigraph.read.output.window import Window
from omnigraph.read.values.column import Column
from omnigraph.read.values.expressions import evaluate, holds
from omnigraph.read.values.operands import OperandRows
from omnigraph.types import TEXT, PropType


class GroupedRows:
    """One row for each group. ``keys`` are the coders of the columns that make the groups, in their order."""

    def __init__(
        self,
        plan: ir.ReadPlan,
        params: Mapping[str, Any],
        groups: Lines,
        keys: Mapping[int, Coder],
        result_of: Callable[[ir.Aggregate], Result],
    ) -> None:
        self._plan, self._params, self._groups = plan, params, groups
        self._window = Window.of(plan, params)
        self._keys = {
            at: (coder, codes) for (at, coder), codes in zip(keys.items(), groups.keys, strict=True)
        }
        self._result = result_of
        self.found = 0
        """How many rows the answer has, shown or not."""

    def chosen(self, limits: ReadLimits) -> Counts:
        """The groups that are shown, in order."""
        kept = self._kept()
        self.found = self._window.rows_of(len(kept))
        limits.check_rows(self.found)
        keys = [key for sort in self._plan.order for key in self._sort_keys(sort)]
        keys += [_group_key(coder, codes) for coder, codes in self._keys.values()]
        if len(kept) < self._groups.length:
            keys = [_among(key, kept) for key in keys]
        needed = self._window.needed(limits)
        positions = np.arange(len(kept))
        if needed is not None:
            positions = best(len(kept), keys, needed)
        shown: Counts = kept[in_order(positions, keys)[self._window.offset :]]
        return shown

    def table(self, groups: Counts, limits: ReadLimits) -> pa.Table:
        """The columns of the answer for these groups."""
        arrays: list[pa.Array] = []
        for at in range(len(self._plan.columns)):
            arrays.append(self._shown(at, groups))
            limits.check_bytes(sum(array.nbytes for array in arrays))
        fields = [pa.field(column.name, column.type.arrow_type()) for column in self._plan.columns]
        return pa.Table.from_arrays(arrays, schema=pa.schema(fields))

    def _kept(self) -> Counts:
        """The groups that `having` keeps."""
        groups = np.arange(self._groups.length)
        if self._plan.having and len(groups):
            rows = self._rows(groups)
            groups = groups[np.logical_and.reduce([holds(one, rows) for one in self._plan.having])]
        return groups

    def _sort_keys(self, sort: ir.SortKey) -> Sequence[Key]:
        assert sort.column is not None, "groups are ordered by their output columns"
        if sort.column in self._keys:
            key = _group_key(*self._keys[sort.column])
            return [_reversed(key) if sort.descending else key]
        column = self._plan.columns[sort.column]
        if isinstance(column.expr, ir.Aggregate):
            keys = self._result(column.expr).sort_keys()
        else:
            every = np.arange(self._groups.length)
            keys = column_keys(self._column(sort.column, every))
        return [_key(~values if sort.descending else values) for values in keys]

    def _shown(self, at: int, groups: Counts) -> pa.Array:
        """An output column for these groups."""
        look()
        column = self._plan.columns[at]
        kind, expr = column.type.arrow_type(), column.expr
        if at in self._keys:
            coder, codes = self._keys[at]
            return coder.values(codes[groups], kind)
        if isinstance(expr, ir.Aggregate):
            return self._result(expr).at(groups, kind)
        assert not isinstance(expr, ir.Shape | ir.Score), "these are keys, or not grouped at all"
        values = evaluate(expr, self._rows(groups)).array
        return values if values.type == kind else values.cast(kind)

    def _rows(self, groups: Counts) -> OperandRows:
        """These groups, as items and conditions over aggregates and columns read them."""

        def supply(expr: ir.Expr, rows: OperandRows) -> Column:  # noqa: ARG001 - these groups
            if isinstance(expr, ir.ColumnValue):
                return self._column(expr.column, groups)
            assert isinstance(expr, ir.Aggregate), "groups have no other values"
            kind = expr.type if isinstance(expr.type, PropType) else TEXT
            return Column(kind, self._result(expr).at(groups, expr.type.arrow_type()))

        return OperandRows({}, {}, self._params, len(groups), supply=supply)

    def _column(self, at: int, groups: Counts) -> Column:
        """An output column of these groups for expressions; of an object only whether it is there."""
        kind = self._plan.columns[at].type
        return Column(kind if isinstance(kind, PropType) else TEXT, self._shown(at, groups))


def _group_key(coder: Coder, codes: Any) -> Key:
    return lambda at: coder.ranks(codes[at])


def _among(key: Key, kept: Counts) -> Key:
    return lambda at: key(kept[at])


def _key(values: Any) -> Key:
    def at_positions(at: At) -> Any:
        return values[at]

    return at_positions


def _reversed(key: Key) -> Key:
    return lambda at: ~key(at)
