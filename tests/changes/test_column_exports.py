"""Exports as files of columns: CSV, Parquet and Arrow, one type a file, which loads take back."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import csv, feather, parquet

import omnigraph as og
from omnigraph.changes.export.column_files import SUFFIXES
from omnigraph.errors import BadRequest
from omnigraph.pipeline.sources.sources import COLUMN_FILES

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  big: U64?
  height: F32?
  weight: F64?
  active: Bool?
  born: Date?
  seen: DateTime?
  mood: enum(good, bad)?
  tags: [String]?
  scores: [F64]?
  days: [Date]?
  vec: Vector(3)?
}
node Empty { code: String @key  note: String? }
edge Knows: Person -> Person { since: Date?  how: String? }
"""
PEOPLE = [
    {
        "name": 'ann "the\nfirst", 1',
        "age": -5,
        "big": 2**64 - 1,
        "height": 1.5,
        "weight": 0.1,
        "active": True,
        "born": "2020-02-29",
        "seen": "2026-05-04T10:30:00.123Z",
        "mood": "good",
        "tags": ["x", 'y"z', ""],
        "scores": [1.5, -2.0],
        "days": ["2020-02-29"],
        "vec": [0.5, 1.0, -1.25],
    },
    {
        "name": "bo",
        "tags": [],
        "active": False,
        "born": "0001-01-01",
        "seen": "1969-12-31T23:59:59Z",
    },
    {"name": "zoë"},
]
FORMATS = ("csv", "parquet", "arrow")


@pytest.fixture
def graph(tmp_path):
    with og.init(tmp_path / "g", SCHEMA) as graph:
        graph.load([{"type": "Person", "data": person} for person in PEOPLE])
        ends = [("bo", "zoë"), ("zoë", PEOPLE[0]["name"])]
        edges = [{"edge": "Knows", "from": a, "to": b, "data": {"id": f"{a}-{b}"}} for a, b in ends]
        edges[0]["data"] |= {"since": "2020-01-01", "how": ""}
        graph.load(edges)
        graph.branches.create("side")
        graph.load([{"type": "Person", "data": {"name": "cy"}}], branch="side")
        yield graph


def lines(graph, **target):
    out = io.StringIO()
    graph.export(out, **target)
    return out.getvalue()


def read(path: Path) -> pa.Table:
    if path.suffix == ".csv":
        return csv.read_csv(path)
    return parquet.read_table(path) if path.suffix == ".parquet" else feather.read_table(path)


@pytest.mark.parametrize("format", FORMATS)
def test_a_directory_of_files_loads_into_an_equal_graph(graph, tmp_path, format):
    told = []
    result = graph.export(
        f"{tmp_path}/out/",
        format=format,
        progress=lambda done, total: told.append((done, total)),
    )
    found = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert found == [f"{name}.{format}" for name in ("Empty", "Knows", "Person")]
    assert (result.records, told[-1]) == (5, (5, 5))
    assert result.stats.bytes_written == sum(
        path.stat().st_size for path in (tmp_path / "out").iterdir()
    )
    with og.init(tmp_path / "copy", SCHEMA) as copy:
        copy.load_nodes("Person", tmp_path / "out" / f"Person.{format}", mode="append")
        copy.load_nodes("Empty", tmp_path / "out" / f"Empty.{format}", mode="append")
        copy.load_edges("Knows", tmp_path / "out" / f"Knows.{format}", mode="append")
        assert lines(copy) == lines(graph)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_one_type_goes_to_a_file_whose_name_says_the_format(graph, tmp_path, suffix):
    out = tmp_path / f"people{suffix.upper()}"
    result = graph.export(str(out), types=["Person"], at="side")
    assert result.records == 4
    assert not out.read_bytes().startswith(b"{")
    with og.init(tmp_path / "copy", SCHEMA) as copy:
        copy.load_nodes("Person", out)
        assert lines(copy, types=["Person"]) == lines(graph, types=["Person"], at="side")


def test_loads_take_every_ending_that_exports_write():
    assert set(SUFFIXES) <= set(COLUMN_FILES)


def test_an_empty_text_and_no_value_stay_apart_in_csv(graph, tmp_path):
    graph.export(tmp_path / "knows.csv", types=["Knows"])
    rows = (tmp_path / "knows.csv").read_text().splitlines()
    assert rows[0] == '"id","from","to","since","how"'
    assert any(row.endswith(',2020-01-01,""') for row in rows[1:])
    assert any(row.endswith('",,') for row in rows[1:])


def test_a_type_without_rows_has_its_columns(graph, tmp_path):
    for suffix in (".csv", ".parquet", ".arrow"):
        graph.export(tmp_path / f"none{suffix}", types=["Empty"])
        table = read(tmp_path / f"none{suffix}")
        assert (table.column_names, table.num_rows) == (["id", "code", "note"], 0)


def test_columns_have_the_types_of_their_properties(graph, tmp_path):
    graph.export(tmp_path / "p.parquet", types=["Person"])
    schema = parquet.read_schema(tmp_path / "p.parquet")
    assert schema.field("vec").type == pa.list_(pa.float32(), 3)
    assert schema.field("born").type == pa.date32()
    assert schema.field("big").type == pa.uint64()
    assert pa.types.is_timestamp(schema.field("seen").type)


def test_a_stream_takes_a_format(graph):
    data, text = io.BytesIO(), io.StringIO()
    graph.export(data, types=["Person"], format="parquet")
    assert parquet.read_table(io.BytesIO(data.getvalue())).num_rows == 3
    graph.export(text, types=["Person"], format="csv")
    assert text.getvalue().startswith('"id","name",')
    with pytest.raises(BadRequest, match="bytes"):
        graph.export(text, types=["Person"], format="arrow")


def refused(graph, tmp_path, match, out, **options):
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(BadRequest, match=match):
        graph.export(out, **options)
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_one_file_for_several_types_is_refused_with_the_way(graph, tmp_path):
    for suffix in SUFFIXES:
        match = (
            r"holds one type, and there are 3 to export \(Empty, Person, Knows\).*types.*directory"
        )
        refused(graph, tmp_path, match, tmp_path / f"all{suffix}")
    refused(graph, tmp_path, "holds one type", io.BytesIO(), format="csv")


def test_what_contradicts_itself_is_refused(graph, tmp_path):
    one = {"types": ["Person"]}
    refused(
        graph, tmp_path, "file of csv, and format is parquet", tmp_path / "a.csv", format="parquet"
    )
    refused(
        graph,
        tmp_path,
        "file of csv, and format is jsonl",
        tmp_path / "a.csv",
        format="jsonl",
        **one,
    )
    refused(graph, tmp_path, "compressed file of csv", tmp_path / "a.csv.gz", **one)
    refused(graph, tmp_path, "compressed file of parquet", tmp_path / "a.parquet.zst", **one)
    refused(graph, tmp_path, "format is 'xml'", tmp_path / "a", format="xml")
    refused(graph, tmp_path, "no type `Ghost`", tmp_path / "a.csv", types=["Ghost"])
    refused(graph, tmp_path, 'directory.*format="csv"', tmp_path)
    refused(graph, tmp_path, "no directory", tmp_path / "none" / "a.csv", **one)


def test_json_lines_may_have_any_other_name(graph, tmp_path):
    graph.export(tmp_path / "a.txt", types=["Empty", "Person"])
    assert (tmp_path / "a.txt").read_text().startswith('{"type":"Person"')
    graph.export(tmp_path / "b.jsonl", format="jsonl")
    assert (tmp_path / "b.jsonl").read_text() == lines(graph)


def test_blobs_are_refused_with_the_way(tmp_path):
    schema = "node Doc { name: String @key  scan: Blob? }\nnode Other { name: String @key }"
    with og.init(tmp_path / "g", schema) as graph:
        for out in (tmp_path / "doc.parquet", tmp_path / "doc.csv"):
            refused(graph, tmp_path, "Doc.scan is a Blob.*JSON lines", out, types=["Doc"])
        refused(graph, tmp_path, "Doc.scan is a Blob", f"{tmp_path}/out/", format="csv")
        graph.export(tmp_path / "other.csv", types=["Other"])


def test_types_of_one_name_get_files_of_their_own(tmp_path):
    schema = "node Link { name: String @key }\nedge Link: Link -> Link"
    with og.init(tmp_path / "g", schema) as graph:
        graph.export(f"{tmp_path}/out/", format="csv")
        found = sorted(path.name for path in (tmp_path / "out").iterdir())
        assert found == ["edge-Link.csv", "node-Link.csv"]
        refused(graph, tmp_path, "there are 2 to export", tmp_path / "a.csv", types=["Link"])


def test_an_export_that_is_stopped_leaves_nothing(graph, tmp_path):
    def stop(_done, _total):
        raise KeyboardInterrupt

    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "Person.csv").write_text("before")
    for out in (f"{tmp_path}/new/", tmp_path / "there"):
        with pytest.raises(KeyboardInterrupt):
            graph.export(out, format="csv", progress=stop)
    assert not (tmp_path / "new").exists()
    assert [path.name for path in (tmp_path / "there").iterdir()] == ["Person.csv"]
    assert (tmp_path / "there" / "Person.csv").read_text() == "before"


def test_a_past_state_is_written_under_the_names_of_now(tmp_path):
    with og.init(tmp_path / "g", "node Person { name: String @key  age: I32? }") as graph:
        graph.load([{"type": "Person", "data": {"name": "ann", "age": 3}}])
        before = graph.snapshot().graph_commit_id
        renamed = 'node Human @rename_from("Person") { name: String @key }'
        graph.schema.apply(renamed)
        graph.export(tmp_path / "then.parquet", types=["Human"], snapshot=before)
        table = parquet.read_table(tmp_path / "then.parquet")
        assert table.to_pylist() == [{"id": "ann", "name": "ann", "age": 3}]
