"""Filters that Spark hands over: those that can be told Lance exactly go there, Spark keeps the others.

Spark's filters compare one column with a value of its type, and mean what comparisons of a query mean
except for NaN, which equals itself there and is above all numbers. No row holds NaN (loads refuse it), so
only a filter whose value is NaN is left to Spark; so is every filter on lists, vectors and blobs.

```text
EqualTo(("age",), 3)          age = 3
Not(In(("age",), (3, 4)))     age != 3, age != 4
StringStartsWith(("name",))   name starts with it
```
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from omnigraph.pipeline.datasource.read import PinnedSource, SourceColumn
from omnigraph.storage.filters.pushdown import ComparisonOp, Condition
from omnigraph.types import Family, Scalar

_ORDER: dict[str, ComparisonOp] = {
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
}
_MOST_UNEQUAL = 100
"""Values that a column may be compared with, one after another, to differ from all of them."""
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class AskedFilter:
    """A filter of Spark: the name of its class, the path of its column, its value, whether it is negated."""

    name: str
    path: tuple[str, ...]
    value: Any = None
    negated: bool = False


class _Left(Exception):
    """This filter cannot be told Lance exactly."""


def push_filters(
    source: PinnedSource, asked: Sequence[AskedFilter]
) -> tuple[PinnedSource, list[bool]]:
    """Return the source that also keeps to these filters, and which of them it keeps to.

    The others are left to the caller. All filters of a list hold together.
    """
    columns = {column.name: column for column in source.columns}
    where, taken = source.where, []
    for one in asked:
        try:
            column = columns[one.path[0]] if len(one.path) == 1 else None
            conditions = None if column is None else _conditions(column, one)
        except (_Left, KeyError):
            conditions = None
        taken.append(conditions is not None)
        if conditions is None or column is None:
            continue
        if column.stored is not None:
            where = replace(where, pushed=(*where.pushed, *conditions))
        elif any(condition.op != "is_null" for condition in conditions):
            where = replace(
                where, never=True
            )  # every value is null, and null satisfies nothing else
    return replace(source, where=where), taken


def _conditions(column: SourceColumn, asked: AskedFilter) -> list[Condition]:
    """Return what Lance is to check, all of it together."""
    kind = column.type
    if kind.is_list or kind.is_vector or kind.is_blob:
        raise _Left
    name = column.stored or column.name
    match asked.name, asked.negated:
        case "IsNull", False:
            return [Condition(name, "is_null")]
        case "IsNotNull", False:
            return [Condition(name, "is_not_null")]
        case "EqualTo", negated:
            return [_compared(name, "!=" if negated else "=", _stored(kind.scalar, asked.value))]
        case "In", False:
            given = [_stored(kind.scalar, item) for item in asked.value if item is not None]
            return [Condition(name, "in", [item for item in given if _is_whole(item)])]
        case "In", True:
            return _unequal(name, kind.scalar, asked.value)
        case "StringStartsWith", False if kind.scalar.is_text:
            return [Condition(name, "prefix", _stored(kind.scalar, asked.value))]
        case ordered, False if ordered in _ORDER:
            return [_compared(name, _ORDER[ordered], _stored(kind.scalar, asked.value))]
    raise _Left


def _unequal(name: str, scalar: Scalar, values: Sequence[Any]) -> list[Condition]:
    # `x NOT IN (…, NULL)` is never true, which is not worth a case of its own.
    if not values or len(values) > _MOST_UNEQUAL or any(value is None for value in values):
        raise _Left
    return [_compared(name, "!=", _stored(scalar, value)) for value in values]


def _compared(name: str, op: ComparisonOp, value: Any) -> Condition:
    """Return the comparison; with a moment between two milliseconds, that with its neighbours."""
    if _is_whole(value):
        return Condition(name, op, value)
    below = math.floor(value)
    match op:
        case "=":
            return Condition(name, "in", [])
        case "!=":
            return Condition(name, "is_not_null")
        case "<" | "<=":
            return Condition(name, "<=", below)
    return Condition(name, ">=", below + 1)


def _is_whole(value: Any) -> bool:
    return not isinstance(value, Fraction)


def _stored(scalar: Scalar, value: Any) -> Any:
    """Return a value of Spark's as it is stored; a fraction where no stored value is equal to it."""
    match scalar.traits.family, value:
        case Family.TEXT, str():
            return value
        case Family.BOOLEAN, bool():
            return value
        case Family.INTEGER, int() if not isinstance(value, bool):
            return value
        case Family.INTEGER, decimal.Decimal() if value == value.to_integral_value():
            return int(value)
        case Family.FLOAT, float() if not math.isnan(value):
            return value
        case Family.TEMPORAL, dt.date():
            units = Fraction(_microseconds(value), 1000 * scalar.time.unit_ms)
            return units.numerator if units.denominator == 1 else units
    raise _Left


def _microseconds(value: dt.date) -> int:
    """Return the time since the epoch of a day, or of a moment with a time zone."""
    if not isinstance(value, dt.datetime):
        value = dt.datetime.combine(value, dt.time(tzinfo=dt.UTC))
    if value.tzinfo is None:
        raise _Left
    return (value - _EPOCH) // _MICROSECOND
