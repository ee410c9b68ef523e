"""Threads that share a handle read a publish once, and none of them misses one."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import omnigraph as og
from omnigraph.manifest import manifest as module
from tests.manifest.publishing import PERSON, advance, new_graph
from tests.opened import workspace_of

WAIT = 120
"""Seconds after which a thread that should have gone on fails the test."""


class Gate:
    """Holds the first read of a head row until it is opened; counts all of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reads = 0
        self.reading = threading.Event()
        self.opened = threading.Event()
        self._read = module.find_head_row
        monkeypatch.setattr(module, "find_head_row", self._held)

    def _held(self, table: Any) -> Any:
        self.reads += 1
        first, head = self.reads == 1, self._read(table)
        if first:
            self.reading.set()
            assert self.opened.wait(WAIT)
        return head


@pytest.fixture
def handles(tmp_path):
    """The manifest of a graph as a reader and a writer have it; both know its state."""
    with new_graph(tmp_path) as writer, og.open(writer.uri, mode="r") as reader:
        pair = workspace_of(reader).manifest, workspace_of(writer).manifest
        for manifest in pair:
            manifest.state("main")
        yield pair


def test_one_thread_reads_what_was_published(handles, monkeypatch):
    reader, writer = handles
    published = advance(writer, PERSON)
    gate, asking = Gate(monkeypatch), threading.Barrier(8)
    probe = module.Manifest._has_news

    def probed(self: Any, known: Any) -> bool:
        news = probe(self, known)
        if known.head.commit != published:
            asking.wait(WAIT)  # until all eight threads know that there is news
        return news

    monkeypatch.setattr(module.Manifest, "_has_news", probed)
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(reader.state, "main") for _ in range(8)]
        assert gate.reading.wait(WAIT)
        gate.opened.set()
        assert all(one.result().head.commit == published for one in asked)
    assert gate.reads == 1


def test_who_waits_for_a_refresh_sees_what_was_published_meanwhile(handles, monkeypatch):
    reader, writer = handles
    first, gate = advance(writer, PERSON), Gate(monkeypatch)
    with ThreadPoolExecutor(2) as pool:
        early = pool.submit(reader.state, "main")
        assert gate.reading.wait(WAIT)
        second = advance(writer, PERSON)
        late = pool.submit(reader.state, "main")
        gate.opened.set()
        assert early.result().head.commit == first
        assert late.result().head.commit == second


def test_a_failed_refresh_is_tried_again_by_the_next(handles, monkeypatch):
    reader, writer = handles
    published = advance(writer, PERSON)
    read, failures = module.find_head_row, [og.errors.StorageError("the store is away")]

    def flaky(table: Any) -> Any:
        if failures:
            raise failures.pop()
        return read(table)

    monkeypatch.setattr(module, "find_head_row", flaky)
    with pytest.raises(og.errors.StorageError, match="away"):
        reader.state("main")
    assert reader.state("main").head.commit == published
