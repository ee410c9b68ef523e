"""Loads that leave bad records out: what they say of them, and what they cannot mend."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.errors import BadRequest, ConstraintError
from tests.graphs import graph_of
from tests.stored import read_back

SCHEMA = """
node Ship { imo: String @key  call: String? @unique  age: I32?  @range(age, 0..9) }
node Port { code: String @key }
edge Moored: Ship -> Port @card(0..1) { note: String? }
"""


graph = graph_of(SCHEMA)


def ship(imo, **data):
    return {"type": "Ship", "data": {"imo": imo, **data}}


def entries(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_every_record_that_is_left_out_is_told(graph, tmp_path):
    graph.load([ship("old", call="AA")])
    lines = tmp_path / "in.jsonl"
    good = json.dumps(ship("ok"))
    dangling = {"edge": "Moored", "from": "ok", "to": "nowhere", "data": {"id": "m"}}
    bad = [
        '{"type":"Ship","data":{"imo":7}}',
        "not JSON",
        json.dumps(ship("x", age=11)),
        json.dumps(ship("y", call="AA")),
        json.dumps(dangling),
    ]
    lines.write_text("\n".join(["// a comment", bad[0], good, *bad[1:], ""]))
    rejects = tmp_path / "rejects.jsonl"
    result = graph.load(lines, on_bad="skip", rejects=rejects)
    assert set(read_back(graph).nodes["Ship"]) == {"old", "ok"}
    assert result.skipped == 5
    assert result.total_rows == 1
    told = entries(rejects)
    assert [entry["line"] for entry in told] == [2, 4, 5, 6, 7]
    assert [entry["property"] for entry in told] == ["imo", None, "age", "call", "dst"]
    texts = [json.loads(text) if text.startswith("{") else text for text in bad]
    assert [entry["record"] for entry in told] == texts
    assert all(entry["source"] == str(lines) for entry in told)
    assert "@range" in told[2]["reason"]
    assert "'old'" in told[3]["reason"]
    report = result.to_json()["bad_records"]
    assert report["total"] == result.to_json()["skipped"] == 5
    shown = [{k: v for k, v in entry.items() if k != "record"} for entry in told]
    assert report["first"] == shown


def test_half_a_surrogate_pair_does_not_keep_a_record_from_being_told(graph, tmp_path):
    lines = tmp_path / "in.jsonl"
    lines.write_text(
        '{"type":"Ship","data":{"imo":"é\\ud800"}}\n{"type":"Ship","data":{"imo":"ok"}}\n'
    )
    rejects = tmp_path / "rejects.jsonl"
    assert graph.load(lines, on_bad="skip", rejects=rejects).skipped == 1
    assert [entry["record"] for entry in entries(rejects)] == [ship("é\ud800")]
    assert set(read_back(graph).nodes["Ship"]) == {"ok"}


def strict_entries(path):
    """The entries as a reader sees them that knows no JSON but the standard's."""

    def refuse(word):
        raise AssertionError(f"{word} is no JSON")

    lines = path.read_text("utf-8").splitlines()
    return [json.loads(line, parse_constant=refuse) for line in lines]


def test_rejects_are_json_whatever_the_records_are(graph, tmp_path):
    lines = tmp_path / "in.jsonl"
    bad = [
        '{"type":"Ship","data":{"imo":"a","age":NaN}}',
        '{"type":"Ship","data":{"imo":"a","age":1e999}}',
        '{"type":"Ship","data":{"imo":"a","age":1,"age":2}}',
    ]
    lines.write_text("\n".join(bad))
    rejects = tmp_path / "rejects.jsonl"
    graph.load(lines, on_bad="skip", rejects=rejects)
    assert [entry["record"] for entry in strict_entries(rejects)] == bad
    frame = pa.table({"name": ["a"], "vec": [[float("nan"), float("-inf"), 1.0]]})
    with og.init(tmp_path / "vectors", "node Sign { name: String @key  vec: Vector(3)? }") as signs:
        assert signs.load_nodes("Sign", frame, on_bad="skip", rejects=rejects).skipped == 1
    told = {"name": "a", "vec": ["NaN", "-Infinity", 1]}
    assert [entry["record"] for entry in strict_entries(rejects)] == [told]


def test_rows_are_told_by_their_values(graph, tmp_path):
    frame = pa.table(
        {"imo": ["a", "b", "c", None], "call": ["x", "x", "y", "z"], "age": [1, 2, 33, 4]}
    )
    rejects = tmp_path / "rejects.jsonl"
    result = graph.load_nodes("Ship", frame, on_bad="skip", rejects=rejects)
    told = {entry["row"]: entry for entry in entries(rejects)}
    assert result.skipped == 3
    assert {row: entry["property"] for row, entry in told.items()} == {2: "call", 3: "age", 4: "imo"}  # fmt: skip
    assert told[2]["record"] == {"imo": "b", "call": "x", "age": 2}
    assert told[3]["record"] == {"imo": "c", "call": "y", "age": 33}
    assert told[4]["record"] == {"imo": None, "call": "z", "age": 4}


def test_a_load_of_bad_records_alone_is_a_commit_without_rows(graph):
    before = graph.commits.list("main")
    result = graph.load([{"type": "Ship", "data": {"imo": 1}}], on_bad="skip")
    assert (result.total_rows, result.skipped) == (0, 1)
    assert len(graph.commits.list("main")) == len(before) + 1


def test_a_record_comes_back_when_the_one_that_replaced_it_is_left_out(graph):
    """It is as if the records that are left out had never been in the input."""
    records = [ship("a", call="x"), ship("b", call="y"), ship("b", call="x")]
    result = graph.load(records, on_bad="skip")
    assert result.skipped == 1
    assert read_back(graph).nodes["Ship"]["b"]["call"] == "y"


def test_what_no_record_can_mend_still_fails(graph):
    """An overwrite of nodes would leave a committed edge without its node."""
    moored = {"edge": "Moored", "from": "a", "to": "p", "data": {"id": "m"}}
    graph.load([ship("a"), {"type": "Port", "data": {"code": "p"}}, moored])
    with pytest.raises(ConstraintError, match="'a'"):
        graph.load([ship("b")], mode="overwrite", on_bad="skip")
    assert set(read_back(graph).nodes["Ship"]) == {"a"}


def test_overwrite_leaves_out_later_records_too(graph):
    graph.load([ship("old")])
    records = [ship("a", call="x"), ship("a"), ship("b", call="x"), ship("c")]
    assert graph.load(records, mode="overwrite", on_bad="skip").skipped == 2
    assert read_back(graph).nodes["Ship"].keys() == {"a", "c"}


@pytest.mark.parametrize("mode", ["merge", "patch", "append"])
def test_what_is_left_out_is_found_again_on_a_new_head(graph, tmp_path, mode):
    """The clash is with a row that another writer commits while this load is under way, and goes away."""

    def rival(_point):
        with og.open(graph.uri) as other:
            other.load([ship("held", call=None), ship("rival", call="y")])

    graph.load([ship("held", call="x")])
    rejects = tmp_path / "rejects.jsonl"
    records = [ship("a", call="x"), ship("b", call="y"), ship("c")]
    with failpoints.arm("load.before_locks", rival, times=1):
        result = graph.load(records, mode=mode, on_bad="skip", rejects=rejects)
    assert [entry["record"] for entry in entries(rejects)] == [ship("b", call="y")]
    assert result.skipped == 1
    assert read_back(graph).nodes["Ship"].keys() == {"held", "rival", "a", "c"}


def test_another_word_is_refused(graph):
    with pytest.raises(BadRequest, match="on_bad is 'ignore'; give one of fail, skip"):
        graph.load([ship("a")], on_bad="ignore")
