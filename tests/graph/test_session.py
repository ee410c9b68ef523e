"""Sessions: the same graph as one actor uses it."""

from __future__ import annotations

import pytest

from omnigraph.errors import BadRequest
from omnigraph.graph.graph import state_of
from tests.graphs import graph_of

SCHEMA = "node Person { name: String @key  born: I32? }"
INSERT = "query add($name: String) { insert Person { name: $name } }"


graph = graph_of(SCHEMA, actor="ada")


def test_a_session_is_light(graph):
    bo = graph.session(" bo ")
    assert bo.actor == "bo"
    assert state_of(bo) is state_of(graph)
    assert (bo.uri, bo.mode, bo.embedder) == (graph.uri, graph.mode, graph.embedder)
    assert repr(bo) == f"<omnigraph.Session of bo on {graph.uri} (rw)>"
    assert repr(graph.session(None)) == f"<omnigraph.Session of nobody on {graph.uri} (rw)>"


def test_commits_record_the_actor_of_the_session(graph):
    bo, nobody = graph.session("bo"), graph.session(None)
    made = [
        one.mutate(INSERT, {"name": name}).commit
        for one, name in ((graph, "a"), (bo, "b"), (nobody, "c"))
    ]
    made.append(bo.load([{"type": "Person", "data": {"name": "d"}}], actor="bo").commit)
    made.append(graph.mutate(INSERT, {"name": "e"}, actor="cy").commit)
    assert [commit.actor_id for commit in made] == ["ada", "bo", None, "bo", "cy"]
    assert bo.tags.create("t").actor_id == "bo"


@pytest.mark.parametrize("actor", ["bo", None])
def test_a_session_acts_for_nobody_else(graph, actor):
    session = graph.session(actor)
    head = graph.snapshot().graph_commit_id
    for call in (
        lambda: session.mutate(INSERT, {"name": "x"}, actor="cy"),
        lambda: session.load([], actor="cy"),
        lambda: session.load_nodes("Person", [], actor="cy"),
        lambda: session.embed(actor="cy"),
        lambda: session.branches.create("b", actor="cy"),
        lambda: session.branches.delete("b", actor="cy"),
        lambda: session.branches.merge("b", actor="cy"),
        lambda: session.tags.create("t", actor="cy"),
        lambda: session.tags.delete("t", actor="cy"),
        lambda: session.schema.apply(SCHEMA + " node Extra { n: I32 }", actor="cy"),
        lambda: session.commits.revert(head, actor="cy"),
        lambda: session.blobs.write("node", "Person", "x", "p", b"", actor="cy"),
    ):
        with pytest.raises(
            BadRequest, match=f"acts for {actor or 'nobody'}, and the call names .* cy"
        ):
            call()
    assert graph.snapshot().graph_commit_id == head
    assert graph.branches.list() == ["main"]
    assert graph.tags.list() == []


@pytest.mark.parametrize("actor", ["", "  ", "omnigraph:recovery", 5])
def test_a_session_needs_an_actor_that_can_be_one(graph, actor):
    with pytest.raises(BadRequest):
        graph.session(actor)


def test_a_session_ends_with_its_graph(graph):
    bo = graph.session("bo")
    graph.close()
    assert "closed" in repr(bo)
    for call in (bo.status, bo.tags.list, lambda: graph.session("bo")):
        with pytest.raises(BadRequest, match="closed"):
            call()
