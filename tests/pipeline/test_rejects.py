"""A file of rejects has one shape, and loads again once its records are mended."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime

import pyarrow as pa
import pytest
from pyarrow import parquet

import omnigraph as og
from omnigraph.pipeline.datasource.commit import commit_rows
from tests.graphs import graph_of
from tests.opened import workspace_of
from tests.pipeline.datasource_helpers import plan, run_tasks
from tests.pipeline.load_helpers import load_gathered
from tests.stored import read_back

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  day: Date?
  at: DateTime?
  scan: Blob?
  tags: [String]?
  mail: String? @unique
  @range(age, 0..150)
}
edge Knows: Person -> Person { since: I32? }
"""
GOOD = [{"type": "Person", "data": {"name": name}} for name in ("ann", "bob")]


graph = graph_of(SCHEMA, GOOD)


def rejects_of(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def write_lines(path, entries):
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))


ROW = {"Login": ["cy"], "age": ["old"], "day": ["2024-05-01"], "Mail": ["c@x"], "Fax": ["1"]}


def sources(kind, directory):
    table = pa.table(ROW)
    if kind == "csv":
        path = directory / "people.csv"
        path.write_text("Login,age,day,Mail,Fax\ncy,old,2024-05-01,c@x,1\n")
        return path
    if kind == "parquet":
        parquet.write_table(table, directory / "people.parquet")
        return directory / "people.parquet"
    if kind == "pandas":
        return pytest.importorskip("pandas").DataFrame(ROW)
    if kind == "polars":
        return pytest.importorskip("polars").DataFrame(ROW)
    return table


DAY = (date(2024, 5, 1) - date(1970, 1, 1)).days
RENAMES = {"Login": "name", "Mail": "mail"}


@pytest.mark.parametrize("mended", [36, "36"])
@pytest.mark.parametrize("kind", ["csv", "parquet", "arrow", "pandas", "polars"])
def test_a_row_that_cannot_be_read_loads_again(graph, tmp_path, kind, mended):
    path = tmp_path / "bad.jsonl"
    data = sources(kind, tmp_path)
    options = {"columns": RENAMES, "ignore_extra": True, "on_bad": "skip", "rejects": path}
    assert graph.load_nodes("Person", data, **options).skipped == 1
    (entry,) = rejects_of(path)
    assert (entry["row"], entry["property"], entry["type"]) == (1, "age", "Person")
    assert entry["record"] == {"name": "cy", "age": "old", "day": "2024-05-01", "mail": "c@x"}
    entry["record"]["age"] = mended
    write_lines(path, [entry])
    assert graph.load(path).total_rows == 1
    found = read_back(graph).nodes["Person"]["cy"]
    assert (found["age"], found["mail"], found["day"]) == (36, "c@x", DAY)


@pytest.mark.parametrize("rule", ["row", "set"])
def test_a_row_that_breaks_a_rule_loads_again_with_all_its_values(graph, tmp_path, rule):
    path = tmp_path / "bad.jsonl"
    at = datetime(2024, 5, 1, 12, 30, tzinfo=UTC)
    frame = pa.table(
        {
            "name": ["cy", "di"],
            "age": [1, 200 if rule == "row" else 2],
            "at": [at, at],
            "tags": [["a"], ["b", "c"]],
            "mail": ["c@x", "c@x" if rule == "set" else "d@x"],
            **({"scan": [b"1", b"\x00\xff"]} if rule == "row" else {}),
        }
    )
    assert graph.load_nodes("Person", frame, on_bad="skip", rejects=path).skipped == 1
    (entry,) = rejects_of(path)
    assert entry["row"] == 2
    assert "id" not in entry["record"]
    entry["record"] |= {"age": 3, "mail": "d@x"}
    write_lines(path, [entry])
    assert graph.load(path).total_rows == 1
    found = read_back(graph).nodes["Person"]["di"]
    assert (found["age"], found["tags"], found["at"]) == (3, ["b", "c"], at.timestamp() * 1000)
    if rule == "row":
        assert graph.blobs.read("node", "Person", "di", "scan") == b"\x00\xff"


@pytest.mark.parametrize("kind", ["unreadable", "lost"])
def test_an_edge_of_a_frame_loads_again(graph, tmp_path, kind):
    path = tmp_path / "bad.jsonl"
    frame = pa.table(
        {
            "who": ["ann"],
            "whom": ["nobody" if kind == "lost" else "bob"],
            "since": ["x" if kind == "unreadable" else "4"],
        }
    )
    done = graph.load_edges("Knows", frame, "who", "whom", on_bad="skip", rejects=path)
    assert done.skipped == 1
    (entry,) = rejects_of(path)
    assert (entry["edge"], entry["row"], entry["record"]["from"]) == ("Knows", 1, "ann")
    entry["record"] |= {"to": "bob", "since": 4}
    write_lines(path, [entry])
    assert graph.load(path).total_rows == 1
    ((_, source, target, data),) = [
        (row[0], row[1], row[2], row[3]) for row in read_back(graph).edges["Knows"]
    ]
    assert (source, target, data["since"]) == ("ann", "bob", 4)


def test_lines_load_again_whatever_was_wrong_with_them(graph, tmp_path):
    lines = [
        '{"type": "Person", "data": {"name": "cy", "age": 200}}',
        '{"type": "Person", "data": {"name": "di", "age": }}',
        '{"edge": "Knows", "from": "ann", "to": "nobody", "data": {"since": 1}}',
    ]
    source, path = tmp_path / "given.jsonl", tmp_path / "bad.jsonl"
    source.write_text("\n".join(lines))
    assert graph.load(source, on_bad="skip", rejects=path).skipped == 3
    entries = rejects_of(path)
    assert [(entry["line"], entry["source"]) for entry in entries] == [
        (number, str(source)) for number in (1, 2, 3)
    ]
    assert [set(entry) for entry in entries] == [
        {"source", "line", "reason", "property", "record"}
    ] * 3
    assert entries[0]["record"] == json.loads(lines[0])
    entries[0]["record"]["data"]["age"] = 20
    entries[1]["record"] = entries[1]["record"].replace("}}", "7}}")  # its text, which was no JSON
    entries[2]["record"]["to"] = "bob"
    write_lines(path, entries)
    assert graph.load(path).total_rows == 3
    people = read_back(graph).nodes["Person"]
    assert (people["cy"]["age"], people["di"]["age"]) == (20, 7)


def test_what_is_still_bad_is_rejected_in_the_same_shape(graph, tmp_path):
    first, second = tmp_path / "bad.jsonl", tmp_path / "worse.jsonl"
    records = [{"type": "Person", "data": {"name": "cy", "age": 200}}]
    frame = pa.table({"name": ["di"], "age": ["old"]})

    def gather(inputs):
        inputs.json(records)
        inputs.nodes("Person", frame)

    assert load_gathered(graph, gather, on_bad="skip", rejects=first).skipped == 2
    assert graph.load(first, on_bad="skip", rejects=second).skipped == 2
    ours = [{**entry, "source": str(first)} for entry in rejects_of(first)]
    ours[1]["line"] = 2
    del ours[1]["row"]
    assert [entry["record"] for entry in rejects_of(second)] == [
        records[0],
        {"name": "di", "age": "old"},
    ]
    keys = ("source", "line", "property", "record")
    assert [{k: e[k] for k in keys} for e in rejects_of(second)] == [
        {k: e[k] for k in keys} for e in ours
    ]
    assert rejects_of(second)[1]["type"] == "Person"


def test_a_patch_rejects_what_it_gave(graph, tmp_path):
    path = tmp_path / "bad.jsonl"
    graph.load([{"type": "Person", "data": {"name": "cy", "mail": "c@x", "age": 5}}])
    frame = pa.table({"name": ["cy"], "age": ["old"]})
    graph.load_nodes("Person", frame, mode="patch", on_bad="skip", rejects=path)
    (entry,) = rejects_of(path)
    assert entry["record"] == {"name": "cy", "age": "old"}
    write_lines(path, [{**entry, "record": {"name": "cy", "age": 6}}])
    graph.load(path, mode="patch")
    found = read_back(graph).nodes["Person"]["cy"]
    assert (found["age"], found["mail"]) == (6, "c@x")


def test_a_row_of_the_data_source_loads_again(graph, tmp_path):
    path = tmp_path / "bad.jsonl"
    rows = pa.record_batch({"name": ["cy", "ann"], "age": ["old", "7"]})
    options = {"type": "Person", "on_bad": "skip", "rejects": str(path)}
    made = plan(graph, [rows], **options)
    assert commit_rows(workspace_of(graph), made, run_tasks(made, [rows])).skipped == 2
    entries = rejects_of(path)
    assert [entry["type"] for entry in entries] == ["Person", "Person"]
    entries[0]["record"]["age"] = 8
    write_lines(path, entries)
    assert graph.load(path).total_rows == 2
    people = read_back(graph).nodes["Person"]
    assert (people["cy"]["age"], people["ann"]["age"]) == (8, 7)


def test_a_row_that_could_not_be_split_has_its_text(graph, tmp_path):
    source, path = tmp_path / "p.csv", tmp_path / "bad.jsonl"
    source.write_text("name,age\ncy,1,2\n")
    graph.load_nodes("Person", source, on_bad="skip", rejects=path)
    (entry,) = rejects_of(path)
    assert entry["record"] == "cy,1,2"
    with pytest.raises(og.errors.InputError, match="a record is a JSON object"):
        graph.load(path)
    write_lines(path, [{**entry, "record": {"name": "cy", "age": "1"}}])
    assert graph.load(path).total_rows == 1


def test_a_type_may_have_the_properties_that_a_reject_has(tmp_path):
    schema = "node Log { source: String @key  reason: String  record: String? }"
    with og.init(tmp_path / "logs", schema) as graph:
        data = {"source": "a", "reason": "b", "record": "c"}
        graph.load([{"type": "Log", "data": data}])
        graph.load_nodes("Log", pa.table({name: ["x"] for name in data}))
        assert graph.snapshot().tables["node:Log"].row_count == 2
