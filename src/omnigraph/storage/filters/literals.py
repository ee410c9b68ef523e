"""Writes values and names into the SQL of Lance's filters; no other module does.

Lance parses filters with DataFusion, case-sensitively. Three of its rules decide the forms here
(pylance 14). Double quotes make a *string*, so names go into backticks. A backslash in a string is
an ordinary character. A bare number takes the type of its own text (a big negative one becomes a
float and the filter fails), so every value but text and booleans is cast to the column's exact
Arrow type. An exactly typed literal also keeps the scalar index in use.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from omnigraph.types import Family, scalar_of

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
