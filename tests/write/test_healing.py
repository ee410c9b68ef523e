"""Every writer finishes what dead writers left, once, at its own door."""

from __future__ import annotations

import pytest

import omnigraph as og
from omnigraph.commit import heal as healing

SCHEMA = "node Person { name: String @key }"
INSERT = 'query add() { insert Person { name: "b" } }'


@pytest.fixture
def graph(tmp_path):
    with og.init(tmp_path / "g", SCHEMA) as graph:
        graph.branches.create("other")
        yield graph


WRITERS = {
    "load": lambda graph: graph.load([{"type": "Person", "data": {"name": "a"}}]),
    "load to a new branch": lambda graph: graph.load([], branch="new", from_branch="main"),
    "mutate": lambda graph: graph.mutate(INSERT),
    "ensure_indices": lambda graph: graph.ensure_indices(),
    "branch create": lambda graph: graph.branches.create("third"),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_a_writer_looks_for_dead_ones_once(graph, monkeypatch, writer):
    looked = []
    look = healing.list_sidecars

    def counting(workspace, graph_id):
        found = look(workspace, graph_id)
        looked.append(len(found))
        return found

    monkeypatch.setattr(healing, "list_sidecars", counting)
    WRITERS[writer](graph)
    # A branch that a load makes has a door of its own.
    assert looked == [0] * (2 if writer == "load to a new branch" else 1)
