"""The files that a task writes for one table, when writing them fails."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import OmniGraphError, StorageError
from omnigraph.pipeline.written import task_files
from omnigraph.pipeline.written.task_files import Destination, TaskFiles
from omnigraph.validate.change_set import ORDER
from tests.opened import workspace_of

PERSON = "node:Person"
SECONDS = 120


@pytest.fixture
def destination(tmp_path):
    with og.init(tmp_path / "g", "node Person { name: String @key }") as graph:
        pin = graph.snapshot().tables[PERSON]
        ref = workspace_of(graph).pinned(pin)
        yield Destination(graph.schema.catalog.entity(PERSON), ref, "fragments")


@pytest.mark.parametrize("taken", ["nothing", "one batch", "everything"])
def test_a_failure_to_write_is_raised_whenever_it_comes(destination, monkeypatch, taken):
    """The store may fail when the table is opened, between rows, or when the last file is closed."""

    def fail(_table, reader, **_options):
        if taken == "everything":
            reader.read_all()
        elif taken == "one batch":
            reader.read_next_batch()
        raise StorageError("the disk is full")

    monkeypatch.setattr(task_files, "write_fragments", fail)
    raised = []

    def write():
        files = TaskFiles(destination)
        try:
            for number in range(20):
                names = pa.array([f"p{number}"])
                rows = {"id": names, "name": names, ORDER: pa.array([number])}
                files.add(pa.RecordBatch.from_pydict(rows))
            files.close(0, named=20)
        except OmniGraphError as error:
            raised.append(error.message)
        finally:
            files.discard()

    task = threading.Thread(target=write, daemon=True)
    task.start()
    task.join(SECONDS)
    assert not task.is_alive(), "the task waits for a thread that takes no more rows"
    assert raised == ["the disk is full"]
