"""Dates and times on columns. A Date is counted in days, a DateTime in milliseconds; both end with the year 9999.

    part([2024-02-29], "weekday")             ->   [4]
    shift([2024-01-31], 1, "month")           ->   [2024-02-29]
    elapsed([2024-01-31], [2024-02-29], "month")   ->   [1]

Where the days of a column lie close together, as they mostly do, each day of that range is worked out once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from omnigraph.read.values.column import Column
from omnigraph.read.values.derived import Computed
from omnigraph.read.values.number_functions import Argument, valid_of, without
from omnigraph.read.values.operands import Given
from omnigraph.types import PropType
from omnigraph.types.temporal import MAX_DAYS, MAX_MS, MIN_DAYS, MIN_MS, MS_PER_DAY

Numbers = npt.NDArray[Any]
_CLOCK = {"hour": 3_600_000, "minute": 60_000, "second": 1_000, "millisecond": 1}
_WITHIN = {"hour": 24, "minute": 60, "second": 60, "millisecond": 1_000}
_MONTHS = {"month": 1, "year": 12}
_DAYS = {"day": 1, "week": 7}
# 1970-01-01 was a Thursday.
_MONDAY = 3
_EPOCH_YEAR = 1970
_FIRST_MONTH, _LAST_MONTH = (1 - _EPOCH_YEAR) * 12, (10_000 - _EPOCH_YEAR) * 12 - 1
# More than there are milliseconds between the first day and the last.
_FAR = 2**49


def _counts_days(type: PropType) -> bool:
    """Whether values of a temporal type are days; else they are milliseconds."""
    return type.scalar.time.unit_ms == MS_PER_DAY


def _is_date(arg: Argument) -> bool:
    return _counts_days(arg.type)


def _stored(arg: Argument) -> Numbers:
    if isinstance(arg, Given):
        return np.array(arg.value, np.int64)
    return arg.numbers.astype(np.int64, copy=False)


def _days(arg: Argument) -> Numbers:
    """The day of each value."""
    stored = _stored(arg)
    return stored if _is_date(arg) else stored // MS_PER_DAY


def _of_days(days: Numbers, function: Callable[[Numbers], Numbers]) -> Numbers:
    """A function of days, made once for each day of the range they lie in, where that is narrow."""
    if days.size:
        low, high = int(days.min()), int(days.max())
        if (high - low) * 4 < days.size:
            return function(np.arange(low, high + 1)).take(days - low)
    return function(days)


def _months(days: Numbers) -> Numbers:
    """The month of each day, counted from January 1970."""
    return days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)


def _first_days(months: Numbers) -> Numbers:
    """The first day of each month."""
    return months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)


def part(type: PropType, arg: Column, unit: Given) -> Column:
    """The year, month, day, weekday (1 is Monday) or a part of the time of day."""
    name = unit.value
    if name in _CLOCK:
        found = _stored(arg) // _CLOCK[name] % _WITHIN[name]
    else:
        found = _of_days(_days(arg), _PARTS[name])
    return Computed(type, found, arg.valid)


_PARTS: dict[str, Callable[[Numbers], Numbers]] = {
    "year": lambda days: _months(days) // 12 + _EPOCH_YEAR,
    "month": lambda days: _months(days) % 12 + 1,
    "day": lambda days: days - _first_days(_months(days)) + 1,
    "weekday": lambda days: (days + _MONDAY) % 7 + 1,
}
_STARTS: dict[str, Callable[[Numbers], Numbers]] = {
    "year": lambda days: _first_days(_months(days) // 12 * 12),
    "month": lambda days: _first_days(_months(days)),
    "week": lambda days: days - (days + _MONDAY) % 7,
    "day": lambda days: days,
}


def floor_date(type: PropType, arg: Column, unit: Given) -> Column:
    """The start of the unit that a date or time lies in; weeks begin on Monday."""
    name = unit.value
    if name in _CLOCK:
        stored = _stored(arg)
        return Computed(type, stored - stored % _CLOCK[name], arg.valid)
    days = _of_days(_days(arg), _STARTS[name])
    return _checked(type, days if _is_date(arg) else days * MS_PER_DAY, arg)


def shift(type: PropType, arg: Argument, count: Argument, unit: Given) -> Column:
    """A date or time moved by some units; the day is cut to the last one of its month."""
    stored, name, is_date = _stored(arg), unit.value, _is_date(arg)
    by = _counts(count)
    if name in _MONTHS:
        return _checked(type, _moved(stored, by * _MONTHS[name], is_date), arg, count)
    step = _CLOCK.get(name) or _DAYS[name] * (1 if is_date else MS_PER_DAY)
    # Farther than this nothing is in range, and nearer nothing passes 64 bits.
    by = np.clip(by, -(_FAR // step) - 1, _FAR // step + 1)
    return _checked(type, stored + by * step, arg, count)


def _counts(count: Argument) -> Numbers:
    """Numbers of units, those that are out of every range cut."""
    if isinstance(count, Given):
        return np.array(max(-_FAR, min(count.value, _FAR)), np.int64)
    if count.numbers.dtype == np.uint64:
        few: Numbers = np.minimum(count.numbers, np.uint64(_FAR)).astype(np.int64)
        return few
    cut: Numbers = np.clip(count.numbers.astype(np.int64, copy=False), -_FAR, _FAR)
    return cut


def _moved(stored: Numbers, months: Numbers, is_date: bool) -> Numbers:
    """Dates or times moved by months; those that leave the years 0001 to 9999 lie outside of the range."""
    days = stored if is_date else stored // MS_PER_DAY
    month = _months(days)
    day = days - _first_days(month)
    target = month + months
    inside = (target >= _FIRST_MONTH) & (target <= _LAST_MONTH)
    target = np.where(inside, target, 0)
    first = _first_days(target)
    last = _first_days(target + 1) - 1
    moved = np.where(inside, np.minimum(first + day, last), MAX_DAYS + 1)
    return moved if is_date else moved * MS_PER_DAY + stored % MS_PER_DAY


def elapsed(type: PropType, start: Argument, end: Argument, unit: Given) -> Column:
    """Whole units from one to the other, toward zero."""
    name, is_date = unit.value, _is_date(start)
    before, after = np.broadcast_arrays(_stored(start), _stored(end))
    valid = valid_of(start, end)
    if name in _MONTHS:
        return Computed(type, _elapsed_months(before, after, is_date, _MONTHS[name]), valid)
    step = _CLOCK.get(name) or _DAYS[name] * (1 if is_date else MS_PER_DAY)
    apart = after - before
    return Computed(type, np.sign(apart) * (np.abs(apart) // step), valid)


def _elapsed_months(before: Numbers, after: Numbers, is_date: bool, size: int) -> Numbers:
    """The most units for which moving the one does not pass the other: those between their months, or one less."""
    one, two = (
        (_months(stored if is_date else stored // MS_PER_DAY)) // size for stored in (before, after)
    )
    count = two - one
    # From the other's year or month on, a move by this many units may pass; by one less it never does.
    moved = _moved(before, count * size, is_date)
    passed = np.where(after >= before, moved > after, moved < after)
    fewer: Numbers = count - np.where(passed, np.where(after >= before, 1, -1), 0)
    return fewer


def date(type: PropType, arg: Column) -> Column:
    """The UTC day of a time."""
    return Computed(type, _days(arg), arg.valid)


def datetime(type: PropType, arg: Column) -> Column:
    """The midnight, UTC, that a day begins with; a time stays what it is."""
    stored = _stored(arg)
    return Computed(type, stored * MS_PER_DAY if _is_date(arg) else stored, arg.valid)


def _checked(type: PropType, stored: Numbers, *args: Argument) -> Column:
    low, high = (MIN_DAYS, MAX_DAYS) if _counts_days(type) else (MIN_MS, MAX_MS)
    outside = (stored < low) | (stored > high)
    return Computed(type, stored, without(valid_of(*args), outside if outside.any() else None))
