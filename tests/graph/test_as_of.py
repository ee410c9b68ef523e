"""The moment at which reads see what holds: named by the call, else that of the state they read."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

import omnigraph
from omnigraph import clock
from omnigraph.errors import BadRequest, EntityNotFound, TypeCheckError
from omnigraph.graph import Graph

SCHEMA = """
node Stop { code: String @key  opened: Date?  closed: Date?  @valid(opened, closed) }
node Line { code: String @key }
edge Next: Stop -> Stop { since: DateTime?  until: DateTime?  @valid(since, until) }
edge Calls: Line -> Stop
"""
ROWS = [
    {"type": "Stop", "data": {"code": "a"}},
    {"type": "Stop", "data": {"code": "b", "opened": "2000-01-01", "closed": "2010-01-01"}},
    {"type": "Stop", "data": {"code": "c"}},
    {"type": "Line", "data": {"code": "x"}},
    {"edge": "Next", "from": "a", "to": "b", "data": {"id": "n1"}},
    {"edge": "Next", "from": "a", "to": "c", "data": {"id": "n2", "until": "2005-06-01T12:00:00Z"}},
    {"edge": "Next", "from": "c", "to": "a", "data": {"id": "n3", "since": "2005-06-01T12:00:00Z"}},
    {"edge": "Calls", "from": "x", "to": "a", "data": {"id": "c1"}},
    {"edge": "Calls", "from": "x", "to": "b", "data": {"id": "c2"}},
]
PAIRS = "match { $a next $b } return { $a.code as a, $b.code as b } order { a, b }"


@pytest.fixture
def graph(tmp_path):
    with omnigraph.init(tmp_path / "graph", SCHEMA) as made:
        made.load(ROWS)
        yield made


def pairs(graph: Graph, **asked: Any) -> list[str]:
    return [row["a"] + row["b"] for row in graph.query(PAIRS, **asked).rows]


@pytest.mark.parametrize(
    ("as_of", "expected", "told"),
    [
        (None, ["ca"], None),
        ("ever", ["ab", "ac", "ca"], "ever"),
        ("2001-01-01", ["ab", "ac"], "2001-01-01T00:00:00.000Z"),
        (date(2001, 1, 1), ["ab", "ac"], "2001-01-01T00:00:00.000Z"),
        ("2005-06-01T11:59:59.999Z", ["ab", "ac"], "2005-06-01T11:59:59.999Z"),
        (datetime(2005, 6, 1, 12, tzinfo=UTC), ["ab", "ca"], "2005-06-01T12:00:00.000Z"),
        (datetime(2005, 6, 1, 12), ["ab", "ca"], "2005-06-01T12:00:00.000Z"),  # noqa: DTZ001
    ],
)
def test_the_call_names_the_moment(graph, as_of, expected, told):
    assert pairs(graph, as_of=as_of) == expected
    answer = graph.query(PAIRS, as_of=as_of).as_of
    assert answer == told if told is not None else answer is not None
    assert told is None or graph.explain(PAIRS, as_of=as_of).as_of == told
    assert [
        row["a"] + row["b"] for row in graph.profile(PAIRS, as_of=as_of).result.rows
    ] == expected


@pytest.mark.parametrize("as_of", ["", "last year", "2020-13-01", "10000-01-01", 5, ["ever"], True])
def test_what_is_no_moment_is_refused(graph, as_of):
    with pytest.raises(BadRequest, match="as_of"):
        graph.query(PAIRS, as_of=as_of)


def test_what_is_stored_takes_no_moment(graph):
    for call in (graph.entity, graph.nodes, graph.snapshot):
        with pytest.raises(TypeError):
            call(as_of="ever")


def test_a_state_asked_again_repeats_its_answer(graph, monkeypatch):
    graph.mutate('insert Next { from: "b", to: "a", until: shift(now(), 60, "second") }')
    head = graph.snapshot()
    graph.tags.create("then")
    first = {
        "commit": graph.query(PAIRS, snapshot=head.graph_commit_id),
        "tag": graph.query(PAIRS, tag="then"),
        "version": graph.query(PAIRS, branch="main", version=head.manifest_version),
    }
    later = clock.now_us() + int(timedelta(days=1) / timedelta(microseconds=1))
    monkeypatch.setattr("omnigraph.graph.reads.now_us", lambda: later)
    again = {
        "commit": graph.query(PAIRS, snapshot=head.graph_commit_id),
        "tag": graph.query(PAIRS, tag="then"),
        "version": graph.query(PAIRS, branch="main", version=head.manifest_version),
    }
    for name, found in again.items():
        before = first[name]
        assert (found.rows, found.as_of) == (before.rows, before.as_of), name
    assert graph.query(PAIRS).as_of != again["commit"].as_of


def test_pages_and_pictures_show_what_holds(graph):
    def ends(**asked: Any) -> set[str]:
        found = graph.neighbors("Stop", "a", **asked)
        totals = {one["edge"] + one["direction"]: one["total"] for one in found["counts"]}
        assert sum(totals.values()) == len(found["edges"])
        return {edge["id"] for edge in found["edges"]}

    assert ends() == {"n3", "c1"}
    assert ends(as_of="2001-01-01") == {"n1", "n2", "c1"}
    assert ends(as_of="ever") == {"n1", "n2", "n3", "c1"}
    assert graph.neighbors("Line", "x")["as_of"] is not None
    with pytest.raises(EntityNotFound, match="as_of"):
        graph.neighbors("Stop", "b")
    part = graph.subgraph([("Stop", "a"), ("Stop", "b"), ("Stop", "c")])
    assert [node["id"] for node in part["missing"]] == ["b"]
    assert [edge["id"] for edge in part["edges"]] == ["n3"]
    assert len(graph.subgraph([("Stop", "a"), ("Stop", "c")], as_of="ever")["edges"]) == 2
    # What a query found is shown, whatever it says of the moment.
    asked = 'match { $a: Stop { code: "b" } } ever return { $a }'
    found = graph.subgraph(query=asked)
    assert ([node["id"] for node in found["nodes"]], found["missing"]) == (["b"], [])


def test_algorithms_run_on_what_holds(graph):
    def degrees(**asked: Any) -> dict[str, int]:
        rows = graph.algorithms.degree("Next", **asked).to_arrow().to_pylist()
        return {row["id"]: row["degree"] for row in rows}

    assert degrees() == {"a": 0, "c": 1}
    assert degrees(as_of="2001-01-01") == {"a": 2, "b": 0, "c": 0}
    assert degrees(as_of="ever") == {"a": 2, "b": 0, "c": 1}


def test_networkx_has_what_holds(graph):
    pytest.importorskip("networkx")
    now = graph.to_networkx()
    assert {key for *_, key in now.edges(keys=True)} == {("Next", "n3"), ("Calls", "c1")}
    assert ("Stop", "b") not in now
    assert graph.to_networkx(as_of="ever").number_of_edges() == 5


@pytest.mark.parametrize(
    ("match", "named"),
    [
        ('$a: Stop as of "2020-01-01"', "String"),
        ("$a: Stop as of 5", "I64"),
        ("$a: Stop during 1 to 2", "I64"),
        ("$a: Stop as of [1]", "moment"),
        ("$a: Stop as of null", "null"),
        ("$a: Stop as of $b.opened  $b: Stop", "$b"),
        ("$a: Stop ever  $a: Stop", "$a"),
        ('$a next $b as of date("2020-01-01")  $b next $c', "$b"),
    ],
)
def test_moments_that_make_no_sense_are_refused(graph, match, named):
    with pytest.raises(TypeCheckError, match="T38") as caught:
        graph.query(f"match {{ {match} }} return {{ count(*) as n }}")
    assert named in str(caught.value)


def test_explain_says_when_things_must_hold(graph):
    text = graph.explain(PAIRS, as_of="2001-01-01").text
    assert "holds as of $as_of" in text
    assert "$as_of: 2001-01-01T00:00:00.000Z" in text
    named = PAIRS.replace("} return", '} as of date("2001-01-01") return')
    assert 'holds as of "2001-01-01"' in graph.explain(named).text
