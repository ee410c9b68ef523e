import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.types import BlobAddress, PropType, from_json, round_f32, to_json
from tests.types.same_image import same_image
from tests.types.stored import CALM, NULLABLE, PER_TYPE, external_blobs, values

NAN, INF = math.nan, math.inf
BLOB = PropType.parse("Blob")


@pytest.mark.parametrize(
    ("text", "stored", "expected"),
    [
        ("String", "é", "é"),
        ("enum(a, b)", "a", "a"),
        ("Bool", False, False),
        ("U64", 2**64 - 1, 2**64 - 1),
        ("I64", -(2**63), -(2**63)),
        ("F64", 0.1, 0.1),
        ("F32", 0.10000000149011612, 0.10000000149011612),
        ("F64", NAN, "NaN"),
        ("F32", INF, "Infinity"),
        ("F64", -INF, "-Infinity"),
        ("Date", 0, "1970-01-01"),
        ("Date", -719162, "0001-01-01"),
        ("DateTime", 1, "1970-01-01T00:00:00.001Z"),
        ("DateTime", -1, "1969-12-31T23:59:59.999Z"),
        ("[Date]", [0, None], ["1970-01-01", None]),
        ("[F64]", [NAN, 1.5], ["NaN", 1.5]),
        ("[String]", [], []),
        ("Vector(3)", [1.5, NAN, -INF], [1.5, None, None]),
        ("Blob", b"hull", "base64:aHVsbA=="),
        ("Blob", b"", "base64:"),
        ("Blob", BlobAddress("file:///a"), "file:///a"),
        ("[I32]?", None, None),
        ("Vector(3)?", None, None),
    ],
)
def test_json_of_a_stored_value(text, stored, expected):
    assert to_json(PropType.parse(text), stored) == expected


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        (2**53 - 1, 2**53 - 1),
        (2**53, "9007199254740992"),
        (-(2**53) + 1, -(2**53) + 1),
        (-(2**53), "-9007199254740992"),
    ],
)
def test_javascript_safe_integers(stored, expected):
    assert to_json(PropType.parse("I64"), stored, js_safe=True) == expected
    assert to_json(PropType.parse("[I64]"), [stored], js_safe=True) == [expected]
    assert to_json(PropType.parse("I64"), stored) == stored


@pytest.mark.parametrize("t", NULLABLE, ids=str)
@PER_TYPE
@given(st.data())
def test_what_is_written_reads_back(t, data):
    stored = data.draw(values(t))
    written = json.loads(json.dumps(to_json(t, stored), allow_nan=False))
    assert from_json(t, written) == stored


@CALM
@given(external_blobs)
def test_an_address_reads_back(blob):
    assert from_json(BLOB, to_json(BLOB, blob)) == blob


@CALM
@given(st.floats(allow_nan=False))
def test_rounding_to_f32_is_stable_and_infinite_beyond_the_range(number):
    rounded = round_f32(number)
    assert round_f32(rounded) == rounded
    assert math.isinf(rounded) == (abs(number) >= (2 - 2**-24) * 2.0**127)
    assert math.copysign(1, rounded) == math.copysign(1, number)


def test_rounding_takes_any_integer():
    assert round_f32(16777217) == 16777216.0
    assert round_f32(10**400) == INF
    assert round_f32(-(10**400)) == -INF


@pytest.mark.parametrize(
    ("text", "a", "b"),
    [
        ("F64", NAN, -NAN),
        ("F32", 0.0, -0.0),
        ("[F64]", [NAN, None, 0.0], [NAN, None, -0.0]),
        ("Vector(2)", [NAN, 0.0], [NAN, -0.0]),
        ("String?", None, None),
        ("Blob", b"ab", b"ab"),
        ("Blob", BlobAddress("a"), BlobAddress("a")),
    ],
)
def test_the_same_image(text, a, b):
    assert same_image(PropType.parse(text), a, b)


@pytest.mark.parametrize(
    ("text", "a", "b"),
    [
        ("String?", None, ""),
        ("[String]?", None, []),
        ("[String]", [], [None]),
        ("[String]", [None], [""]),
        ("[I32]", [1, 2], [2, 1]),
        ("[I32]", [1], [1, 1]),
        ("F64?", None, NAN),
        ("F64", NAN, 1.0),
        ("F64?", 0.0, None),
        ("Vector(2)", [1.0, 2.0], [1.0, 3.0]),
        ("Blob?", None, b""),
        ("Blob", b"a", BlobAddress("a")),
        ("Blob", BlobAddress("a"), BlobAddress("a?v=2")),
    ],
)
def test_another_image(text, a, b):
    assert not same_image(PropType.parse(text), a, b)
    assert not same_image(PropType.parse(text), b, a)
