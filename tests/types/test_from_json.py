import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.types import BlobAddress, PropType, Unfit, from_json, param_from_json
from tests.types.stored import PER_TYPE, TYPES

NAN, INF = math.nan, math.inf
MAX_F32 = 3.4028234663852886e38


def f32(number):
    return struct.unpack("<f", struct.pack("<f", number))[0]


def fits(read, text, value, expected):
    stored = read(PropType.parse(text), value)
    assert stored == expected
    assert type(stored) is type(expected)
    if isinstance(expected, list):
        assert [type(item) for item in stored] == [type(item) for item in expected]


# What both data records and parameters accept: type, JSON, stored value.
BOTH = [
    ("String", "", ""),
    ("String", "naïve 🦉 \x00", "naïve 🦉 \x00"),
    ("enum(a, b)", "b", "b"),
    ("enum(a, b)", "outside", "outside"),
    ("Bool", True, True),
    ("Bool", False, False),
    ("I32", -(2**31), -(2**31)),
    ("I32", 2**31 - 1, 2**31 - 1),
    ("I64", -(2**63), -(2**63)),
    ("I64", 2**63 - 1, 2**63 - 1),
    ("U32", 0, 0),
    ("U32", 2**32 - 1, 2**32 - 1),
    ("U64", 2**64 - 1, 2**64 - 1),
    ("U64", 2**53 + 1, 2**53 + 1),
    ("F64", 3, 3.0),
    ("F64", -0.5, -0.5),
    ("F64", 1e308, 1e308),
    ("F64", 10**300, 1e300),
    ("F32", 0.1, f32(0.1)),
    ("F32", 7, 7.0),
    ("F32", 1e-60, 0.0),
    ("F32", MAX_F32, MAX_F32),
    ("F32", 3.4028235e38, MAX_F32),
    ("Date", "1970-01-02", 1),
    ("DateTime", "1970-01-01T00:00:01Z", 1000),
    ("DateTime", "1970-01-02", 86_400_000),
    ("[String]", [], []),
    ("[I32]", [1, 2], [1, 2]),
    ("[F32]", [1, 0.1], [1.0, f32(0.1)]),
    ("[Date]", ["1970-01-02"], [1]),
    ("Vector(3)", [1, 0.1, -2.5], [1.0, f32(0.1), -2.5]),
    ("String?", None, None),
    ("[I32]?", None, None),
    ("Vector(2)?", None, None),
    ("Blob?", None, None),
]

# What both refuse: type, JSON, a word of the reason.
NEITHER = [
    *(("String", value, "string") for value in (1, 1.0, True, [], {}, ["a"])),
    ("String", "\ud800", "surrogate"),
    ("enum(a, b)", 1, "string"),
    *(("Bool", value, "true or false") for value in (0, 1, "true", "false", "", [], {})),
    *((name, True, "integer") for name in ("I32", "I64", "U32", "U64")),
    *((name, 52.5, "integer") for name in ("I32", "I64", "U32", "U64")),
    ("I64", 52.0, "integer"),
    ("I64", [1], "integer"),
    ("I64", "", "integer"),
    ("I64", "1.0", "integer"),
    ("I64", "0x10", "integer"),
    ("I32", 3000000000, "expected an integer in the range of I32, got 3000000000"),
    ("I32", -(2**31) - 1, "I32"),
    ("I64", 2**63, "I64"),
    ("U32", -1, "U32"),
    ("U32", 2**32, "U32"),
    ("U64", -1, "U64"),
    ("U64", 2**64, "U64"),
    *(("F64", value, "number") for value in (True, "1.5", "NaN", [], {}, NAN, INF, -INF)),
    ("F64", 10**400, "F64"),
    ("F64", -(10**400), "F64"),
    ("F32", 3.5e38, "F32"),
    ("F32", -3.5e38, "F32"),
    ("F32", 10**39, "F32"),
    ("F32", NAN, "finite"),
    *(("Date", value, "date") for value in (True, 1.0, [], {}, "1970-01-01T00:00:00Z")),
    ("Date", "2015-02-30", '"2015-02-30"'),
    *(("DateTime", value, "date and time") for value in (True, 1.0, [], {}, "today")),
    ("DateTime", "2015-02-30", '"2015-02-30"'),
    *(("[I32]", value, "array") for value in (1, "1", {}, True)),
    ("[I32]", [1, "x"], "element 2"),
    ("[I32]", [[1]], "element 1"),
    ("[I32]", [1, 2.5], "element 2"),
    ("[String]?", ["a", 1], "element 2"),
    ("Vector(2)", [1], "expected 2 numbers, got 1"),
    ("Vector(2)", [1, 2, 3], "expected 2 numbers, got 3"),
    ("Vector(2)", [], "expected 2 numbers, got 0"),
    *(("Vector(2)", [1, item], "must be numeric") for item in (None, "1", True, [], {})),
    ("Vector(2)", [1, NAN], "element 2: expected a finite"),
    ("Vector(2)", [INF, 1], "element 1: expected a finite"),
    ("Vector(2)", [1, 1e39], "element 2.*F32"),
    ("Vector(2)", [10**400, 1], "element 1.*F32"),
    ("Vector(2)", "[1, 2]", "array of 2 numbers"),
    ("Vector(2)", 1, "array of 2 numbers"),
    *(("Blob", value, "string") for value in (1, [], {}, True)),
    *((name, None, "required.*null") for name in ("String", "I32", "[I32]", "Vector(2)", "Blob")),
]

# Where the two part.
DATA_ONLY = [
    ("Date", 1, 1),
    ("Date", -719162, -719162),
    ("DateTime", 1, 1),
    ("DateTime", 253402300799999, 253402300799999),
    ("[I32]", [1, None], [1, None]),
    ("[Date]", [None, 3, "1970-01-02"], [None, 3, 1]),
    ("Blob", "base64:aHVsbA==", b"hull"),
    ("Blob", "base64:", b""),
    ("Blob", "base64:////", b"\xff\xff\xff"),
    ("Blob", "s3://bucket/key", BlobAddress("s3://bucket/key")),
    ("Blob", "Base64:AA==", BlobAddress("Base64:AA==")),
]
PARAM_ONLY = [
    ("I64", "007", 7),
    ("I64", "-7", -7),
    ("I64", "+7", 7),
    ("I32", "-2147483648", -(2**31)),
    ("U64", "18446744073709551615", 2**64 - 1),
    ("U32", "-0", 0),
    ("I64", "0" * 5000 + "7", 7),
    ("[I64]", ["1", 2], [1, 2]),
    ("Blob", "base64:AA==", "base64:AA=="),
    ("Blob", "anything", "anything"),
]
DATA_REFUSES = [
    ("I64", "7", "integer"),
    ("Date", 2932897, "9999"),
    ("Date", -719163, "0001"),
    ("DateTime", 253402300800000, "9999"),
    *(("Blob", f"base64:{text}", "base64") for text in ("A", "AA", "AA=", "AA==A", "A A=", "é===")),
    *(("Blob", f"base64:{text}", "base64") for text in ("AB==", "_-__", "=", "====", "AA==\n")),
    ("Blob", "\udfff", "surrogate"),
]
PARAM_REFUSES = [
    ("Date", 1, "string"),
    ("DateTime", 1, "string"),
    ("[I32]", [1, None], "element 2"),
    ("[String]", [None], "element 1"),
    ("I32", "2147483648", "I32"),
    ("U64", "-1", "U64"),
    ("U64", "9" * 5000, "U64"),
    ("I64", " 7", "integer"),
    ("I64", "+-7", "integer"),
    ("I64", "٣", "integer"),
    ("F64", "7", "number"),
]


@pytest.mark.parametrize(("text", "value", "expected"), BOTH + DATA_ONLY)
def test_data_records_accept(text, value, expected):
    fits(from_json, text, value, expected)


@pytest.mark.parametrize(("text", "value", "reason"), NEITHER + DATA_REFUSES)
def test_data_records_refuse(text, value, reason):
    with pytest.raises(Unfit, match=reason):
        from_json(PropType.parse(text), value)


@pytest.mark.parametrize(("text", "value", "expected"), BOTH + PARAM_ONLY)
def test_parameters_accept(text, value, expected):
    fits(param_from_json, text, value, expected)


@pytest.mark.parametrize(("text", "value", "reason"), NEITHER + PARAM_REFUSES)
def test_parameters_refuse(text, value, reason):
    with pytest.raises(Unfit, match=reason):
        param_from_json(PropType.parse(text), value)


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("I64", 52.0, 52),
        ("I32", -0.0, 0),
        ("U64", 9007199254740991.0, 2**53 - 1),
        ("I64", 2**53 - 1, 2**53 - 1),
        ("I64", -(2**53) + 1, -(2**53) + 1),
        ("I64", "9007199254740993", 2**53 + 1),
        ("U64", "18446744073709551615", 2**64 - 1),
        ("[I64]", [1.0, "2"], [1, 2]),
        ("F64", 1e300, 1e300),
    ],
)
def test_javascript_safe_parameters_accept(text, value, expected):
    stored = param_from_json(PropType.parse(text), value, js_safe=True)
    assert stored == expected
    assert type(stored) is type(expected)


@pytest.mark.parametrize(
    ("text", "value", "reason"),
    [
        ("I64", 52.5, "integer"),
        ("I64", 2**53, "string"),
        ("I64", -(2**53), "string"),
        ("U64", 2.0**53, "string"),
        ("U64", 2**64, "U64"),
        ("I32", 3e9, "I32"),
        ("I64", NAN, "integer"),
        ("I64", INF, "integer"),
        ("[I64]", [1, 2**53], "element 2"),
        ("I64", True, "integer"),
    ],
)
def test_javascript_safe_parameters_refuse(text, value, reason):
    with pytest.raises(Unfit, match=reason):
        param_from_json(PropType.parse(text), value, js_safe=True)


json_scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["base64:", "base64:AA", "1970-01-01", "9999-12-31T23:59:59-12:00", "\ud800"])
    | st.text("0123456789-:TZ.+ ", max_size=30)
)
json_values = st.recursive(
    json_scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


@pytest.mark.parametrize("t", TYPES, ids=str)
@PER_TYPE
@given(json_values)
def test_reading_raises_unfit_and_nothing_else(t, value):
    readers = (
        from_json,
        param_from_json,
        lambda t, value: param_from_json(t, value, js_safe=True),
    )
    for read in readers:
        try:
            read(t, value)
        except Unfit as unfit:
            str(unfit).encode()


@pytest.mark.parametrize("text", ["I64", "F64", "F32", "Date", "DateTime", "String", "Vector(1)"])
def test_an_integer_too_long_for_python_to_print_is_unfit(text):
    with pytest.raises(Unfit):
        from_json(PropType.parse(text), 10**5000)


def test_a_value_nested_too_deep_to_print_is_unfit():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    for text in ("String", "[I32]", "Vector(1)"):
        with pytest.raises(Unfit):
            from_json(PropType.parse(text), deep)


def test_a_long_value_is_not_repeated_in_full():
    with pytest.raises(Unfit) as caught:
        from_json(PropType.parse("Date"), "x" * 1_000_000)
    assert len(str(caught.value)) < 200
