"""`optimize`: fragments merged, indexes whole, answers as before, on a branch too and after any crash."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.commit.changes import StagedStep
from omnigraph.commit.protocol import POINTS
from omnigraph.graph.graph import state_of
from omnigraph.lang.schema.indexes import IndexKind
from omnigraph.maintenance.effort import Effort
from omnigraph.maintenance.optimize import optimize
from omnigraph.maintenance.table_work import table_work
from omnigraph.maintenance.work_steps import WorkOutcome, prepare
from omnigraph.maintenance.workers import Workers
from omnigraph.storage.tables.indexing.table_indexes import index_name, list_indexes
from omnigraph.storage.tables.staging import stage_append
from omnigraph.storage.tables.table import open_table
from omnigraph.storage.tables.table_commits import commit_staged
from omnigraph.storage.tables.transactions import TransactionKind, transactions_after
from tests.commit.synthetic import Died, drifted
from tests.maintenance.compacting import (
    DOC,
    QUERIES,
    branched,
    changes_since,
    check_answers,
    check_explained,
    check_upsert,
    frame,
    inherited,
    merged,
    own,
    table_of,
)
from tests.opened import row_ids, workspace_of
from tests.storage.processes import run_processes

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
    report = graph.optimize("dev")
    assert merged(report) == {DOC: (4, 1)}
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
        graph.optimize("dev")
        graph.branches.create("child", from_="dev")
        child = check_upsert(graph, dev, "child")
        # One fragment of its own, which the indexes do not cover yet.
        assert merged(graph.optimize("child")) == {DOC: (0, 0)}
        check_explained(graph, "child")
        graph.mutate('query q() { insert Doc { ref: "x", year: 2, body: "about year2" } }',
                     branch="child")  # fmt: skip
        assert merged(graph.optimize("child")) == {DOC: (2, 1)}
        check_answers(graph, child | {"x": 2}, "child")
        check_explained(graph, "child")
        check_answers(graph, dev)


def test_a_fresh_branch_has_nothing_to_compact(tmp_path):
    graph, _, _ = branched(tmp_path / "g", 2_000)
    with graph:
        graph.branches.create("fresh")
        files = sorted(Path(tmp_path).rglob("*"))
        report = graph.optimize("fresh")
        assert (report.commit, list(report)) == (None, [])
        assert sorted(Path(tmp_path).rglob("*")) == files


def test_a_branch_that_only_deleted_has_nothing_to_compact(tmp_path):
    graph, _, _ = branched(tmp_path / "g", 2_000)
    with graph:
        graph.branches.create("cut")
        graph.mutate("query q() { delete Doc where year < 400 }", branch="cut")
        head = graph.snapshot(branch="cut")
        assert graph.optimize("cut").commit is None
        assert graph.snapshot(branch="cut") == head


def test_a_second_run_has_nothing_to_do(small):
    graph, _ = small
    assert graph.optimize("dev").commit is not None
    head = graph.snapshot(branch="dev")
    assert graph.optimize("dev").commit is None
    assert graph.snapshot(branch="dev") == head


@pytest.mark.parametrize("branch", ["main", "dev"])
def test_full_text_is_folded_then_fragments_are_merged_then_btrees_folded(small, branch):
    graph, _ = small
    graph.load_nodes("Doc", frame({"late": 1}), branch=branch)
    before = table_of(graph, branch)
    graph.optimize(branch)
    after = table_of(graph, branch)
    made = transactions_after(after, before.version, after.version)
    folds = [TransactionKind.CREATE_INDEX, TransactionKind.REWRITE, TransactionKind.CREATE_INDEX]
    assert [one.operation for one in made] == folds
    assert {state.segments for state in list_indexes(after)} == {1}


# Where a compaction stops, after how many passes of that point, and how many fragments of its own
# the branch has when the graph was opened again: all where nothing had moved yet, else one.
MERGED, AS_BEFORE = 1, 4
STOPS = [
    ("before_phase_a", 0, AS_BEFORE),
    ("before_phase_b", 0, AS_BEFORE),
    ("before_table_commit", 0, AS_BEFORE),
    ("after_table_commit", 0, AS_BEFORE),  # full text folded, nothing merged yet
    ("before_table_commit", 1, AS_BEFORE),
    ("after_table_commit", 1, MERGED),  # merged, BTREEs not folded yet
    ("before_table_commit", 2, MERGED),
    ("after_table_commit", 2, MERGED),
    ("after_phase_b_before_phase_c", 0, MERGED),
    ("after_phase_c_before_phase_d", 0, MERGED),
]


@pytest.mark.sampled(6, every=("moment", "healed_by"))
@pytest.mark.parametrize("healed_by", ["open", "write"])
@pytest.mark.parametrize(("moment", "skip", "left"), STOPS)
def test_a_compaction_that_stops_is_finished_or_undone(small, moment, skip, left, healed_by):
    graph, dev = small
    with (
        failpoints.arm(POINTS["optimize", moment], Died(moment), skip=skip),
        pytest.raises(Died),
    ):
        graph.optimize("dev")
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
        graph.optimize("dev")
        assert len(own(table_of(graph, "dev"))) == 1
        check_answers(graph, dev)
        check_explained(graph)


def test_a_compaction_that_stops_between_two_tables_is_kept(small):
    graph, dev = small
    for number in range(3):
        graph.load([{"type": "Note", "data": {"ref": f"n{number}"}}], branch="dev")
    fork = table_of(graph, "dev").versions()[0]
    ids, changes = row_ids(table_of(graph, "dev")), changes_since(table_of(graph, "dev"), fork)
    # Merged and folded is the first table, and the second is not.
    with (
        failpoints.arm(POINTS["optimize", "before_table_commit"], Died("second"), skip=3),
        pytest.raises(Died),
    ):
        graph.optimize("dev")
    graph.close()
    with og.open(graph.uri) as graph:
        assert workspace_of(graph).store.list("__recovery") == []
        assert drifted(graph, "dev") == []
        table = table_of(graph, "dev")
        assert (len(own(table)), row_ids(table)) == (1, ids)
        assert changes_since(table, fork) == changes
        check_answers(graph, dev)
        assert merged(graph.optimize("dev")) == {DOC: (0, 0), "node:Note": (3, 1)}
        assert changes_since(table_of(graph, "dev"), fork) == changes
        check_answers(graph, dev)
        check_explained(graph)


def optimize_elsewhere(uri, branch):
    with og.open(uri) as graph:
        (row,) = graph.optimize(branch)
        return row.fragments_removed, row.error


def test_an_index_whose_files_are_lost_is_built_anew(small):
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
    ((removed, error),) = run_processes(optimize_elsewhere, [(graph.uri, "dev")])
    assert removed == 4
    assert error is None
    after = table_of(graph, "dev")
    assert {state.column for state in list_indexes(after, examine=True) if state.damage} == set()
    assert {state.column for state in list_indexes(after) if state.tail} == set()
    assert workspace_of(graph).store.list("__recovery") == []
    assert drifted(graph, "dev") == []
    assert row_ids(after) == row_ids(before)
    assert graph.query(QUERIES, "by_ref", {"ref": "d0000150"}, branch="dev").rows == [
        {"year": dev["d0000150"]}
    ]


@pytest.mark.parametrize("made_again", [False, True])
def test_a_branch_that_goes_while_its_fragments_are_written(small, made_again):
    """Its files go with it; nobody is told to restore them."""
    graph, _ = small
    calls = []

    class Vandals(Workers):
        def rewrite(self, pin):
            calls.append(pin)
            if len(calls) == 1:
                graph.branches.delete("dev")
                if made_again:
                    graph.branches.create("dev")
            return super().rewrite(pin)

    def run():
        state = state_of(graph)
        return optimize(state.workspace, lambda at: state.schemas.at(at).catalog, "dev", Vandals())

    if made_again:
        report = run()
        assert (list(report), report.commit) == ([], None)
    else:
        with pytest.raises(og.errors.BranchNotFound):
            run()
    assert len(calls) == 1


# ------------------------------------------------------------------ what else is due, and what is refused


NOTES = """
node Note { ref: String @key  text: String? @index  at: Vector(2)? @index }
node Pen { ref: String @key }
"""


@pytest.fixture
def notes(tmp_path):
    with og.init(tmp_path / "notes", NOTES) as graph:
        for number in range(3):
            graph.load([{"type": "Note", "data": {"ref": f"n{number}", "text": "solar wind"}}])
        yield graph


def pinned(graph, key="node:Note"):
    return open_table(workspace_of(graph).pinned(graph.snapshot().tables[key]))


def columns(graph):
    return {state.column: state.segments for state in list_indexes(pinned(graph))}


def row_of(report, key="node:Note"):
    return next(row for row in report if row.table_key == key)


def test_declared_indexes_come_and_go_and_the_row_says_what_is_pending(notes):
    told = []
    report = notes.optimize(progress=lambda done, total: told.append((done, total)))
    row = row_of(report)
    assert merged(report) == {"node:Note": (3, 1), "node:Pen": (0, 0)}
    assert (row.committed, row.pending_indexes, row.skipped) == (True, ("at",), None)
    assert row.manifest_version == row.lance_head_version == pinned(notes).version
    assert columns(notes) == {"id": 1, "text": 1}
    assert told == [(0, 2), (1, 2), (1, 2)]
    notes.load([{"type": "Note", "data": {"ref": "n9", "at": [1, 2]}}])
    assert row_of(notes.optimize()).pending_indexes == ()
    assert columns(notes) == {"id": 1, "text": 1, "at": 1}
    notes.schema.apply(NOTES.replace("text: String? @index", "text: String?"))
    assert columns(notes) == {"id": 1, "text": 1, "at": 1}
    assert notes.optimize().failed == ()
    assert columns(notes) == {"id": 1, "at": 1}
    found = notes.query(
        'query q() { match { $n: Note  search($n.text, "winds") } return { $n.ref } }'
    )
    assert len(found.rows) == 3
    assert notes.optimize().commit is None


def test_every_few_runs_the_parts_of_a_vector_index_become_one(notes):
    parts = []
    for number in range(6):
        notes.load([{"type": "Note", "data": {"ref": f"v{number}", "at": [number, 1]}}])
        assert notes.optimize().failed == ()
        parts.append(columns(notes)["at"])
        assert notes.optimize().commit is None
    assert parts == [1, 2, 3, 4, 1, 2]
    near = "query q() { match { $n: Note } return { $n.ref } order { nearest($n.at, [4, 1]) } limit 1 }"
    assert notes.query(near).rows == [{"n.ref": "v4"}]


def test_a_table_that_another_program_wrote_to_is_left_alone(notes):
    notes.load([{"type": "Pen", "data": {"ref": f"p{n}"}} for n in range(2)])
    stolen = open_table(workspace_of(notes).pinned(notes.snapshot().tables["node:Note"]).at(None))
    ahead = commit_staged(stage_append(stolen, stolen.read().slice(0, 0)))
    report = notes.optimize()
    row = row_of(report)
    assert (row.skipped, row.committed, row.error) == ("drift_needs_repair", False, None)
    assert (row.manifest_version, row.lance_head_version) == (stolen.version, ahead.version)
    assert row_of(report, "node:Pen").committed
    assert open_table(stolen.ref.at(None)).version == ahead.version


def test_nothing_is_begun_while_a_dead_writer_must_be_rolled_back(notes):
    with (
        failpoints.arm(POINTS["mutation", "after_table_commit"], Died("between"), skip=0),
        pytest.raises(Died),
    ):
        notes.mutate('query q() { insert Note { ref: "x" } insert Pen { ref: "x" } }')
    before = {key: pin.table_version for key, pin in notes.snapshot().tables.items()}
    with pytest.raises(og.errors.RecoveryRequired, match="reopen"):
        notes.optimize()
    with og.open(notes.uri) as again:
        assert merged(again.optimize())["node:Note"] == (3, 1)
        assert again.snapshot().tables["node:Note"].table_version > before["node:Note"]


def test_cleanup_by_lance_itself_is_switched_off(notes):
    table = pinned(notes)
    table.dataset.update_config({"lance.auto_cleanup.interval": "1", "other": "stays"})
    assert notes.repair(confirm=True, force=True).refused == ()
    report = notes.optimize()
    assert [text for text in report.warnings if "lance.auto_cleanup.interval" in text]
    assert pinned(notes).dataset.config() == {"other": "stays"}
    assert notes.optimize().warnings == ()


def test_a_table_whose_files_cannot_be_read_does_not_stop_the_others(notes):
    for number in range(2):
        notes.load([{"type": "Pen", "data": {"ref": f"p{number}"}}])
    before, table = notes.snapshot().tables["node:Note"], pinned(notes)
    (file,) = table.fragments()[0].files
    Path(table.ref.uri, "data", file.path).rename(Path(table.ref.uri, "data", "hidden"))
    ((note, pen),) = run_processes(rows_elsewhere, [(notes.uri,)])
    assert (note["committed"], note["error"] is None) == (False, False)
    assert (pen["committed"], pen["fragments_removed"], pen["error"]) == (True, 2, None)
    assert notes.snapshot().tables["node:Note"] == before
    assert workspace_of(notes).store.list("__recovery") == []
    assert drifted(notes) == []


def rows_elsewhere(uri):
    with og.open(uri) as graph:
        return [row.to_json() for row in graph.optimize()]


def test_a_light_run_extends_by_parts_merges_and_builds_nothing(notes):
    notes.ensure_indices()
    for number in range(3):
        notes.load([{"type": "Note", "data": {"ref": f"m{number}", "text": "wind"}}])
    table = pinned(notes)
    work = table_work(table, None, Effort.LIGHT)
    outcome = WorkOutcome("node:Note")
    for step in prepare(work, table).steps(outcome):
        table = (
            commit_staged(step.stage(table)) if isinstance(step, StagedStep) else step.run(table)
        )
    assert (outcome.error, len(table.fragments())) == (None, 1)
    states = {state.column: (state.segments, state.tail) for state in list_indexes(table)}
    assert states == {"id": (2, ()), "text": (1, ())}
    assert not table_work(table, None, Effort.LIGHT).is_due
