"""Which entities hold: at a moment, or at some moment of a window.

An entity holds from `since` to before `until`; null is open, and a Date is its midnight UTC.

    since [2019, null, 2021], until [2021, null, null], as of 2020        ->   [T, T, F]
    the same, during 2020 to 2022                                         ->   [T, T, T]

Between two neighbouring bounds of a table nothing begins or ends. So the mask of a whole table is kept together with
the bounds around its moment, and serves every moment between them (``HeldMasks``): queries at `now()` share it until
a bound passes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.lang.query import ir
from omnigraph.lang.schema.catalog import Entity
from omnigraph.read.kernels.arrays import Codes, Mask
from omnigraph.read.values.column import Column, Space, one_array
from omnigraph.read.values.operands import Given, Operand, OperandRows, Read
from omnigraph.types import PropType
from omnigraph.types.temporal import MS_PER_DAY as DAY_MS
from omnigraph.types.temporal import format_datetime

_MASKS_KEPT = 4
"""How many masks of one table stay in memory: for now, for the time before, and for some other moments."""

_FEW = 8
"""Which entities a later bound can change is kept where they are at most one in this number."""

LOOK = 64
"""Entities of a mask that are copied in the time of a look at one that is different."""

_TEST = 20_000
"""Entities of which a mask is made in the time in which the bounds of some are looked at."""

_MANY = 16
"""A mask is made when more than one in this number of entities is different from the one that there is."""

Times = npt.NDArray[np.int64]
Moment = int | str
"""The default moment, for queries that name none: milliseconds since the epoch, or "ever"."""


class TimeWindow(NamedTuple):
    """One moment, or the moments from ``start`` to before ``end``, in milliseconds; None: no moment at all."""

    start: int | None
    end: int | None = None
    is_moment: bool = True

    @property
    def is_empty(self) -> bool:
        """Whether it has no moments, so that nothing holds."""
        if self.start is None or self.is_moment:
            return self.start is None
        return self.end is None or self.start >= self.end


class Upcoming(NamedTuple):
    """The bounds after a moment, ascending, in days or milliseconds, and the entity of each."""

    times: Times
    rows: Codes

    @property
    def nbytes(self) -> int:
        """The bytes of both arrays."""
        return self.times.nbytes + self.rows.nbytes


class MaskChange(NamedTuple):
    """Which entities are different from those of an earlier mask, and whether they hold now."""

    key: tuple[Any, ...]
    """That of the earlier mask."""
    rows: Codes
    holding: Mask


class Held:
    """Which entities of a table hold in a window, and in which moments it is the same.

    ``key`` tells it from those of other windows of the table. ``upcoming`` are the bounds after these moments, where
    they are few. ``change`` is how it came about from an earlier one: then the mask is only made when it is asked for.
    """

    def __init__(
        self,
        key: tuple[Any, ...],
        mask: Mask,
        upcoming: Upcoming | None = None,
        change: MaskChange | None = None,
        since: tuple[Codes, Mask] | None = None,
    ) -> None:
        self.key = key
        self.upcoming = upcoming
        self.change = change
        # A mask, and the entities that are different by now: the two are replaced together.
        self._state = mask, since
        self._looks = 0

    @property
    def mask(self) -> Mask:
        """Which entities hold."""
        mask, since = self._state
        if since is not None:
            mask = mask.copy()
            mask[since[0]] = since[1]
            mask.flags.writeable = False
            self._state = mask, None
        return mask

    def of(self, codes: Codes, look: int = LOOK) -> Mask:
        """Which of these entities hold. The mask is made when looks at what is different cost as much."""
        mask, since = self._state
        if since is None:
            found: Mask = mask.take(codes)
            return found
        self._looks += 1 + len(codes) * len(since[0])
        if self._looks * look > len(mask):
            return self.mask.take(codes)
        found = mask.take(codes)
        for at, code in enumerate(codes.tolist()):
            places = np.flatnonzero(since[0] == code)
            if len(places):
                found[at] = since[1][places[-1]]
        return found

    @property
    def nbytes(self) -> int:
        """The bytes of the mask and of the bounds."""
        return self._state[0].nbytes + (0 if self.upcoming is None else self.upcoming.nbytes)

    def after(self, key: tuple[Any, ...], upcoming: Upcoming, change: MaskChange) -> Held:
        """Those of later moments."""
        mask, since = self._state
        rows, holding = change.rows, change.holding
        if since is not None:
            # Of an entity that is there twice the last one counts.
            rows, holding = np.concatenate([since[0], rows]), np.concatenate([since[1], holding])
        if len(rows) * _MANY > len(mask):
            mask, rows, holding = self.mask, change.rows, change.holding
        return Held(key, mask, upcoming, change, (rows, holding))

    def serves(self, window: TimeWindow, *, is_date: bool) -> bool:
        """Whether the mask is that of this window, too."""
        if window.is_moment and self.key[0] == "as of":
            assert window.start is not None
            moment = window.start // DAY_MS if is_date else window.start
            _, low, high = self.key
            return (low is None or low <= moment) and (high is None or moment < high)
        return self.key == ("during", window.start, window.end)

    def is_before(self, window: TimeWindow, *, is_date: bool) -> bool:
        """Whether the mask is that of earlier moments, after which few entities change."""
        if not window.is_moment or self.upcoming is None or self.key[2] is None:
            return False
        assert window.start is not None
        high: int = self.key[2]
        return high <= (window.start // DAY_MS if is_date else window.start)


class HeldMasks:
    """The masks of one table for the windows that were asked about last."""

    def __init__(self) -> None:
        self._kept: list[Held] = []
        self._tests = 0
        self._lock = threading.Lock()

    @property
    def nbytes(self) -> int:
        """The bytes of all masks."""
        return 256 + sum(one.nbytes for one in list(self._kept))

    @property
    def is_used(self) -> bool:
        """Whether a mask is kept."""
        return bool(self._kept)

    def of(
        self, window: TimeWindow, bounds: Callable[[], tuple[Column, Column]], *, is_date: bool
    ) -> Held:
        """Which entities hold; ``bounds`` gives the columns of both bounds."""
        with self._lock:
            found = self._serving(window, is_date=is_date)
            if found is not None:
                return found
            earlier = [one for one in self._kept if one.is_before(window, is_date=is_date)]
        since, until = map(_bound, bounds())
        if earlier:
            last = max(earlier, key=lambda one: one.key[2])
            found = _held_after(last, window, since, until, is_date=is_date)
        else:
            found = _held(window, since, until, is_date=is_date)
        with self._lock:
            self._kept = [*self._kept[1 - _MASKS_KEPT :], found]
        return found

    def if_cheap(
        self,
        window: TimeWindow,
        size: int,
        bounds: Callable[[], tuple[Column, Column]],
        *,
        is_date: bool,
    ) -> Held | None:
        """The same for the sake of few entities; None while it is cheaper to look at the bounds of these."""
        with self._lock:
            found = self._serving(window, is_date=is_date)
            if found is not None:
                return found
            if not any(one.is_before(window, is_date=is_date) for one in self._kept):
                self._tests += 1
                if self._tests * _TEST < size:
                    return None
                self._tests = 0
        return self.of(window, bounds, is_date=is_date)

    def _serving(self, window: TimeWindow, *, is_date: bool) -> Held | None:
        for one in reversed(self._kept):
            if one.serves(window, is_date=is_date):
                if one is not self._kept[-1]:
                    self._kept.remove(one)
                    self._kept.append(one)
                return one
        return None


@runtime_checkable
class KeepsMasks(Protocol):
    """A space that keeps which of its entities hold."""

    def holding(self, since: str, until: str, window: TimeWindow) -> Held:
        """Which entities of the whole space hold."""
        ...


def window_of(
    when: ir.When, params: Mapping[str, Any], value: Callable[[ir.Expr], Any]
) -> TimeWindow | None:
    """The window of moments that nobody names, or of a text's own; None: ever.

    ``value`` gives the stored value of an expression; never call it for moments that differ from row to row.
    """
    if when is ir.AT_THE_MOMENT or when == ir.AT_THE_MOMENT:
        moment = params.get(ir.AS_OF_PARAM, params.get(ir.NOW_PARAM))
        return None if moment == ir.EVER else TimeWindow(moment)
    start, *end = (_in_ms(value(one), one) for one in ir.moments_of(when))
    return TimeWindow(start, end[0], is_moment=False) if end else TimeWindow(start)


def _given(found: Operand) -> Any:
    assert isinstance(found, Given), "moments that differ from row to row are looked at row by row"
    return found.value


def _in_ms(value: int | None, expr: ir.Expr) -> int | None:
    kind = getattr(expr, "type", None)
    is_date = isinstance(kind, PropType) and kind.scalar.counts_days
    return value * DAY_MS if is_date and value is not None else value


def entities_hold(
    condition: ir.Holds, rows: OperandRows, operand: Callable[[ir.Expr], Operand]
) -> Mask:
    """In which rows the entity holds."""
    if not ir.is_per_row(condition.when):
        window = window_of(condition.when, rows.params, lambda one: _given(operand(one)))
        if window is None:
            return np.ones(rows.length, np.bool_)
        if len(condition.periods) == 1 and not condition.by_type:
            [period] = condition.periods
            return _in_window(period, window, rows, operand)
        start = np.full(rows.length, 0 if window.start is None else window.start, np.int64)
        end = np.full(rows.length, 0 if window.end is None else window.end, np.int64)
        valid = np.full(rows.length, not window.is_empty, np.bool_)
        moments = _Moments(start, None if window.is_moment else end, valid)
    else:
        moments = _moments(condition.when, rows.length, operand)
    if not condition.by_type:
        [period] = condition.periods
        since, until = operand(period.since), operand(period.until)
        assert isinstance(since, Read)
        assert isinstance(until, Read)
        return moments.within(_times(since), _times(until))
    return _each_by_its_type(condition, rows, moments)


def _in_window(
    period: ir.Period, window: TimeWindow, rows: OperandRows, operand: Callable[[ir.Expr], Operand]
) -> Mask:
    if window.is_empty:
        return np.zeros(rows.length, np.bool_)
    var = period.since.var
    space = rows.spaces[var]
    if rows.codes[var] is None and isinstance(space, KeepsMasks):
        return space.holding(period.since.property, period.until.property, window).mask
    since, until = operand(period.since), operand(period.until)
    assert isinstance(since, Read)
    assert isinstance(until, Read)
    is_date = period.since.type.scalar.counts_days
    return _mask(window, _bound(since), _bound(until), is_date=is_date)


def rows_holding(rows: pa.Table, entity: Entity, moment: Moment) -> pa.Table:
    """Those rows of a table that hold at a moment; its columns are the properties of the type."""
    if entity.period is None or moment == ir.EVER:
        return rows
    assert isinstance(moment, int)
    since, until = (
        _bound(Column(entity.properties[name].type, one_array(rows.column(name))))
        for name in entity.period.names
    )
    window = TimeWindow(moment)
    return rows.filter(pa.array(_mask(window, since, until, is_date=entity.period.is_date)))


def moment_text(moment: Moment) -> str:
    """The moment nobody names as answers show it."""
    return moment if isinstance(moment, str) else format_datetime(moment)


# ------------------------------------------------------------------ one window for all

_Bound = tuple[npt.NDArray[Any], Mask | None]
"""The days or milliseconds of a bound, 0 where it is open, and where it is not."""


def _bound(column: Read | Column) -> _Bound:
    return column.numbers, column.valid


def _held(window: TimeWindow, since: _Bound, until: _Bound, *, is_date: bool) -> Held:
    mask = _mask(window, since, until, is_date=is_date)
    mask.flags.writeable = False
    if not window.is_moment:
        return Held(("during", window.start, window.end), mask)
    moment = _moment_of(window, is_date=is_date)
    low, high, later = _around(moment, since, until)
    few = np.count_nonzero(later) * _FEW <= len(later)
    upcoming = _upcoming(moment, np.flatnonzero(later), since, until) if few else None
    return Held(("as of", low, high), mask, upcoming)


def _upcoming(moment: int, rows: npt.NDArray[Any], *bounds: _Bound) -> Upcoming:
    """The bounds of some entities after a moment."""
    times, owners = [], []
    for bound in bounds:
        numbers, valid = _taken(bound, rows)
        after = numbers > moment
        after = after if valid is None else after & valid
        times.append(numbers[after].astype(np.int64))
        owners.append(rows[after].astype(np.int32))
    every = np.concatenate(times)
    order = np.argsort(every, kind="stable")
    return Upcoming(every[order], np.concatenate(owners)[order])


def _held_after(
    before: Held, window: TimeWindow, since: _Bound, until: _Bound, *, is_date: bool
) -> Held:
    """What holds at a later moment: only entities of which a bound has passed are looked at."""
    assert before.upcoming is not None
    times, rows = before.upcoming
    moment = _moment_of(window, is_date=is_date)
    place = int(np.searchsorted(times, moment, side="right"))
    passed = np.unique(rows[:place])
    some = [_taken(bound, passed) for bound in (since, until)]
    holding = _at(moment, *some)
    # The last of the moments before.
    changed = holding != _at(before.key[2] - 1, *some)
    change = MaskChange(before.key, passed[changed], holding[changed])
    low = before.key[1] if not place else int(times[place - 1])
    high = int(times[place]) if place < len(times) else None
    return before.after(("as of", low, high), Upcoming(times[place:], rows[place:]), change)


def _moment_of(window: TimeWindow, *, is_date: bool) -> int:
    """The moment of a window as bounds are stored."""
    assert window.start is not None
    return window.start // DAY_MS if is_date else window.start


def _taken(bound: _Bound, rows: Codes) -> _Bound:
    numbers, valid = bound
    return numbers[rows], None if valid is None else valid[rows]


def _around(moment: int, *bounds: _Bound) -> tuple[int | None, int | None, Mask]:
    """The last bound up to a moment, the first one after it, and which entities have one after it."""
    lows, highs, later = [], [], np.zeros(len(bounds[0][0]), np.bool_)
    for numbers, valid in bounds:
        low, high, after = _around_one(numbers, valid, moment)
        lows += [] if low is None else [low]
        highs += [] if high is None else [high]
        later |= after
    return max(lows, default=None), min(highs, default=None), later


def _around_one(
    numbers: npt.NDArray[Any], valid: Mask | None, moment: int
) -> tuple[int | None, int | None, Mask]:
    before = numbers <= moment
    after = ~before
    if valid is not None:
        before &= valid
        after &= valid
    low = int(numbers.max(where=before, initial=np.iinfo(numbers.dtype).min))
    high = int(numbers.min(where=after, initial=np.iinfo(numbers.dtype).max))
    return low if before.any() else None, high if after.any() else None, after


def _mask(window: TimeWindow, since: _Bound, until: _Bound, *, is_date: bool) -> Mask:
    """Which of the periods have a moment of the window, which has one itself."""
    start, end = window.start, window.end
    assert start is not None
    unit = DAY_MS if is_date else 1
    if window.is_moment:
        return _at(start // unit, since, until)
    assert end is not None
    held = _open_or(since, lambda bound: bound < -(-end // unit))
    held &= _open_or(until, lambda bound: bound > start // unit)
    return held & (_open_or(since, lambda bound: bound < until[0]) | _is_open(until))


def _at(moment: int, since: _Bound, until: _Bound) -> Mask:
    """Which of the periods have a moment, given as bounds are stored."""
    begun = _open_or(since, lambda bound: bound <= moment)
    return begun & _open_or(until, lambda bound: bound > moment)


def _open_or(bound: _Bound, test: Callable[[npt.NDArray[Any]], Any]) -> Mask:
    numbers, valid = bound
    held: Mask = test(numbers)
    return held if valid is None else held | ~valid


def _is_open(bound: _Bound) -> Mask:
    numbers, valid = bound
    return np.zeros(len(numbers), np.bool_) if valid is None else ~valid


# ------------------------------------------------------------------ windows by row


class _Moments(NamedTuple):
    """A moment of each row, or the window from it to before another; ``valid``: those that have moments."""

    start: Times
    end: Times | None
    valid: Mask

    def within(self, since: _Bound, until: _Bound) -> Mask:
        """In which rows the period holds at one of the moments."""
        if self.end is None:
            held = _open_or(since, lambda bound: bound <= self.start)
        else:
            end = self.end
            held = _open_or(since, lambda bound: bound < end) & (self.start < end)
            held &= _open_or(since, lambda bound: bound < until[0]) | _is_open(until)
        return held & _open_or(until, lambda bound: bound > self.start) & self.valid

    def of(self, chosen: npt.NDArray[Any]) -> _Moments:
        """The same for some of the rows."""
        end = None if self.end is None else self.end[chosen]
        return _Moments(self.start[chosen], end, self.valid[chosen])


def _moments(when: ir.When, length: int, operand: Callable[[ir.Expr], Operand]) -> _Moments:
    bounds = [_by_row(operand(one), length) for one in ir.moments_of(when)]
    valid = np.logical_and.reduce([valid for _, valid in bounds])
    start, *end = (times for times, _ in bounds)
    return _Moments(start, end[0] if end else None, valid)


def _by_row(found: Operand, length: int) -> tuple[Times, Mask]:
    if isinstance(found, Given):
        moment = 0 if found.value is None else found.value
        moment *= DAY_MS if found.type.scalar.counts_days else 1
        return np.full(length, moment, np.int64), np.full(length, found.value is not None, np.bool_)
    times, valid = _times(found)
    return times, np.ones(length, np.bool_) if valid is None else valid


def _times(found: Read | Column) -> tuple[Times, Mask | None]:
    """Dates and DateTimes in milliseconds, and where there are some."""
    column = found.column if isinstance(found, Read) else found
    unit = DAY_MS if column.type.scalar.counts_days else 1
    return found.numbers.astype(np.int64) * unit, found.valid


def _each_by_its_type(condition: ir.Holds, rows: OperandRows, moments: _Moments) -> Mask:
    """Alternatives of an edge, each by the period of its type; those without one always hold."""
    space: Space = rows.spaces[condition.var]
    codes = rows.codes_of(condition.var)
    names = space.type_names(codes).to_numpy(zero_copy_only=False)
    held = np.ones(rows.length, np.bool_)
    for period in condition.periods:
        own = np.flatnonzero(names == period.type_name)
        if not len(own):
            continue
        columns = [
            Column(one.type, space.values(one.property, codes[own]))
            for one in (period.since, period.until)
        ]
        held[own] = moments.of(own).within(*map(_times, columns))
    return held
