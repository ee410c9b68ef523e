"""A handle that stays open while others delete, replace, clean up and share what it reads."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.errors import (
    BranchNotFound,
    Conflict,
    Contention,
    GraphReplaced,
    HistoryReclaimed,
    NotAGraph,
    StorageError,
)
from omnigraph.storage.tables.branch_refs import read_branch
from omnigraph.storage.tables.inline_residual import cleanup_versions
from tests.manifest.publishing import PERSON, SCHEMA, TEAM, advance, new_graph
from tests.opened import workspace_of


def names(root: Path) -> set[str]:
    return {path.relative_to(root).as_posix() for path in root.rglob("*")}


def test_a_deleted_graph_is_not_served_from_memory(tmp_path):
    with new_graph(tmp_path) as graph:
        advance(workspace_of(graph).manifest, PERSON)
        graph.snapshot()
        shutil.rmtree(graph.uri)
        for call in (
            graph.snapshot, graph.status, graph.refresh, graph.branches.list, graph.commits.list,
            lambda: advance(workspace_of(graph).manifest, PERSON), lambda: graph.branches.create("x"),
            lambda: graph.branches.delete("x"),
        ):  # fmt: skip
            with pytest.raises(NotAGraph):
                call()
    assert names(tmp_path) == set()


def test_a_handle_does_not_write_to_a_graph_that_took_the_place_of_its_own(tmp_path):
    with new_graph(tmp_path) as graph:
        advance(workspace_of(graph).manifest, PERSON)
        with og.init(tmp_path / "other", SCHEMA) as other:
            other.load([{"type": "Team", "data": {"code": "t"}}])
        shutil.rmtree(graph.uri)
        shutil.copytree(tmp_path / "other", graph.uri)
        before = names(tmp_path)
        for call in (
            graph.snapshot, graph.refresh, graph.commits.list,
            lambda: advance(workspace_of(graph).manifest, PERSON), lambda: graph.branches.create("x"),
        ):  # fmt: skip
            with pytest.raises(GraphReplaced, match="open it again"):
                call()
        assert names(tmp_path) == before
    with og.open(tmp_path / "graph") as opened:
        assert opened.snapshot().tables[TEAM].table_version == 2
        made = [commit.operation for commit in opened.commits.list()]
        assert (made[0], made[-1], len(made)) == ("relocate", "init", 3)


def test_a_handle_does_not_go_on_with_a_graph_restored_from_a_copy(tmp_path):
    with new_graph(tmp_path) as graph:
        before = advance(workspace_of(graph).manifest, PERSON)
        shutil.copytree(graph.uri, tmp_path / "copy")
        advance(workspace_of(graph).manifest, PERSON)
        graph.snapshot()
        shutil.rmtree(graph.uri)
        shutil.copytree(tmp_path / "copy", graph.uri)
        for _ in range(2):
            with pytest.raises(GraphReplaced, match="earlier state"):
                graph.snapshot()
        with og.open(graph.uri) as opened:
            assert opened.snapshot().commit == before
            after = advance(workspace_of(opened).manifest, PERSON)
            assert after.parent_commit_id == before.graph_commit_id


@pytest.mark.parametrize("branch", ["main", "x"])
def test_an_idle_handle_notices_commits_when_cleanup_removed_what_lies_between(tmp_path, branch):
    with new_graph(tmp_path) as graph, og.open(graph.uri) as idle:
        if branch != "main":
            graph.branches.create(branch)
        advance(workspace_of(graph).manifest, PERSON, branch=branch)
        idle.snapshot(branch=branch)
        for _ in range(3):
            newest = advance(workspace_of(graph).manifest, PERSON, branch=branch)
        table = workspace_of(graph).manifest.state(branch).table
        cleanup_versions(table, range(1, table.version))
        assert not table.has_version(table.version - 1)
        assert idle.snapshot(branch=branch).commit == newest


def test_reading_a_branch_while_it_is_deleted_says_that_it_is_not_there(tmp_path, monkeypatch):
    """The ref was read, and then the files went away under the reader."""
    with new_graph(tmp_path) as graph, og.open(graph.uri, mode="r") as reader:
        graph.branches.create("x")
        advance(workspace_of(graph).manifest, PERSON, branch="x")
        state = workspace_of(reader).manifest.state("x")
        ref = read_branch(workspace_of(graph).store, "__manifest", "x")
        graph.branches.delete("x")
        with pytest.raises(BranchNotFound):
            workspace_of(reader).manifest.commits(state)
        answers = iter([ref, None])
        monkeypatch.setattr(
            "omnigraph.manifest.manifest.read_branch", lambda *_: next(answers, None)
        )
        with pytest.raises(BranchNotFound):
            reader.snapshot(branch="x")


def test_a_branch_without_its_files_is_damage_and_not_absence(tmp_path):
    with new_graph(tmp_path) as graph:
        graph.branches.create("x")
        shutil.rmtree(Path(graph.uri, "__manifest", "tree"))
        reader = og.open(graph.uri, mode="r")
        with pytest.raises(StorageError, match="restore"):
            reader.snapshot(branch="x")


def test_a_branch_is_not_deleted_under_a_writer(tmp_path, monkeypatch):
    """Nobody deletes a branch between a writer's last look at it and its publish."""
    insert = 'query add() { insert Person { name: "ada" } }'
    with new_graph(tmp_path) as graph:
        graph.branches.create("x")
        monkeypatch.setenv("OMNIGRAPH_LOCK_WAIT_MS", "50")
        refused = []

        def meanwhile(_: str) -> None:
            with ThreadPoolExecutor(1) as others:
                refused.append(others.submit(graph.branches.delete, "x").exception())

        with failpoints.arm("publish.before_write", meanwhile, times=1):
            made = graph.mutate(insert, branch="x")
        (refusal,) = refused
        assert isinstance(refusal, Contention)
        assert graph.snapshot(branch="x").commit == made.commit
        graph.branches.delete("x")
        graph.branches.create("x")
        assert len(graph.commits.list("x")) == 1
        assert graph.mutate(insert, branch="x").affected_nodes == 1


def test_threads_share_one_handle(tmp_path):
    """Branches come and go while others read, publish and open: refusals, never a failure."""
    with new_graph(tmp_path) as graph:

        def work(number: int) -> None:
            for turn in range(6):
                name = f"b{(number + turn) % 3}"
                for call in (
                    lambda name=name: graph.branches.create(name),
                    graph.refresh,
                    lambda: advance(workspace_of(graph).manifest, TEAM),
                    lambda name=name: graph.snapshot(branch=name),
                    lambda name=name: graph.commits.list(name),
                    lambda: graph.commits.show(graph.snapshot().graph_commit_id),
                    lambda: og.open(graph.uri).close(),
                    lambda name=name: graph.branches.delete(name),
                ):
                    with suppress(Conflict, BranchNotFound):
                        call()

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(8)))
        chain = graph.commits.list()
        assert [commit.parent_commit_id for commit in chain[:-1]] == [
            commit.graph_commit_id for commit in chain[1:]
        ]


def test_a_state_that_cleanup_removes_while_it_is_read_is_no_damage(tmp_path, monkeypatch):
    monkeypatch.setattr("omnigraph.manifest.tidying.COMPACT_AT_FRAGMENTS", 2)
    with og.init(tmp_path / "g", "node Person { name: String @key }") as graph:
        manifest = workspace_of(graph).manifest
        graph.load([{"type": "Person", "data": {"name": "ada"}}])
        held = manifest.state("main")
        for name in ("bob", "cyd", "dan"):
            graph.load([{"type": "Person", "data": {"name": name}}])
        graph.cleanup(keep_versions=1)
        with pytest.raises(HistoryReclaimed, match="ask again"):
            manifest.commits(held)
        assert len(manifest.commits(manifest.state("main"))) == 5
