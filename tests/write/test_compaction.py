"""Compaction of a branch: its own fragments only, with whole indexes, and right after any crash."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.commit.protocol import POINTS
from omnigraph.lang.schema.indexes import IndexKind
from omnigraph.storage.tables.indexes import index_name, list_indexes
from omnigraph.storage.tables.inline_residual import commit_compaction
from omnigraph.storage.tables.transactions import Operation, transactions_after
from omnigraph.write.compaction import compact, rewrite_here
from tests.commit.synthetic import Died, drifted
from tests.opened import workspace_of
from tests.storage.processes import run_processes
from tests.write.compacting import (
    DOC,
    QUERIES,
    branched,
    changes_since,
    check_answers,
    check_explained,
    check_upsert,
    inherited,
    own,
    row_ids,
    table_of,
)

# Fewer rows fit into one page of a BTREE, and hide an index whose pages cannot be found.
MANY_ROWS = 100_000


@pytest.fixture(autouse=True)
def _no_indexes_by_loads(monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_INDEX_MIN_ROWS", str(10**9))


@pytest.fixture
def small(tmp_path):
    graph, _, dev = branched(tmp_path / "g", 2_000)
    with graph:
        yield graph, dev


def test_a_compacted_branch_is_looked_up_searched_and_written_by_its_indexes(tmp_path):
    graph, main, dev = branched(tmp_path / "g", MANY_ROWS)
    before = table_of(graph, "dev")
    fork = before.versions()[0]
    ids, changes = row_ids(before), changes_since(before, fork)
    report = compact(workspace_of(graph), "dev", "omnigraph:maintenance")
    assert (report.failed, report.removed, report.added) == ({}, {DOC: 4}, {DOC: 1})
    assert (report.commit.operation, report.commit.actor_id) == (
        "optimize",
        "omnigraph:maintenance",
    )
    graph.close()
    with og.open(graph.uri) as graph:
        after = table_of(graph, "dev")
        assert len(own(after)) == 1
        assert inherited(after) == inherited(before)
        assert row_ids(after) == ids
        assert changes_since(after, fork) == changes
        assert changes[0] == set(dev) - set(main)
        assert changes[1] == {ref for ref in dev if main.get(ref, dev[ref]) != dev[ref]}
        check_answers(graph, dev)
        check_explained(graph)
        check_upsert(graph, dev)
        check_answers(graph, main, "main")


def test_a_branch_of_a_compacted_branch_has_whole_indexes_too(tmp_path):
    graph, _, dev = branched(tmp_path / "g", MANY_ROWS)
    with graph:
        compact(workspace_of(graph), "dev")
        graph.branches.create("child", from_="dev")
        child = check_upsert(graph, dev, "child")
        assert compact(workspace_of(graph), "child").commit is None  # one fragment of its own
        graph.mutate('query q() { insert Doc { ref: "x", year: 2, body: "about year2" } }',
                     branch="child")  # fmt: skip
        assert compact(workspace_of(graph), "child").removed == {DOC: 2}
        check_answers(graph, child | {"x": 2}, "child")
        check_explained(graph, "child")
        check_answers(graph, dev)


def test_a_fresh_branch_has_nothing_to_compact(tmp_path):
    graph, _, _ = branched(tmp_path / "g", 2_000)
    with graph:
        graph.branches.create("fresh")
        files = sorted(Path(tmp_path).rglob("*"))
        report = compact(workspace_of(graph), "fresh")
        assert (report.commit, report.removed, report.failed) == (None, {}, {})
        assert sorted(Path(tmp_path).rglob("*")) == files


def test_a_branch_that_only_deleted_has_nothing_to_compact(tmp_path):
    graph, _, _ = branched(tmp_path / "g", 2_000)
    with graph:
        graph.branches.create("cut")
        graph.mutate("query q() { delete Doc where year < 400 }", branch="cut")
        head = graph.snapshot(branch="cut")
        assert compact(workspace_of(graph), "cut").commit is None
        assert graph.snapshot(branch="cut") == head


def test_a_second_run_has_nothing_to_do(small):
    graph, _ = small
    assert compact(workspace_of(graph), "dev").commit is not None
    head = graph.snapshot(branch="dev")
    assert compact(workspace_of(graph), "dev").commit is None
    assert graph.snapshot(branch="dev") == head


def test_a_branch_is_rewritten_in_one_version_and_then_its_indexes_are_folded(small):
    graph, _ = small
    before = table_of(graph, "dev")
    compact(workspace_of(graph), "dev")
    after = table_of(graph, "dev")
    made = transactions_after(after, before.version, after.version)
    # The BTREEs together, then full text.
    folds = [Operation.CREATE_INDEX, Operation.CREATE_INDEX]
    assert [one.operation for one in made] == [Operation.REWRITE, *folds]


def test_lances_own_commit_is_refused_on_a_branch(small):
    graph, _ = small
    with pytest.raises(ValueError, match="branch"):
        commit_compaction(table_of(graph, "dev"), [])


# Where a compaction stops, after how many passes of that point, and how many fragments of its own
# the branch has when the graph was opened again: all where nothing had moved yet, else one.
MERGED, AS_BEFORE = 1, 4
STOPS = [
    ("before_phase_a", 0, AS_BEFORE),
    ("before_phase_b", 0, AS_BEFORE),
    ("before_table_commit", 0, AS_BEFORE),
    ("after_table_commit", 0, MERGED),  # rewritten, indexes not folded yet
    ("before_table_commit", 1, MERGED),
    ("after_table_commit", 1, MERGED),
    ("after_phase_b_before_phase_c", 0, MERGED),
    ("after_phase_c_before_phase_d", 0, MERGED),
]


@pytest.mark.parametrize("healed_by", ["open", "write"])
@pytest.mark.parametrize(("moment", "skip", "left"), STOPS)
def test_a_compaction_that_stops_is_finished_or_undone(small, moment, skip, left, healed_by):
    graph, dev = small
    with (
        failpoints.arm(POINTS["optimize", moment], Died(moment), skip=skip),
        pytest.raises(Died),
    ):
        compact(workspace_of(graph), "dev")
    if healed_by == "open":
        graph.close()
        graph = og.open(graph.uri)
        assert workspace_of(graph).store.list("__recovery") == []
        assert len(own(table_of(graph, "dev"))) == left
        check_answers(graph, dev)
    dev = check_upsert(graph, dev)
    # A write leaves alone what moved nothing; only an open removes its sidecar.
    assert (workspace_of(graph).store.list("__recovery") == []) or left == AS_BEFORE
    assert drifted(graph, "dev") == []
    assert len(own(table_of(graph, "dev"))) == left + 1
    with og.open(graph.uri) as graph:
        assert workspace_of(graph).store.list("__recovery") == []
        compact(workspace_of(graph), "dev")
        # Fragments are merged that the same parts of the indexes cover.
        assert len(own(table_of(graph, "dev"))) <= 2
        check_answers(graph, dev)


def test_a_compaction_that_stops_between_two_tables_is_undone(small):
    graph, dev = small
    for number in range(3):
        graph.load([{"type": "Note", "data": {"ref": f"n{number}"}}], branch="dev")
    fork = table_of(graph, "dev").versions()[0]
    ids, changes = row_ids(table_of(graph, "dev")), changes_since(table_of(graph, "dev"), fork)
    # Rewritten and folded is the first table, and the second is not.
    with (
        failpoints.arm(POINTS["optimize", "before_table_commit"], Died("second"), skip=2),
        pytest.raises(Died),
    ):
        compact(workspace_of(graph), "dev")
    graph.close()
    with og.open(graph.uri) as graph:
        assert workspace_of(graph).store.list("__recovery") == []
        assert drifted(graph, "dev") == []
        table = table_of(graph, "dev")
        assert (len(own(table)), row_ids(table)) == (AS_BEFORE, ids)
        assert changes_since(table, fork) == changes
        check_answers(graph, dev)
        assert compact(workspace_of(graph), "dev").removed == {DOC: 4, "node:Note": 3}
        assert changes_since(table_of(graph, "dev"), fork) == changes
        check_answers(graph, dev)
        check_explained(graph)


def compact_elsewhere(uri, branch):
    with og.open(uri) as graph:
        report = compact(workspace_of(graph), branch)
        return report.removed, report.failed


def test_indexes_that_cannot_be_folded_do_not_hold_up_the_rewrite(small):
    graph, dev = small
    before = table_of(graph, "dev")
    (words,) = (
        segment.uuid
        for entry in before.dataset.describe_indices()
        if entry.name == index_name(before, "body", IndexKind.FTS)
        for segment in entry.segments
    )
    shutil.rmtree(Path(before.ref.uri, "_indices", words))
    # Elsewhere, because what this process knows of the index would do.
    assert run_processes(compact_elsewhere, [(graph.uri, "dev")]) == [({DOC: 4}, {})]
    after = table_of(graph, "dev")
    assert {state.column for state in list_indexes(after) if state.tail} >= {"body"}
    assert workspace_of(graph).store.list("__recovery") == []
    assert drifted(graph, "dev") == []
    assert row_ids(after) == row_ids(before)
    assert graph.query(QUERIES, "by_ref", {"ref": "d0000150"}, branch="dev").rows == [
        {"year": dev["d0000150"]}
    ]


@pytest.mark.parametrize("made_again", [False, True])
def test_a_branch_that_goes_while_its_fragments_are_rewritten(small, made_again):
    """Its files go with it; nobody is told to restore them."""
    graph, _ = small
    calls = []

    def rewrite(table, tasks):
        calls.append(len(tasks))
        if len(calls) == 1:
            graph.branches.delete("dev")
            if made_again:
                graph.branches.create("dev")
        return rewrite_here(table, tasks)

    if made_again:
        report = compact(workspace_of(graph), "dev", rewrite_for=lambda _pin: rewrite)
        assert (report.failed, report.commit) == ({}, None)
    else:
        with pytest.raises(og.errors.BranchNotFound):
            compact(workspace_of(graph), "dev", rewrite_for=lambda _pin: rewrite)
    assert len(calls) == 1
