"""The manifest on an object store: the same behaviour over HTTP."""

from __future__ import annotations

import pytest

from omnigraph.errors import (
    AlreadyInitialised,
    BranchExists,
    BranchNotFound,
    NotAGraph,
    StorageError,
)
from omnigraph.graph import init
from omnigraph.graph import open as open_graph
from tests.faults.publish_workers import publish_kinds, publish_many
from tests.manifest.publishing import PERSON, SCHEMA, TEAM, advance
from tests.opened import workspace_of
from tests.storage.processes import run_processes


@pytest.fixture
def graph(s3_root):
    with init(s3_root.canonical, SCHEMA) as graph:
        yield graph


def test_init_open_publish_and_travel(graph):
    genesis = graph.snapshot()
    commits = [
        advance(workspace_of(graph).manifest, PERSON),
        advance(workspace_of(graph).manifest, TEAM),
    ]
    with open_graph(graph.uri, mode="r") as reader:
        assert reader.commits.list() == [commits[1], commits[0], genesis.commit]
        assert reader.snapshot(snapshot=genesis.graph_commit_id).tables == genesis.tables
        assert reader.snapshot(version=commits[0].manifest_version).commit == commits[0]
        later = advance(workspace_of(graph).manifest, PERSON)
        assert reader.snapshot().commit == later
        assert reader.schema.source == SCHEMA


def test_a_second_init_and_a_missing_graph(graph, s3_root):
    with pytest.raises(AlreadyInitialised):
        init(graph.uri, SCHEMA)
    with pytest.raises(NotAGraph):
        open_graph(s3_root.canonical + "-not-here")


@pytest.mark.parametrize("name", ["x", "review/may", "Größe"])
def test_branches(graph, name):
    graph.branches.create(name)
    assert graph.branches.list() == ["main", name]
    commit = advance(workspace_of(graph).manifest, PERSON, branch=name)
    with open_graph(graph.uri) as other:
        assert other.snapshot(branch=name).commit == commit
        assert other.snapshot().tables[PERSON].table_version == 1
        with pytest.raises(BranchExists):
            other.branches.create(name)
        other.branches.delete(name)
    with pytest.raises(BranchNotFound):
        graph.snapshot(branch=name)


def test_publishers_in_several_processes(graph, s3):
    calls = [(graph.uri, "main", [PERSON], 5, f"p{n}") for n in range(4)]
    told = [item for result in run_processes(publish_many, calls) for item in result]
    published = {commit_id for outcome, commit_id in told if outcome == "published"}
    chain = graph.commits.list()
    assert {commit.graph_commit_id for commit in chain[:-1]} == published
    assert graph.snapshot().tables[PERSON].table_version == 1 + len(published)
    assert len(published) >= 5


def test_publishers_of_every_kind_in_several_processes(graph, s3):
    calls = [(graph.uri, seed, 6) for seed in range(4)]
    told = [item for result in run_processes(publish_kinds, calls) for item in result]
    published = {commit_id for outcome, commit_id in told if outcome == "published"}
    assert {commit.graph_commit_id for commit in graph.commits.list()[:-1]} == published
    state = workspace_of(graph).manifest.state("main")
    ids = state.table.read(["object_id"]).column("object_id").to_pylist()
    assert len(ids) == len(set(ids))
    assert {object_id for outcome, object_id in told if outcome == "row"} <= set(ids)


def test_a_store_that_ignores_put_if_absent_is_refused(s3, s3_root):
    def ignore_condition(environ):
        environ.pop("HTTP_IF_NONE_MATCH", None)

    s3.before(ignore_condition)
    with pytest.raises(StorageError, match="put-if-absent"):
        init(s3_root.canonical, SCHEMA)
    s3.disarm()
    with pytest.raises(NotAGraph):
        open_graph(s3_root.canonical)


def test_an_answer_lost_on_the_way_back_does_not_lose_the_publish(graph, s3):
    """The store takes the new manifest and the connection fails: the commit must not run twice."""
    lost = []

    def lose_answer(environ):
        path = environ["PATH_INFO"]
        if environ["REQUEST_METHOD"] == "PUT" and "/__manifest/_versions/" in path and not lost:
            lost.append(path)
            return "503 Service Unavailable", b""
        return None

    s3.after(lose_answer)
    commit = advance(workspace_of(graph).manifest, PERSON)
    assert lost
    chain = graph.commits.list()
    assert [entry.graph_commit_id for entry in chain].count(commit.graph_commit_id) == 1
    assert len(chain) == 2
    assert graph.snapshot().tables[PERSON].table_version == 2
