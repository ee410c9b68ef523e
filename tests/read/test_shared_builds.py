"""Processes that need the same numbered table at once: one of them makes it, and the others use what it kept."""

from __future__ import annotations

import multiprocessing
import threading
import time

import pytest

import omnigraph as og
from omnigraph.cancel import Cancel, within
from omnigraph.errors import QueryCancelled
from omnigraph.read.kept import build_lock
from omnigraph.read.kept.kept_files import KeptFiles, KeptName
from omnigraph.read.view import edges as edges_module
from omnigraph.read.view import state_files
from omnigraph.read.view.edges import EdgeList
from omnigraph.read.view.nodes import NodeIds
from omnigraph.storage.flock import try_lock
from tests.graphs import graph_of
from tests.read.kept_helpers import another_process, kept_paths, plain_view, use_everything
from tests.read.random_commits import fill
from tests.read.view_helpers import SCHEMA, check_same, view_of

LONG = 600


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """A cache directory that keeps what is numbered."""
    monkeypatch.setenv("OMNIGRAPH_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("OMNIGRAPH_DISK_CACHE_MB")
    monkeypatch.setattr(
        state_files, "_PATIENCE_SECONDS", LONG
    )  # as on a machine that is never busy
    return tmp_path / "cache"


graph = graph_of(SCHEMA, fill, upkeep="off")


class Slow:
    """A way of making something that goes on when somebody else waits for it, and counts itself."""

    def __init__(self, monkeypatch, owner, name):
        self.made = 0
        self.others = threading.Event()
        original = getattr(owner, name)

        def slowly(*arguments):
            self.made += 1
            if self.made == 1:
                self.others.wait(LONG)
            return original(*arguments)

        monkeypatch.setattr(owner, name, slowly)
        monkeypatch.setattr(build_lock, "pause", self.someone_waits)

    def someone_waits(self):
        self.others.set()
        time.sleep(0.001)


def both(graph, use):
    """Use two views at once, each as a process of its own would have it."""
    views = [view_of(graph, another_process(graph)) for _ in range(2)]
    threads = [threading.Thread(target=use, args=(view,), daemon=True) for view in views]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
        assert not thread.is_alive()
    return views


class TestAtOnce:
    def test_nodes_are_numbered_once(self, graph, monkeypatch, place):
        slow = Slow(monkeypatch, NodeIds, "read")
        views = both(graph, lambda view: view.nodes("Person"))
        assert slow.made == 1
        for view in views:
            check_same(view, plain_view(graph))
        assert not [path for path in kept_paths(place) if path.name.startswith("draft-")]

    def test_edges_are_numbered_once(self, graph, monkeypatch, place):
        for view in [view_of(graph, another_process(graph))]:
            view.nodes("Person")
        slow = Slow(monkeypatch, EdgeList, "read")
        views = both(graph, lambda view: view.topology("Knows").src)
        assert slow.made == 1
        for view in views:
            check_same(view, plain_view(graph))

    def test_adjacency_is_made_once(self, graph, monkeypatch):
        view_of(graph, another_process(graph)).topology("Knows")
        slow = Slow(monkeypatch, edges_module, "csr_of")
        views = both(graph, lambda view: view.topology("Knows").out())
        assert slow.made == 1
        for view in views:
            check_same(view, plain_view(graph))

    def test_in_two_processes(self, graph):
        context = multiprocessing.get_context("spawn")
        results, start = context.Queue(), context.Barrier(2)
        workers = [context.Process(target=_use, args=(graph.uri, start, results)) for _ in range(2)]
        for worker in workers:
            worker.start()
        (one_nodes, one_edges), (other_nodes, other_edges) = (
            results.get(timeout=LONG) for _ in workers
        )
        for worker in workers:
            worker.join(LONG)
        assert [worker.exitcode for worker in workers] == [0, 0]
        # Person and City; Knows and LivesIn.
        assert (one_nodes + other_nodes, one_edges + other_edges) == (2, 2)


def _use(uri, start, results):
    counts = [0, 0]
    state_files._PATIENCE_SECONDS = LONG
    for at, kind in enumerate((NodeIds, EdgeList)):
        kind.read = staticmethod(_counted(kind.read, counts, at))
    with og.open(uri, mode="r") as graph:
        view = view_of(graph, another_process(graph))
        start.wait(LONG)
        use_everything(view)
    results.put(counts)


def _counted(read, counts, at):
    def counted(*arguments):
        counts[at] += 1
        return read(*arguments)

    return counted


class TestWaiting:
    NAME = KeptName(1, "0" * 16, "1" * 16, "ends")

    def test_who_does_not_end_is_not_waited_for(self, place):
        files = KeptFiles(1 << 20, place / "topology")
        with files.alone("t", self.NAME, LONG), files.alone("t", self.NAME, 0):
            assert len(kept_paths(place)) == 1
        assert kept_paths(place) == []

    def test_who_waits_can_be_stopped(self, place, monkeypatch):
        files = KeptFiles(1 << 20, place / "topology")
        stop = Cancel()
        monkeypatch.setattr(build_lock, "pause", stop.cancel)
        with (
            files.alone("t", self.NAME, LONG),
            pytest.raises(QueryCancelled),
            within(None, stop),
            files.alone("t", self.NAME, LONG),
        ):
            raise AssertionError("nobody else may be inside")

    def test_what_a_killed_process_leaves_keeps_nobody_waiting(self, place):
        files = KeptFiles(1 << 20, place / "topology")
        with files.alone("t", self.NAME, LONG):
            (path,) = kept_paths(place)
        path.touch()
        with files.alone("t", self.NAME, LONG):
            assert try_lock(str(path)) is None
        assert not path.exists()

    def test_where_nothing_can_be_written_the_work_is_done(self, place):
        place.mkdir()
        (place / "topology").write_text("a file")
        with KeptFiles(1 << 20, place / "topology").alone("t", self.NAME, LONG):
            pass
