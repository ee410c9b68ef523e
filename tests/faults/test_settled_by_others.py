"""What others do with an operation while its writer is slow, dead or in the way; nothing is done twice.

The model of the protocol (``tests/faults/model``) found each of these.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

import omnigraph.pipeline.load
import omnigraph.write.mutate  # noqa: F401 - they declare the points that are armed here
from omnigraph import failpoints
from omnigraph.commit import protocol
from omnigraph.commit.audit import read_audit
from omnigraph.errors import RecoveryRequired
from omnigraph.graph import open as open_graph
from tests.commit.synthetic import Died, drifted
from tests.faults.commit_workers import open_paused, open_read_write
from tests.graphs import graph_of
from tests.opened import workspace_of
from tests.storage.processes import run_processes, stopped_at
from tests.write.writing import nodes, run

SCHEMA = "node Item { name: String @key }\nnode Note { text: String }"
NOTE = [{"type": "Note", "data": {"text": "once"}}]
BOTH = [{"type": "Item", "data": {"name": "dead"}}, *NOTE]


graph = graph_of(SCHEMA)


@pytest.fixture(autouse=True)
def _patient(monkeypatch):
    """Whom they wait for is there; a busy machine may take longer over it than a person would wait."""
    monkeypatch.setenv("OMNIGRAPH_LOCK_WAIT_MS", "600000")


def lose_locks(graph) -> None:
    """Remove the lock files: whoever holds them has none, as after a lease that ended."""
    for file in Path(graph.uri, "__locks").glob("table-*.lock"):
        file.unlink()


def texts(graph) -> list[str]:
    return sorted(row["text"] for row in nodes(graph, "Note").values())


def test_a_load_that_others_finished_is_not_run_again(graph, monkeypatch):
    """Its lease ends before the build of an index, which it can do without; others roll it forward."""
    monkeypatch.setenv("OMNIGRAPH_INDEX_MIN_ROWS", "1")

    def overtake(_point):
        lose_locks(graph)
        run_processes(open_read_write, [(graph.uri,)])

    # The first commit is that of the rows.
    with failpoints.arm("load.before_table_commit", overtake, times=1, skip=1) as armed:
        made = graph.load(NOTE)
        assert armed.fired == 1
    (told,) = read_audit(workspace_of(graph))
    assert (told.recovery_kind, told.graph_commit_id) == (
        "RolledForward",
        made.commit.graph_commit_id,
    )
    assert texts(graph) == ["once"]
    assert len(graph.commits.list()) == 2
    assert workspace_of(graph).store.list("__recovery") == []


def test_a_commit_after_the_lease_is_covered_by_a_sidecar_of_its_own(graph, monkeypatch, tmp_path):
    """Others saw that nothing had moved, and settle the operation although by now something has."""
    commit = protocol.commit_staged
    with ExitStack() as stack:
        others = []

        def late(staged, table):
            """Commit as always, but so late that another process is half way through a rollback."""
            monkeypatch.setattr(protocol, "commit_staged", commit)
            lose_locks(graph)
            arguments = (graph.uri, "recovery.before_publish")
            others.append(
                stack.enter_context(stopped_at(tmp_path / "pause", open_paused, arguments))
            )
            return commit(staged, table)

        monkeypatch.setattr(protocol, "commit_staged", late)
        with pytest.raises(RecoveryRequired):
            graph.load(NOTE)
        assert others[0].go_on() == "open"
    with open_graph(graph.uri) as fresh:
        assert workspace_of(fresh).store.list("__recovery") == []
        assert drifted(fresh) == []
        # Settled as not begun under its first id, and finished under its second.
        kinds = [one.recovery_kind for one in read_audit(workspace_of(fresh))]
        assert sorted(kinds) == ["RolledBack", "RolledForward"]
        assert texts(fresh) == ["once"]
        run(fresh, 'insert Note { text: "next" }')


# ------------------------------------------------------------------ behind a dead writer


class Elsewhere:
    """A lock that another thread takes and gives back when told."""

    def __init__(self, pool, graph, name: str) -> None:
        self.pool, self.locks, self.name = pool, workspace_of(graph).locks, name
        self.enough = threading.Event()

    def take(self) -> None:
        taken = threading.Event()
        self.enough.clear()

        def hold() -> None:
            try:
                with self.locks.acquire(self.name):
                    taken.set()
                    self.enough.wait()
            finally:
                taken.set()

        self.holding = self.pool.submit(hold)
        taken.wait()
        assert not self.holding.done(), self.holding.exception()

    def give_back(self) -> None:
        self.enough.set()
        self.holding.result()


@pytest.fixture
def pool():
    with ThreadPoolExecutor(3) as pool:
        yield pool


@pytest.fixture
def locks_of_the_dead(graph, pool):
    """The locks of both tables, after a load died that had committed both."""
    with failpoints.arm("load.after_phase_b_before_phase_c", Died("here")), pytest.raises(Died):
        graph.load(BOTH)
    tables = graph.snapshot().tables
    names = [
        workspace_of(graph).lock_name(tables[f"node:{one}"].location, "main")
        for one in ("Item", "Note")
    ]
    both = [Elsewhere(pool, graph, name) for name in names]
    yield both
    for one in both:
        one.enough.set()


def test_a_writer_that_meets_a_live_one_lets_go_of_its_locks(graph, pool, locks_of_the_dead):
    """Two writers behind a dead one would else each keep a lock that its recovery needs."""
    item, note = locks_of_the_dead
    met = threading.Event()
    # The heal of the writer lists first, then the drift guard, which finds the lock of Note taken.
    with failpoints.arm("recovery.sidecar_list", lambda _: met.set(), skip=1):
        note.take()
        writer = pool.submit(run, graph, 'insert Item { name: "a" }')
        met.wait()
        item.take()
        item.give_back()
        note.give_back()
        writer.result()
    assert set(nodes(graph, "Item")) == {"dead", "a"}
    assert texts(graph) == ["once"]


def test_an_operation_that_others_are_settling_is_not_said_to_need_a_rollback(
    graph, locks_of_the_dead
):
    """Its locks are taken while the writer heals, and free again when it looks the second time."""
    _, note = locks_of_the_dead
    lists = []

    def listed(_point):
        lists.append(len(lists) + 1)
        # The heals of the writer, and between them the drift guard.
        if len(lists) in {1, 3}:
            note.take()
        elif len(lists) in {2, 4}:
            note.give_back()

    with failpoints.arm("recovery.sidecar_list", listed):
        run(graph, 'insert Item { name: "a" }')
    assert len(lists) > 4
    assert set(nodes(graph, "Item")) == {"dead", "a"}
    assert texts(graph) == ["once"]
