"""Functions on whole columns, judged value by value by the oracle's plain functions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.lang.query import ir
from omnigraph.lang.query.functions import FUNCTIONS
from omnigraph.read.values.column import Column
from omnigraph.read.values.expressions import column_of, evaluate, type_of, variables_of
from omnigraph.read.values.function_kernels import KERNELS
from omnigraph.read.values.operands import OperandRows
from omnigraph.types import INTEGER_RANGES, TEXT, PropType, Scalar, from_arrow
from omnigraph.types.temporal import MAX_DAYS, MAX_MS, MIN_DAYS, MIN_MS
from tests.oracle.functions import applied
from tests.read.space_helpers import ArrowSpace, codes_of
from tests.sampling import examples

FEW = settings(max_examples=examples(60), deadline=None)
WHOLE = [PropType(scalar, nullable=True) for scalar in INTEGER_RANGES]
I64, U64 = (PropType(scalar, nullable=True) for scalar in (Scalar.I64, Scalar.U64))
REAL = [PropType(Scalar.F32, nullable=True), PropType(Scalar.F64, nullable=True)]
TEXTS = PropType(Scalar.STRING, nullable=True)
DATE, DATETIME = PropType(Scalar.DATE, nullable=True), PropType(Scalar.DATETIME, nullable=True)
TRUTHS = PropType(Scalar.BOOL, nullable=True)
LISTS = PropType(Scalar.I32, is_list=True, nullable=True)
# White space, letters whose case changes their number, final sigma, combining marks, beyond 16 bits, NUL.
LETTERS = "aAbB zZ\t\x1c\u00a0\u2003ßſΣσςİıéÉǅ\u0301🙂\0.,"
NEAR = [0, 1, -1, 2, 3, 7, -7, 2**31, 2**53 + 1, 2**62, 2**63 - 1, -(2**63), 2**63, 2**64 - 1]
HALVES = [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.1, 1e15, 2.0**53, 2.0**63, -(2.0**63)]
ODD = [math.nan, math.inf, -math.inf]
CALENDAR_UNITS = ["year", "month", "week", "day"]
CLOCK_UNITS = ["hour", "minute", "second", "millisecond"]


def values_of(kind: PropType) -> st.SearchStrategy[Any]:
    """Values of a type, its extremes among them."""
    if kind.is_list:
        return st.lists(st.integers(-3, 3), max_size=4)
    match kind.scalar:
        case Scalar.STRING:
            return st.text(st.sampled_from(LETTERS), max_size=6)
        case Scalar.BOOL:
            return st.booleans()
        case Scalar.DATE:
            return st.sampled_from([MIN_DAYS, MAX_DAYS, -1, 0, 19782]) | st.integers(
                MIN_DAYS, MAX_DAYS
            )
        case Scalar.DATETIME:
            return st.sampled_from([MIN_MS, MAX_MS, -1, 0]) | st.integers(MIN_MS, MAX_MS)
        case Scalar.F32 | Scalar.F64:
            width = 32 if kind.scalar is Scalar.F32 else 64
            known = [*HALVES, 1e300, *ODD]
            if width == 32:
                known = [float(np.float32(one)) for one in (*HALVES, *ODD)]
            return st.sampled_from(known) | st.floats(width=width)
    low, high = INTEGER_RANGES[kind.scalar]
    near = [one for one in (*NEAR, low, high) if low <= one <= high]
    return st.sampled_from(near) | st.integers(low, high) | st.integers(0, 5)


def unit(name: str) -> ir.Const:
    return ir.Const(name, TEXT)


def shapes() -> dict[str, list[list[Any]]]:
    """The arguments of every function: types of columns, or the constants that must be written out."""
    whole_pairs = [[one, two] for one in WHOLE for two in WHOLE if I64 in (one, two)]
    floats = [[PropType(Scalar.F64, nullable=True)] * 2]
    numbers = [[one] for one in (*WHOLE, *REAL)]
    days = [[kind, unit(one)] for kind in (DATE, DATETIME) for one in CALENDAR_UNITS]
    times = [[DATETIME, unit(one)] for one in CLOCK_UNITS]
    both = [*days, *times]
    parts = [one for one in both if one[1].value != "week"]
    return {
        **{name: [*whole_pairs, *floats] for name in "+-*"},
        "/": [*whole_pairs, *floats],
        "%": whole_pairs,
        **dict.fromkeys(("neg", "abs", "floor", "ceil", "to_f64"), numbers),
        "round": [
            *numbers,
            *([one[0], ir.Const(n, I64)] for one in numbers for n in (0, 2, 15)),
        ],
        "concat": [[TEXTS, TEXTS]],
        **{name: [[TEXTS]] for name in ("lower", "upper", "trim")},
        "length": [[TEXTS], [LISTS]],
        "substring": [[TEXTS, I64], [TEXTS, U64], [TEXTS, I64, I64], [TEXTS, U64, I64]],
        "replace": [[TEXTS, TEXTS, TEXTS]],
        "part": [*parts, *([kind, unit("weekday")] for kind in (DATE, DATETIME))],
        "floor_date": [one for one in both if one[1].value != "millisecond"],
        "shift": [[one, count, of] for one, of in both for count in (I64, U64)],
        "elapsed": [[one, one, of] for one, of in both],
        "date": [[DATETIME]],
        "datetime": [[DATE], [DATETIME]],
        "text": [*numbers, [TEXTS], [TRUTHS], [DATE], [DATETIME]],
        "coalesce": [[kind] * n for kind in (*WHOLE, *REAL, TEXTS, DATE, TRUTHS) for n in (2, 3)],
    }


CASES = [(name, args) for name, every in shapes().items() for args in every]


def case_id(case: tuple[str, list[Any]]) -> str:
    name, args = case
    return "-".join([name, *(str(getattr(one, "value", one)) for one in args)])


def test_every_function_of_the_language_has_a_kernel():
    # `if` takes a condition, which is no column.
    assert KERNELS.keys() | {"if"} == FUNCTIONS.keys()
    assert shapes().keys() == KERNELS.keys()


def same(found: Any, expected: Any) -> bool:
    if isinstance(expected, float) and isinstance(found, float):
        if math.isnan(expected):
            return math.isnan(found)
        return found == expected and math.copysign(1, found) == math.copysign(1, expected)
    return type(found) is type(expected) and bool(found == expected)


def assert_column(kind: PropType, column: Column, expected: list[Any], what: Any) -> None:
    """All forms of a column hold the expected values."""
    assert len(column) == len(expected)
    found = from_arrow(kind.as_nullable(), column.array)
    pairs = zip(found, expected, strict=True)
    assert all(same(one, two) for one, two in pairs), (what, found, expected)
    valid = np.ones(len(expected), bool) if column.valid is None else column.valid
    assert valid.tolist() == [value is not None for value in expected]
    if not kind.is_text and not kind.is_list:
        zeros = [0 if value is None else value for value in expected]
        pairs = zip(column.numbers.tolist(), zeros, strict=True)
        assert all(one == two or (math.isnan(one) and math.isnan(two)) for one, two in pairs)
    known = dict(zip(column.codes.tolist(), found, strict=True))
    named = from_arrow(kind.as_nullable(), column.dictionary)
    for code, value in known.items():
        assert value is None if code < 0 else same(named[code], value) or named[code] == value == 0


@pytest.mark.parametrize("case", CASES, ids=case_id)
@settings(max_examples=6, deadline=None)
@given(data=st.data())
def test_a_function_of_columns(case: tuple[str, list[Any]], data: st.DataObject):
    name, shape = case
    size = data.draw(st.integers(0, 6))
    kinds = [one for one in shape if isinstance(one, PropType)]
    rows = [[data.draw(st.none() | values_of(kind)) for _ in range(size)] for kind in kinds]
    space = ArrowSpace(
        [str(at) for at in range(size)],
        {
            f"p{at}": (kind, values)
            for at, (kind, values) in enumerate(zip(kinds, rows, strict=True))
        },
    )
    types = [one if isinstance(one, PropType) else one.type for one in shape]
    type_ = FUNCTIONS[name].result(tuple(types))
    if name == "coalesce":
        type_ = kinds[0]

    def model(*drawn: Any) -> Any:
        given_values = iter(drawn)
        args = [next(given_values) if isinstance(one, PropType) else one.value for one in shape]
        return applied(name, types, args)

    def call(var: str, *constants: Any) -> ir.Apply:
        """The function of properties of a variable; the first ones are constants instead."""
        args: list[ir.Expr] = []
        for at, one in enumerate(shape):
            if not isinstance(one, PropType):
                args.append(one)
            elif at < len(constants):
                args.append(ir.ParamRef(f"c{at}", one))
            else:
                args.append(ir.PropertyOf(var, f"p{at}", one))
        return ir.Apply(name, tuple(args), type_)

    expected = [model(*each) for each in zip(*rows, strict=True)]
    whole = column_of(call("x"), space, {})
    assert_column(type_, whole, expected, rows)

    again = codes_of(*(at % size for at in range(2 * size)) if size else ())
    few = codes_of(*range(size - 1, size))
    for ranked in (False, True):
        for codes in (again, few if size else again):
            found = evaluate(call("x"), OperandRows({"x": space}, {"x": codes}, {}, len(codes)))
            assert_column(type_, found, [expected[code] for code in codes], rows)
        for constants in range(1, len(kinds) + 1):
            for at in range(min(size, 2)):
                given_values = [column[at] for column in rows[:constants]]
                params = {f"c{place}": value for place, value in enumerate(given_values)}
                found = evaluate(
                    call("x", *given_values),
                    OperandRows({"x": space}, {"x": None}, params, size),
                )
                wanted = [
                    model(*given_values, *(column[row] for column in rows[constants:]))
                    for row in range(size)
                ]
                assert_column(type_, found, wanted, (params, rows))
        if not ranked:
            for column in space.columns.values():
                _ = column.codes


@pytest.mark.parametrize("kind", [I64, REAL[1], TEXTS, DATE, TRUTHS], ids=str)
@FEW
@given(data=st.data())
def test_one_value_or_the_other(kind: PropType, data: st.DataObject):
    size = data.draw(st.integers(0, 6))
    columns = [[data.draw(st.none() | values_of(kind)) for _ in range(size)] for _ in range(2)]
    test = [data.draw(st.none() | st.integers(0, 2)) for _ in range(size)]
    space = ArrowSpace(
        [str(at) for at in range(size)],
        {"a": (kind, columns[0]), "b": (kind, columns[1]), "t": (I64, test)},
    )
    a, b = (ir.PropertyOf("x", name, kind) for name in "ab")
    condition = ir.Compare(ir.PropertyOf("x", "t", I64), ">", ir.Const(0, I64))
    for otherwise in ((), (b,)):
        choice = ir.Apply("if", (ir.Truth(condition), a, *otherwise), kind)
        other = columns[1] if otherwise else [None] * size
        expected = [
            one if value is not None and value > 0 else two
            for value, one, two in zip(test, columns[0], other, strict=True)
        ]
        assert_column(kind, column_of(choice, space, {}), expected, (test, columns))
        assert variables_of(choice) == {"x"}
        assert type_of(choice) == kind


def test_values_of_two_variables_meet_in_rows():
    space = ArrowSpace(["a", "b"], {"n": (I64, [1, 2**62])})
    total = ir.Apply("*", (ir.PropertyOf("x", "n", I64), ir.PropertyOf("y", "n", I64)), I64)
    rows = OperandRows(
        {"x": space, "y": space}, {"x": codes_of(0, 0, 1), "y": codes_of(0, 1, 1)}, {}, 3
    )
    assert evaluate(total, rows).array.to_pylist() == [1, 2**62, None]


def test_a_type_and_an_id_are_texts():
    space = ArrowSpace(["a", "b"], {})
    rows = OperandRows({"x": space}, {"x": codes_of(1)}, {}, 1)
    assert evaluate(ir.TypeName("x"), rows).array.to_pylist() == ["Thing"]
    assert evaluate(ir.NodeId("x"), rows).array.to_pylist() == ["b"]
    assert evaluate(ir.EdgeId("x"), rows).array.to_pylist() == ["b"]


def test_zeros_of_both_signs_have_their_own_texts():
    numbers = [0.0, -0.0] * 3
    space = ArrowSpace([str(at) for at in range(6)], {"n": (REAL[1], numbers)})
    _ = space.columns["n"].codes
    found = column_of(ir.Apply("text", (ir.PropertyOf("x", "n", REAL[1]),), TEXTS), space, {})
    assert found.array.to_pylist() == ["0.0", "-0.0"] * 3


def test_many_texts_are_mapped_as_python_maps_them():
    texts = ["straße", "ΟΔΟΣ", "plain", None, "ǅ", "  x\u00a0", ""] * 1000
    space = ArrowSpace([str(at) for at in range(len(texts))], {"t": (TEXTS, texts)})
    for name, mapped in (("lower", str.lower), ("upper", str.upper), ("trim", str.strip)):
        found = column_of(ir.Apply(name, (ir.PropertyOf("x", "t", TEXTS),), TEXTS), space, {})
        expected = [None if text is None else mapped(text) for text in texts]
        assert found.array.to_pylist() == expected
