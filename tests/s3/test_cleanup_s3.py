"""A cleanup in an object store removes and keeps what it does on a disk."""

from __future__ import annotations

import pytest

from omnigraph.errors import HistoryReclaimed
from omnigraph.graph import init
from omnigraph.graph import open as open_graph
from omnigraph.storage import layout
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
