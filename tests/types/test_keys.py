import json
import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.types import PropType, Unfit, composite_id, derive_id, key_text, round_f32
from tests.types.stored import CALM, TEXT, floats

F32, F64 = PropType.parse("F32"), PropType.parse("F64")
I64, STRING = PropType.parse("I64"), PropType.parse("String")


def f32(number):
    return struct.unpack("<f", struct.pack("<f", number))[0]


@pytest.mark.parametrize(
    ("text", "stored", "expected"),
    [
        ("String", "a b\n", "a b\n"),
        ("String", "", ""),
        ("enum(red, blue)", "red", "red"),
        ("I32", -7, "-7"),
        ("U64", 2**64 - 1, "18446744073709551615"),
        ("Bool", True, "true"),
        ("Bool", False, "false"),
        ("Date", 11016, "11016"),
        ("DateTime", -1, "-1"),
        ("F64", 5.0, "5"),
        ("F64", 0.0, "0"),
        ("F64", -0.0, "0"),
        ("F32", -0.0, "0"),
        ("F64", 0.1, "0.1"),
        ("F32", f32(0.1), "0.1"),
        ("F64", f32(0.1), "0.10000000149011612"),
        ("F64", 1e22, "1" + "0" * 22),
        ("F64", 1e-7, "0.0000001"),
        ("F32", f32(1e-7), "0.0000001"),
        ("F64", -1234.5, "-1234.5"),
        ("F64", 100.0, "100"),
        ("F64", 5e-324, "0." + "0" * 323 + "5"),
        ("F32", f32(3.4028235e38), "34028235" + "0" * 31),
        ("F32", f32(16777216.0), "16777216"),
        ("F32", 2.0**-96, "0." + "0" * 28 + "12621775"),
    ],
)
def test_canonical_text(text, stored, expected):
    assert key_text(PropType.parse(text), stored) == expected


@pytest.mark.parametrize("t", [F32, F64])
@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_float_that_is_no_number_is_no_key(t, number):
    with pytest.raises(Unfit, match="finite"):
        key_text(t, number)


@pytest.mark.parametrize("text", ["[I32]", "Vector(2)", "Blob"])
def test_types_that_cannot_be_keys(text):
    with pytest.raises(Unfit, match="key"):
        key_text(PropType.parse(text), [1.0, 2.0])


def test_null_is_no_key():
    with pytest.raises(Unfit, match="null"):
        key_text(STRING.as_nullable(), None)


@CALM
@given(floats(F64.scalar))
def test_f64_text_round_trips_without_exponent(number):
    text = key_text(F64, number)
    assert float(text) == number
    assert "e" not in text
    assert not text.endswith(".0")
    assert text != "-0"


@CALM
@given(floats(F32.scalar))
def test_f32_text_round_trips_and_no_shorter_one_does(number):
    text = key_text(F32, number)
    assert round_f32(float(text)) == number
    assert "e" not in text
    digits = len(text.replace(".", "").strip("-0"))
    assert digits <= 9
    if digits > 1:
        assert round_f32(float(f"{number:.{digits - 2}e}")) != number


def test_one_member_is_its_own_id():
    assert derive_id([(I64, 7)]) == "7"
    assert derive_id([(STRING, '["7"]')]) == '["7"]'


def test_several_members_are_a_compact_json_array_of_texts():
    assert derive_id([(I64, 7), (STRING, "acme")]) == '["7","acme"]'
    assert derive_id([(STRING, 'é"\\'), (F64, 1.0)]) == '["é\\"\\\\","1"]'


@CALM
@given(st.lists(TEXT, min_size=2, max_size=4))
def test_composite_ids_never_collide(texts):
    assert json.loads(composite_id(texts)) == texts
