"""The operators and functions of the language on single stored values, from the specification and in plain Python.

None means "no value". Only `coalesce` and `if` see a None among their arguments; for all others it is the result.
"""

from __future__ import annotations

import math
from calendar import monthrange
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

from omnigraph.types import PropType, Scalar, to_json

LEAST, MOST = -(2**63), 2**63 - 1
EPOCH_DAY = date(1970, 1, 1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAY_MS = 86_400_000
CLOCK_MS = {"hour": 3_600_000, "minute": 60_000, "second": 1_000, "millisecond": 1}


def applied(name: str, types: list[PropType], args: list[Any]) -> Any:
    """The value of a function for arguments of these types; None where it has none."""
    if name == "coalesce":
        return next((arg for arg in args if arg is not None), None)
    if name == "if":
        return args[1] if args[0] else (args[2] if len(args) == 3 else None)
    if any(arg is None for arg in args):
        return None
    return _BY_NAME[name](types, *args)


def _arithmetic(exact: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def calculated(types: list[PropType], left: Any, right: Any) -> Any:
        if any(kind.is_float for kind in types):
            return exact(float(left), float(right))
        if not (LEAST <= left <= MOST and LEAST <= right <= MOST):
            return None
        return _fitting(exact(left, right))

    return calculated


def _fitting(whole: int) -> int | None:
    return whole if LEAST <= whole <= MOST else None


def _negative(types: list[PropType], value: Any) -> Any:
    if types[0].is_float:
        return -value
    return None if _fitting(value) is None else _fitting(-value)


def _ratio(types: list[PropType], left: Any, right: Any) -> Any:
    return None if right == 0 else float(left) / float(right)


def _remainder(types: list[PropType], left: int, right: int) -> Any:
    if right == 0 or not (LEAST <= left <= MOST and LEAST <= right <= MOST):
        return None
    size = abs(left) % abs(right)
    return -size if left < 0 else size


def _abs(types: list[PropType], value: Any) -> Any:
    return abs(value) if types[0].is_float else _fitting(abs(value))


def _whole(rounding: Callable[[float], int]) -> Callable[..., Any]:
    def rounded(types: list[PropType], value: Any) -> Any:
        if not types[0].is_float:
            return _fitting(value)
        return _fitting(rounding(value)) if math.isfinite(value) else None

    return rounded


def _half_away(value: float) -> int:
    return int(math.copysign(1, value)) * math.floor(abs(value) + 0.5)


def _round(types: list[PropType], value: Any, digits: int | None = None) -> Any:
    if digits is None:
        return _whole(_half_away)(types, value)
    value, scale = float(value), float(10**digits)
    scaled = abs(value) * scale + 0.5
    if not math.isfinite(scaled):
        return None
    return math.copysign(1, value) * (float(math.floor(scaled)) / scale)


def _replace(types: list[PropType], text: str, old: str, new: str) -> str:
    return text.replace(old, new) if old else text


def _substring(types: list[PropType], text: str, start: int, size: int | None = None) -> str | None:
    if start < 0 or (size is not None and size < 0):
        return None
    return text[start:] if size is None else text[start : start + size]


# ------------------------------------------------------------------ dates


def _split(kind: PropType, value: int) -> tuple[date, int]:
    """The day of a stored Date or DateTime, and the milliseconds since its midnight."""
    days, rest = (value, 0) if kind.scalar is Scalar.DATE else divmod(value, DAY_MS)
    return EPOCH_DAY + timedelta(days=days), rest


def _joined(kind: PropType, day: date, rest: int) -> int:
    days = (day - EPOCH_DAY).days
    return days if kind.scalar is Scalar.DATE else days * DAY_MS + rest


def _part(types: list[PropType], value: int, unit: str) -> int:
    day, rest = _split(types[0], value)
    if unit in CLOCK_MS:
        of = {"hour": 24, "minute": 60, "second": 60, "millisecond": 1000}[unit]
        return rest // CLOCK_MS[unit] % of
    return {"year": day.year, "month": day.month, "day": day.day, "weekday": day.isoweekday()}[unit]


def _floor_date(types: list[PropType], value: int, unit: str) -> int | None:
    day, rest = _split(types[0], value)
    if unit in CLOCK_MS:
        return _joined(types[0], day, rest - rest % CLOCK_MS[unit])
    if unit == "week":
        if day.toordinal() - (day.isoweekday() - 1) < 1:
            return None
        return _joined(types[0], day - timedelta(days=day.isoweekday() - 1), 0)
    day = day.replace(day=1) if unit in ("month", "year") else day
    return _joined(types[0], day.replace(month=1) if unit == "year" else day, 0)


def _shift(types: list[PropType], value: int, count: int, unit: str) -> int | None:
    day, rest = _split(types[0], value)
    if unit in ("month", "year"):
        months = day.year * 12 + day.month - 1 + count * (12 if unit == "year" else 1)
        year, month = divmod(months, 12)
        if not 1 <= year <= 9999:
            return None
        last = monthrange(year, month + 1)[1]
        return _joined(types[0], date(year, month + 1, min(day.day, last)), rest)
    is_date = types[0].scalar is Scalar.DATE
    if unit in ("day", "week"):
        step = (7 if unit == "week" else 1) * (1 if is_date else DAY_MS)
    else:
        step = CLOCK_MS[unit]
    return _in_years(value + count * step, is_date)


def _in_years(value: int, is_date: bool) -> int | None:
    """A stored value of the years 0001 to 9999, or nothing."""
    least = (date.min - EPOCH_DAY).days
    most = (date.max - EPOCH_DAY).days
    if is_date:
        return value if least <= value <= most else None
    return value if least * DAY_MS <= value < (most + 1) * DAY_MS else None


def _elapsed(types: list[PropType], start: int, end: int, unit: str) -> int:
    if unit in ("year", "month"):
        sign = 1 if end >= start else -1
        # No month has more than 31 days, no year more than 366: so many have passed at least.
        longest = (366 if unit == "year" else 31) * (
            1 if types[0].scalar is Scalar.DATE else DAY_MS
        )
        count = abs(end - start) // longest
        while True:
            moved = _shift(types, start, sign * (count + 1), unit)
            if moved is None or (moved > end if sign > 0 else moved < end):
                return sign * count
            count += 1
    is_date = types[0].scalar is Scalar.DATE
    if unit in ("day", "week"):
        step = (7 if unit == "week" else 1) * (1 if is_date else DAY_MS)
    else:
        step = CLOCK_MS[unit]
    size = abs(end - start) // step
    return size if end >= start else -size


def _text(types: list[PropType], value: Any) -> str:
    if types[0].is_float and math.isfinite(value):
        return repr(float(value))
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(to_json(types[0], value))


_BY_NAME: dict[str, Callable[..., Any]] = {
    "+": _arithmetic(lambda a, b: a + b),
    "-": _arithmetic(lambda a, b: a - b),
    "*": _arithmetic(lambda a, b: a * b),
    "/": _ratio,
    "%": _remainder,
    "neg": _negative,
    "concat": lambda _, a, b: a + b,
    "to_f64": lambda _, value: float(value),
    "abs": _abs,
    "floor": _whole(math.floor),
    "ceil": _whole(math.ceil),
    "round": _round,
    "lower": lambda _, text: text.lower(),
    "upper": lambda _, text: text.upper(),
    "trim": lambda _, text: text.strip(),
    "length": lambda _, value: len(value),
    "substring": _substring,
    "replace": _replace,
    "part": _part,
    "floor_date": _floor_date,
    "shift": _shift,
    "elapsed": _elapsed,
    "date": lambda types, value: value // DAY_MS if types[0].scalar is Scalar.DATETIME else value,
    "datetime": lambda types, value: value * DAY_MS if types[0].scalar is Scalar.DATE else value,
    "text": _text,
}

FUNCTIONS = frozenset(_BY_NAME) | {"coalesce", "if"}
"""The names this module speaks; a test holds them equal to those of the language."""
