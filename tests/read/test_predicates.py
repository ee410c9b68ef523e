"""Comparisons: by mathematical value, by UTF-8 bytes, and never with null."""

from __future__ import annotations

import math
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.lang.query import ir
from omnigraph.read.values.column import Column
from omnigraph.read.values.comparison import compared
from omnigraph.read.values.expressions import holds, mask_of
from omnigraph.read.values.numbers import compare_numbers, sortable, unsortable
from omnigraph.read.values.operands import OperandRows
from omnigraph.types import INTEGER_RANGES, PropType, Scalar
from tests.oracle.interpreter import COMPARE, _as_compared
from tests.read.space_helpers import ArrowSpace, codes_of
from tests.sampling import examples

SCALAR_OPS = ("=", "!=", "<", "<=", ">", ">=")
NUMERIC = [*INTEGER_RANGES, Scalar.F32, Scalar.F64]
EDGES = [0, 1, -1, 2**24 + 1, 2**31, 2**53 - 1, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), 2**64 - 1]
# Each example looks at all pairs of its values, and there is one test for each pair of types.
FEW = settings(max_examples=examples(30), deadline=None)
TEXTS = st.text(st.sampled_from("ab%_\\.é🙂\0"), max_size=4)


def test_every_operator_is_known():
    assert set(get_args(ir.CompareOp)) == set(COMPARE)


def numbers(scalar: Scalar) -> st.SearchStrategy[Any]:
    if scalar in INTEGER_RANGES:
        low, high = INTEGER_RANGES[scalar]
        near = [edge for edge in (*EDGES, low, high) if low <= edge <= high]
        return st.one_of(st.sampled_from(near), st.integers(low, high), st.integers(0, 3))
    width = 32 if scalar is Scalar.F32 else 64
    near_floats = [float(np.float32(edge)) if width == 32 else float(edge) for edge in EDGES]
    special = [*near_floats, 0.5, 0.1 if width == 64 else 0.5, -0.0, math.inf, -math.inf, math.nan]
    return st.one_of(st.sampled_from(special), st.floats(width=width))


def in_order(number: float) -> tuple[bool, float]:
    """The number under the total order: NaN is the largest."""
    return (True, 0) if math.isnan(number) else (False, number)


def satisfied(compare: ir.Compare, left: Any, right: Any) -> bool:
    """The meaning of a comparison, by the oracle's own rule."""
    if left is None or right is None:
        return False
    left = _as_compared(compare.left, left, compare.right)
    right = _as_compared(compare.right, right, compare.left)
    return bool(COMPARE[compare.op](left, right))


def check(op: str, left: tuple[PropType, list[Any]], right: tuple[PropType, list[Any]]) -> None:
    """Property with property on one variable, on two, with few rows of many, and with a value."""
    (left_type, lefts), (right_type, rights) = left, right
    ids = [str(at) for at in range(len(lefts))]
    space = ArrowSpace(ids, {"l": (left_type, lefts), "r": (right_type, rights)})
    compare = ir.Compare(
        ir.PropertyOf("x", "l", left_type), op, ir.PropertyOf("x", "r", right_type)
    )
    expected = [satisfied(compare, a, b) for a, b in zip(lefts, rights, strict=True)]
    assert mask_of([compare], space, {}).tolist() == expected

    across = ir.Compare(ir.PropertyOf("x", "l", left_type), op, ir.PropertyOf("y", "r", right_type))
    xs, ys = np.indices((len(lefts), len(rights)), np.int32).reshape(2, -1)
    rows = OperandRows({"x": space, "y": space}, {"x": xs, "y": ys}, {}, len(xs))
    expected = [satisfied(across, lefts[x], rights[y]) for x, y in zip(xs, ys, strict=True)]
    assert holds(across, rows).tolist() == expected

    for at, value in enumerate(rights):
        here = ir.Compare(compare.left, op, ir.ParamRef("p", right_type))
        expected = [satisfied(here, item, value) for item in lefts]
        for _ in range(2):
            assert mask_of([here], space, {"p": value}).tolist() == expected
            _ = space.columns["l"].codes
        few = OperandRows({"x": space}, {"x": codes_of(at)}, {"p": value}, 1)
        assert holds(here, few).tolist() == expected[at : at + 1]
    for value in lefts:
        here = ir.Compare(ir.ParamRef("p", left_type), op, compare.right)
        expected = [satisfied(here, value, item) for item in rights]
        assert mask_of([here], space, {"p": value}).tolist() == expected


@pytest.mark.parametrize("left", NUMERIC)
@pytest.mark.parametrize("right", NUMERIC)
@FEW
@given(data=st.data())
def test_numbers_compare_by_mathematical_value(left: Scalar, right: Scalar, data: st.DataObject):
    size = data.draw(st.integers(0, 6))
    columns = [
        (
            PropType(scalar, nullable=True),
            data.draw(st.lists(st.none() | numbers(scalar), min_size=size, max_size=size)),
        )
        for scalar in (left, right)
    ]
    check(data.draw(st.sampled_from(SCALAR_OPS)), *columns)


@FEW
@given(
    st.lists(st.tuples(st.none() | TEXTS, st.none() | TEXTS), max_size=6),
    st.sampled_from([*SCALAR_OPS, "substring", "prefix"]),
)
def test_text_compares_by_its_bytes(pairs: list[tuple[Any, Any]], op: str):
    kind = PropType(Scalar.STRING, nullable=True)
    check(op, (kind, [a for a, _ in pairs]), (kind, [b for _, b in pairs]))


@pytest.mark.parametrize("scalar", [Scalar.DATE, Scalar.DATETIME, Scalar.BOOL])
@FEW
@given(data=st.data())
def test_dates_and_truth_values_compare(scalar: Scalar, data: st.DataObject):
    item = st.booleans() if scalar is Scalar.BOOL else st.integers(-3, 3)
    pairs = data.draw(st.lists(st.tuples(st.none() | item, st.none() | item), max_size=6))
    kind = PropType(scalar, nullable=True)
    op = data.draw(st.sampled_from(SCALAR_OPS))
    check(op, (kind, [a for a, _ in pairs]), (kind, [b for _, b in pairs]))


@pytest.mark.parametrize("scalar", [*NUMERIC, Scalar.STRING])
@FEW
@given(data=st.data())
def test_a_list_holds_a_value(scalar: Scalar, data: st.DataObject):
    other = scalar if scalar is Scalar.STRING else data.draw(st.sampled_from(NUMERIC))
    items = {
        kind: TEXTS if kind is Scalar.STRING else numbers(kind).filter(lambda n: not math.isnan(n))
        for kind in (scalar, other)
    }
    lists = st.none() | st.lists(st.none() | items[scalar], max_size=3)
    pairs = data.draw(st.lists(st.tuples(lists, st.none() | items[other]), max_size=6))
    left = PropType(scalar, nullable=True, is_list=True)
    right = PropType(other, nullable=True)
    check("member", (left, [a for a, _ in pairs]), (right, [b for _, b in pairs]))


def test_a_float_is_rounded_before_it_meets_an_f32_property():
    kind = PropType(Scalar.F32, nullable=True)
    space = ArrowSpace(["a", "b"], {"p": (kind, [0.1, None])})
    for op, expected in (("=", [True, False]), ("<", [False, False]), ("!=", [False, False])):
        compare = ir.Compare(ir.PropertyOf("x", "p", kind), op, ir.Const(0.1, PropType(Scalar.F64)))
        assert mask_of([compare], space, {}).tolist() == expected


def test_values_alone_are_compared_once_for_all_rows():
    space = ArrowSpace(["a", "b"], {})
    number, real = PropType(Scalar.I64), PropType(Scalar.F64, nullable=True)
    for given_value, expected in ((2.0**53, False), (None, False), (2.0**53 + 2, True)):
        compare = ir.Compare(ir.Const(2**53 + 1, number), "<", ir.ParamRef("p", real))
        assert mask_of([compare], space, {"p": given_value}).tolist() == [expected] * 2
        rows = OperandRows({}, {}, {"p": given_value}, 1)
        assert holds(compare, rows).tolist() == [expected]


def test_a_list_of_values_may_hold_a_value():
    texts, text = PropType(Scalar.STRING, is_list=True), PropType(Scalar.STRING)
    compare = ir.Compare(ir.Const(["a", "%"], texts), "member", ir.Const("%", text))
    assert mask_of([compare], ArrowSpace(["x"], {}), {}).tolist() == [True]


def test_all_comparisons_must_hold():
    kind = PropType(Scalar.I64)
    space = ArrowSpace(["a", "b", "c"], {"p": (kind, [1, 2, 3])})
    field = ir.PropertyOf("x", "p", kind)
    above, below = (ir.Compare(field, op, ir.Const(2, kind)) for op in (">=", "<="))
    assert mask_of([above, below], space, {}).tolist() == [False, True, False]
    assert mask_of([], space, {}).tolist() == [True, True, True]
    assert mask_of([above], ArrowSpace([], {"p": (kind, [])}), {}).tolist() == []


@pytest.mark.parametrize("op", [*SCALAR_OPS, "substring", "prefix"])
def test_half_a_surrogate_pair_is_in_no_stored_text(op: str):
    kind = PropType(Scalar.STRING, nullable=True)
    space = ArrowSpace(["a", "b"], {"p": (kind, ["x", None])})
    compare = ir.Compare(ir.PropertyOf("x", "p", kind), op, ir.Const("\ud800", kind))
    assert mask_of([compare], space, {}).tolist() == [op == "!=", False]


@FEW
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=6))
def test_ids_compare_within_a_space_and_across_two(pairs: list[tuple[int, int]]):
    names = ["é", "b", "a", "🙂"]
    one, other = ArrowSpace(names, {}), ArrowSpace(names, {})
    codes = {"x": codes_of(*(x for x, _ in pairs)), "y": codes_of(*(y for _, y in pairs))}
    for op in SCALAR_OPS:
        compare = ir.Compare(ir.NodeId("x"), op, ir.NodeId("y"))
        expected = [COMPARE[op](names[x].encode(), names[y].encode()) for x, y in pairs]
        for right in (one, other):
            rows = OperandRows({"x": one, "y": right}, codes, {}, len(pairs))
            assert holds(compare, rows).tolist() == expected
    named = ir.Compare(ir.NodeId("x"), "=", ir.Const("b", PropType(Scalar.STRING)))
    assert mask_of([named], one, {}).tolist() == [False, True, False, False]


def test_a_column_alone_can_be_compared():
    column = Column(PropType(Scalar.U64), pa.array([0, None, 2**64 - 1], pa.uint64()))
    assert compared(column, ">", -0.5).tolist() == [True, False, True]
    assert compared(column, ">=", 2**64 - 1).tolist() == [False, False, True]
    assert compared(column, "!=", None).tolist() == [False, False, False]


@pytest.mark.parametrize("op", SCALAR_OPS)
def test_many_rows_of_two_text_columns_compare_by_joint_ranks(op: str):
    lefts, rights = ["b", None, "é", ""], ["🙂", "b", None, "a"]
    kind = PropType(Scalar.STRING, nullable=True)
    one, other = (ArrowSpace("1234", {"p": (kind, texts)}) for texts in (lefts, rights))
    xs, ys = (grid.ravel() for grid in np.indices((4, 4), np.int32))
    compare = ir.Compare(ir.PropertyOf("x", "p", kind), op, ir.PropertyOf("y", "p", kind))
    rows = OperandRows({"x": one, "y": other}, {"x": xs, "y": ys}, {}, 16)
    expected = [satisfied(compare, a, b) for a in lefts for b in rights]
    assert holds(compare, rows).tolist() == expected
    assert one.columns["p"].has_codes


def test_few_rows_read_few_values():
    kind = PropType(Scalar.I64)
    space = ArrowSpace([str(n) for n in range(100)], {"p": (kind, range(100))})
    compare = ir.Compare(ir.PropertyOf("x", "p", kind), ">", ir.Const(5, kind))
    rows = OperandRows({"x": space}, {"x": codes_of(9, 3)}, {}, 2)
    assert holds(compare, rows).tolist() == [True, False]
    assert space.read == ["2 of p"]


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32", "uint64", "float32", "float64"])
@FEW
@given(data=st.data())
def test_sortable_integers_follow_the_numbers(dtype: str, data: st.DataObject):
    scalar = {"i": "I", "u": "U", "f": "F"}[dtype[0]] + dtype[-2:]
    values = data.draw(st.lists(numbers(Scalar(scalar)), max_size=8))
    array = np.array(values, dtype)
    made = sortable(array)
    assert np.array_equal(unsortable(made, array.dtype), array, equal_nan=dtype[0] == "f")
    for a, x in zip(values, made, strict=True):
        for b, y in zip(values, made, strict=True):
            before, same = in_order(a) < in_order(b), in_order(a) == in_order(b)
            assert (before, same) == (x < y, x == y)


def test_no_rows_compare_to_no_rows():
    nothing = np.zeros(0, np.int64)
    assert compare_numbers(nothing, "<", nothing.astype(np.float64)).tolist() == []
