"""Tables of a load are written beside each other: a failure or Ctrl-C ends all of it."""

from __future__ import annotations

import signal
import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph.errors import StorageError
from omnigraph.pipeline.local.spooled_rows import SpooledRows
from tests.graphs import graph_of
from tests.opened import workspace_of
from tests.pipeline.load_helpers import load_gathered
from tests.stored import read_back

SCHEMA = "node Left { name: String @key }\nnode Right { name: String @key }"
ROWS = 400_000
PREFIX = "omnigraph-stage"


graph = graph_of(SCHEMA, [{"type": "Left", "data": {"name": "old"}}])


def names(prefix, count):
    return pa.table({"name": [f"{prefix}{number}" for number in range(count)]})


def gather(left, right):
    def both(inputs):
        inputs.nodes("Left", names("l", left))
        inputs.nodes("Right", names("r", right))

    return both


def stored(graph):
    return {name: set(rows) for name, rows in read_back(graph).nodes.items()}


def staging_threads():
    """Threads that stay; one that Ctrl-C met while it was being started takes a moment to end."""
    deadline = time.monotonic() + 600
    while True:
        found = [one.name for one in threading.enumerate() if one.name.startswith(PREFIX)]
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.01)


def test_both_tables_get_their_rows_in_one_commit(graph):
    before = len(graph.commits.list())
    load_gathered(graph, gather(3, 2), mode="append")
    assert stored(graph) == {"Left": {"old", "l0", "l1", "l2"}, "Right": {"r0", "r1"}}
    assert len(graph.commits.list()) == before + 1


def test_a_table_that_cannot_be_written_ends_the_load(graph):
    head = graph.snapshot().graph_commit_id
    table = Path(str(workspace_of(graph).root), graph.snapshot().tables["node:Right"].location)
    (table / "data").write_text("in the way")
    with pytest.raises(StorageError, match="writing rows for"):
        load_gathered(graph, gather(ROWS, 2), mode="append")
    assert staging_threads() == []
    assert graph.snapshot().graph_commit_id == head
    (table / "data").unlink()
    load_gathered(graph, gather(1, 1), mode="append")
    assert stored(graph) == {"Left": {"old", "l0"}, "Right": {"r0"}}


@pytest.mark.usefixtures("_ctrl_c_interrupts")
def test_ctrl_c_ends_all_writing(graph, monkeypatch):
    head = graph.snapshot().graph_commit_id
    staged, stopped = [], threading.Semaphore(0)
    stopper = SpooledRows.stopper

    def seen(rows):
        stop = stopper(rows)
        return lambda: (stop(), stopped.release())

    monkeypatch.setattr(SpooledRows, "stopper", seen)

    def press(progress):
        if progress.phase == "writing" and progress.staged:
            staged.append(progress.staged)
            if len(staged) == 1:
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
                assert all(stopped.acquire(timeout=600) for _ in ("Left", "Right"))

    with pytest.raises(KeyboardInterrupt):
        load_gathered(graph, gather(ROWS, ROWS), mode="append", progress=press)
    assert staging_threads() == []
    assert staged[-1] < 2 * ROWS
    assert graph.snapshot().graph_commit_id == head
    load_gathered(graph, gather(1, 1), mode="append")
    assert stored(graph) == {"Left": {"old", "l0"}, "Right": {"r0"}}
