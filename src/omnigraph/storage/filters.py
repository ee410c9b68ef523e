"""Filters on one table, from typed conditions to what Lance's scanner takes.

A condition compares a column with a stored value by mathematical value, as queries do. Where the
value fits the column's Arrow type it is given in exactly that type, so a scalar index is used;
where it does not fit, the comparison is rewritten into an equal one that does (``minutes > 94.5``
on an I32 column is ``minutes >= 95``), or is decided at once. A null never satisfies anything.

pylance converts a pyarrow expression by way of Substrait, which knows no unsigned integers: a
filter on such a column fails, and *any* filter fails on a table that has a list of them. Those,
and the operators Substrait lacks, are sent as SQL.

Lance parses SQL with DataFusion, case-sensitively. Three of its rules decide the form of values and names
(pylance 14). Double quotes make a *string*, so names go into backticks. A backslash in a string is
an ordinary character. A bare number takes the type of its own text (a big negative one becomes a
float and the filter fails), so every value but text and booleans is cast to the column's exact
Arrow type. An exactly typed literal also keeps the scalar index in use.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from omnigraph.types import Family, is_unicode, scalar_of

if TYPE_CHECKING:
    import pyarrow as pa


def quoted_name(name: str) -> str:
    """Quote a column name so that its case and every character are kept."""
    return "`" + name.replace("`", "``") + "`"


def sql_literal(value: Any, type: pa.DataType) -> str:
    """Write a stored value as a typed SQL literal; a date is days, a date-time milliseconds."""
    return literal_writer(type)(value)


def literal_writer(type: pa.DataType) -> Callable[[Any], str]:
    """What writes the stored values of a column of this type as SQL literals."""
    scalar = scalar_of(type)
    if scalar is None or scalar.is_blob:
        raise TypeError(f"a value of type {type} has no literal")
    sql = scalar.traits.sql
    match scalar.traits.family:
        case Family.TEXT:
            return _text
        case Family.BOOLEAN:
            return lambda value: "true" if value else "false"
        case Family.FLOAT:
            return lambda value: f"arrow_cast('{_float_text(float(value))}', '{sql}')"
        case Family.TEMPORAL:
            return lambda value: f"arrow_cast({int(value)}, '{sql}')"
    return lambda value: f"arrow_cast('{int(value)}', '{sql}')"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _float_text(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    # The shortest text that reads back as this double; read as float32 it gives the same float32.
    return repr(value)


ComparisonOp = Literal["=", "!=", "<", "<=", ">", ">="]
OPERATORS: dict[ComparisonOp, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
"""What each comparison means to Python, NumPy and Arrow expressions."""
Op = Literal[
    "=", "!=", "<", "<=", ">", ">=", "in", "member", "substring", "prefix", "is_null", "is_not_null"
]


@dataclass(frozen=True, slots=True)
class Condition:
    """``column op value``. ``value`` is a stored value (`types`); for ``in`` a sequence of them.

    ``member``: the list column holds the value; ``substring`` and ``prefix``: the text column
    contains it or starts with it. ``is_null`` and ``is_not_null`` take no value.
    """

    column: str
    op: Op
    value: Any = None


@dataclass(frozen=True, slots=True)
class Pushdown:
    """A filter ready for Lance. ``never`` means that no row of any table can satisfy it."""

    sql: str
    """The filter as SQL text, also when an expression is used: for plans and logs."""
    expression: Any = None
    never: bool = False
    columns: frozenset[str] | None = None
    """The columns it tests; None if that is not known."""

    @property
    def lance_filter(self) -> Any:
        """What to hand to a scanner: the typed expression where there is one, else the SQL."""
        return self.sql if self.expression is None else self.expression


NEVER = Pushdown("false", never=True)


def filter_expression(schema: pa.Schema, conditions: Iterable[Condition]) -> Pushdown | None:
    """Combine conditions with AND for a table of that schema; None when there are no conditions."""
    conditions = list(conditions)
    settled = [_settle(_column_type(schema, item.column), item) for item in conditions]
    if not settled:
        return None
    if any(item is None for item in settled):
        return NEVER
    tests = [item for item in settled if item is not None]
    sql = " AND ".join(test.sql for test in tests)
    columns = frozenset(item.column for item in conditions)
    if not all(test.expression for test in tests) or _schema_defeats_expressions(schema):
        return Pushdown(sql, columns=columns)
    built = [test.expression() for test in tests if test.expression is not None]
    return Pushdown(sql, functools.reduce(operator.and_, built), columns=columns)


@dataclass(frozen=True, slots=True)
class _Test:
    """One condition in both forms; ``expression`` is None where Substrait cannot express it."""

    sql: str
    expression: Callable[[], Any] | None


def _column_type(schema: pa.Schema, column: str) -> pa.DataType:
    import pyarrow as pa

    if column in {"_rowid", "_rowaddr"}:
        return pa.uint64()
    position = schema.get_field_index(column)
    if position < 0:
        raise KeyError(f"the table has no column {column}")
    return schema.field(position).type


def _schema_defeats_expressions(schema: pa.Schema) -> bool:
    import pyarrow as pa

    lists = (field.type for field in schema if pa.types.is_list(field.type))
    return not all(_is_in_substrait(kind.value_type) for kind in lists)


def _is_in_substrait(type: pa.DataType) -> bool:
    scalar = scalar_of(type)
    return scalar is None or scalar.traits.in_substrait


def _settle(type: pa.DataType, condition: Condition) -> _Test | None:
    """Turn the condition into a test of the column's own type; None when nothing satisfies it."""
    column, value = condition.column, condition.value
    match condition.op:
        case "is_null" | "is_not_null" as op:
            return _null_test(type, column, op)
        case "in":
            return _membership(type, column, [item for item in value if item is not None])
        case "member" | "substring" | "prefix" as op:
            return _function(type, column, op, value)
        case op:
            return _comparison(type, column, op, value)


def _null_test(type: pa.DataType, column: str, op: Literal["is_null", "is_not_null"]) -> _Test:
    import pyarrow.compute as pc

    absent = op == "is_null"
    return _Test(
        f"{quoted_name(column)} IS {'' if absent else 'NOT '}NULL",
        _expressible(
            type, lambda: pc.field(column).is_null() if absent else pc.field(column).is_valid()
        ),
    )


def _membership(type: pa.DataType, column: str, values: Sequence[Any]) -> _Test | None:
    import pyarrow as pa
    import pyarrow.compute as pc

    exact = [settled[1] for item in values if isinstance(settled := settle(type, "=", item), tuple)]
    if not exact:
        return None
    return _Test(
        f"{quoted_name(column)} IN ({', '.join(map(literal_writer(type), exact))})",
        _expressible(type, lambda: pc.field(column).isin(pa.array(exact, type))),
    )


def _function(
    type: pa.DataType, column: str, op: Literal["member", "substring", "prefix"], value: Any
) -> _Test | None:
    if value is None:
        return None
    element = type.value_type if op == "member" else type
    settled = settle(element, "=", value)
    if not isinstance(settled, tuple):
        return None
    name = {"member": "array_has", "substring": "contains", "prefix": "starts_with"}[op]
    # Unlike every other comparison, `array_has` distinguishes 0.0 from -0.0.
    wanted = [0.0, -0.0] if settled[1] == 0 and isinstance(settled[1], float) else [settled[1]]
    calls = [f"{name}({quoted_name(column)}, {sql_literal(item, element)})" for item in wanted]
    return _Test(f"({' OR '.join(calls)})", None)


def _comparison(type: pa.DataType, column: str, op: ComparisonOp, value: Any) -> _Test | None:
    import pyarrow as pa
    import pyarrow.compute as pc

    if value is None:
        return None
    settled = settle(type, op, value)
    if settled is True:
        return _null_test(type, column, "is_not_null")
    if settled is False:
        return None
    exact_op, exact = settled
    return _Test(
        f"{quoted_name(column)} {exact_op} {sql_literal(exact, type)}",
        _expressible(
            type,
            lambda: OPERATORS[exact_op](pc.field(column), pc.scalar(pa.scalar(exact, type))),
        ),
    )


def _expressible(type: pa.DataType, build: Callable[[], Any]) -> Callable[[], Any] | None:
    import pyarrow as pa

    sayable = _is_in_substrait(type) and not pa.types.is_fixed_size_list(type)
    return build if sayable else None


Settled = bool | tuple[ComparisonOp, Any]


def settle(type: pa.DataType, op: ComparisonOp, value: Any) -> Settled:
    """Return an equivalent comparison whose value is exactly of the column's type.

    ``True``: every non-null value of the type satisfies it; ``False``: none does.
    """
    import pyarrow as pa

    if pa.types.is_integer(type):
        return _settle_integer(type, op, value)
    if pa.types.is_floating(type):
        return _settle_float(type, op, value)
    if pa.types.is_string(type) and not is_unicode(value):
        # A stored text never contains half a surrogate pair.
        return op == "!="
    return op, value


def _settle_integer(type: pa.DataType, op: ComparisonOp, value: float) -> Settled:
    if isinstance(value, float):
        if math.isnan(value):
            return op == "!="
        if math.isinf(value):
            return op in ({"!=", "<", "<="} if value > 0 else {"!=", ">", ">="})
        whole = math.floor(value)
        if whole != value:
            return _between(type, op, whole)
        value = whole
    low, high = _integer_range(type)
    if value > high:
        return op in {"!=", "<", "<="}
    if value < low:
        return op in {"!=", ">", ">="}
    return op, value


def _between(type: pa.DataType, op: ComparisonOp, below: int) -> Settled:
    """The comparison with a number strictly between ``below`` and ``below + 1``."""
    if op in {"=", "!="}:
        return op == "!="
    if op in {"<", "<="}:
        return _settle_integer(type, "<=", below)
    return _settle_integer(type, ">=", below + 1)


def _integer_range(type: pa.DataType) -> tuple[int, int]:
    import pyarrow as pa

    bits: int = type.bit_width
    if pa.types.is_unsigned_integer(type):
        return 0, 2**bits - 1
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def _settle_float(type: pa.DataType, op: ComparisonOp, value: float) -> Settled:
    near = _rounded(type, value)
    if isinstance(value, float) or near == value:
        # Against F32 a float is first rounded to F32 by the language's own rule.
        return op, near
    if op in {"=", "!="}:
        return op == "!="
    # No float lies between the integer and its rounding, so `<` may become `<=` and the reverse.
    if op in {"<", "<="}:
        return ("<" if near > value else "<="), near
    return (">=" if near > value else ">"), near


def _rounded(type: pa.DataType, value: float) -> float:
    import numpy as np

    with np.errstate(over="ignore"):
        return float(type.to_pandas_dtype()(value))
