"""Compaction of a branch in an object store: what holds on a disk holds there."""

from __future__ import annotations

import omnigraph as og
from tests.maintenance.compacting import (
    DOC,
    branched,
    changes_since,
    check_answers,
    check_explained,
    check_upsert,
    inherited,
    table_of,
)
from tests.opened import row_ids, workspace_of


def test_a_compacted_branch_is_looked_up_searched_and_written_by_its_indexes(s3_root, monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_INDEX_MIN_ROWS", str(10**9))
    # Fewer rows fit into one page of a BTREE, and hide an index whose pages cannot be found.
    graph, main, dev = branched(s3_root.canonical, 100_000)
    with graph:
        before = table_of(graph, "dev")
        fork = before.versions()[0]
        ids, changes = row_ids(before), changes_since(before, fork)
        (row,) = graph.optimize("dev")
        assert (row.table_key, row.error) == (DOC, None)
        assert (row.fragments_removed, row.fragments_added) == (4, 1)
    with og.open(graph.uri) as graph:
        after = table_of(graph, "dev")
        assert inherited(after) == inherited(before)
        assert (row_ids(after), changes_since(after, fork)) == (ids, changes)
        check_answers(graph, dev)
        check_explained(graph)
        check_upsert(graph, dev)
        check_answers(graph, main, "main")


def test_a_fresh_branch_has_nothing_to_compact(s3_root):
    graph, _, _ = branched(s3_root.canonical, 2_000)
    with graph:
        graph.branches.create("fresh")
        files = workspace_of(graph).store.list()
        assert graph.optimize("fresh").commit is None
        assert workspace_of(graph).store.list() == files
