"""The JSON texts of a column are those that `json.dumps` writes for its values, byte for byte."""

import json
import math
import struct

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.types import (
    INTEGER_RANGES,
    PropType,
    Scalar,
    Unfit,
    column_to_json_text,
    json_string_texts,
    to_arrow,
    to_json,
)
from tests.types.stored import NULLABLE, PER_TYPE, values
from tests.types.test_columns import cut

TEXT_TYPES = [t for t in NULLABLE if not t.is_blob]


def dumped(t, value):
    return json.dumps(to_json(t, value), ensure_ascii=False, separators=(",", ":"))


@pytest.mark.parametrize("t", TEXT_TYPES, ids=str)
@PER_TYPE
@given(st.data())
def test_texts_are_those_of_json_dumps(t, data):
    stored = data.draw(st.lists(values(t), max_size=8))
    texts = column_to_json_text(t, data.draw(cut(t, stored)))
    texts.validate(full=True)
    assert texts.to_pylist() == [dumped(t, value) for value in stored]


@pytest.mark.parametrize("scalar", [Scalar.F32, Scalar.F64], ids=str)
@given(bits=st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=64))
def test_floats_of_any_bits_are_written_as_python_writes_them(scalar, bits):
    wide = scalar is Scalar.F64
    size, code = (8, "d") if wide else (4, "f")
    raw = b"".join((number % 2 ** (8 * size)).to_bytes(size, "little") for number in bits)
    stored = list(struct.unpack(f"<{len(bits)}{code}", raw))
    for t in (PropType(scalar), PropType(scalar, is_list=True)):
        column = to_arrow(t, [stored] if t.is_list else stored)
        wanted = [dumped(t, value) for value in ([stored] if t.is_list else stored)]
        assert column_to_json_text(t, column).to_pylist() == wanted


EDGES = [
    0.0, -0.0, 1.0, -1.0, 0.1, 1e-4, 9.999e-5, -1e-5, 1e-7, 5e-324, 2.2250738585072014e-308, 1e15,
    1e15 - 0.125, 999999999999999.9, -1e15, 1e16, 1e17, 123456789012345680.0, 1e22, 1e23,
    1.7976931348623157e308, 2.0**53, 2.0**53 + 2, 1 / 3, 100.0, 1.5, math.pi * 1e14,
]  # fmt: skip


def test_floats_at_the_edges_of_the_two_spellings():
    t = PropType(Scalar.F64)
    assert column_to_json_text(t, to_arrow(t, EDGES)).to_pylist() == [
        repr(number) for number in EDGES
    ]


def test_numbers_that_json_has_no_number_for():
    stored = [math.nan, math.inf, -math.inf, None, 2.5]
    single = column_to_json_text(PropType(Scalar.F64, nullable=True), pa.array(stored))
    assert single.to_pylist() == ['"NaN"', '"Infinity"', '"-Infinity"', "null", "2.5"]
    vector = PropType.vector(5)
    column = pa.array([[math.nan, math.inf, -math.inf, None, 2.5]], vector.arrow_type())
    assert column_to_json_text(vector, column).to_pylist() == ["[null,null,null,null,2.5]"]


@pytest.mark.parametrize("scalar", INTEGER_RANGES, ids=str)
def test_integers_are_whole_numbers_over_their_whole_range(scalar):
    low, high = INTEGER_RANGES[scalar]
    t = PropType(scalar, nullable=True)
    stored = [low, high, 0, None, 2**53 + 1 if high > 2**53 else 7]
    texts = column_to_json_text(t, to_arrow(t, stored)).to_pylist()
    assert texts == ["null" if number is None else str(number) for number in stored]


def test_every_character_that_json_escapes():
    every = "".join(map(chr, range(0x100))) + "\u2028\u2029\ufeff\uffff\U0001f600\U0010ffff"
    stored = [*every, every, "", '\\"\\\\n\n\\u0007', None]
    t = PropType(Scalar.STRING, nullable=True)
    assert column_to_json_text(t, to_arrow(t, stored)).to_pylist() == [
        dumped(t, value) for value in stored
    ]
    # Characters outside of a slice are not looked for in vain, those inside are found.
    part = to_arrow(t, ["\n", "a", "b", '"']).slice(1, 2)
    assert json_string_texts(part).to_pylist() == ['"a"', '"b"']
    assert json_string_texts(to_arrow(t, [None, "x"])).to_pylist() == [None, '"x"']


def test_lists_of_every_shape():
    t = PropType(Scalar.STRING, is_list=True, nullable=True)
    stored = [[], None, [None], ["", "a,b", "]"], ["x"] * 300]
    assert column_to_json_text(t, to_arrow(t, stored)).to_pylist() == [
        dumped(t, value) for value in stored
    ]
    dates = PropType(Scalar.DATE, is_list=True)
    assert column_to_json_text(dates, to_arrow(dates, [[0, 19782]])).to_pylist() == [
        '["1970-01-01","2024-02-29"]'
    ]


def test_a_blob_has_no_text():
    with pytest.raises(Unfit, match="no JSON text"):
        column_to_json_text(PropType(Scalar.BLOB), pa.array([b""], pa.large_binary()))
