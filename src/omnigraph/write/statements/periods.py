"""Moments and periods of the rows that statements begin and end, as milliseconds since 1970.

A Date counts as its midnight UTC. What is open begins at the least number, or ends at the greatest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from omnigraph.lang.query import ir
from omnigraph.lang.schema.catalog import Period
from omnigraph.read.values.expressions import evaluate
from omnigraph.read.values.operands import OperandRows
from omnigraph.types import Scalar, as_integers
from omnigraph.types.temporal import MS_PER_DAY
from omnigraph.write.statements.rows import Places

EVER: Final = np.iinfo(np.int64).min
"""The beginning of what has none."""
OPEN: Final = np.iinfo(np.int64).max
"""The end of what has none."""


@dataclass(frozen=True, slots=True)
class Moments:
    """A moment for each row; ``known`` says where there is one."""

    at: Places
    known: np.ndarray


def moments_of(expr: ir.Expr, rows: OperandRows) -> Moments:
    """Return the moment that an expression gives in each row."""
    if isinstance(expr, ir.Value):
        value = ir.value_of(expr, rows.params)
        known = np.full(rows.length, value is not None)
        at = np.full(rows.length, 0 if value is None else value, np.int64)
        return Moments(at * _unit(expr.type.scalar), known)
    column = evaluate(expr, rows)
    integers = as_integers(column.array).cast(pa.int64())
    known = integers.is_valid().to_numpy(zero_copy_only=False)
    return Moments(integers.fill_null(0).to_numpy() * _unit(column.type.scalar), known)


def _unit(kind: Scalar) -> int:
    return MS_PER_DAY if kind.counts_days else 1


@dataclass(frozen=True, slots=True)
class Spans:
    """The periods of some rows, each from ``since``, included, to ``until``, excluded."""

    since: Places
    until: Places

    @classmethod
    def of(cls, period: Period, rows: pa.Table) -> Spans:
        """Read the periods of rows."""
        unit = _unit(period.kind)

        def bound(name: str, open_: int) -> Places:
            integers = as_integers(rows.column(name).combine_chunks()).cast(pa.int64())
            known = integers.is_valid().to_numpy(zero_copy_only=False)
            return np.where(known, integers.fill_null(0).to_numpy() * unit, open_)

        return cls(bound(period.since, EVER), bound(period.until, OPEN))

    def take(self, places: Places) -> Spans:
        """The same for some of the rows."""
        return Spans(self.since[places], self.until[places])

    @property
    def hold_ever(self) -> np.ndarray:
        """Which rows hold at some moment."""
        return self.since < self.until

    def hold_at(self, moments: Places | np.int64) -> np.ndarray:
        """Which rows hold, each at the moment given for it, or all at one moment."""
        return (self.since <= moments) & (moments < self.until)


def stored_bound(period: Period, moments: Places, kind: pa.DataType) -> pa.Array:
    """Return moments as a bound of that period is stored: a Date is the day in UTC; an open end is null."""
    stored = pa.array(moments // _unit(period.kind), mask=moments == OPEN)
    return stored.cast(pa.int32()).cast(kind) if period.is_date else stored.cast(kind)
