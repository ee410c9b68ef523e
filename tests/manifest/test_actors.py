"""Actors are checked wherever they enter, and what is written down for recovery can be read."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.commit.sidecar import build_sidecar, list_sidecars, write_sidecar
from omnigraph.errors import BadRequest, StorageError
from omnigraph.manifest.actors import check_actor
from omnigraph.pipeline.datasource.options import write_options
from tests.commit.synthetic import PERSON, prepare
from tests.graphs import graph_of
from tests.opened import workspace_of

SCHEMA = """
node Person { name: String @key }
node Team { code: String @key }
edge MemberOf: Person -> Team
"""
INSERT = 'query add() { insert Person { name: "ada" } }'
RECORD = {"type": "Person", "data": {"name": "ada"}}
WRONG = [
    42,
    4.2,
    True,
    b"ada",
    ["ada"],
    "",
    " \t",
    "x" * 257,
    "a\ud800b",
    "omnigraph:",
    " omnigraph:x",
]


def shown(value):
    return ascii(value)[:20]


graph = graph_of(SCHEMA)


class TestTheRule:
    @pytest.mark.parametrize("actor", WRONG, ids=shown)
    def test_refused(self, actor):
        with pytest.raises(BadRequest) as caught:
            check_actor(actor, "--as")
        assert "--as" in str(caught.value)
        str(caught.value).encode()

    @pytest.mark.parametrize("actor", ["a", "x" * 256, "Zoë ☃", "omnigraph", "act-ada"], ids=shown)
    def test_accepted_without_the_white_space_around(self, actor):
        assert check_actor(f" {actor}\n") == actor

    def test_nobody(self):
        assert check_actor(None) is None


ENTRIES = {
    "open": lambda graph, actor: og.open(graph.uri, actor=actor),
    "open to read": lambda graph, actor: og.open(graph.uri, mode="r", actor=actor),
    "init": lambda graph, actor: og.init(f"{graph.uri}-2", SCHEMA, actor=actor),
    "load": lambda graph, actor: graph.load([RECORD], actor=actor),
    "load_nodes": lambda graph, actor: graph.load_nodes(
        "Person", pa.table({"name": ["ada"]}), actor=actor
    ),
    "load_edges": lambda graph, actor: graph.load_edges(
        "MemberOf", pa.table({"from": [], "to": []}), actor=actor
    ),
    "mutate": lambda graph, actor: graph.mutate(INSERT, actor=actor),
    "ensure_indices": lambda graph, actor: graph.ensure_indices(actor=actor),
    "branches.create": lambda graph, actor: graph.branches.create("b", actor=actor),
    "branches.delete": lambda graph, actor: graph.branches.delete("old", actor=actor),
}


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("actor", WRONG, ids=shown)
def test_every_entry_refuses_and_changes_nothing(graph, tmp_path, entry, actor):
    graph.branches.create("old")
    before = graph.commits.list()
    with pytest.raises(BadRequest, match="actor"):
        ENTRIES[entry](graph, actor)
    assert graph.commits.list() == before
    assert graph.branches.list() == ["main", "old"]
    assert not (tmp_path / "g-2").exists()


def test_the_data_source_refuses_too():
    options = {"graph": "g", "type": "Person"}
    for actor in ("", "omnigraph:recovery", "x" * 257):
        with pytest.raises(BadRequest, match="actor"):
            write_options({**options, "actor": actor})
    assert write_options({**options, "actor": " ada "}).load.actor == "ada"


def test_what_commits_record(graph):
    assert graph.mutate(INSERT, actor=" ada ").commit.actor_id == "ada"
    assert graph.load([RECORD]).commit.actor_id is None
    with og.open(graph.uri, actor="bob\n") as other:
        assert other.load([RECORD]).commit.actor_id == "bob"
        assert other.load([RECORD], actor="cy").commit.actor_id == "cy"


@pytest.mark.parametrize("actor", [42, "a\ud800b"], ids=shown)
def test_a_sidecar_that_nobody_could_read_is_never_written(graph, actor):
    """However it comes about: it would stop every writer after the next crash."""
    workspace = workspace_of(graph)
    write = prepare(workspace, {PERSON: ["ada"]})
    write = replace(write, intent=replace(write.intent, actor_id=actor))
    graph_id = workspace.manifest.state("main").head.graph_id
    with workspace.locks.acquire(workspace.locks.graph_lock()) as held:
        sidecar = build_sidecar(write, graph_id, set(), held)
        with pytest.raises(StorageError, match="nothing was changed"):
            write_sidecar(workspace, sidecar)
    assert list_sidecars(workspace, graph_id) == []
    assert graph.load([RECORD]).total_rows == 1
