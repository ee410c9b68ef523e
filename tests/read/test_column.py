"""Columns against plain Python: validity, numbers, ranks of distinct values."""

from __future__ import annotations

import datetime as dt
import math
import operator
import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.read.values.column import CALL_ROWS, Column, Part, one_array
from omnigraph.read.values.comparison import compared
from omnigraph.types import PropType, Scalar

TEXTS = st.text(max_size=3) | st.sampled_from(["", "a", "\uffff", "\U00010000", "é", "a\0"])
F32 = st.floats(width=32)
SCALARS = {
    Scalar.STRING: TEXTS,
    Scalar.BOOL: st.booleans(),
    Scalar.I32: st.integers(-(2**31), 2**31 - 1) | st.integers(-3, 3),
    Scalar.I64: st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3),
    Scalar.U32: st.integers(0, 2**32 - 1) | st.integers(0, 3),
    Scalar.U64: st.integers(0, 2**64 - 1) | st.integers(2**64 - 3, 2**64 - 1),
    Scalar.F32: F32 | st.sampled_from([0.0, -0.0, math.nan]),
    Scalar.F64: st.floats() | st.sampled_from([0.0, -0.0, math.nan]),
    Scalar.DATE: st.dates(),
    Scalar.DATETIME: st.integers(-(2**40), 2**40),
}


def place(value):
    """The place of a value in the order of the language; lists item by item."""
    if isinstance(value, list):
        return tuple(place(item) for item in value)
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value


def check(type_, values):
    array = pa.array(values, type_.arrow_type())
    column = Column(type_, array)
    stored = array.to_pylist()
    order = sorted({place(value) for value in stored if value is not None})
    expected = [-1 if value is None else order.index(place(value)) for value in stored]
    assert not column.has_codes
    assert column.codes.dtype == np.int32
    assert column.codes.tolist() == expected
    assert column.has_codes
    assert [place(value) for value in column.dictionary.to_pylist()] == order
    assert column.dictionary.type == array.type
    if None in stored:
        assert column.valid.tolist() == [value is not None for value in stored]
    else:
        assert column.valid is None
    return column


@pytest.mark.parametrize("scalar", SCALARS, ids=str)
def test_codes_are_ranks_of_distinct_values(scalar):
    @settings(deadline=None)
    @given(st.lists(st.none() | SCALARS[scalar], max_size=12))
    def run(values):
        check(PropType(scalar, nullable=True), values)

    run()


@pytest.mark.parametrize("scalar", [Scalar.STRING, Scalar.I64, Scalar.F32], ids=str)
def test_lists_are_ranked_item_by_item(scalar):
    few = st.sampled_from({Scalar.STRING: ["", "a", "b"]}.get(scalar, [0, 1, 2]))

    @settings(deadline=None)
    @given(st.lists(st.none() | st.lists(few, max_size=3), max_size=12))
    def run(values):
        check(PropType(scalar, nullable=True, is_list=True), values)

    run()


@settings(deadline=None)
@given(st.lists(st.none() | st.lists(F32, min_size=2, max_size=2), max_size=12))
def test_vectors_are_ranked_item_by_item(values):
    check(PropType(Scalar.F32, nullable=True, dim=2), values)


@pytest.mark.parametrize(
    ("scalar", "values", "numbers"),
    [
        (Scalar.I64, [3, None, -(2**63)], [3, 0, -(2**63)]),
        (Scalar.U64, [2**64 - 1, None], [2**64 - 1, 0]),
        (Scalar.BOOL, [True, None, False], [True, False, False]),
        (Scalar.F64, [1.5, None], [1.5, 0.0]),
        (Scalar.F32, [0.5, None], [0.5, 0.0]),
        (Scalar.DATE, [dt.date(1970, 1, 3), None], [2, 0]),
        (Scalar.DATETIME, [dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC), None], [1000, 0]),
    ],
)
def test_numbers(scalar, values, numbers):
    type_ = PropType(scalar, nullable=True)
    column = Column(type_, pa.array(values, type_.arrow_type()))
    assert column.numbers.tolist() == numbers


def test_a_slice_is_read_from_its_own_start():
    array = pa.array([["x"], ["b"], None, ["a"], ["b"]], pa.list_(pa.string()))[1:]
    column = Column(PropType(Scalar.STRING, nullable=True, is_list=True), array)
    assert column.codes.tolist() == [1, -1, 0, 1]
    numbers = pa.array([9, None, 7, 8], pa.int64())[1:]
    assert Column(PropType(Scalar.I64, nullable=True), numbers).codes.tolist() == [-1, 0, 1]


def test_many_values_of_a_narrow_and_of_a_wide_range_agree():
    random = np.random.default_rng(5)
    values = random.integers(-500, 500, 5000)
    narrow = Column(PropType(Scalar.I64), pa.array(values))
    wide = Column(PropType(Scalar.I64), pa.array(values * 10**15))
    assert np.array_equal(narrow.codes, wide.codes)
    assert narrow.dictionary.to_pylist() == sorted(set(values.tolist()))


def test_bytes_grow_with_what_is_made():
    column = Column(
        PropType(Scalar.STRING), pa.array([struct.pack("<I", i).hex() for i in range(99)])
    )
    before = column.nbytes
    assert before >= 99 * 8
    assert column.codes.nbytes == 99 * 4
    assert column.nbytes >= before + 99 * 4


def test_chunks_become_one_array():
    chunks = pa.chunked_array([["a"], [], ["b", None]], pa.string())
    assert one_array(chunks).equals(pa.array(["a", "b", None]))
    assert one_array(pa.chunked_array([], pa.string())).equals(pa.array([], pa.string()))


@pytest.mark.parametrize(
    ("kind", "values", "wanted"),
    [
        (PropType(Scalar.STRING), ["b", None, "a", "c", "a"], "b"),
        (PropType(Scalar.I64), [5, None, -3, 2**62, -3], 5),
    ],
)
def test_a_part_compares_like_its_values(kind, values, wanted):
    codes = np.array([4, 1, 0, 0, 3], np.int32)
    taken = [values[code] for code in codes]
    whole = Column(kind, pa.array(values, kind.arrow_type()))
    for _ in range(3):  # by the values, then by the codes that the whole has made
        part = Part(whole, codes)
        assert len(part) == len(taken)
        assert part.array.to_pylist() == taken
        for op, holds in (("=", operator.eq), ("!=", operator.ne), ("<", operator.lt)):
            expected = [value is not None and holds(value, wanted) for value in taken]
            assert compared(part, op, wanted).tolist() == expected, op
    assert whole.has_codes == (kind.scalar is Scalar.STRING)


def test_codes_are_made_once_parts_were_compared_as_often_as_the_whole():
    whole = Column(PropType(Scalar.STRING), pa.array(["a"] * 4 * (CALL_ROWS + 15)))
    part = Part(whole, np.zeros(15, np.int32))
    assert [part.is_worth_codes() for _ in range(5)] == [False, False, False, False, True]
