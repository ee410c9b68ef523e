"""A graph that is deleted under a writer: the write fails, and nothing comes back."""

from __future__ import annotations

import shutil

import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.cluster.graphs import delete_at
from omnigraph.errors import Contention, GraphReplaced, NotAGraph, StorageError
from omnigraph.graph.graph import state_of
from omnigraph.storage.locks.waiting import Purpose
from tests.cluster.deleting import ADD, POINTS, author, delete_once, elsewhere, make, write


@pytest.fixture
def root(tmp_path):
    make(tmp_path / "g.omni")
    return tmp_path / "g.omni"


@pytest.mark.parametrize("point", POINTS)
def test_a_delete_before_the_locks_of_a_write(root, point):
    with og.open(root) as graph:
        with failpoints.arm(point, delete_once(str(root))), pytest.raises(NotAGraph):
            write(graph, point)
        assert not root.exists()
        for again in (lambda: graph.load([author(2)]), lambda: graph.branches.create("b")):
            with pytest.raises(NotAGraph):
                again()
        assert not root.exists()
    assert not root.exists()


def test_a_graph_that_is_made_again_meanwhile_is_not_touched(root):
    def delete_and_make():
        delete_at(str(root))
        make(root)

    def meanwhile(_):
        failpoints.disarm_all()
        elsewhere(delete_and_make)

    with (
        og.open(root) as graph,
        failpoints.arm("load.before_locks", meanwhile),
        pytest.raises(GraphReplaced),
    ):
        graph.load([author(1)])
    with og.open(root) as graph:
        graph.mutate(ADD)
        rows = graph.query("query q() { match { $a: Author } return { $a.name as n } }").rows
    assert sorted(row["n"] for row in rows) == ["a0", "x"]


def test_a_graph_that_lost_its_manifest_by_accident_keeps_its_tables(root):
    tables = sorted(root.glob("nodes/*/data/*"))
    with og.open(root) as graph:
        shutil.rmtree(root / "__manifest")
        with pytest.raises(StorageError):
            graph.load([author(1)])
    assert set(tables) <= set(root.glob("nodes/*/data/*"))


def test_a_writer_that_does_not_end_is_waited_for_and_nothing_is_deleted(root, monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_LOCK_WAIT_MS", "50")
    with og.open(root) as graph:
        locks = state_of(graph).workspace.locks
        with (
            locks.acquire(locks.head_lock("main"), purpose=Purpose("load")),
            pytest.raises(Contention),
        ):
            elsewhere(lambda: delete_at(str(root)))
        graph.mutate(ADD)
    delete_at(str(root))
    assert not root.exists()
