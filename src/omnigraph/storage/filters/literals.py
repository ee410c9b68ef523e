"""Writes values and names into the SQL of Lance's filters; no other module does.

Lance parses filters with DataFusion, case-sensitively. Three of its rules decide the forms here
(pylance 14). Double quotes make a *string*, so names go into backticks. A backslash in a string is
an ordinary character. A bare number takes the type of its own text (a big negative one becomes a
float and the filter fails), so every value but text and booleans is cast to the column's exact
Arrow type. An exactly typed literal also keeps the scalar index in use.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


def quoted_name(name: str) -> str:
    """Quote a column name so that its case and every character are kept."""
    return "`" + name.replace("`", "``") + "`"


def sql_literal(value: Any, type: pa.DataType) -> str:
    """Write a stored value as a typed SQL literal; a date is days, a date-time milliseconds."""
    import pyarrow as pa

    if pa.types.is_string(type) or pa.types.is_large_string(type):
        return _text(value)
    if pa.types.is_boolean(type):
        return "true" if value else "false"
    if pa.types.is_integer(type):
        return f"arrow_cast('{int(value)}', '{_INTEGERS[str(type)]}')"
    if pa.types.is_floating(type):
        return f"arrow_cast('{_float_text(float(value))}', '{_FLOATS[str(type)]}')"
    if pa.types.is_date32(type):
        return f"arrow_cast({int(value)}, 'Date32')"
    if pa.types.is_timestamp(type) and type.unit == "ms" and type.tz == "UTC":
        return f"arrow_cast({int(value)}, 'Timestamp(Millisecond, Some(\"UTC\"))')"
    raise TypeError(f"a value of type {type} has no literal")


_INTEGERS = {"int32": "Int32", "int64": "Int64", "uint32": "UInt32", "uint64": "UInt64"}
_FLOATS = {"float": "Float32", "double": "Float64"}


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _float_text(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    # The shortest text that reads back as this double; read as float32 it gives the same float32.
    return repr(value)
