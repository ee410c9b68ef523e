"""Branches of the graph: create, list, delete, and what they see."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from omnigraph import failpoints
from omnigraph.clock import new_ulid
from omnigraph.errors import (
    BadRequest,
    BranchExists,
    BranchInUse,
    BranchNameClash,
    BranchNotFound,
    CommitNotFound,
    HistoryReclaimed,
    TagNotFound,
    VersionNotFound,
)
from omnigraph.graph import open as open_graph
from omnigraph.manifest.publisher import ManifestChanges, publish
from omnigraph.manifest.snapshot import Target
from omnigraph.storage.locks.locks import LockManager
from tests.graphs import graph_of
from tests.manifest.publishing import PERSON, SCHEMA, TEAM, advance, intent
from tests.opened import workspace_of

graph = graph_of(SCHEMA)


def commits_of(graph, branch="main"):
    return [commit.graph_commit_id for commit in graph.commits.list(branch)]


def test_a_new_branch_has_its_sources_head_and_makes_no_commit(graph):
    commit = advance(workspace_of(graph).manifest, PERSON)
    created = graph.branches.create("review/may")
    assert created.to_json() == {
        "name": "review/may",
        "from": "main",
        "head_commit_id": commit.graph_commit_id,
        "version": commit.manifest_version,
    }
    assert graph.branches.list() == ["main", "review/may"]
    main, branch = graph.snapshot(), graph.snapshot(branch="review/may")
    assert branch.tables == main.tables
    assert branch.graph_commit_id == commit.graph_commit_id
    assert commits_of(graph, "review/may") == commits_of(graph)


def test_branches_do_not_see_each_others_commits(graph):
    graph.branches.create("a")
    on_branch = advance(workspace_of(graph).manifest, PERSON, branch="a")
    on_main = advance(workspace_of(graph).manifest, TEAM)
    assert on_branch.branch == "a"
    assert graph.snapshot(branch="a").tables[PERSON].table_version == 2
    assert graph.snapshot(branch="a").tables[TEAM].table_version == 1
    assert graph.snapshot().tables[PERSON].table_version == 1
    assert on_branch.graph_commit_id not in commits_of(graph)
    assert on_main.graph_commit_id not in commits_of(graph, "a")
    assert on_branch.parent_commit_id == on_main.parent_commit_id


def test_a_branch_of_a_branch(graph):
    graph.branches.create("a")
    on_a = advance(workspace_of(graph).manifest, PERSON, branch="a")
    created = graph.branches.create("b", from_="a")
    assert created.head_commit_id == on_a.graph_commit_id
    on_b = advance(workspace_of(graph).manifest, PERSON, branch="b")
    assert graph.snapshot(branch="b").tables[PERSON].table_version == 3
    assert graph.snapshot(branch="a").tables[PERSON].table_version == 2
    assert commits_of(graph, "b") == [on_b.graph_commit_id, *commits_of(graph, "a")]


def test_the_list_is_main_first_then_by_code_point(graph):
    for name in ("b", "ä", "A", "a/x", "__run__1"):
        graph.branches.create(name)
    assert graph.branches.list() == ["main", "A", "__run__1", "a/x", "b", "ä"]


def test_refused_creates_change_nothing(graph):
    graph.branches.create("review")
    commit = advance(workspace_of(graph).manifest, PERSON)
    refusals = [
        (BranchExists, ("review", "main")),
        (BranchExists, (" review ", "main")),
        (BranchNameClash, ("review/may", "main")),
        (BranchNotFound, ("new", "ghost")),
        (BadRequest, ("main", "main")),
        (BadRequest, ("__x", "main")),
        (BadRequest, ("a b", "main")),
        (BadRequest, (".", "main")),
        (BadRequest, ("review/.", "main")),
        (BranchNotFound, ("new", commit.graph_commit_id)),
        (BadRequest, ("new", 5)),
        (CommitNotFound, ("new", Target(snapshot=new_ulid()))),
        (VersionNotFound, ("new", Target(branch="main", version=99))),
        (TagNotFound, ("new", Target(tag="ghost"))),
        # The commit pins a version of Person that was never written.
        (HistoryReclaimed, ("new", Target(snapshot=commit.graph_commit_id))),
    ]
    for error, (name, source) in refusals:
        with pytest.raises(error):
            graph.branches.create(name, from_=source)
    assert graph.branches.list() == ["main", "review"]
    with open_graph(graph.uri, mode="r") as reader:
        assert len(reader.commits.list("review")) == 1


def test_a_name_of_the_longest_kind_works(graph):
    for name in ("x" * 200, "é/" * 12 + "é" * 2):
        graph.branches.create(name)
        advance(workspace_of(graph).manifest, PERSON, branch=name)
    with open_graph(graph.uri, mode="r") as reader:
        assert len(reader.branches.list()) == 3


@pytest.mark.parametrize("name", ["ghost", "../../x", "\udc80", "x" * 400, "a\0b", "."])
def test_a_branch_that_cannot_exist_is_not_there(graph, name):
    for call in (graph.snapshot, graph.commits.list):
        with pytest.raises(BranchNotFound):
            call(branch=name)


def test_residue_of_an_interrupted_create_does_not_block(graph):
    graph.branches.create("half")
    (ref,) = Path(graph.uri, "__manifest", "_refs", "branches").iterdir()
    ref.unlink()
    assert graph.branches.list() == ["main"]
    commit = advance(workspace_of(graph).manifest, PERSON)
    created = graph.branches.create("half")
    assert created.head_commit_id == commit.graph_commit_id


def test_a_create_that_dies_at_either_point_can_be_repeated(graph):
    for point, listed in (("branch.before_create", False), ("branch.after_create", True)):
        with failpoints.arm(point, RuntimeError("stop")), pytest.raises(RuntimeError):
            graph.branches.create("x")
        assert ("x" in graph.branches.list()) is listed
        if not listed:
            graph.branches.create("x")
        graph.branches.delete("x")


def test_a_delete_that_dies_leaves_the_branch_or_not(graph):
    graph.branches.create("x")
    with failpoints.arm("branch.before_delete", RuntimeError("stop")), pytest.raises(RuntimeError):
        graph.branches.delete("x")
    assert graph.branches.list() == ["main", "x"]
    with failpoints.arm("branch.after_delete", RuntimeError("stop")), pytest.raises(RuntimeError):
        graph.branches.delete("x")
    assert graph.branches.list() == ["main"]
    graph.branches.create("x")


def test_deleting(graph):
    graph.branches.create("x")
    commit = advance(workspace_of(graph).manifest, PERSON, branch="x")
    graph.branches.delete(" x ")
    assert graph.branches.list() == ["main"]
    for call in (
        lambda: graph.snapshot(branch="x"),
        lambda: graph.commits.list("x"),
        lambda: graph.branches.delete("x"),
        lambda: advance(workspace_of(graph).manifest, PERSON, branch="x"),
    ):
        with pytest.raises(BranchNotFound):
            call()
    with pytest.raises(CommitNotFound):
        graph.commits.show(commit.graph_commit_id)


@pytest.mark.parametrize("name", ["main", "", "__x", "a..b"])
def test_names_that_cannot_be_deleted(graph, name):
    with pytest.raises(BadRequest):
        graph.branches.delete(name)


def test_a_branch_others_were_made_from_stays(graph):
    graph.branches.create("a")
    graph.branches.create("b", from_="a")
    graph.branches.create("c", from_="b")
    with pytest.raises(BranchInUse) as caught:
        graph.branches.delete("a")
    assert caught.value.details == {"branch": "a", "by": "b"}
    for name in ("c", "b", "a"):
        graph.branches.delete(name)
    assert graph.branches.list() == ["main"]


def test_a_branch_whose_fork_another_branch_pins_stays(graph):
    graph.branches.create("a")
    pinned = graph.snapshot().tables[PERSON]
    fork = type(pinned)(PERSON, pinned.incarnation, pinned.location, 2, "a", 0)
    publish(
        workspace_of(graph).manifest, "main", ManifestChanges(tables=(fork,)), [pinned], intent()
    )
    with pytest.raises(BranchInUse) as caught:
        graph.branches.delete("a")
    assert caught.value.details["by"] == "main"


def test_a_recreated_branch_shares_nothing_with_the_old_one(graph):
    graph.branches.create("x")
    old = advance(workspace_of(graph).manifest, PERSON, branch="x")
    graph.branches.delete("x")
    graph.branches.create("x")
    assert graph.snapshot(branch="x").tables[PERSON].table_version == 1
    advance(workspace_of(graph).manifest, TEAM, branch="x")
    with pytest.raises((CommitNotFound, HistoryReclaimed)):
        graph.snapshot(snapshot=old.graph_commit_id)


def test_a_warm_handle_notices_a_recreated_branch(graph):
    graph.branches.create("x")
    advance(workspace_of(graph).manifest, PERSON, branch="x")
    with open_graph(graph.uri) as other:
        assert other.snapshot(branch="x").tables[PERSON].table_version == 2
        graph.branches.delete("x")
        graph.branches.create("x")
        advance(workspace_of(graph).manifest, TEAM, branch="x")
        assert other.snapshot(branch="x").tables[PERSON].table_version == 1
        assert other.snapshot(branch="x").tables[TEAM].table_version == 2


def test_a_read_only_handle_cannot_change_branches(graph):
    with open_graph(graph.uri, mode="r") as reader:
        with pytest.raises(BadRequest, match="read-only"):
            reader.branches.create("x")
        with pytest.raises(BadRequest, match="read-only"):
            reader.branches.delete("x")
        assert reader.branches.list() == ["main"]


def test_a_refused_name_does_not_wait_for_the_graph_lock(graph, monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_LOCK_WAIT_MS", "600000")
    locks = LockManager(workspace_of(graph).root)
    with ThreadPoolExecutor(1) as pool, locks.acquire(locks.graph_lock()):
        for call in (graph.branches.create, graph.branches.delete):
            assert isinstance(pool.submit(call, "a b").exception(timeout=120), BadRequest)
