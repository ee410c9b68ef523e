"""Loads of what a client sent: lines and columns in files that nobody may take for files of the server."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.csv as arrow_csv
import pytest
from pyarrow import feather, parquet

import omnigraph as og
from omnigraph.clock import new_ulid
from omnigraph.errors import BadRequest, ConstraintError, InputError
from omnigraph.service.loads import STREAM, LoadRequest, ReceivedColumns, load, renames

SCHEMA = """
node Person { name: String @key  age: I32?  photo: Blob?  @range(age, 0..150) }
edge Knows: Person -> Person { since: I32? }
"""
URI = "https://somewhere/graphs/g"
PEOPLE = "query all() { match { $p: Person } return { $p.name, $p.age } order { $p.name } }"
ENDS = (
    "query all() { match { $a: Person $a knows $b } return { $a.name, $b.name } order { $a.name } }"
)


@pytest.fixture
def graph(tmp_path):
    with og.init(tmp_path / "g.omni", SCHEMA, local_files=False) as graph:
        yield graph


def people(graph, **target):
    return [(row["p.name"], row["p.age"]) for row in graph.query(PEOPLE, **target).rows]


def spool(tmp_path, table, form):
    """A file as a server keeps a body: its name says nothing."""
    path = tmp_path / "spool-1"
    if form == "parquet":
        parquet.write_table(table, path)
    elif form == "csv":
        arrow_csv.write_csv(table, path)
    elif form == "arrow":
        feather.write_feather(table, path, compression="uncompressed")
    else:
        with pa.ipc.new_stream(path, table.schema) as out:
            out.write_table(table)
    return path


@pytest.mark.parametrize("form", ["parquet", "csv", "arrow", "arrow stream"])
def test_columns_of_every_format_are_loaded(graph, tmp_path, form):
    table = pa.table({"name": ["ada", "bob"], "age": pa.array([36, None], pa.int32())})
    received = ReceivedColumns("node", "Person", form.split()[0], spool(tmp_path, table, form))
    document = load(graph, LoadRequest(mode="merge", received=received, engine="local"), URI)
    assert (document["uri"], document["total_rows"]) == (URI, 2)
    assert people(graph) == [("ada", 36), ("bob", None)]


def test_edges_name_the_columns_of_their_ends(graph, tmp_path):
    graph.load([{"type": "Person", "data": {"name": name}} for name in ("ada", "bob")])
    table = pa.table({"a": ["ada"], "b": ["bob"], "Since": [1999], "more": ["x"]})
    received = ReceivedColumns("edge", "Knows", "parquet", spool(tmp_path, table, "parquet"))
    request = LoadRequest(
        mode="merge",
        received=received,
        from_col="a",
        to_col="b",
        columns=renames(["Since=since"]),
        ignore_extra=True,
    )
    load(graph, request, URI)
    assert graph.query(ENDS).rows == [{"a.name": "ada", "b.name": "bob"}]


def test_the_options_of_csv_are_those_of_the_request(graph, tmp_path):
    path = tmp_path / "spool"
    path.write_bytes("zoë;-\nbob;7\n".encode("latin-1"))
    received = ReceivedColumns("node", "Person", "csv", path)
    request = LoadRequest(
        mode="merge",
        received=received,
        delimiter=";",
        header=False,
        names=("name", "age"),
        null=("-",),
        encoding="latin-1",
    )
    load(graph, request, URI)
    assert people(graph) == [("bob", 7), ("zoë", None)]
    with pytest.raises(BadRequest, match="CSV"):
        load(
            graph,
            LoadRequest(
                mode="merge",
                received=ReceivedColumns("node", "Person", "parquet", path),
                delimiter=";",
            ),
            URI,
        )


@pytest.mark.parametrize(
    ("form", "content"),
    [
        ("parquet", b"name\nada\n"),
        ("arrow", b"PAR1"),
        ("csv", b"name\n\xff\xfe\n"),
        ("csv", b""),
        ("parquet", b""),
    ],
)
def test_what_is_no_file_of_its_format_is_refused_by_the_name_of_the_body(
    graph, tmp_path, form, content
):
    path = tmp_path / "spool"
    path.write_bytes(content)
    received = ReceivedColumns("node", "Person", form, path)
    with pytest.raises((BadRequest, InputError)) as refused:
        load(graph, LoadRequest(mode="merge", received=received), URI)
    assert "body" in str(refused.value)
    assert str(tmp_path) not in json.dumps(refused.value.body())


def test_bad_rows_and_lines_are_told_by_the_name_of_the_body(graph, tmp_path):
    path = tmp_path / "spool"
    path.write_text("name,age\nada,x\n")
    received = ReceivedColumns("node", "Person", "csv", path)
    with pytest.raises(InputError, match=r"^input error: body, row 1: "):
        load(graph, LoadRequest(mode="merge", received=received), URI)
    path.write_text('{"type": "Person", "data": {"name": "ada"}}\nno\n')
    request = LoadRequest(mode="merge", data=(STREAM,))
    with path.open("rb") as opened:
        for stream in (path, opened):
            with pytest.raises(InputError, match=r"^input error: body, line 2: ") as refused:
                load(graph, request, URI, stream=stream, stream_name="body")
            assert refused.value.body()["bad_records"]["first"][0]["source"] == "body"
    with path.open("rb") as stream, pytest.raises(InputError, match="<stdin>, line 2"):
        load(graph, request, URI, stream=stream)


def test_lines_in_a_file_are_not_copied(graph, tmp_path, monkeypatch):
    path = tmp_path / "spool"
    path.write_text('{"type": "Person", "data": {"name": "ada"}}\n')
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.setattr("shutil.copyfileobj", None)
    load(graph, LoadRequest(mode="merge", data=(STREAM,)), URI, stream=path, stream_name="body")
    assert people(graph) == [("ada", None)]


def test_a_record_takes_in_no_file_that_lies_beside_the_body(graph, tmp_path):
    (tmp_path / "secret").write_text("of the server")
    path = tmp_path / "spool"
    record = {"type": "Person", "data": {"name": "ada", "photo": {"$file": "secret"}}}
    path.write_text(json.dumps(record))
    for handle in (graph, og.open(tmp_path / "g.omni")):
        with handle, pytest.raises((BadRequest, InputError)):
            load(handle, LoadRequest(mode="merge", data=(STREAM,)), URI, stream=path)


@pytest.mark.parametrize("texts", [["a"], ["=b"], ["a=b", "a=c"]])
def test_renames_that_mean_nothing_are_refused(texts):
    with pytest.raises(BadRequest, match="map"):
        renames(texts)


class TestFirstBad:
    def lines(self, count):
        bad = [{"type": "Person", "data": {"name": f"p{n}", "age": "x"}} for n in range(count)]
        return "\n".join(map(json.dumps, bad)).encode()

    @pytest.mark.parametrize(("first_bad", "listed"), [(None, 20), (1, 1), (50, 50), (1_000, 60)])
    def test_as_many_are_listed_as_asked_for(self, graph, first_bad, listed):
        request = LoadRequest(mode="merge", data=(self.lines(60),), first_bad=first_bad)
        with pytest.raises(InputError) as refused:
            load(graph, request, URI)
        found = refused.value.body()["bad_records"]
        assert found["total"] == 60
        assert [one["line"] for one in found["first"]] == list(range(1, listed + 1))

    def test_skipped_records_are_listed_too_and_the_commit_keeps_few(self, graph):
        request = LoadRequest(
            mode="merge",
            data=(self.lines(60),),
            first_bad=60,
            on_bad="skip",
            operation_id=new_ulid(),
        )
        document = load(graph, request, URI)
        assert len(document["bad_records"]["first"]) == 60
        again = load(graph, request, URI)
        assert again["replayed"]
        assert (again["bad_records"]["total"], len(again["bad_records"]["first"])) == (60, 20)

    def test_records_that_break_a_rule_are_listed_in_the_body(self, graph):
        old = [{"type": "Person", "data": {"name": f"p{n}", "age": 1_000}} for n in range(30)]
        with pytest.raises(ConstraintError) as refused:
            graph.load(old, first_bad=25)
        body = json.loads(json.dumps(refused.value.body()))
        assert len(body["bad_records"]["first"]) == 25
        assert og.errors.OmniGraphError.from_body(body, 400).body() == body

    @pytest.mark.parametrize("first_bad", [0, -1, 1_001, True, "3", None])
    def test_other_numbers_are_refused(self, graph, first_bad):
        with pytest.raises(BadRequest, match="first_bad"):
            graph.load([], first_bad=first_bad)
