"""Measures: the numbers that aggregates are computed from.

A measure is a number per entry that can be merged: entries may be merged one by one or in batches, in any
order, and the result is the same. `avg` needs two of them, the count and the sum of its argument:

    ages of $b: 30, null, 40   ->   COUNT 1, 0, 1   SUM 30, 0, 40   ->   merged: COUNT 2, SUM 70

A measure has two forms. While variables are summed away it is *carried*: one entry per code of a variable,
merged along links. In the output it is *grouped*: one entry per row, merged by group. Null is the neutral
entry of both.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from omnigraph.read.kernels import frontier
from omnigraph.read.kernels.arrays import Codes, Counts, Index, Mask
from omnigraph.read.kernels.csr import Csr, MultiCsr
from omnigraph.read.values.column import Column
from omnigraph.read.values.numbers import MAX_COUNT, products, sortable, too_many

Entries = npt.NDArray[Any]
"""One entry per code, row or group. Wide entries are 2-D, one row per limb: the last axis is the
position."""

TOO_MANY = float(2**63)


@dataclass(frozen=True, slots=True)
class ArgumentRows:
    """The argument of an aggregate in every row of a batch.

    ``column`` has the values by code, or by row where ``codes`` is None. ``valid`` says in which rows there is
    a value (None: in all), ``weights`` how many rows of the match each row stands for (None: one).
    """

    column: Column
    codes: Codes | None
    valid: Mask | None
    weights: Counts | None

    @classmethod
    def of(cls, column: Column, codes: Codes | None, weights: Counts | None) -> ArgumentRows:
        """The argument with the values of a column."""
        valid = column.valid
        if valid is not None and codes is not None:
            valid = valid[codes]
        return cls(column, codes, valid, weights)

    @property
    def numbers(self) -> Entries:
        """The values as numbers; 0 where null."""
        numbers = self.column.numbers
        return numbers if self.codes is None else numbers[self.codes]

    @property
    def sortable(self) -> Counts:
        """Integers in the order of the values: of numbers and times themselves, of text its ranks."""
        if self.column.type.is_numeric or self.column.type.is_temporal:
            return sortable(self.numbers)
        ranks = self.column.codes
        return (ranks if self.codes is None else ranks[self.codes]).astype(np.int64)


class Grouping(Protocol):
    """Entries by the group each belongs to."""

    def totals(self, amounts: Entries) -> Counts:
        """Counts (or a mask) added up exactly, per group."""
        ...

    def added(self, amounts: Entries) -> Entries:
        """Sums per group: of floats, of integers, which wrap, or of limbs."""
        ...

    def folded(self, values: Entries, function: np.ufunc, neutral: float) -> Entries:
        """What a function of two numbers makes of the values of each group; ``neutral`` for none."""
        ...


class Measure(ABC):
    """One kind of number; the objects below are all there are, and are compared by identity."""

    neutral: int = 0
    """The carried entry that changes nothing."""
    can_push = True
    """Whether ``pushed`` is there; otherwise a message is gathered."""

    # -------------------------------------------------------------- carried: one entry per code

    @abstractmethod
    def of_codes(self, column: Column, codes: Any) -> Entries:
        """The entries of a variable that has not been summed away, at these codes."""

    @abstractmethod
    def repeated(self, entries: Entries, weights: Counts) -> Entries:
        """The entries when each stands for ``weights`` times as many bindings."""

    @abstractmethod
    def combined(self, one: Entries, other: Entries) -> Entries:
        """Two lists of entries merged position by position."""

    @abstractmethod
    def total(self, entries: Entries) -> Entries:
        """All entries merged into one."""

    @abstractmethod
    def scattered(self, entries: Entries, index: Index, count: int) -> Entries:
        """The entries merged into ``count`` places, each at its ``index``."""

    @abstractmethod
    def swept(self, rows: Csr | MultiCsr, entries: Entries) -> Entries:
        """For every row of an adjacency the entries of its targets, merged."""

    def pushed(self, rows: Csr | MultiCsr, codes: Codes, entries: Entries) -> Entries:
        """The entries of some rows, merged at each of their distinct targets, which are ascending."""
        raise NotImplementedError

    # -------------------------------------------------------------- grouped: one entry per row

    @abstractmethod
    def of_rows(self, argument: ArgumentRows) -> Entries | None:
        """The entries of rows; None where every row counts with its weight."""

    def of_carried(self, entries: Entries) -> Entries:
        """Carried entries in the form for groups."""
        return entries

    @abstractmethod
    def grouped(self, grouping: Grouping, entries: Entries) -> Entries:
        """The entries merged by group."""


class _Additive(Measure):
    """Entries that are added."""

    def repeated(self, entries: Entries, weights: Counts) -> Entries:
        product: Entries = entries * weights
        return product

    def combined(self, one: Entries, other: Entries) -> Entries:
        both: Entries = one + other
        return both

    def total(self, entries: Entries) -> Entries:
        whole: Entries = entries.sum(keepdims=True)
        return whole

    def scattered(self, entries: Entries, index: Index, count: int) -> Entries:
        out = np.zeros(count, dtype=entries.dtype)
        np.add.at(out, index, entries)
        return out

    def swept(self, rows: Csr | MultiCsr, entries: Entries) -> Entries:
        return frontier.pull(rows, entries)

    def pushed(self, rows: Csr | MultiCsr, codes: Codes, entries: Entries) -> Entries:
        return frontier.push(rows, codes, entries)[1]


class _Count(_Additive):
    """How often the argument is there. Exact: a count beyond 64 bits is refused."""

    def of_codes(self, column: Column, codes: Any) -> Entries:
        valid = np.ones(len(column), np.bool_) if column.valid is None else column.valid
        counts: Counts = valid[codes].astype(np.int64)
        return counts

    def repeated(self, entries: Entries, weights: Counts) -> Entries:
        return times(entries, weights)

    def of_rows(self, argument: ArgumentRows) -> Entries | None:
        valid, weights = argument.valid, argument.weights
        return valid if valid is None or weights is None else np.where(valid, weights, 0)

    def grouped(self, grouping: Grouping, entries: Entries) -> Entries:
        return grouping.totals(entries)


class _Sum(_Additive):
    """The sum of numbers of one NumPy type. Integers wrap at 2^64; the caller has to know whether they can."""

    def __init__(self, kind: type[np.generic]) -> None:
        self._kind = kind

    def of_codes(self, column: Column, codes: Any) -> Entries:
        numbers: Entries = column.numbers[codes].astype(self._kind)
        return numbers

    def of_rows(self, argument: ArgumentRows) -> Entries:
        amounts = argument.numbers.astype(self._kind)
        if argument.weights is not None:
            with np.errstate(over="ignore"):
                amounts *= argument.weights
        return amounts

    def grouped(self, grouping: Grouping, entries: Entries) -> Entries:
        return grouping.added(entries)


class _WideSum(_Sum):
    """The sum of integers in 128 bits (``wide_sums``), which is made of rows and never carried."""

    def of_rows(self, argument: ArgumentRows) -> Entries:
        return products(argument.numbers, argument.weights)


class _Extreme(Measure):
    """The smallest or the largest value: carried as its code in the column's dictionary, -1 for none;
    grouped as a sortable integer."""

    neutral = -1
    can_push = False
    _pick: np.ufunc
    _no_code: int
    """The code that ``_pick`` never prefers."""
    _no_value: int
    """The sortable integer that ``_pick`` never prefers."""

    def repeated(self, entries: Entries, weights: Counts) -> Entries:  # noqa: ARG002
        return entries

    def of_codes(self, column: Column, codes: Any) -> Entries:
        ranks: Codes = column.codes[codes]
        return ranks

    def total(self, entries: Entries) -> Entries:
        known = entries[entries >= 0]
        return np.array([self._pick.reduce(known) if len(known) else -1], np.int32)

    def scattered(self, entries: Entries, index: Index, count: int) -> Entries:
        known = entries >= 0
        out = np.full(count, self._no_code, dtype=np.int32)
        self._pick.at(out, index[known], entries[known])
        return np.where(out == self._no_code, -1, out).astype(np.int32)

    def of_rows(self, argument: ArgumentRows) -> Entries:
        return self._or_no_value(argument.sortable, argument.valid)

    def of_carried(self, entries: Entries) -> Entries:
        codes = entries.astype(np.int64)
        return self._or_no_value(codes, codes >= 0)

    def _or_no_value(self, values: Counts, present: Mask | None) -> Counts:
        return values if present is None else np.where(present, values, self._no_value)

    def grouped(self, grouping: Grouping, entries: Entries) -> Entries:
        return grouping.folded(entries, self._pick, self._no_value)


class _Least(_Extreme):
    """The smallest value."""

    _pick = np.minimum
    _no_code = np.iinfo(np.int32).max
    _no_value = MAX_COUNT

    def combined(self, one: Entries, other: Entries) -> Entries:
        # -1 means none, and is the largest number when it is read without a sign.
        least: Codes = np.minimum(one.view(np.uint32), other.view(np.uint32)).view(np.int32)
        return least

    def swept(self, rows: Csr | MultiCsr, entries: Entries) -> Entries:
        return frontier.pull_min(rows, entries)


class _Greatest(_Extreme):
    """The largest value."""

    _pick = np.maximum
    _no_code = -1
    _no_value = -MAX_COUNT - 1

    def combined(self, one: Entries, other: Entries) -> Entries:
        greatest: Codes = np.maximum(one, other)
        return greatest

    def swept(self, rows: Csr | MultiCsr, entries: Entries) -> Entries:
        return frontier.pull_max(rows, entries)


COUNT = _Count()
WHOLE_SUM = _Sum(np.int64)
FLOAT_SUM = _Sum(np.float64)
WIDE_SUM = _WideSum(np.int64)
LEAST = _Least()
GREATEST = _Greatest()


def times(left: Counts, right: Counts, at_most: int | None = None) -> Counts:
    """The products; refused when one passes 64 bits. None is larger than ``at_most``, where that is known."""
    is_small = at_most is not None and at_most < TOO_MANY
    if not is_small and left.size and right.size:
        bound = float(left.max()) * float(right.max())
        # Floats are not exact: near the bound products are divided again.
        if bound >= TOO_MANY / 2 and (left > MAX_COUNT // np.maximum(right, 1)).any():
            raise too_many()
    return left * right
