"""Typed columnar input: which columns fit which property, and what is said of rows that do not."""

import gzip
import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv as pa_csv

import omnigraph as og
from omnigraph.errors import BadRequest, InputError
from omnigraph.pipeline.formats.frame_blocks import _read_batch
from omnigraph.pipeline.formats.frame_files import frame_sources
from omnigraph.pipeline.formats.frame_layout import Layout
from omnigraph.pipeline.formats.pandas_columns import PandasBatch
from omnigraph.pipeline.formats.typed_batch import batch_schema
from tests.pipeline.read_helpers import (
    CATALOG,
    gathered,
    node_of,
    read,
    read_frame_file,
    typed_batches,
)

PERSON, KNOWS = CATALOG.nodes["Person"], CATALOG.edges["Knows"]
HIDDEN = {"0source", "0offset"}


def cast(type_, array):
    """The values that a column gives a property of that type, and the reasons of bad rows."""
    entity = node_of(type_)
    rows, bad = gathered(typed_batches(entity, pa.table({"p": array})))
    return [row["p"] for row in rows], {record["offset"]: record["reason"] for record in bad}


class TestColumnsByName:
    def test_rows_are_numbered_from_one(self):
        table = pa.table({"age": pa.array([36, None], pa.int16()), "name": ["ada", "bo"]})
        (parsed,) = typed_batches(PERSON, table, source=4)
        ((key, batch),) = parsed.batches
        assert key == "node:Person"
        assert batch.schema.equals(batch_schema(PERSON))
        assert batch.to_pylist() == [
            {"0id": None, "name": "ada", "age": 36, "email": None, "0source": 4, "0offset": 1},
            {"0id": None, "name": "bo", "age": None, "email": None, "0source": 4, "0offset": 2},
        ]

    def test_row_numbers_go_on_over_batches(self):
        reader = pa.table({"name": pa.chunked_array([["a"], ["b", None], ["c"]])}).to_reader()
        rows, bad = gathered(typed_batches(PERSON, reader))
        assert [(row["name"], row["0offset"]) for row in rows] == [("a", 1), ("b", 2), ("c", 4)]
        assert [record["offset"] for record in bad] == [3]

    def test_the_ends_of_an_edge_go_by_the_names_given(self):
        table = pa.table({"a": ["x"], "b": [7], "id": ["e1"], "since": [date(2020, 1, 1)]})
        ((row,), bad) = gathered(typed_batches(KNOWS, table, "a", "b"))
        assert {name: row[name] for name in ("src", "dst", "0id", "since")} == {
            "src": "x", "dst": "7", "0id": "e1", "since": date(2020, 1, 1),
        }  # fmt: skip
        assert bad == []

    def test_an_edge_without_an_end_is_a_bad_row(self):
        table = pa.table({"from": ["x", None, "y"], "to": [None, "x", "y"]})
        rows, bad = gathered(typed_batches(KNOWS, table))
        assert len(rows) == 1
        assert [(record["offset"], '"to"' in record["reason"]) for record in bad] == [
            (1, True),
            (2, False),
        ]

    def test_a_required_value_that_is_null_is_a_bad_row(self):
        rows, bad = gathered(typed_batches(PERSON, pa.table({"name": ["a", None]})))
        assert len(rows) == 1
        (found,) = bad
        assert found["reason"] == "Person.name (String): a value is required"
        assert (found["source"], found["offset"], found["property"]) == (0, 2, "name")
        assert json.loads(found["record"]) == {"type": "Person", "record": {"name": None}}

    def test_a_required_embed_vector_may_be_left_out_where_its_text_is(self):
        doc = CATALOG.nodes["Doc"]
        rows, bad = gathered(typed_batches(doc, pa.table({"body": ["text", None]})))
        assert [row["vec"] for row in rows] == [None]
        assert [record["offset"] for record in bad] == [2]

    @pytest.mark.parametrize(
        ("columns", "said"),
        [
            ({"name": ["a"], "agee": [1]}, ['"agee"', "`age`"]),
            ({"age": [1]}, ['"name"', "missing"]),
            ({"name": ["a"], "Name": ["b"]}, ['"Name"']),
            ({"x": [1], "y": [1]}, ['"x"', '"y"', '"name"']),
        ],
    )
    def test_wrong_columns_are_refused_together_before_any_row(self, columns, said):
        with pytest.raises(InputError) as refused:
            typed_batches(PERSON, pa.table(columns), name="people.parquet")
        for text in ["people.parquet", "Person", *said]:
            assert text in str(refused.value)

    def test_two_columns_of_one_name_are_refused(self):
        table = pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["name", "name"])
        with pytest.raises(InputError, match="two columns"):
            typed_batches(PERSON, table)

    def test_an_end_that_is_also_a_property_is_refused(self):
        entity = og.parse_schema("node T {} edge E: T -> T { from: I64? }").catalog.edges["E"]
        with pytest.raises(InputError, match='"from" is a property'):
            typed_batches(entity, pa.table({"from": ["a"], "to": ["b"]}))
        table = pa.table({"a": ["x"], "to": ["y"], "from": [1]})
        ((row,), _) = gathered(typed_batches(entity, table, "a"))
        assert (row["src"], row["from"]) == ("x", 1)


NOON = datetime(2024, 2, 29, 12, tzinfo=UTC)
MIDNIGHT = datetime(2024, 2, 29, tzinfo=UTC)
DAY = date(2024, 2, 29)


def blob(data=None, uri=None):
    return {"data": data, "uri": uri, "position": None, "size": None}


FITS = [
    ("I64", pa.array([1, None], pa.int8()), [1]),
    ("I32", pa.array([7], pa.uint64()), [7]),
    ("U64", pa.array([2**64 - 1], pa.uint64()), [2**64 - 1]),
    ("F64", pa.array([1], pa.int32()), [1.0]),
    ("F64", pa.array([0.5], pa.float32()), [0.5]),
    ("F64", pa.array([Decimal("1.25")]), [1.25]),
    ("F32", pa.array([0.5], pa.float64()), [0.5]),
    ("F64", pa.array([-0.0]), [-0.0]),
    ("String", pa.array(["a"], pa.large_string()), ["a"]),
    ("String", pa.array(["a"], pa.string_view()), ["a"]),
    ("String", pa.array(["a", "a"]).dictionary_encode(), ["a", "a"]),
    ("enum(a, b)", pa.array(["zz"]), ["zz"]),
    ("Bool", pa.array([True]), [True]),
    ("Bool", pa.array([1, 0, None], pa.int8()), [True, False]),
    ("Bool", pa.array(["TRUE", "0"]), [True, False]),
    ("I64", pa.array(["-1", None]), [-1]),
    ("F64", pa.array(["1.5"], pa.large_string()), [1.5]),
    ("Vector(2)", pa.array(["[1,2]"]), [[1.0, 2.0]]),
    ("Date", pa.array([DAY]), [DAY]),
    ("Date", pa.array([DAY], pa.date64()), [DAY]),
    ("Date", pa.array(["2024-02-29"]), [DAY]),
    ("Date", pa.array([MIDNIGHT], pa.timestamp("ns")), [DAY]),
    ("Date", pa.array([0], pa.int64()), [date(1970, 1, 1)]),
    ("DateTime", pa.array([NOON], pa.timestamp("s")), [NOON]),
    ("DateTime", pa.array([NOON], pa.timestamp("us", "UTC")), [NOON]),
    ("DateTime", pa.array([NOON], pa.timestamp("ns", "Europe/Paris")), [NOON]),
    ("DateTime", pa.array([-1], pa.timestamp("us")), [datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=UTC)]),
    ("DateTime", pa.array([DAY]), [MIDNIGHT]),
    ("DateTime", pa.array(["2024-02-29T13:00:00+01:00"]), [NOON]),
    ("DateTime", pa.array([1500], pa.int64()), [datetime(1970, 1, 1, 0, 0, 1, 500000, tzinfo=UTC)]),
    ("Blob", pa.array([b"x", b""]), [blob(b"x"), blob(b"")]),
    ("Blob", pa.array([b"ab"], pa.binary(2)), [blob(b"ab")]),
    ("Blob", pa.array(["base64:aGk="]), [blob(b"hi")]),
    ("Blob", pa.array(["s3://b/k"]), [blob(uri="s3://b/k")]),
    ("Vector(2)", pa.array([[1.0, 2.0]]), [[1.0, 2.0]]),
    ("Vector(2)", pa.array([[1, 2]], pa.list_(pa.int64(), 2)), [[1.0, 2.0]]),
    ("Vector(2)", pa.array([[0.5, 2]], pa.large_list(pa.float32())), [[0.5, 2.0]]),
    ("[I64]", pa.array([[1, None], []], pa.list_(pa.int8())), [[1, None], []]),
    ("[String]", pa.array([["a"]], pa.large_list(pa.large_string())), [["a"]]),
    ("[Date]", pa.array([["2024-02-29"], [None]]), [[DAY], [None]]),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "array", "expected"), FITS, ids=lambda value: str(value)[:40])
def test_columns_that_fit(type_, array, expected):
    values, bad = cast(type_ + "?", array)
    assert [value for value in values if value is not None] == expected
    assert values.count(None) == array.null_count
    assert bad == {}
    values, bad = cast(type_ + "?", array.slice(1))
    assert len(values) == len(array) - 1


def test_a_column_of_nulls_fits_every_nullable_property():
    for type_ in ("I64?", "String?", "Vector(2)?", "[Date]?", "Blob?", "DateTime?"):
        assert cast(type_, pa.nulls(2)) == ([None, None], {})


REFUSED = [
    ("I64", pa.array([1.0])),
    ("I64", pa.array([True])),
    ("String", pa.array([1])),
    ("String", pa.array([b"x"])),
    ("Bool", pa.array([1.0])),
    ("Date", pa.array([1.5])),
    ("DateTime", pa.array([1], pa.time32("s"))),
    ("Vector(2)", pa.array([["1", "2"]])),
    ("[I64]", pa.array([1])),
    ("[I64]", pa.array([[1.5]])),
    ("Blob", pa.array([1])),
]


@pytest.mark.parametrize(("type_", "array"), REFUSED, ids=lambda value: str(value)[:40])
def test_columns_that_never_fit_are_refused_as_a_whole(type_, array):
    with pytest.raises(InputError, match=r"T\.p") as refused:
        cast(type_ + "?", array)
    assert str(array.type) in str(refused.value)


UNFIT = [
    ("I32", pa.array([1, 2**31]), "I32"),
    ("U32", pa.array([1, -1]), "U32"),
    ("I64", pa.array(["1", "x"]), '"x"'),
    ("Bool", pa.array([1, 2]), "2"),
    ("U64", pa.array([1, -1]), "U64"),
    ("F64", pa.array([1.0, float("nan")]), "finite"),
    ("F32", pa.array([1.0, 1e39]), "F32"),
    ("Date", pa.array(["2024-02-29", "2023-02-29"]), "2023-02-29"),
    ("Date", pa.array([MIDNIGHT, NOON], pa.timestamp("ms")), "time of day"),
    ("Date", pa.array([0, 10**7], pa.int64()), "years"),
    ("DateTime", pa.array(["2024-02-29", "today"]), "today"),
    ("DateTime", pa.array([0, 2**61], pa.timestamp("s")), "years"),
    ("Vector(2)", pa.array([[1.0, 2.0], [1.0]]), "expected 2"),
    ("Vector(2)", pa.array([[1.0, 2.0], [1.0, None]]), "must be numeric"),
    ("Vector(2)", pa.array([[1.0, 2.0], [1.0, float("inf")]]), "element 2"),
    ("[I32]", pa.array([[1], [1, 2**31]]), "element 2"),
    ("[Date]", pa.array([["2024-02-29"], ["x"]]), "element 1"),
    ("Blob", pa.array(["base64:", "base64:?"]), "base64"),
]


@pytest.mark.parametrize(("type_", "array", "said"), UNFIT, ids=lambda value: str(value)[:40])
def test_single_values_that_do_not_fit_are_bad_rows(type_, array, said):
    values, bad = cast(type_ + "?", array)
    assert len(values) == 1
    assert list(bad) == [2]
    assert "T.p" in bad[2]
    assert said in bad[2]


class FromStream:
    """A frame of some library, known only by the Arrow stream it gives."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


class FromProtocol:
    """A frame of some library, known only by the interchange protocol."""

    def __init__(self, table):
        self._table = table

    def __dataframe__(self, nan_as_null=False, allow_copy=True):
        return self._table.__dataframe__(nan_as_null, allow_copy)


@pytest.mark.parametrize(
    "dressed",
    [
        lambda table: table,
        lambda table: table.to_batches()[0],
        lambda table: table.to_reader(),
        FromStream,
        FromProtocol,
    ],
)
def test_frames_of_any_library(dressed):
    table = pa.table({"name": ["ada", "bo"], "age": [36, None]})
    rows, bad = gathered(typed_batches(PERSON, dressed(table)))
    assert [(row["name"], row["age"]) for row in rows] == [("ada", 36), ("bo", None)]
    assert bad == []


@pytest.mark.parametrize("data", [7, {"name": ["a"]}, [{"name": "a"}], "people.parquet"])
def test_what_is_no_frame_is_refused(data):
    with pytest.raises(BadRequest, match="no frame"):
        typed_batches(PERSON, data)


PEOPLE = pa.table({"name": ["ada", "bo", None], "age": pa.array([36, None, 1], pa.int64())})


def write_parquet(path):
    pq.write_table(PEOPLE, path)


def write_file(path):
    with pa.ipc.new_file(str(path), PEOPLE.schema) as out:
        out.write_table(PEOPLE)


def write_stream(path):
    with pa.ipc.new_stream(str(path), PEOPLE.schema) as out:
        out.write_table(PEOPLE)


def write_csv(path):
    pa_csv.write_csv(PEOPLE, path)


def write_csv_gz(path):
    write_csv(path)
    path.write_bytes(gzip.compress(path.read_bytes()))


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("p.parquet", write_parquet),
        ("p.arrow", write_file),
        ("p.ipc", write_stream),
        ("p.csv", write_csv),
        ("p.csv.gz", write_csv_gz),
    ],
)
class TestFiles:
    def test_rows_of_a_file(self, tmp_path, name, write):
        write(tmp_path / name)
        (source,) = frame_sources(tmp_path / name, first=3)
        assert (source.index, source.unit) == (3, "row")
        rows, bad = gathered(read_frame_file(PERSON, source))
        assert [(row["name"], row["age"], row["0offset"]) for row in rows] == [
            ("ada", 36, 1),
            ("bo", None, 2),
        ]
        assert [(record["source"], record["offset"]) for record in bad] == [(3, 3)]

    def test_columns_are_checked(self, tmp_path, name, write):
        write(tmp_path / name)
        (source,) = frame_sources(tmp_path / name)
        with pytest.raises(InputError, match=rf"{name}.*Knows.*from"):
            list(read_frame_file(KNOWS, source))

    def test_a_damaged_file_is_named(self, tmp_path, name, write):
        (tmp_path / name).write_bytes(b"\xff\xfe\x00")
        (source,) = frame_sources(tmp_path / name)
        with pytest.raises(InputError, match=name):
            list(read_frame_file(PERSON, source))


def test_an_arrow_file_with_offsets_beyond_its_memory_is_refused(tmp_path):
    table = pa.table({"name": ["x" * 77, "y" * 77]})
    with pa.ipc.new_file(tmp_path / "p.arrow", table.schema) as file:
        file.write_table(table)
    data = (tmp_path / "p.arrow").read_bytes()
    offsets = b"".join(number.to_bytes(4, "little") for number in (0, 77, 154))
    assert data.count(offsets) == 1
    for second in (-5, 155, 2**31 - 1):
        wrong = offsets[:4] + second.to_bytes(4, "little", signed=True) + offsets[8:]
        (tmp_path / "p.arrow").write_bytes(data.replace(offsets, wrong))
        (source,) = frame_sources(tmp_path / "p.arrow")
        with pytest.raises(InputError, match=r"p\.arrow.*check that it is whole"):
            list(read_frame_file(PERSON, source))


def test_a_directory_gives_its_frames_and_other_names_are_refused(tmp_path):
    for name in ("b.parquet", "a.csv", "c.txt"):
        (tmp_path / name).write_bytes(b"")
    assert [s.name.rpartition("/")[2] for s in frame_sources(tmp_path)] == ["a.csv", "b.parquet"]
    with pytest.raises(BadRequest, match=r"c\.txt"):
        frame_sources([tmp_path / "a.csv", tmp_path / "c.txt"])


def read_csv(tmp_path, entity, text):
    path = tmp_path / "x.csv"
    path.write_text(text, "utf-8")
    (source,) = frame_sources(path)
    return gathered(read_frame_file(entity, source))


class TestCsv:
    def test_texts_become_every_type(self, tmp_path):
        ((row,), bad) = read_csv(
            tmp_path,
            CATALOG.nodes["Every"],
            "id,s,b,i64,u64,f32,f64,day,at,file,vec,ls\n"
            'e1,"a\nb",True,-5,18446744073709551615,0.5,1e3,2024-02-29,2024-02-29T12:00:00Z,'
            'base64:aGk=,"[1,2,3]","[""x"",null]"\n',
        )
        assert bad == []
        del row["0source"], row["0offset"]
        assert {name: value for name, value in row.items() if value is not None} == {
            "0id": "e1", "s": "a\nb", "b": True, "i64": -5, "u64": 2**64 - 1, "f32": 0.5,
            "f64": 1000.0, "day": DAY, "at": NOON, "file": blob(b"hi"),
            "vec": [1.0, 2.0, 3.0], "ls": ["x", None],
        }  # fmt: skip

    def test_an_empty_cell_is_null_and_a_quoted_one_is_the_empty_text(self, tmp_path):
        rows, _ = read_csv(tmp_path, CATALOG.nodes["Every"], 'id,s\na,\nb,""\n')
        assert [row["s"] for row in rows] == [None, ""]

    @pytest.mark.parametrize(
        ("column", "cell"),
        [
            ("i32", "1.0"), ("i32", " 1"), ("i32", "0x10"), ("i32", "2147483648"), ("b", "yes"),
            ("f64", "nan"), ("f64", "1e999"), ("day", "29.2.2024"), ("vec", "1;2;3"), ("u32", "-1"),
        ],
    )  # fmt: skip
    def test_a_cell_that_does_not_fit_is_a_bad_row(self, tmp_path, column, cell):
        rows, bad = read_csv(tmp_path, CATALOG.nodes["Every"], f"id,{column}\na,\nb,{cell}\nc,\n")
        assert len(rows) == 2
        ((offset, reason),) = [(record["offset"], record["reason"]) for record in bad]
        assert offset == 2
        assert f"Every.{column}" in reason

    def test_ends_of_edges_are_texts(self, tmp_path):
        ((row,), _) = read_csv(tmp_path, KNOWS, "from,to\n007,a\n")
        assert (row["src"], row["dst"]) == ("007", "a")

    def test_a_row_of_another_width_is_told(self, tmp_path):
        _, (bad,) = read_csv(tmp_path, PERSON, "name,age\na,1\nb,1,2\n")
        assert (bad["offset"], bad["reason"][:22]) == (2, "3 values for 2 columns")


def test_a_frame_and_json_lines_of_the_same_rows_are_read_alike():
    lines = [{"type": "Person", "data": {"name": f"n{i}", "age": i}} for i in range(50)]
    table = pa.table({"name": [f"n{i}" for i in range(50)], "age": list(range(50))})
    ((_, from_lines),) = read(*lines).batches
    (parsed,) = typed_batches(PERSON, table)
    ((_, from_frame),) = parsed.batches
    shown = [name for name in from_lines.schema.names if name not in HIDDEN]
    assert from_frame.select(shown).equals(from_lines.select(shown))


class Unsearched(list):
    """Names of columns that may be gone through, but not searched: that is a look at all for each."""

    def __contains__(self, name):
        raise AssertionError(name)

    def count(self, name):
        raise AssertionError(name)

    def index(self, name, *_):
        raise AssertionError(name)


def test_the_columns_of_a_frame_are_gone_through_once():
    layout = Layout(CATALOG.nodes["Every"])
    layout.check(Unsearched(["s", "b", "id"]), "frame")
    with pytest.raises(InputError, match=r'no property "x0".*and 12 more'):
        layout.check(Unsearched([f"x{at}" for at in range(20)]), "frame")
    with pytest.raises(InputError, match='two columns "s"'):
        layout.check(Unsearched(["s", "s"]), "frame")


def test_columns_of_pandas_are_named_once_a_batch(monkeypatch):
    looks = 0
    names = PandasBatch.names.fget

    def counted(batch):
        nonlocal looks
        looks += 1
        return names(batch)

    monkeypatch.setattr(PandasBatch, "names", property(counted))
    batch = PandasBatch(pd.DataFrame({"s": ["a"], "i64": [1]}))
    looks = 0
    typed = _read_batch(Layout(CATALOG.nodes["Every"]), batch, 0, 1)
    (row,) = typed.batches[0].batch.to_pylist()
    assert (row["s"], row["i64"], row["b"], looks) == ("a", 1, None, 1)
