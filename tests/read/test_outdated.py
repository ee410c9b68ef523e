"""States of tables that nobody reads leave the cache, and answer when they are asked for again."""

from __future__ import annotations

import random

import pytest

import omnigraph as og
from omnigraph.read.thresholds import Thresholds, ViewThresholds
from omnigraph.read.view.byte_cache import identities
from omnigraph.read.view.edges import EdgeList
from omnigraph.read.view.nodes import NodeIds
from tests.opened import read_with
from tests.read.view_helpers import counted

SCHEMA = """
node Person { name: String @key  age: I32  about: String }
node Place { name: String @key }
edge Knows: Person -> Person
edge In: Person -> Place
"""
WALK = "query q() { match { $a: Person $a knows $b $b in $c } return { count($a) as n } }"
AGES = "query q() { match { $a: Person } return { sum($a.age) as n } }"
TEXTS = 'query q() { match { $a: Person  search($a.about, "tall") } return { count($a) as n } }'
PAIRS = 20


@pytest.fixture(
    params=[Thresholds(), Thresholds(view=ViewThresholds(derived_rows=0))], ids=["", "derived"]
)
def graph(tmp_path, request):
    with og.init(tmp_path / "g", SCHEMA, upkeep="off") as graph:
        read_with(graph, request.param)
        people = [
            {
                "type": "Person",
                "data": {"name": f"p{at:03d}", "age": at, "about": "tall" if at % 3 else "small"},
            }
            for at in range(300)
        ]
        graph.load([*people, {"type": "Place", "data": {"name": "here"}}])
        graph.load(
            [
                {"edge": "Knows", "from": f"p{at:03d}", "to": f"p{at * 7 % 300:03d}"}
                for at in range(300)
            ]
            + [{"edge": "In", "from": f"p{at:03d}", "to": "here"} for at in range(300)]
        )
        yield graph


def write(graph: og.Graph, at: int, branch: str = "main") -> None:
    graph.load(
        [
            {"type": "Person", "data": {"name": f"new{at}", "age": 1, "about": "tall"}},
            {"edge": "Knows", "from": f"new{at}", "to": "p000"},
        ],
        branch=branch,
    )


def ask(graph: og.Graph, **target: object) -> list[object]:
    return [graph.query(text, **target).scalar() for text in (WALK, AGES, TEXTS)]


def cache_of(graph: og.Graph):
    return graph._state.reader.cache


def counted_bytes(graph: og.Graph) -> int:
    cache = cache_of(graph)
    cache.get("count", lambda: 0, lambda _: 0)
    cache.drop("count")
    return cache.nbytes


def test_a_write_and_a_query_in_turn_do_not_fill_the_cache(graph):
    ask(graph)
    write(graph, 0)
    ask(graph)
    few, entries = counted_bytes(graph), len(cache_of(graph).kept())
    for at in range(1, PAIRS):
        write(graph, at)
        assert ask(graph)[1] == sum(range(300)) + at + 1
        assert len(cache_of(graph).kept()) <= entries + 4
    assert counted_bytes(graph) < 1.5 * few
    versions = {
        state.version
        for key in cache_of(graph).kept()
        for state in identities(key)
        if state.lineage.location.startswith("node")
    }
    assert len(versions) <= 4


def test_old_states_answer_when_they_are_asked_for_again(graph):
    told = [(graph.snapshot(), ask(graph))]
    for at in range(PAIRS):
        write(graph, at)
        told.append((graph.snapshot(), ask(graph)))
    random.Random(4).shuffle(told)
    for snapshot, answers in told:
        assert ask(graph, at=snapshot) == answers


def test_the_past_that_is_read_again_and_again_stays(graph, monkeypatch):
    """Who comes back to states of the past finds them, and the head, as they were numbered."""
    past = []
    for at in range(3):
        past.append(graph.snapshot())
        write(graph, at)
    ask(graph)
    wanted = [ask(graph, at=one) for one in past]
    assert [ask(graph, at=one) for one in past] == wanted
    nodes, edges = counted(monkeypatch, NodeIds, "read"), counted(monkeypatch, EdgeList, "read")
    for _ in range(5):
        assert [ask(graph, at=one) for one in past] == wanted
        ask(graph)
    assert (nodes["read"], edges["read"]) == (0, 0)


def test_tables_that_were_not_written_are_not_read_again(graph, monkeypatch):
    ask(graph)
    reads = counted(monkeypatch, EdgeList, "read")
    for at in range(5):
        graph.load([{"type": "Place", "data": {"name": f"there{at}"}}])
        assert graph.query("query q() { match { $p: Place } return { count($p) as n } }").scalar()
        graph.query("query q() { match { $a: Person $a knows $b } return { count($a) as n } }")
    assert reads["read"] == 0


def test_what_a_query_needs_now_and_then_is_the_start_of_the_next_state(graph, monkeypatch):
    """Between two walks other queries see other states; the edges of the last walk are still there."""
    read_with(graph, Thresholds(view=ViewThresholds(derived_rows=0)))
    ask(graph)
    reads = counted(monkeypatch, EdgeList, "read")
    for at in range(6):
        write(graph, at)
        graph.query(AGES)
    assert graph.query(WALK).scalar()
    assert reads["read"] <= 1


def test_branches_keep_a_state_each(graph):
    for name in ("one", "two"):
        graph.branches.create(name)
    for at in range(8):
        for name in ("one", "two", "main"):
            write(graph, at, branch=name)
            assert ask(graph, branch=name)[1] == sum(range(300)) + at + 1
    few = counted_bytes(graph)
    for at in range(8, 16):
        for name in ("one", "two", "main"):
            write(graph, at, branch=name)
            assert ask(graph, branch=name)[1] == sum(range(300)) + at + 1
    assert counted_bytes(graph) < 1.5 * few
