"""Frames of pandas and polars: every property type, what stands for null, and rows that do not fit."""

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest

from omnigraph.errors import BadRequest, InputError, OmniGraphError
from omnigraph.storage.tables.table import open_table
from tests.graphs import graph_of
from tests.opened import workspace_of
from tests.pipeline.read_helpers import CATALOG, SCHEMA, gathered, node_of, typed_batches

PERSON, KNOWS = CATALOG.nodes["Person"], CATALOG.edges["Knows"]
DAY, NEXT = date(2024, 2, 29), date(2024, 3, 1)
NOON = datetime(2024, 2, 29, 12, tzinfo=UTC)
NAIVE = datetime(2024, 2, 29, 12)  # noqa: DTZ001
EAST = datetime(2024, 2, 29, 14, tzinfo=timezone(timedelta(hours=2)))


def values_of(type_, frame):
    """The values a frame's column `p` gives a nullable property, and the reasons of bad rows."""
    rows, bad = gathered(typed_batches(node_of(type_ + "?"), frame))
    return [row["p"] for row in rows], {record["offset"]: record["reason"] for record in bad}


def blob(data=None, uri=None):
    return {"data": data, "uri": uri, "position": None, "size": None}


def objects(*values):
    return pd.Series(list(values), dtype=object)


PANDAS = [
    # Integers: a missing value makes them floats unless the dtype is a nullable one.
    ("I64", pd.Series([1, None]), [1, None]),
    ("I32", pd.Series([-3.0, 2.0]), [-3, 2]),
    ("U32", pd.Series([7.0, np.nan], dtype="float32"), [7, None]),
    ("I64", pd.Series([1, None], dtype="Int64"), [1, None]),
    ("I64", pd.Series([1, None], dtype="int32[pyarrow]"), [1, None]),
    ("U64", pd.Series([2**64 - 1], dtype="uint64"), [2**64 - 1]),
    ("U64", objects(2**64 - 1, 1), [2**64 - 1, 1]),
    ("I64", objects(1, None, np.int8(2), pd.NA), [1, None, 2, None]),
    ("I64", pd.Series([5, 6, 5], dtype="category"), [5, 6, 5]),
    ("I64", pd.Series(pd.arrays.SparseArray([1, 0])), [1, 0]),
    # Floats: NaN is how pandas writes null.
    ("F64", pd.Series([0.5, np.nan]), [0.5, None]),
    ("F32", pd.Series([0.5, None], dtype="Float64"), [0.5, None]),
    ("F64", objects(0.5, Decimal("1.25"), 2, float("nan")), [0.5, 1.25, 2.0, None]),
    # Texts.
    ("String", pd.Series(["a", None, np.nan, pd.NA, ""]), ["a", None, None, None, ""]),
    ("String", pd.Series(["a", None], dtype="string"), ["a", None]),
    ("String", pd.Series(["a", None], dtype="string[pyarrow]"), ["a", None]),
    ("String", pd.Series(["a", "b", None], dtype="category"), ["a", "b", None]),
    ("enum(a, b)", pd.Series(["b"], dtype=pd.CategoricalDtype(["a", "b"])), ["b"]),
    # Booleans.
    ("Bool", pd.Series([True, False]), [True, False]),
    ("Bool", pd.Series([True, None]), [True, None]),
    ("Bool", pd.Series([True, None], dtype="boolean"), [True, None]),
    # Days and instants; without a zone they are UTC.
    ("Date", pd.Series([DAY, None]), [DAY, None]),
    ("Date", pd.Series(pd.to_datetime(["2024-02-29", None])), [DAY, None]),
    ("Date", objects(DAY, pd.NaT, "2024-03-01", pd.Timestamp(NEXT)), [DAY, None, NEXT, NEXT]),
    ("Date", pd.Series([0, None]), [date(1970, 1, 1), None]),
    ("DateTime", pd.Series([pd.Timestamp(NAIVE), pd.NaT]), [NOON, None]),
    ("DateTime", pd.Series([pd.Timestamp(NOON), None]), [NOON, None]),
    ("DateTime", pd.Series([EAST]).dt.tz_convert("Europe/Paris"), [NOON]),
    ("DateTime", objects(NOON, EAST, NAIVE, DAY, None), [NOON, NOON, NOON, datetime(2024, 2, 29, tzinfo=UTC), None]),
    ("DateTime", objects(datetime(1, 1, 1), "2024-02-29T12:00:00Z"), [datetime(1, 1, 1, tzinfo=UTC), NOON]),  # noqa: DTZ001
    # Bytes and addresses.
    ("Blob", objects(b"x", None, bytearray(b"y")), [blob(b"x"), None, blob(b"y")]),
    ("Blob", objects(b"x", "s3://b/k", "base64:aGk="), [blob(b"x"), blob(uri="s3://b/k"), blob(b"hi")]),
    # Lists and vectors.
    ("[I64]", objects([1, 2], None, [], (3,), np.array([4])), [[1, 2], None, [], [3], [4]]),
    ("[String]", objects(["a", None], ["b"]), [["a", None], ["b"]]),
    ("[F64]", objects([0.5, 1]), [[0.5, 1.0]]),
    ("[Bool]", objects([True], [False]), [[True], [False]]),
    ("[Date]", objects([DAY, None]), [[DAY, None]]),
    ("[DateTime]", objects([NOON]), [[NOON]]),
    ("Vector(2)", objects([1, 0.5], None), [[1.0, 0.5], None]),
    ("Vector(2)", objects(np.array([1, 2], np.float32), [3.0, 4.0]), [[1.0, 2.0], [3.0, 4.0]]),
    ("Vector(2)", objects(np.array([1, 2], np.float16), np.array([3, 4])), [[1.0, 2.0], [3.0, 4.0]]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("type_", "series", "expected"), PANDAS, ids=[f"{t}-{s.dtype}" for t, s, _ in PANDAS]
)
def test_columns_of_pandas(type_, series, expected):
    assert values_of(type_, pd.DataFrame({"p": series})) == (expected, {})


@pytest.mark.parametrize("type_", ["I64", "String", "Bool", "Date", "Blob", "[Date]", "Vector(2)"])
@pytest.mark.parametrize("series", [pd.Series([None, None]), pd.Series([np.nan, np.nan])])
def test_a_column_of_missing_values_fits_every_property(type_, series):
    assert values_of(type_, pd.DataFrame({"p": series})) == ([None, None], {})


UNFIT = [
    ("I64", pd.Series([1.0, 2.5, None]), {2: "got 2.5"}),
    ("I64", pd.Series([1.0, 2.0**60]), {2: "expected an integer"}),
    ("I64", pd.Series([1.0, np.inf]), {2: "got Infinity"}),
    ("I32", pd.Series([1.0, 2.0**40, None]), {2: "I32"}),
    ("I64", objects(1, "x", 1.5, True), {2: 'got "x"', 3: "got 1.5", 4: "got true"}),
    ("I64", objects(2**70, 1), {1: "range"}),
    ("I64", objects(object(), 1), {1: "a Python object"}),
    ("String", objects("a", 1, b"x"), {2: "got 1", 3: "a Python bytes"}),
    ("String", objects("\ud800", "a"), {1: ""}),
    ("F64", objects(1.5, "1,5"), {2: 'got "1,5"'}),
    ("Date", objects(DAY, NOON), {2: "time of day"}),
    ("Date", objects("2024-02-29", "soon", DAY), {2: "soon"}),
    ("DateTime", pd.Series(pd.period_range("2024", periods=2, freq="Y")), {1: "Period", 2: "Period"}),
    ("[I64]", objects([1, "x"], [2]), {1: "element 2"}),
    ("[I64]", objects([1], 3), {2: "array"}),
    ("Vector(2)", objects(np.array([1.0, 2.0, 3.0]), [1.0, 2.0]), {1: "expected 2"}),
    ("Vector(2)", objects(np.array([[1.0, 2.0]]), [1.0, 2.0]), {1: "expected 2"}),
    ("Vector(2)", objects([1.0, np.nan], [1.0, 2.0]), {1: "element 2"}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("type_", "series", "said"), UNFIT, ids=[f"{t}-{s.dtype}" for t, s, _ in UNFIT]
)
def test_values_of_pandas_that_do_not_fit_are_bad_rows(type_, series, said):
    values, bad = values_of(type_, pd.DataFrame({"p": series}))
    assert len(values) == len(series) - len(said)
    assert list(bad) == list(said)
    for row, text in said.items():
        assert bad[row].startswith(f"T.p ({type_}?): ")
        assert text in bad[row]


@pytest.mark.parametrize(
    ("type_", "series"),
    [
        ("I64", pd.Series([1.0, None], dtype="Float64")),
        ("String", pd.Series([1, 2])),
        ("String", pd.Series([1.5, None])),
        ("Bool", pd.Series([1.0, None])),
        ("DateTime", pd.Series(pd.to_timedelta([1], unit="s"))),
        ("[I64]", pd.Series([1.0, None])),
        ("String", objects({"a": 1})),
    ],
)
def test_columns_of_pandas_that_never_fit_are_refused_as_a_whole(type_, series):
    with pytest.raises(InputError, match=r"T\.p.*cast it first"):
        values_of(type_, pd.DataFrame({"p": series}))


class TestPandasFrames:
    def test_the_index_is_no_column(self):
        frame = pd.DataFrame({"name": ["a", "b"]}, index=pd.Index([7, 7], name="age"))
        rows, bad = gathered(typed_batches(PERSON, frame))
        assert [(row["name"], row["age"], row["0offset"]) for row in rows] == [
            ("a", None, 1),
            ("b", None, 2),
        ]
        assert bad == []

    def test_rows_are_numbered_by_place_over_batches(self):
        frame = pd.DataFrame({"name": list("abcde"), "age": [1, None, 3, 4.5, 5]})[::-1]
        rows, bad = gathered(typed_batches(PERSON, frame, batch_rows=2))
        assert [(row["name"], row["age"], row["0offset"]) for row in rows] == [
            ("e", 5, 1),
            ("c", 3, 3),
            ("b", None, 4),
            ("a", 1, 5),
        ]
        assert [record["offset"] for record in bad] == [2]

    @pytest.mark.parametrize(
        "frame",
        [
            pd.DataFrame({"name": []}),
            pd.DataFrame({"name": ["a"], "age": [1]}).iloc[:0],
            pl.DataFrame({"name": []}),
            pl.DataFrame(schema={"name": pl.String, "age": pl.Int32}),
        ],
    )
    def test_an_empty_frame_has_no_rows(self, frame):
        assert gathered(typed_batches(PERSON, frame)) == ([], [])

    @pytest.mark.parametrize("library", [pd, pl])
    @pytest.mark.parametrize(
        ("columns", "said"),
        [
            ({}, '"name" is missing'),
            ({"age": [1]}, '"name" is missing'),
            ({"name": ["a"], "agee": [1]}, "did you mean `age`"),
        ],
    )
    def test_missing_and_unknown_columns_are_refused(self, library, columns, said):
        with pytest.raises(InputError, match=said):
            typed_batches(PERSON, library.DataFrame(columns))

    def test_two_columns_of_one_name_are_refused(self):
        with pytest.raises(InputError, match="two columns"):
            typed_batches(PERSON, pd.DataFrame([["a", "b"]], columns=["name", "name"]))

    def test_labels_that_are_no_texts_are_named(self):
        with pytest.raises(InputError, match='no property "0"'):
            typed_batches(PERSON, pd.DataFrame([["a", 1]]))

    def test_ends_of_edges_may_be_integers(self):
        frame = pd.DataFrame({"from": [1, None, 3], "to": pd.Series(["a", "b", 4])})
        rows, bad = gathered(typed_batches(KNOWS, frame))
        assert [(row["src"], row["dst"]) for row in rows] == [("1", "a"), ("3", "4")]
        assert [(record["offset"], '"from"' in record["reason"]) for record in bad] == [(2, True)]


POLARS = [
    ("I64", pl.Series([1, None], dtype=pl.Int8), [1, None]),
    ("U64", pl.Series([2**64 - 1], dtype=pl.UInt64), [2**64 - 1]),
    ("F64", pl.Series([0.5, None]), [0.5, None]),
    ("F64", pl.Series([Decimal("1.25")]), [1.25]),
    ("F32", pl.Series([1, 2]), [1.0, 2.0]),
    ("String", pl.Series(["a", None]), ["a", None]),
    ("String", pl.Series(["a", None, "b"], dtype=pl.Categorical), ["a", None, "b"]),
    ("enum(a, b)", pl.Series(["b"], dtype=pl.Enum(["a", "b"])), ["b"]),
    ("Bool", pl.Series([True, None]), [True, None]),
    ("Date", pl.Series([DAY, None]), [DAY, None]),
    ("DateTime", pl.Series([NAIVE, None]), [NOON, None]),
    ("DateTime", pl.Series([NAIVE], dtype=pl.Datetime("ns")), [NOON]),
    ("DateTime", pl.Series([EAST]).dt.convert_time_zone("Europe/Paris"), [NOON]),
    ("Blob", pl.Series([b"x", None]), [blob(b"x"), None]),
    ("[I64]", pl.Series([[1, None], [], None]), [[1, None], [], None]),
    ("[I64]", pl.Series([[1, 2]], dtype=pl.Array(pl.Int64, 2)), [[1, 2]]),
    ("[String]", pl.Series([["a"]], dtype=pl.List(pl.Categorical)), [["a"]]),
    ("[Bool]", pl.Series([[True, None]]), [[True, None]]),
    ("[Date]", pl.Series([[DAY]]), [[DAY]]),
    ("[DateTime]", pl.Series([[NAIVE]]), [[NOON]]),
    ("Vector(2)", pl.Series([[1.0, 0.5], None]), [[1.0, 0.5], None]),
    ("Vector(2)", pl.Series(np.array([[1, 2], [3, 4]])), [[1.0, 2.0], [3.0, 4.0]]),
    ("String", pl.Series([None, None]), [None, None]),
]


@pytest.mark.parametrize(
    ("type_", "series", "expected"), POLARS, ids=[f"{t}-{s.dtype}" for t, s, _ in POLARS]
)
def test_columns_of_polars(type_, series, expected):
    assert values_of(type_, pl.DataFrame({"p": series})) == (expected, {})


def test_nan_is_a_value_to_polars_and_no_value_to_us():
    values, bad = values_of("F64", pl.DataFrame({"p": [0.5, float("nan"), None]}))
    assert values == [0.5, None]
    assert list(bad) == [2]
    assert "T.p (F64?): expected a finite number, got NaN" in bad[2]


@pytest.mark.parametrize(
    ("type_", "series"),
    [
        ("I64", pl.Series([1.0, None])),
        ("I64", pl.Series([1], dtype=pl.Int128)),
        ("DateTime", pl.Series([timedelta(1)])),
        ("String", pl.Series([{"a": 1}])),
        ("Blob", pl.Series([object()], dtype=pl.Object)),
    ],
)
def test_columns_of_polars_that_never_fit_are_refused(type_, series):
    with pytest.raises(InputError, match=r"\bp\b.*cast it first"):
        values_of(type_, pl.DataFrame({"p": series}))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (pd.Series(["a"], name="name"), "Series is no frame"),
        (pl.Series("name", ["a"]), "Series is no frame"),
        (pd.DataFrame({"name": ["a"]}).groupby("name"), "no frame"),
        (pl.DataFrame({"name": ["a"]}).lazy(), r"collect\(\)"),
    ],
)
def test_what_looks_like_a_frame_is_told_apart(data, said):
    with pytest.raises(BadRequest, match=said):
        typed_batches(PERSON, data)


graph = graph_of(SCHEMA)


def stored(graph, key):
    table = open_table(workspace_of(graph).pinned(graph.snapshot().tables[key]))
    return table.read().sort_by("id").to_pylist()


@pytest.mark.parametrize("library", [pd, pl])
class TestGraphs:
    def test_nodes_and_edges_are_stored(self, graph, library):
        people = library.DataFrame({"name": ["ada", "bo"], "age": [36, None]})
        if library is pd:
            assert people["age"].dtype == "float64"
        assert graph.load_nodes("Person", people).tables[0]["rows_loaded"] == 2
        knows = library.DataFrame({"a": ["ada"], "b": ["bo"], "since": [DAY], "id": ["k"]})
        graph.load_edges("Knows", knows, "a", "b")
        assert [(row["id"], row["age"]) for row in stored(graph, "node:Person")] == [
            ("ada", 36),
            ("bo", None),
        ]
        ((src, dst, since),) = [
            (row["src"], row["dst"], row["since"]) for row in stored(graph, "edge:Knows")
        ]
        assert (src, dst, since) == ("ada", "bo", DAY)

    def test_a_row_that_does_not_fit_is_named_and_nothing_is_stored(self, graph, library):
        frame = library.DataFrame({"name": ["ada", None], "age": [1, 2]})
        with pytest.raises(OmniGraphError, match=r"<frame>, row 2: Person\.name") as refused:
            graph.load_nodes("Person", frame)
        assert refused.value.exit_code != 0
        assert stored(graph, "node:Person") == []

    def test_an_empty_frame_is_an_empty_load(self, graph, library):
        empty = library.DataFrame({"name": [], "age": []})
        graph.load_nodes("Person", empty)
        assert stored(graph, "node:Person") == []
