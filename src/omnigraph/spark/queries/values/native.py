"""Conditions as columns of Spark, as far as Spark's own rules are those of the language.

Texts compare by bytes in both, and integers of any width by value. A comparison with null is not satisfied, so
every condition is made true or false at once. Floats follow IEEE here: Spark would take NaN for equal to itself.
What is not listed (numbers of unlike kinds, functions, dates against values) is computed by the local engine.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from omnigraph.lang.query import ir
from omnigraph.spark.queries.values.fields import Field
from omnigraph.types import PropType, is_unicode

if TYPE_CHECKING:
    from pyspark.sql import Column

ColumnOf = Callable[[Field], "Column"]

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_TEXTS = {"substring": "contains", "prefix": "startswith", "suffix": "endswith"}
_MAX_LONG = 2**63 - 1


def satisfied(
    condition: ir.Condition, column_of: ColumnOf, params: Mapping[str, Any]
) -> Column | None:
    """A plain condition as a column to filter by; None if Spark's rules differ from ours.

    It is true, or else false or null, which a filter takes for the same: Spark joins by a bare equality only.
    """
    native = _Native(column_of, params)
    return (
        native.compare(condition)
        if isinstance(condition, ir.Compare)
        else native.condition(condition)
    )


class _Native:
    def __init__(self, column_of: ColumnOf, params: Mapping[str, Any]) -> None:
        self._column_of = column_of
        self._params = params

    def condition(self, condition: ir.Condition) -> Column | None:
        from pyspark.sql import functions as F  # noqa: N812

        match condition:
            case ir.And() | ir.Or():
                every = [self.condition(part) for part in condition.parts]
                known = [one for one in every if one is not None]
                if len(known) < len(every):
                    return None
                both = isinstance(condition, ir.And)
                whole = F.lit(both)
                for one in known:
                    whole = (whole & one) if both else (whole | one)
                return whole
            case ir.Not():
                part = self.condition(condition.part)
                return None if part is None else ~part
            case ir.IsNull(ir.PropertyOf() as read):
                return self._read(read).isNull()
            case ir.IsTrue(ir.PropertyOf() as read):
                return F.coalesce(self._read(read), F.lit(False))
            case ir.IsTrue(ir.Truth(part)):
                return self.condition(part)
            case ir.Compare():
                held = self.compare(condition)
                return None if held is None else F.coalesce(held, F.lit(False))
            case _:
                return None

    def _read(self, read: ir.PropertyOf) -> Column:
        return self._column_of(Field(read.var, read.property))

    def compare(self, compare: ir.Compare) -> Column | None:
        from pyspark.sql import functions as F  # noqa: N812

        left, right = compare.left, compare.right
        kinds = [_kind(left), _kind(right)]
        if None in kinds:
            return None
        one, two = self._operand(left), self._operand(right)
        if one is None or two is None:
            return None
        held: Column
        if compare.op == "member":
            if not _is_listed(left, right):
                return None
            held = F.array_contains(one, two)
        elif kinds[0] != kinds[1] or _is_list(left) or _is_list(right):
            return None
        elif compare.op in _TEXTS:
            held = getattr(one, _TEXTS[compare.op])(two)
        elif kinds[0] == "float":
            held = _by_ieee(compare.op, one, two)
        else:
            held = _COMPARE[compare.op](one, two)
        return held

    def _operand(self, operand: ir.Expr) -> Column | None:
        """A column, or a value that Spark has exactly."""
        from pyspark.sql import functions as F  # noqa: N812

        if isinstance(operand, ir.PropertyOf):
            return self._read(operand)
        assert isinstance(operand, ir.Value)
        value = ir.value_of(operand, self._params)
        if value is None:
            return F.lit(None)
        if isinstance(value, str):
            return F.lit(value) if is_unicode(value) else None
        if isinstance(value, bool):
            return F.lit(value)
        if isinstance(value, int) and operand.type.is_integer:
            return F.lit(value if abs(value) <= _MAX_LONG else Decimal(value))
        return None


def _kind(operand: ir.Expr) -> str | None:
    """What values compare as; None for those that Spark would compare otherwise."""
    if not isinstance(operand, ir.PropertyOf | ir.Const | ir.ParamRef):
        return None
    kind = operand.type
    scalar = kind.scalar
    if kind.is_vector or scalar.is_blob:
        return None
    if scalar.is_text:
        return "text"
    if scalar.is_float:
        return "float" if isinstance(operand, ir.PropertyOf) else None
    if kind.is_temporal:
        return scalar.name if isinstance(operand, ir.PropertyOf) else None
    return "bool" if scalar.is_boolean else "integer"


def _is_list(operand: ir.Expr) -> bool:
    kind = getattr(operand, "type", None)
    return isinstance(kind, PropType) and kind.is_list


def _is_listed(left: ir.Expr, right: ir.Expr) -> bool:
    """Whether a list of texts or integers is asked for one of its own kind."""
    if not isinstance(left, ir.PropertyOf) or not isinstance(right, ir.PropertyOf):
        return False
    scalar = left.type.scalar
    return left.type.is_list and scalar is right.type.scalar and not scalar.is_float


def _by_ieee(op: str, one: Column, two: Column) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    odd = F.isnan(one) | F.isnan(two)
    both = one.isNotNull() & two.isNotNull()
    if op == "!=":
        return both & (odd | (one != two))
    held: Column = _COMPARE[op](one, two)
    return both & ~odd & held
