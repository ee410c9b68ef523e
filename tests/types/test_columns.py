import math

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.types import (
    BlobAddress,
    PropType,
    Scalar,
    Unfit,
    column_to_json,
    columns_equal,
    derive_id,
    derive_id_column,
    from_arrow,
    key_text,
    key_text_column,
    to_arrow,
    to_json,
)
from tests.types.same_image import same_image
from tests.types.stored import CALM, KEY_TYPES, NULLABLE, PER_TYPE, values

NAN = math.nan


def same_rows(t, a, b):
    return len(a) == len(b) and all(same_image(t, x, y) for x, y in zip(a, b, strict=True))


def rows(t, finite=False):
    return st.lists(values(t, finite), max_size=8)


@st.composite
def cut(draw, t, stored):
    """The same rows as an array, as a slice of a longer one, or in chunks."""
    array = to_arrow(t, stored)
    match draw(st.integers(0, 2)):
        case 0:
            return array
        case 1:
            return pa.concat_arrays([array, array, array]).slice(len(array), len(array))
    at = draw(st.integers(0, len(array)))
    return pa.chunked_array([array.slice(0, at), array.slice(at)], type=t.arrow_type())


@pytest.mark.parametrize("t", NULLABLE, ids=str)
@PER_TYPE
@given(st.data())
def test_columns_hold_the_stored_values(t, data):
    stored = data.draw(rows(t))
    array = to_arrow(t, stored)
    array.validate(full=True)
    assert array.type == t.arrow_type()
    read = from_arrow(t, data.draw(cut(t, stored)))
    assert same_rows(t, read, stored)
    assert list(map(type, read)) == list(map(type, stored))


@pytest.mark.parametrize("t", NULLABLE, ids=str)
@PER_TYPE
@given(st.data(), st.booleans())
def test_json_of_a_column_is_the_json_of_its_values(t, data, js_safe):
    stored = data.draw(rows(t))
    found = column_to_json(t, data.draw(cut(t, stored)), js_safe)
    assert repr(found) == repr([to_json(t, value, js_safe) for value in stored])


@pytest.mark.parametrize("t", KEY_TYPES, ids=str)
@CALM
@given(st.data())
def test_key_text_of_a_column_is_the_key_text_of_its_values(t, data):
    stored = data.draw(rows(t, finite=True))
    found = key_text_column(t, data.draw(cut(t, stored)))
    assert found.type == pa.utf8()
    assert found.to_pylist() == [key_text(t, value) for value in stored]


@pytest.mark.parametrize(("name", "exponents"), [("F32", (-149, 128)), ("F64", (-1074, 1024))])
def test_key_text_agrees_on_the_powers_of_two(name, exponents):
    # There the two gaps to the neighbouring floats differ, so ways to find the shortest text do.
    t = PropType.parse(name)
    stored = [math.ldexp(1.0, exponent) for exponent in range(*exponents)]
    found = key_text_column(t, to_arrow(t, stored)).to_pylist()
    assert found == [key_text(t, value) for value in stored]


@pytest.mark.parametrize("t", NULLABLE, ids=str)
@PER_TYPE
@given(st.data())
def test_image_equality_of_columns_is_that_of_their_values(t, data):
    left = data.draw(rows(t))
    # Half of the rows are kept, so that both verdicts are drawn.
    right = [value if data.draw(st.booleans()) else data.draw(values(t, False)) for value in left]
    found = columns_equal(t, data.draw(cut(t, left)), data.draw(cut(t, right)))
    expected = [same_image(t, a, b) for a, b in zip(left, right, strict=True)]
    assert found.to_pylist() == expected


@pytest.mark.parametrize(
    ("text", "left", "right", "expected"),
    [
        ("String?", ["", None, None, "a"], [None, "", None, "a"], [False, False, True, True]),
        ("F32?", [NAN, -0.0, None, NAN], [NAN, 0.0, NAN, 0.0], [True, True, False, False]),
        ("F64?", [NAN, -0.0, None, NAN], [NAN, 0.0, NAN, 0.0], [True, True, False, False]),
        (
            "[String]?",
            [[], None, [None], ["a", ""]],
            [None, None, [], ["a", ""]],
            [False, True, False, True],
        ),
        ("[I32]", [[1, 2], [3], [], [4]], [[1], [2, 3], [], [4]], [False, False, True, True]),
        (
            "[F64]",
            [[NAN], [-0.0], [None], [1.0]],
            [[NAN], [0.0], [NAN], [1.0]],
            [True, True, False, True],
        ),
        ("Vector(2)?", [[1, 2], None, [NAN, 0]], [[1, 3], None, [NAN, -0.0]], [False, True, True]),
        ("Blob?", [b"", None, b"a"], [None, None, b"a"], [False, True, True]),
    ],
)
def test_image_equality_of_columns(text, left, right, expected):
    t = PropType.parse(text)
    found = columns_equal(t, to_arrow(t, left), to_arrow(t, right)).to_pylist()
    assert found == expected


def test_columns_of_unequal_length_are_not_compared():
    t = PropType.parse("I32")
    with pytest.raises(ValueError, match="1 and 2 rows"):
        columns_equal(t, to_arrow(t, [1]), to_arrow(t, [1, 2]))


def test_storage_that_only_holds_the_values_differently_is_taken():
    t = PropType.parse("[String]?")
    array = pa.array([["a"], None], pa.large_list(pa.field("element", pa.large_utf8())))
    assert from_arrow(t, array) == [["a"], None]
    assert column_to_json(PropType.parse("String"), pa.array(["a"]).dictionary_encode()) == ["a"]


@pytest.mark.parametrize("name", ["Date", "DateTime"])
def test_a_column_of_unprintable_dates_is_unfit(name):
    t = PropType.parse(name)
    array = pa.array([0, 10**7 if t.scalar is Scalar.DATE else 10**15], t.arrow_type())
    with pytest.raises(Unfit, match="9999"):
        column_to_json(t, array)


def test_null_key_texts_stay_null_but_are_no_ids():
    t = PropType.parse("F64?")
    array = to_arrow(t, [1e30, None, 0.5])
    assert key_text_column(t, array).to_pylist() == ["1" + "0" * 30, None, "0.5"]
    with pytest.raises(Unfit, match="null"):
        derive_id_column([(t, array)])


@pytest.mark.parametrize("number", [NAN, math.inf])
def test_a_float_that_is_no_number_is_no_key(number):
    t = PropType.parse("F32?")
    with pytest.raises(Unfit, match="finite"):
        key_text_column(t, to_arrow(t, [None, 1.0, number]))


@pytest.mark.parametrize("text", ["[I32]", "Vector(2)", "Blob"])
def test_types_that_cannot_be_keys(text):
    t = PropType.parse(text)
    with pytest.raises(Unfit, match="key"):
        key_text_column(t, to_arrow(t, []))


@CALM
@given(st.data())
def test_ids_of_columns_are_the_ids_of_their_rows(data):
    members = data.draw(st.lists(st.sampled_from(KEY_TYPES), min_size=1, max_size=3))
    nodes = data.draw(st.lists(st.tuples(*map(values, members)), max_size=5))
    stored = [[node[place] for node in nodes] for place in range(len(members))]
    pairs = list(zip(members, stored, strict=True))
    found = derive_id_column([(t, to_arrow(t, column)) for t, column in pairs])
    expected = [derive_id(zip(members, node, strict=True)) for node in nodes]
    assert found.to_pylist() == expected


def test_an_external_blob_has_no_place_in_a_column_of_bytes():
    with pytest.raises(Unfit, match="s3://b/k"):
        to_arrow(PropType.parse("Blob?"), [None, BlobAddress("s3://b/k")])
