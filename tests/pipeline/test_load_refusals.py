"""What a load refuses before it reads, and where it writes what is wrong with records."""

from __future__ import annotations

import json
import os
from functools import partial

import pyarrow as pa
import pytest

from omnigraph.errors import (
    BadRequest,
    BranchNotFound,
    ConstraintError,
    InputError,
    KeyConflict,
    PreconditionFailed,
    SchemaConflict,
)
from omnigraph.pipeline.formats.typed_batch import MAX_SOURCES, order_of, place_of
from omnigraph.pipeline.load import load
from omnigraph.pipeline.load_input import LoadInput
from omnigraph.pipeline.load_plan import LoadPlan
from omnigraph.pipeline.rows.bad_records import Bad, RejectedRecords
from omnigraph.pipeline.rows.ids import make_ids
from omnigraph.pipeline.spark.read_plan import MAX_PARTS, PART, FramePart
from tests.graphs import graph_of, person
from tests.opened import workspace_of
from tests.pipeline.load_helpers import load_gathered
from tests.stored import read_back

SCHEMA = """
node Person { name: String @key  age: I32? }
node Scan { slug: String @key  image: Blob? }
edge Knows: Person -> Person
"""


graph = graph_of(SCHEMA)


@pytest.fixture
def bad(tmp_path):
    """A file with one good and one bad record."""
    path = tmp_path / "bad.jsonl"
    path.write_text('{"type":"Person","data":{"name":"a"}}\n{"type":"Person","data":{}}\n', "utf-8")
    return path


class NotRead:
    """An input that must not be looked at."""

    def __iter__(self):
        raise AssertionError("the input was read")


# ------------------------------------------------------------------ before reading


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"branch": "nowhere"}, BranchNotFound),
        ({"branch": "new", "from_branch": "nowhere"}, BranchNotFound),
        ({"if_commit": "01M7EV9EX8R6AZPCDK1PB1YD7P"}, PreconditionFailed),
        ({"mode": "replace"}, BadRequest),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_read(graph, options, error):
    with pytest.raises(error):
        load_gathered(graph, _unreadable, **options)


def test_a_missing_branch_says_how_to_get_one(graph):
    with pytest.raises(BranchNotFound, match=r"`b`.*from_branch") as caught:
        graph.load([person("a")], branch=" b ")
    assert caught.value.details == {"branch": "b"}


def _unreadable(inputs):
    inputs._parts.append(lambda _: iter(NotRead()))


def test_a_frame_of_an_unknown_type_is_refused_before_anything_is_read(graph):
    def gather(inputs):
        _unreadable(inputs)
        inputs.nodes("Persn", pa.table({"name": ["a"]}))

    with pytest.raises(BadRequest, match="Person"):
        load_gathered(graph, gather)


def test_a_type_is_named_by_a_text(graph):
    with pytest.raises(BadRequest, match="NoneType"):
        graph.load_nodes(None, pa.table({"name": ["a"]}))
    with pytest.raises(BadRequest, match="int"):
        graph.load_edges(5, pa.table({"from": ["a"], "to": ["a"]}))


@pytest.mark.parametrize("address", ["http://host/x.jsonl", "HTTPS://host/x.csv"])
def test_a_web_server_is_no_source(graph, address):
    with pytest.raises(BadRequest, match="fetch it first"):
        graph.load(address)
    with pytest.raises(BadRequest, match="fetch it first"):
        graph.load_nodes("Person", address)


def test_records_read_by_another_schema_are_not_written(graph):
    catalog = graph.schema.catalog
    before = graph.snapshot()
    with LoadInput() as inputs:
        request = LoadPlan(inputs.json([person("a")]))
        with pytest.raises(SchemaConflict):
            load(workspace_of(graph), lambda: ("sha256:another", catalog), request)
    assert graph.snapshot() == before


# ------------------------------------------------------------------ rejects


def places(tmp_path):
    """Where no file can be written."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "loop").symlink_to("loop")
    return [folder, tmp_path / "no" / "such", tmp_path / "loop", "x" * 5000, "a\0b"]


@pytest.mark.parametrize("which", range(5))
def test_rejects_that_cannot_be_written_are_refused_first(graph, bad, tmp_path, which):
    place = places(tmp_path)[which]
    with pytest.raises(BadRequest, match="another file"):
        graph.load(bad, rejects=place)
    with pytest.raises(BadRequest, match="another file"):
        graph.load([person("fine")], rejects=place)
    assert read_back(graph).nodes["Person"] == {}


def test_rejects_never_replace_what_is_loaded(graph, bad, tmp_path):
    before = bad.read_bytes()
    linked = tmp_path / "linked.jsonl"
    linked.symlink_to(bad)
    other = tmp_path / "hard.jsonl"
    os.link(bad, other)
    for place in (bad, str(linked), other):
        with pytest.raises(BadRequest, match="reads"):
            graph.load(bad, rejects=place)
    assert bad.read_bytes() == before


def test_rejects_never_replace_files_of_the_graph(graph, bad, tmp_path):
    schema = tmp_path / "g" / "_schema.pg"
    for place in (schema, tmp_path / "g" / "new.jsonl"):
        with pytest.raises(BadRequest, match="inside the graph"):
            graph.load(bad, rejects=place)
    assert schema.read_text("utf-8") == SCHEMA
    assert not (tmp_path / "g" / "new.jsonl").exists()


def test_rejects_of_an_earlier_load_do_not_stay(graph, bad, tmp_path):
    rejects = tmp_path / "rejects.jsonl"
    with pytest.raises(InputError):
        graph.load(bad, rejects=rejects)
    (entry,) = map(json.loads, rejects.read_text("utf-8").splitlines())
    assert (entry["source"], entry["line"]) == (str(bad), 2)
    graph.load([person("a")], rejects=rejects)
    assert rejects.read_text("utf-8") == ""


def test_rejects_hold_the_records_of_a_broken_set_rule(graph, tmp_path):
    rejects = tmp_path / "rejects.jsonl"
    records = [person("a"), {"edge": "Knows", "from": "a", "to": "z"}]
    with pytest.raises(ConstraintError, match="line 2"):
        graph.load(records, rejects=rejects)
    (entry,) = map(json.loads, rejects.read_text("utf-8").splitlines())
    assert entry["line"] == 2
    assert "not found" in entry["reason"]


def test_rejects_hold_all_records_that_break_a_set_rule_with_their_values(graph, tmp_path):
    rejects = tmp_path / "rejects.jsonl"

    def refused(load, kind):
        with pytest.raises(kind, match="at least 19 more"):
            load(rejects=rejects, mode="append")
        lines = [json.loads(line) for line in rejects.read_text("utf-8").splitlines()]
        return {line["row"]: line["record"] for line in lines}

    twice = pa.table({"name": [f"p{n % 30}" for n in range(60)], "age": range(60)})
    found = refused(partial(graph.load_nodes, "Person", twice), ConstraintError)
    assert {row: (values["name"], values["age"]) for row, values in found.items()} == {
        row: (f"p{row - 31}", row - 1) for row in range(31, 61)
    }
    graph.load_nodes("Person", twice.slice(0, 30), mode="append")
    found = refused(partial(graph.load_nodes, "Person", twice.slice(2, 25)), KeyConflict)
    assert sorted(found) == list(range(1, 26))
    lost = pa.table({"from": ["p1"] * 40, "to": ["p2", "nobody"] * 20})
    found = refused(partial(graph.load_edges, "Knows", lost), ConstraintError)
    assert sorted(found) == list(range(2, 41, 2))
    assert {(values["from"], values["to"]) for values in found.values()} == {("p1", "nobody")}


def test_rejects_of_many_sources_keep_the_order_of_the_input(graph, tmp_path):
    files = []
    for number in range(3):
        path = tmp_path / f"{number}.jsonl"
        path.write_text("{}\n// fine\n{}\n", "utf-8")
        files.append(path)
    frame = pa.table({"name": ["x", None]})
    rejects = tmp_path / "rejects.jsonl"

    def gather(inputs):
        inputs.json(files[:2]).nodes("Person", frame).json(files[2])

    with pytest.raises(InputError):
        load_gathered(graph, gather, rejects=rejects)
    told = [json.loads(line) for line in rejects.read_text("utf-8").splitlines()]
    places = [(entry["source"], entry.get("line", entry.get("row"))) for entry in told]
    expected = [(str(path), line) for path in files[:2] for line in (1, 3)]
    assert places == [*expected, ("<frame>", 2), (str(files[2]), 1), (str(files[2]), 3)]


def test_many_bad_records_are_counted_not_kept():
    found = RejectedRecords()
    for block in range(50):
        found.add(Bad(0, block * 100 + at, "wrong") for at in range(100))
    assert found.total == 5000
    assert [bad.offset for bad in found.first] == list(range(20))


def test_the_first_thing_wrong_with_a_record_counts():
    found = RejectedRecords()
    found.add([Bad(0, 7, "second"), Bad(0, 3, "first"), Bad(0, 7, "later", "range")])
    assert [(bad.offset, bad.reason) for bad in found.first] == [(3, "first"), (7, "second")]
    assert found.total == 2


# ------------------------------------------------------------------ places


def test_more_files_than_places_can_number_are_refused(graph, tmp_path, monkeypatch):
    monkeypatch.setattr("omnigraph.pipeline.load_input.MAX_SOURCES", 2)
    for name in "abc":
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(person(name)), "utf-8")
        (tmp_path / f"{name}.csv").write_text(f"name\n{name}\n", "utf-8")
    for load_them in (
        lambda: graph.load(tmp_path / "*.jsonl"),
        lambda: graph.load_nodes("Person", tmp_path / "*.csv"),
    ):
        with pytest.raises(BadRequest, match="at most 2 files, and these are 3; join"):
            load_them()
    assert read_back(graph).nodes["Person"] == {}
    graph.load([tmp_path / "a.jsonl", tmp_path / "b.jsonl"])
    assert set(read_back(graph).nodes["Person"]) == {"a", "b"}


def test_as_many_sources_are_taken_as_have_places_of_their_own():
    last = order_of(MAX_SOURCES - 1, 2**48 - 1)
    assert place_of(last) == (MAX_SOURCES - 1, 2**48 - 1)
    assert last == 2**63 - 1, "the greatest number of 64 bits with a sign"
    sources = pa.array([0, MAX_SOURCES - 1], pa.int32())
    first, second = make_ids(sources, pa.array([7, 7], pa.int64()), "op", 0).to_pylist()
    assert first < second


def test_more_partitions_than_places_can_number_are_refused():
    def rows(part):
        return iter([pa.record_batch({PART: [part]})])

    assert FramePart.of(rows(MAX_PARTS - 1), []) is not None
    with pytest.raises(BadRequest, match="more than 32768 partitions; coalesce it"):
        FramePart.of(rows(MAX_PARTS), [])


# ------------------------------------------------------------------ rules


@pytest.mark.parametrize(("taken", "said"), [(3, "(and 2 more)"), (25, "(and at least 19 more)")])
def test_the_number_of_broken_rows_is_told_as_far_as_it_is_known(graph, taken, said):
    records = [person(f"p{number}") for number in range(taken)]
    graph.load(records, mode="append")
    with pytest.raises(KeyConflict) as refused:
        graph.load(records, mode="append")
    assert str(refused.value).endswith(said)


@pytest.mark.parametrize("mode", ["merge", "append", "overwrite"])
@pytest.mark.parametrize("address", ["s3://bucket/key", "file:///etc/hosts", "plain", ""])
def test_blobs_kept_elsewhere_are_refused(graph, mode, address):
    before = graph.snapshot()
    records = [
        {"type": "Scan", "data": {"slug": "a", "image": "base64:AA=="}},
        {"type": "Scan", "data": {"slug": "b", "image": address}},
    ]
    with pytest.raises(ConstraintError, match=r"line 2: Scan\.image.*external.*\$file"):
        graph.load(records, mode=mode)
    assert graph.snapshot() == before


def test_a_taken_id_says_what_to_do(graph):
    graph.load([person("a")])
    with pytest.raises(KeyConflict, match=r"line 1: .*'a'.*mode merge"):
        graph.load([person("a")], mode="append")


# ------------------------------------------------------------------ no rows


@pytest.mark.parametrize("mode", ["merge", "append", "overwrite"])
def test_no_json_records_touch_no_table(graph, mode):
    graph.load([person("a")])
    result = graph.load(b"// nobody\n", mode=mode)
    assert result.tables == []
    assert list(read_back(graph).nodes["Person"]) == ["a"]


def test_a_frame_without_rows_overwrites_its_table(graph, tmp_path):
    graph.load([person("a"), {"type": "Scan", "data": {"slug": "s"}}])
    empty = pa.table({"name": pa.array([], pa.utf8())})
    for mode in ("merge", "append"):
        assert graph.load_nodes("Person", empty, mode=mode).tables == []
    (tmp_path / "none.csv").write_text("name,age\n", "utf-8")
    result = graph.load_nodes("Person", tmp_path / "none.csv", mode="overwrite")
    assert result.tables == [{"table_key": "node:Person", "rows_loaded": 0}]
    assert read_back(graph).nodes["Person"] == {}
    assert list(read_back(graph).nodes["Scan"]) == ["s"]


def test_a_frame_without_rows_must_not_strand_edges(graph):
    graph.load([person("a"), {"edge": "Knows", "from": "a", "to": "a"}])
    empty = pa.table({"name": pa.array([], pa.utf8())})
    with pytest.raises(ConstraintError, match="not found"):
        graph.load_nodes("Person", empty, mode="overwrite")
    assert list(read_back(graph).nodes["Person"]) == ["a"]
