"""One commit over many tables: what it makes visible, and what each kind of refusal leaves."""

from __future__ import annotations

import pytest

from omnigraph import failpoints
from omnigraph.commit.audit import read_audit
from omnigraph.commit.protocol import commit
from omnigraph.errors import (
    Drift,
    ExpectedVersionMismatch,
    RecoveryRequired,
    StorageError,
)
from omnigraph.graph import open as open_graph
from omnigraph.storage.tables.staging import stage_append
from omnigraph.storage.tables.table import open_table
from omnigraph.storage.tables.table_commits import commit_staged
from tests.commit.synthetic import (
    ALL,
    MEMBER_OF,
    PERSON,
    TEAM,
    contents,
    drifted,
    prepare,
    rows_of,
    write,
)
from tests.graphs import graph_of
from tests.manifest.publishing import SCHEMA
from tests.opened import workspace_of

graph = graph_of(SCHEMA)


def test_many_tables_become_visible_together(graph):
    before = graph.snapshot()
    made = write(workspace_of(graph), {key: ["a", "b"] for key in ALL}, actor="ada")
    assert contents(graph) == {key: ["a", "b"] for key in sorted(ALL)}
    assert graph.snapshot().commit == made
    assert made.actor_id == "ada"
    assert made.parent_commit_id == before.graph_commit_id
    assert drifted(graph) == []
    assert workspace_of(graph).store.list("__recovery") == []
    assert {pin.row_count for pin in before.tables.values()} == {0}


def test_a_write_prepared_on_an_old_state_is_refused(graph):
    stale = prepare(workspace_of(graph), {PERSON: ["a"]}, relying_on=[TEAM])
    write(workspace_of(graph), {TEAM: ["t"]})
    with pytest.raises(ExpectedVersionMismatch) as caught:
        commit(workspace_of(graph), stale)
    assert caught.value.details == {"table_key": TEAM, "expected": 1, "actual": 2}
    assert contents(graph)[PERSON] == []
    assert drifted(graph) == []
    assert workspace_of(graph).store.list("__recovery") == []


def test_the_first_write_on_a_branch_forks_only_its_tables(graph):
    write(workspace_of(graph), {PERSON: ["a"], TEAM: ["t"]})
    graph.branches.create("x")
    write(workspace_of(graph), {PERSON: ["b"]}, branch="x")
    tables = graph.snapshot(branch="x").tables
    assert tables[PERSON].table_branch == "x"
    assert tables[TEAM].table_branch is None
    assert contents(graph, "x")[PERSON] == ["a", "b"]
    assert contents(graph)[PERSON] == ["a"]
    write(workspace_of(graph), {PERSON: ["c"]}, branch="x")
    write(workspace_of(graph), {PERSON: ["d"]})
    assert contents(graph, "x")[PERSON] == ["a", "b", "c"]
    assert contents(graph)[PERSON] == ["a", "d"]
    graph.branches.create("y", from_="x")
    write(workspace_of(graph), {PERSON: ["e"]}, branch="y")
    assert contents(graph, "y")[PERSON] == ["a", "b", "c", "e"]
    assert contents(graph, "x")[PERSON] == ["a", "b", "c"]


def test_a_leftover_fork_nobody_claims_is_reclaimed(graph):
    graph.branches.create("x")
    with failpoints.arm("load.after_fork", StorageError("stop")), pytest.raises(StorageError):
        write(workspace_of(graph), {PERSON: ["a"]}, branch="x")
    assert workspace_of(graph).store.list("__recovery") == []
    write(workspace_of(graph), {PERSON: ["b"]}, branch="x")
    assert contents(graph, "x")[PERSON] == ["b"]


@pytest.mark.parametrize("moment", ["before_phase_a", "before_phase_b", "before_table_commit"])
def test_a_failure_before_any_table_moved_leaves_nothing(graph, moment):
    with failpoints.arm(f"load.{moment}"), pytest.raises(StorageError, match="failpoint"):
        write(workspace_of(graph), {key: ["a"] for key in ALL})
    assert workspace_of(graph).store.list("__recovery") == []
    assert drifted(graph) == []
    write(workspace_of(graph), {PERSON: ["b"]})
    assert contents(graph) == {PERSON: ["b"], TEAM: [], MEMBER_OF: []}
    assert read_audit(workspace_of(graph)) == []


def test_a_phase_a_that_cannot_write_leaves_nothing(graph):
    with failpoints.arm("recovery.sidecar_write"), pytest.raises(StorageError):
        write(workspace_of(graph), {PERSON: ["a"]})
    assert drifted(graph) == []
    write(workspace_of(graph), {PERSON: ["b"]})
    assert contents(graph)[PERSON] == ["b"]


def test_a_failure_after_every_table_moved_is_finished_by_the_next_write(graph):
    wanted = prepare(workspace_of(graph), {PERSON: ["a"], TEAM: ["t"]}, actor="ada")
    with (
        failpoints.arm("publish.before_write", times=1),
        pytest.raises(RecoveryRequired) as caught,
    ):
        commit(workspace_of(graph), wanted)
    assert caught.value.details == {"operation_id": wanted.operation_id}
    assert contents(graph) == {PERSON: [], TEAM: [], MEMBER_OF: []}
    write(workspace_of(graph), {PERSON: ["b"]})
    assert contents(graph) == {PERSON: ["a", "b"], TEAM: ["t"], MEMBER_OF: []}
    recovered = graph.commits.show(wanted.intent.graph_commit_id)
    assert recovered.actor_id == "omnigraph:recovery"
    assert recovered.facts["recovery"]["recovery_for_actor"] == "ada"
    (audit,) = read_audit(workspace_of(graph))
    assert audit.operation_id == wanted.operation_id
    assert audit.recovery_kind == "RolledForward"
    assert audit.graph_commit_id == wanted.intent.graph_commit_id
    assert drifted(graph) == []


def test_a_failure_between_two_tables_waits_for_a_read_write_open(graph):
    with (
        failpoints.arm("load.after_table_commit", times=1),
        pytest.raises(RecoveryRequired) as caught,
    ):
        write(workspace_of(graph), {PERSON: ["a"], TEAM: ["t"]})
    operation_id = caught.value.details["operation_id"]
    with pytest.raises(RecoveryRequired, match="reopen the graph read-write") as blocked:
        write(workspace_of(graph), {PERSON: ["b"]})
    assert blocked.value.details["operation_id"] == operation_id
    write(workspace_of(graph), {MEMBER_OF: ["m"]})
    with open_graph(graph.uri) as reopened:
        assert contents(reopened) == {PERSON: [], TEAM: [], MEMBER_OF: ["m"]}
        assert drifted(reopened) == []
        (audit,) = read_audit(workspace_of(reopened))
        assert (audit.operation_id, audit.recovery_kind) == (operation_id, "RolledBack")
        write(workspace_of(reopened), {PERSON: ["c"]})
        assert contents(reopened)[PERSON] == ["c"]


def test_a_sidecar_that_cannot_be_deleted_does_not_fail_the_write(graph):
    with failpoints.arm("recovery.sidecar_delete", times=1):
        made = write(workspace_of(graph), {PERSON: ["a"]})
    assert len(workspace_of(graph).store.list("__recovery")) == 1
    write(workspace_of(graph), {PERSON: ["b"]})
    assert workspace_of(graph).store.list("__recovery") == []
    assert contents(graph)[PERSON] == ["a", "b"]
    (audit,) = read_audit(workspace_of(graph))
    assert audit.graph_commit_id == made.graph_commit_id
    assert len(graph.commits.list()) == 3


def test_recoveries_that_cannot_be_listed_fail_the_write_and_the_open(graph):
    with failpoints.arm("recovery.sidecar_list"):
        with pytest.raises(StorageError):
            write(workspace_of(graph), {PERSON: ["a"]})
        with pytest.raises(StorageError):
            open_graph(graph.uri)
        with open_graph(graph.uri, mode="r") as reader:
            assert contents(reader)[PERSON] == []


def test_a_foreign_commit_is_neither_published_nor_undone(graph):
    pin = graph.snapshot().tables[PERSON]
    table = open_table(workspace_of(graph).pinned(pin))
    foreign = commit_staged(stage_append(table, rows_of(PERSON, ["alien"], table.schema)))
    with pytest.raises(Drift, match="omnigraph repair"):
        write(workspace_of(graph), {PERSON: ["a"]})
    assert contents(graph)[PERSON] == []
    open_graph(graph.uri).close()
    assert open_table(foreign.ref.at(None)).version == foreign.version
    write(workspace_of(graph), {TEAM: ["t"]})


def test_drift_with_unlistable_recoveries_names_both_ways(graph):
    pin = graph.snapshot().tables[PERSON]
    table = open_table(workspace_of(graph).pinned(pin))
    commit_staged(stage_append(table, rows_of(PERSON, ["alien"], table.schema)))
    wanted = prepare(workspace_of(graph), {PERSON: ["a"]})
    with (
        failpoints.arm("recovery.sidecar_list"),
        pytest.raises(Drift, match=r"failpoint.*reopen.*omnigraph repair"),
    ):
        commit(workspace_of(graph), wanted)
