"""Reading by columns and reading line by line are one reading: the same batches, the same errors."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.pipeline.read_helpers import read
from tests.sampling import examples

TEXT = st.text(max_size=8) | st.sampled_from(
    [
        "",
        "x" * 5000,
        "😀",
        "\u0000",
        "\ud800",
        "\udc00x",
        "base64:",
        "base64:aGk=",
        "base64:aGl=",
        "é",
    ]
)
INTEGERS = st.integers(-5, 5) | st.sampled_from(
    [s * (2**b + d) for s in (1, -1) for b in (31, 32, 53, 63, 64, 200) for d in (-1, 0, 1)]
)
FLOATS = st.floats(allow_nan=True, allow_infinity=True) | st.sampled_from(
    [0.0, -0.0, 1e39, 3.4028235677973366e38, 1e-46, 1.0, 1.00000005960464485]
)
TIMES = st.sampled_from(
    [
        "2024-02-29", "2023-02-29", "0000-01-01", "0001-01-01", "9999-12-31", "2024-1-1", " 2024-01-01",
        "2024-01-01T00:00:00Z", "2024-01-01T00:00:00.123Z", "2024-01-01T00:00:00.1Z", "2024-01-01 00:00",
        "2024-01-01T00:00:00.123456Z", "2024-01-01T24:00:00Z", "2024-01-01T23:59:60Z", "-001-01-01",
        "2024-01-01T00:00:00+05:30", "9999-12-31T23:59:59-01:00", "0001-01-01T00:00:00Z", "12024-01-01",
        "2024-01-01T00:00:00z", "2024-01-01t00:00:00Z", "0000-12-31T23:59:59.999Z", "2024-01-01T",
    ]
)  # fmt: skip
SCALARS = st.none() | st.booleans() | INTEGERS | FLOATS | TEXT | TIMES
ANY = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=2)
)
PLAUSIBLE = {
    "id": TEXT,
    "s": TEXT,
    "kind": TEXT,
    "b": st.booleans(),
    "i32": INTEGERS,
    "i64": INTEGERS,
    "u32": INTEGERS,
    "u64": INTEGERS,
    "f32": FLOATS | INTEGERS,
    "f64": FLOATS | INTEGERS,
    "day": TIMES | INTEGERS,
    "at": TIMES | INTEGERS,
    "file": TEXT,
    "vec": st.lists(FLOATS | INTEGERS | st.none(), min_size=2, max_size=4),
    "ls": st.lists(TEXT | st.none(), max_size=3),
    "lb": st.lists(st.booleans() | st.none(), max_size=3),
    "li": st.lists(INTEGERS | st.none(), max_size=3),
    "lu": st.lists(INTEGERS | st.none(), max_size=3),
    "lf": st.lists(FLOATS | st.none(), max_size=3),
    "ld": st.lists(TIMES | st.none(), max_size=3),
    "lt": st.lists(TIMES | st.none(), max_size=3),
}


@st.composite
def spelled(draw, value):
    """A value as JSON, in one of the ways people and programs write it."""
    text = json.dumps(
        value,
        ensure_ascii=draw(st.booleans()),
        separators=draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,\t", " : ")])),
    )
    text = draw(st.sampled_from([text, text, text, f" {text}", f"{text} ", f"{text}\r"]))
    # `-0` is an integer, and a number that no Python value writes.
    text = draw(st.sampled_from([text, text, text.replace("-0.0", "-0")]))
    return text.encode("utf-8", "surrogatepass")


@st.composite
def one_value(draw):
    """A record with one property: most are good, so that whole groups go by columns."""
    name = draw(st.sampled_from(sorted(PLAUSIBLE)))
    value = draw(PLAUSIBLE[name] if draw(st.integers(0, 9)) else ANY)
    return draw(spelled({"type": "Every", "data": {name: value}}))


@st.composite
def many_values(draw):
    names = draw(st.lists(st.sampled_from(sorted(PLAUSIBLE)), unique=True, max_size=6))
    return draw(spelled({"type": "Every", "data": {n: draw(PLAUSIBLE[n]) for n in names}}))


@st.composite
def filled(draw):
    """A record that leaves out what has a default, sets it to null, or gives it, or has odd keys."""
    names = ["s", "i32", "f32", "kind", "day", "ls", "data"]
    given = draw(st.lists(st.sampled_from(names), unique=True))
    known = {**PLAUSIBLE, "data": INTEGERS}
    data = {name: draw(st.none() | known[name]) for name in given}
    line = draw(spelled({"type": "Filled", "data": data}))
    return line.replace(
        b'"i32"', draw(st.sampled_from([b'"i32"', b'"i32"', b'"\\u0069\\u003332"']))
    )


@st.composite
def told(draw):
    data = st.fixed_dictionaries({}, optional={"body": st.none() | TEXT, "vec": st.none()})
    return draw(spelled({"type": "Told", "data": draw(data)}))


@st.composite
def any_shape(draw):
    keys = st.sampled_from(["type", "edge", "from", "to", "data", "id", "x"])
    values = st.sampled_from(["Every", "Person", "Knows", "knows", "Nobody", "Doc", "Strict"]) | ANY
    record = draw(st.dictionaries(keys, values, max_size=5))
    return draw(spelled(record))


@st.composite
def edges(draw):
    ends = TEXT
    word = draw(st.sampled_from(["Knows", "KNOWS", "Next", "Marks", "Covers"]))
    if word in {"Next", "Marks"} or not draw(st.integers(0, 9)):
        ends = INTEGERS if draw(st.booleans()) else INTEGERS | TEXT | FLOATS | st.booleans()
    record = {"edge": word, "from": draw(ends), "to": draw(ends)}
    if draw(st.booleans()):
        since = {"since": TIMES} if word.lower() == "knows" else {}
        record["data"] = draw(st.none() | st.fixed_dictionaries(since))
    return draw(spelled(record))


DOCS = st.builds(
    lambda body, vec: {"type": "Doc", "data": {"body": body, "vec": vec}},
    st.none() | TEXT,
    st.none() | st.lists(st.floats(-1, 1), min_size=2, max_size=2),
).flatmap(spelled)
STRICT = st.builds(
    lambda data: {"type": "Strict", "data": data},
    st.fixed_dictionaries({}, optional={"must": TEXT, "count": INTEGERS | st.none()}),
).flatmap(spelled)
JUNK = st.binary(max_size=12).map(lambda data: data.replace(b"\n", b"")) | st.sampled_from(
    [
        b"// note", b"", b"{", b"}", b'{"type":"Every"', b'"type":"Every"}', b'{"type":"Every","data":',
        b'{"type":"Every"}{"type":"Every"}', b'{"type":"Every","data":{"s":"a","s":null}}',
        b'{"type":"Every","data":{"f64":NaN}}', b'{"type":"Every","data":{"li":[1,}}', b'\xef\xbb\xbf{"type":"Every"}',
        b'{"type":"Every","data":{"s":"\xff"}}', b'{"type":"Every"}\x00', b'{"type":"Every","data":{"s":[[[[{}]]]]}}',
    ]
)  # fmt: skip


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(one_value(), min_size=1, max_size=3))
def test_single_values(lines):
    read(*lines)


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(many_values() | any_shape() | edges() | DOCS | STRICT | JUNK, min_size=1, max_size=12)
)
def test_mixtures_of_good_and_bad_records(lines):
    read(*lines)


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(filled() | told(), min_size=1, max_size=8))
def test_records_of_types_with_defaults(lines):
    read(*lines)


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(edges(), min_size=1, max_size=8))
def test_edges(lines):
    read(*lines)
