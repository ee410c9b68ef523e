"""Python's own values, and those of NumPy, pandas and Arrow, as the JSON that means them."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from omnigraph.types import PropType, Unfit, json_form, param_from_json

EAST = timezone(timedelta(hours=2))
NOON = 12 * 3_600_000
NESTED: list[Any] = []
NESTED.append(NESTED)
HOLDER = np.empty(1, object)
HOLDER[0] = HOLDER

naive = datetime.fromisoformat


def read(declared: str, value: object) -> Any:
    """The stored value of a parameter."""
    t = PropType.parse(declared)
    return param_from_json(t, json_form(t, value))


@pytest.mark.parametrize(
    ("declared", "value", "stored"),
    [
        ("Date", date(1970, 1, 3), 2),
        ("Date", naive("1970-01-03"), 2),
        ("Date", datetime(1970, 1, 3, 2, tzinfo=EAST), 2),
        ("Date", pd.Timestamp("1970-01-03"), 2),
        ("Date", np.datetime64("1970-01-03"), 2),
        ("Date", np.datetime64("1970-02"), 31),
        ("Date", np.datetime64("1970-01-03T00:00:00.000000000"), 2),
        ("Date", pa.scalar(date(1970, 1, 3)), 2),
        ("DateTime", date(1970, 1, 2), 86_400_000),
        ("DateTime", naive("1970-01-01T12:00"), NOON),
        ("DateTime", datetime(1970, 1, 1, 14, tzinfo=EAST), NOON),
        ("DateTime", naive("1970-01-01T12:00:00.001999"), NOON + 1),
        ("DateTime", naive("1969-12-31T23:59:59.999999"), -1),
        ("DateTime", datetime(1900, 1, 1, tzinfo=ZoneInfo("Europe/Amsterdam")), None),
        ("DateTime", pd.Timestamp("1970-01-01 12:00:00.001000999"), NOON + 1),
        ("DateTime", pd.Timestamp("1970-01-01 14:00", tz="Europe/Athens"), NOON),
        ("DateTime", np.datetime64("1970-01-01T12"), NOON),
        ("DateTime", np.datetime64("1970-01-01T12:00:00.001000999"), NOON + 1),
        ("DateTime", pa.scalar(NOON * 1_000_000 + 1_999_999, pa.timestamp("ns")), NOON + 1),
        ("DateTime", pa.scalar(-1, pa.timestamp("ns", "Europe/Paris")), -1),
        ("DateTime", pa.scalar(NOON // 1000, pa.timestamp("s", "UTC")), NOON),
        ("I64", np.int8(-7), -7),
        ("U64", np.uint64(2**64 - 1), 2**64 - 1),
        ("I64", np.array(5), 5),
        ("I64", pa.scalar(5, pa.uint8()), 5),
        ("F64", np.float32(0.5), 0.5),
        ("F64", np.float64(0.1), 0.1),
        ("F64", np.int64(3), 3.0),
        ("F64", pa.scalar(0.5, pa.float16()), 0.5),
        ("Bool", np.bool_(True), True),
        ("Bool", pa.scalar(False), False),
        ("String", np.str_("é"), "é"),
        ("String", pa.scalar("é"), "é"),
        ("String", pa.array(["x", "é"]).dictionary_encode()[1], "é"),
        ("[I32]", (1, np.int16(2), "3"), [1, 2, 3]),
        ("[I32]", np.array([1, 2]), [1, 2]),
        ("[I32]", np.array([1, np.int64(2)], dtype=object), [1, 2]),
        ("[String]", np.array(["a", "b"]), ["a", "b"]),
        ("[Bool]", np.array([True, False]), [True, False]),
        ("[Date]", [date(1970, 1, 2), "1970-01-03"], [1, 2]),
        ("[Date]", np.array(["1970-01-02", "1970-01-03"], "datetime64[D]"), [1, 2]),
        ("[DateTime]", np.array([NOON], "datetime64[ms]"), [NOON]),
        ("[DateTime]", pa.array([NOON], pa.timestamp("ms", "UTC")), [NOON]),
        ("[I64]", pa.array([1, 2]), [1, 2]),
        ("[I64]", pa.chunked_array([[1], [2]]), [1, 2]),
        ("[I64]", pa.scalar([1, 2]), [1, 2]),
        ("Vector(2)", np.array([1, 0.5], np.float32), [1.0, 0.5]),
        ("Vector(2)", np.array([1, 2], np.int64), [1.0, 2.0]),
        ("Vector(2)", [np.float32(1), np.float64(0.5)], [1.0, 0.5]),
        ("Vector(2)", (1, 0.5), [1.0, 0.5]),
        ("Vector(2)", pa.array([1, 0.5], pa.float32()), [1.0, 0.5]),
        ("Vector(2)", pa.scalar([1, 0.5], pa.list_(pa.float32(), 2)), [1.0, 0.5]),
    ],
)
def test_accepted(declared: str, value: object, stored: Any) -> None:
    if stored is None:
        # A local mean time: its offset has seconds, which no text of RFC 3339 can carry.
        assert isinstance(value, datetime)
        stored = (value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    found = read(declared, value)
    assert (found, type(found)) == (stored, type(stored))


@pytest.mark.parametrize(
    "value",
    [pd.NaT, pd.NA, np.datetime64("NaT"), pa.scalar(None, pa.int64()), pa.NA, np.ma.masked],
)
def test_missing_values_are_null(value: object) -> None:
    for declared in ("Date?", "DateTime?", "I64?", "String?", "[I64]?", "Vector(2)?"):
        assert read(declared, value) is None
    with pytest.raises(Unfit, match="null"):
        read("I64", value)


@pytest.mark.parametrize(
    ("declared", "value", "reason"),
    [
        ("String", date(2020, 1, 1), "a Python date"),
        ("String", naive("2020-01-01"), "a Python datetime"),
        ("String", pd.Timestamp("2020-01-01"), "a Python Timestamp"),
        ("[String]", [date(2020, 1, 1)], "element 1: .*a Python date"),
        ("String", b"bytes", "a Python bytes"),
        ("String", np.bytes_(b"x"), "a Python bytes_"),
        ("Date", naive("2020-01-01T12:00"), "time of day"),
        ("Date", datetime(2020, 1, 1, 1, tzinfo=EAST), "time of day"),
        ("Date", pd.Timestamp("2020-01-01 00:00:00.000000001"), "time of day"),
        ("Date", 5, "got 5"),
        ("Date", np.int64(5), "got 5"),
        ("DateTime", np.timedelta64(5, "s"), "a Python timedelta64"),
        ("DateTime", timedelta(5), "a Python timedelta"),
        ("DateTime", time(5), "a Python time"),
        ("DateTime", np.datetime64("20000-01-01"), "years 0001 to 9999"),
        ("DateTime", np.datetime64(2**62, "s"), "years 0001 to 9999"),
        ("DateTime", datetime(1, 1, 1, tzinfo=EAST), "years 0001 to 9999"),
        ("DateTime", datetime(9999, 12, 31, 23, tzinfo=timezone(-timedelta(hours=2))), "years"),
        ("DateTime", pa.scalar(2**62, pa.timestamp("s")), "years 0001 to 9999"),
        ("I64", np.bool_(True), "got true"),
        ("I64", np.float64(3.0), "got 3.0"),
        ("I32", np.int64(2**40), "range of I32"),
        ("U32", np.int8(-1), "range of U32"),
        ("Bool", np.int8(1), "got 1"),
        ("F64", np.float32("nan"), "got NaN"),
        ("F64", np.longdouble(1), "a Python longdouble"),
        ("F64", Decimal(1), "a Python Decimal"),
        ("F64", pa.scalar(Decimal("1.5")), "a Python Decimal"),
        ("F64", 1j, "a Python complex"),
        ("F64", np.complex64(1), "a Python complex64"),
        ("F64", np.array([1.0]), "an array of 1"),
        ("[I64]", np.int64(1), "got 1"),
        ("[I64]", np.ones((2, 2)), "2 dimensions"),
        ("[I64]", np.ma.array([1, 2], mask=[False, True]), "element 2: .*null"),
        ("[I64]", pa.array([1, None]), "element 2: .*null"),
        ("[I64]", [pd.NaT], "element 1: .*null"),
        ("[I64]", np.array([1.0]), "element 1: .*got 1.0"),
        ("[I64]", np.array([[1], [1, 2]], object), "element 1: .*an array of 1"),
        ("[I64]", pa.array([[1]]), "element 1: .*an array of 1"),
        ("[I64]", NESTED, "element 1: .*an array of 1"),
        ("[I64]", HOLDER, "element 1: .*a Python ndarray"),
        ("[I64]", {1, 2}, "a Python set"),
        ("[I64]", iter([1]), "a Python list_iterator"),
        ("[I64]", pd.Series([1]), "a Python Series"),
        ("[I64]", range(2), "a Python range"),
        ("Vector(2)", np.ones(3), "expected 2 numbers, got 3"),
        ("Vector(2)", np.ones((1, 2)), "2 dimensions"),
        ("Vector(2)", np.array([1, np.nan]), "element 2: .*NaN"),
        ("Vector(2)", np.array([True, False]), "element 1 must be numeric"),
        ("Vector(2)", np.array(["1", "2"]), "element 1 must be numeric"),
        ("Vector(2)", np.array([1, 1e300]), "range of F32"),
        ("Vector(2)", np.array([], np.float32), "got 0"),
        ("I64", pa.table({"a": [1]}), "a Python Table"),
        ("I64", object(), "a Python object"),
        ("I64", {"a": 1}, "an object"),
        ("I64", pa.scalar({"a": 1}), "an object"),
    ],
)  # fmt: skip
def test_refused(declared: str, value: object, reason: str) -> None:
    with pytest.raises(Unfit, match=reason):
        read(declared, value)


def test_plain_values_need_no_library() -> None:
    program = """
import sys
from datetime import date
from omnigraph.types import PropType, json_form
assert json_form(PropType.parse("Date"), date(2020, 1, 2)) == "2020-01-02"
assert json_form(PropType.parse("[I64]"), (1, "2", object)) == [1, "2", object]
print(*(name for name in ("numpy", "pandas", "pyarrow") if name in sys.modules))
"""
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == ""
