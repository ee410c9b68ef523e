"""A comparison means the same on pending rows as when Lance filters committed ones."""

from __future__ import annotations

import itertools
import math

import pyarrow as pa
import pytest

from omnigraph.lang.query import ir
from omnigraph.read.values.expressions import mask_of
from omnigraph.read.values.other_spaces import RowSpace
from omnigraph.storage.filters import Condition, filter_expression
from omnigraph.storage.tables.table import create_table
from omnigraph.storage.tables.table_ref import TableRef
from omnigraph.types import PropType, Scalar

OPS = ["=", "!=", "<", "<=", ">", ">="]
# Stored values of a column, and values it is compared with.
CASES = {
    "I32": (pa.int32(), [-(2**31), -1, 0, 1, 2**31 - 1], [0, 0.5, -0.5, 2**31, -(2**40), 1e300]),
    "I64": (pa.int64(), [-(2**63), 2**53, 2**53 + 1, 2**63 - 1], [2**53 + 1, 2.0**53, 2**64 - 1]),
    "U32": (pa.uint32(), [0, 1, 2**32 - 1], [-1, 0, 0.5, 2**32]),
    "U64": (pa.uint64(), [0, 2**63, 2**64 - 1], [-1, 2**63, 2.0**63, 2**64 - 1, 1e30]),
    "F32": (pa.float32(), [-0.0, 0.0, 0.1, 16777216.0], [0, 0.1, 16777217, -1e39, 1e39]),
    "F64": (pa.float64(), [-0.0, 0.0, 0.1, 2.0**53], [0, 0.1, 2**53 + 1, 2**64 - 1]),
    "Bool": (pa.bool_(), [True, False], [True, False]),
    "String": (pa.utf8(), ["", "Z", "a", "ß", "\U0001f600", "\uffff"], ["", "a", "ß", "\uffff"]),
    "Date": (pa.date32(), [-719162, -1, 0, 2932896], [-1, 0]),
    "DateTime": (pa.timestamp("ms", "UTC"), [-62135596800000, -1, 0, 253402300799999], [-1, 0, 1]),
}
EXACT = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def rounded(value):
    if not isinstance(value, float):
        return value
    return (
        math.copysign(math.inf, value)
        if abs(value) > 3.5e38
        else pa.scalar(value, pa.float32()).as_py()
    )


def matches(rows, condition, type_):
    """Which rows in memory a statement finds."""
    value = condition.value
    kinds = {float: Scalar.F64, int: Scalar.I64}
    given = PropType(kinds[type(value)]) if type(value) in kinds else type_
    target = ir.PropertyOf(ir.TARGET, "p", type_)
    compare = ir.Compare(target, condition.op, ir.Const(value, given))
    return pa.array(mask_of([compare], RowSpace(rows, {"p": type_}), {}))


def wanted(kind, stored, op, value):
    """By mathematical value; text by its bytes; a float against F32 is rounded first."""
    if stored is None or value is None:
        return False
    if kind == "String":
        stored, value = stored.encode(), value.encode()
    if kind == "F32":
        stored, value = rounded(stored), rounded(value)
    return EXACT[op](stored, value)


@pytest.mark.parametrize("kind", CASES)
def test_in_memory_and_in_lance(tmp_path, kind):
    type_, stored, values = CASES[kind]
    stored = [*stored, None]
    physical = {"Date": pa.int32(), "DateTime": pa.int64()}.get(kind, type_)
    column = pa.array(stored, physical).cast(type_)
    rows = pa.table({"id": [str(at) for at in range(len(stored))], "p": column})
    table = create_table(TableRef(str(tmp_path / "t")), rows.schema, rows)
    for op, value in itertools.product(OPS, [*values, None]):
        condition = Condition("p", op, value)
        expected = [str(at) for at, item in enumerate(stored) if wanted(kind, item, op, value)]
        here = (
            rows.filter(matches(rows, condition, PropType(Scalar(kind)))).column("id").to_pylist()
        )
        assert here == expected, condition
        where = filter_expression(table.schema, [condition])
        assert table.read(["id"], where).column("id").to_pylist() == expected, condition


def test_rows_in_many_chunks_and_no_rows():
    rows = pa.table({"p": pa.chunked_array([[1, None], [], [3]], pa.int32())})
    type_ = PropType(Scalar.I32)
    for value, found in ((1, 1), (None, 0), (2**40, 0)):
        assert rows.filter(matches(rows, Condition("p", "=", value), type_)).num_rows == found
    assert rows.filter(matches(rows, Condition("p", "<", 2**40), type_)).num_rows == 2
    empty = rows.slice(0, 0)
    assert empty.filter(matches(empty, Condition("p", "=", 1), type_)).num_rows == 0
    assert empty.filter(matches(empty, Condition("p", "=", None), type_)).num_rows == 0
