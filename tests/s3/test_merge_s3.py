"""Merges and reverts in an object store: what holds on a disk holds there."""

from __future__ import annotations

import pytest

import omnigraph as og
from omnigraph import errors, failpoints
from tests.merge.harbors import new_harbor, pins, port, put, ship, ships
from tests.opened import workspace_of


def test_branches_are_merged_and_a_commit_is_undone(s3_root):
    photo = b"far" * 50_000
    with new_harbor(s3_root.canonical) as graph:
        graph.branches.create("side")
        put(graph, "side", ship("S1", tonnage=100))
        graph.blobs.write("node", "Ship", "S2", "photo", [photo], branch="side")
        put(graph, "main", port("GOT", city="x"), ship("S3", tonnage=300))
        objects = workspace_of(graph).store.list("")
        plan = graph.branches.merge("side", dry_run=True)
        assert workspace_of(graph).store.list("") == objects
        merged = graph.branches.merge("side")
        assert merged.outcome == plan.outcome == "merged"
        assert merged.stats.updates == plan.stats.updates == 2
        assert graph.blobs.read("node", "Ship", "S2", "photo") == photo
        assert ships(graph) == {"S1": 100, "S2": 2, "S3": 300, "S4": 4}
        back = graph.branches.merge("main", "side")
        assert (back.outcome, back.stats.tables_adopted) == ("fast_forward", 1)
        assert pins(graph, "side")["node:Port"] == pins(graph)["node:Port"]
        # A publish that fails leaves the merge to recovery, which the next write does.
        put(graph, "side", ship("S4", tonnage=400))
        with (
            failpoints.arm("publish.before_write", times=1),
            pytest.raises(errors.RecoveryRequired),
        ):
            graph.branches.merge("side")
        last = put(graph, "main", ship("S1", tonnage=1))
        assert graph.commits.list(limit=2)[1].operation == "branch_merge"
        assert graph.branches.merge("side").outcome == "already_up_to_date"
        assert ships(graph) == {"S1": 1, "S2": 2, "S3": 300, "S4": 400}
        assert graph.commits.revert(last.graph_commit_id).outcome == "reverted"
    with og.open(s3_root.canonical, mode="r") as graph:
        assert ships(graph)["S1"] == 100
