"""Where a branch lacks what `main` has, the error says that a merge brings it."""

from __future__ import annotations

import io

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.policy.checker import Action, Decision

OLD = "node Ship { imo: String @key }\nedge Tows: Ship -> Ship"
NEW = """
node Ship { imo: String @key  built: I32? }
node Port { code: String @key }
edge Tows: Ship -> Ship { since: Date? }
edge CallsAt: Ship -> Port
"""
ADVICE = "`main` has it: merge `main` into `old`"


@pytest.fixture
def graph(tmp_path):
    with og.init(tmp_path / "g", OLD) as graph:
        graph.load([{"type": "Ship", "data": {"imo": "S1"}}])
        graph.branches.create("old")
        graph.branches.create("new")
        graph.schema.apply(NEW)
        yield graph


UNKNOWN = {
    "a type in a query": lambda g, b: g.query(
        "query q() { match { $p: Port } return { $p.code } }", branch=b
    ),
    "a property in a query": lambda g, b: g.query(
        "query q() { match { $s: Ship } return { $s.built } }", branch=b
    ),
    "a property in a mutation": lambda g, b: g.mutate(
        'query q() { insert Ship { imo: "S2", built: 1 } }', branch=b
    ),
    "a property of a record": lambda g, b: g.load(
        [{"type": "Ship", "data": {"imo": "S2", "built": 1}}], branch=b
    ),
    "a type of a record": lambda g, b: g.load([{"type": "Port", "data": {"code": "O"}}], branch=b),
    "an edge type of a record": lambda g, b: g.load(
        [{"edge": "CallsAt", "from": "S1", "to": "O"}], branch=b
    ),
    "a column of a frame": lambda g, b: g.load_nodes(
        "Ship", pa.table({"imo": ["S2"], "built": pa.array([1], pa.int32())}), branch=b
    ),
    "the type of a frame": lambda g, b: g.load_nodes("Port", pa.table({"code": ["O"]}), branch=b),
    "a type of an export": lambda g, b: g.export(io.StringIO(), types=["Port"], branch=b),
    "the edge type of a frame": lambda g, b: g.load_edges(
        "CallsAt", pa.table({"from": ["S1"], "to": ["O"]}), branch=b
    ),
}

OF_ONE_TYPE = {
    "history": lambda g, b: g.history("node", "Port", "O", branch=b),
    "blame": lambda g, b: g.blame("edge", "CallsAt", "c", branch=b),
    "neighbors": lambda g, b: g.neighbors("Port", "O", branch=b),
    "neighbors, along edges": lambda g, b: g.neighbors("Ship", "S1", edges=["CallsAt"], branch=b),
    "subgraph": lambda g, b: g.subgraph([("Port", "O")], branch=b),
    "nodes": lambda g, b: g.nodes("Port", branch=b),
    "a column of nodes": lambda g, b: g.nodes("Ship", ["built"], branch=b),
    "edges": lambda g, b: g.edges("CallsAt", branch=b),
    "networkx": lambda g, b: g.to_networkx(["Port"], branch=b),
    "algorithms": lambda g, b: g.algorithms.degree("CallsAt", branch=b),
    "blobs": lambda g, b: g.blobs.read("node", "Port", "O", "photo", branch=b),
    "embed": lambda g, b: g.embed(b, ["Port"]),
    "indexes": lambda g, b: g.ensure_indices(b, rebuild="Port"),
}
"""Calls that name a type, or a column of one, and no text of a query."""


def told(error: og.errors.OmniGraphError) -> str:
    return f"{error} {getattr(error, 'hint', '')}"


@pytest.mark.parametrize("what", UNKNOWN)
def test_what_main_has_is_advised_to_be_merged(graph, what):
    with pytest.raises(og.errors.OmniGraphError) as refused:
        UNKNOWN[what](graph, "old")
    assert ADVICE in told(refused.value)
    assert ADVICE in str(refused.value.body())
    graph.branches.merge("main", "old")
    if "edge" not in what:
        UNKNOWN[what](graph, "old")


@pytest.mark.parametrize("what", UNKNOWN)
def test_nothing_is_advised_where_main_lacks_it_too(graph, what):
    graph.schema.apply(OLD + "\nnode Other { k: String @key }")
    with pytest.raises(og.errors.OmniGraphError) as refused:
        UNKNOWN[what](graph, "old")
    assert "merge `main`" not in told(refused.value)
    with pytest.raises(og.errors.OmniGraphError) as refused:
        UNKNOWN[what](graph, "main")
    assert "merge `main`" not in told(refused.value)


@pytest.mark.parametrize("what", OF_ONE_TYPE)
def test_calls_that_name_a_type_give_the_advice_too(graph, what):
    with pytest.raises(og.errors.BadRequest) as refused:
        OF_ONE_TYPE[what](graph, "old")
    assert told(refused.value).count(ADVICE) == 1
    graph.schema.apply(OLD + "\nnode Other { k: String @key }")
    with pytest.raises(og.errors.BadRequest) as refused:
        OF_ONE_TYPE[what](graph, "old")
    assert "merge `main`" not in told(refused.value)


def test_a_wrong_name_that_main_does_not_have_is_told_as_ever(graph):
    with pytest.raises(og.errors.InputError) as refused:
        graph.load([{"type": "Ship", "data": {"imo": "S2", "buildt": 1}}], branch="old")
    assert "merge `main`" not in told(refused.value)


def test_who_may_not_read_main_is_not_told_what_it_has(graph):
    class OldAlone:
        def check(self, request):
            return Decision(request.action is not Action.READ or request.branch == "old")

    with (
        og.open(graph.uri, actor="ann", policy=OldAlone()) as other,
        pytest.raises(og.errors.OmniGraphError) as refused,
    ):
        UNKNOWN["a property of a record"](other, "old")
    assert "no property" in told(refused.value)
    assert "merge `main`" not in told(refused.value)


def test_the_snippet_of_a_query_has_the_advice_once(graph):
    with pytest.raises(og.errors.TypeCheckError) as refused:
        UNKNOWN["a property in a query"](graph, "old")
    assert refused.value.render().count(ADVICE) == 1
    assert "".join(refused.value.__notes__).count(ADVICE) == 1
