"""A cleanup in an object store removes and keeps what it does on a disk."""

from __future__ import annotations

import pytest

from omnigraph import failpoints
from omnigraph.errors import Contention, HistoryReclaimed, StorageError
from omnigraph.graph import init
from omnigraph.graph import open as open_graph
from omnigraph.storage import layout
from omnigraph.storage.locks import write_marks
from omnigraph.storage.locks.write_marks import WriteMark
from omnigraph.storage.tables.table import open_table
from tests.maintenance.cleaning import PERSON, SCHEMA, age, ages, fill, reasons
from tests.opened import workspace_of


def test_old_versions_go_and_branches_stay(s3_root):
    with init(s3_root.canonical, SCHEMA) as graph, open_graph(graph.uri, mode="r") as reader:
        fill(graph)
        graph.branches.create("side")
        assert ages(reader) == {"ada": 1, "bob": 1}
        old = age(graph, 2)
        for n in (3, 4):
            age(graph, n)
            age(graph, n, "side", "bob")
        store = workspace_of(graph).store
        before = store.total_size("nodes")
        dry = graph.cleanup(keep_versions=1, dry_run=True)
        assert store.total_size("nodes") == before
        report = graph.cleanup(keep_versions=1)
        assert report.tables == dry.tables
        assert report.failed == ()
        removed = sum(row.bytes_removed for row in report if row.table_key.startswith("node:"))
        assert before - store.total_size("nodes") == removed > 0
        assert set(reasons(report)) == {2, 5}
        status = reader.status()
        held = sum(store.total_size(place) for place in ("nodes", "edges", layout.MANIFEST))
        assert list(status.bytes_by_branch) == ["main", "side"]
        assert sum(status.bytes_by_branch.values()) == held
        assert {one.table_key: one.versions for one in status.tables}[PERSON] == 2
        assert reader.repair().drifted == ()
        assert set(reasons(report, PERSON, "side")) == {2, 4}
        assert open_table(workspace_of(graph).manifest.ref).versions() == sorted(
            reasons(report, layout.MANIFEST)
        )
        assert ages(reader) == {"ada": 4, "bob": 1}
        assert ages(reader, branch="side") == {"ada": 1, "bob": 4}
        with pytest.raises(HistoryReclaimed):
            ages(reader, snapshot=old)
        assert graph.branches.merge("side").outcome == "merged"
        assert ages(graph) == {"ada": 4, "bob": 4}


def test_files_of_dead_writes_go_and_those_of_living_ones_stay(s3_root, monkeypatch):
    with init(s3_root.canonical, SCHEMA, upkeep="off") as graph:
        fill(graph)
        store = workspace_of(graph).store
        before = set(store.list("nodes"))
        with failpoints.arm("load.before_locks"), pytest.raises(StorageError):
            fill(graph)
        left = set(store.list("nodes")) - before
        assert left
        # A write that began before it, of a process that may be alive.
        older = WriteMark(workspace_of(graph).root, store, "load")
        (note,) = (name for name in store.list(layout.STAGING_DIR) if name.endswith(".dead"))
        store.write_text(older.name, '{"started": 1}')
        graph.cleanup(keep_versions=10)
        assert left <= set(store.list("nodes"))
        assert note in store.list(layout.STAGING_DIR)
        # Nobody renews its mark any more.
        monkeypatch.setattr(write_marks, "DEAD_AFTER", -(10**9))
        graph.cleanup(keep_versions=10)
        assert not left & set(store.list("nodes"))
        monkeypatch.setattr(older, "_renewed", 0.0)
        with pytest.raises(Contention, match="took it for dead"):
            older.check()
        older.end()
        assert store.list(layout.STAGING_DIR) == []
        assert ages(graph) == {"ada": 1, "bob": 1}
