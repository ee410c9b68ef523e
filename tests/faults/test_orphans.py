"""A branch goes away while an operation on it is pending: the graph is not held up by it."""

from __future__ import annotations

import pytest

from omnigraph import failpoints
from omnigraph.commit.audit import read_audit
from omnigraph.commit.heal import heal
from omnigraph.errors import RecoveryRequired
from omnigraph.graph import open as open_graph
from omnigraph.manifest import refs
from tests.commit.synthetic import ALL, Died, contents, drifted, dying_at, write
from tests.manifest.publishing import new_graph
from tests.opened import workspace_of

MOMENTS = [
    "load.before_phase_b",
    "load.after_fork",
    "load.after_table_commit",
    "load.after_phase_b_before_phase_c",
    "load.after_phase_c_before_phase_d",
]


@pytest.fixture
def graph(tmp_path):
    with new_graph(tmp_path) as graph:
        write(workspace_of(graph), {key: ["old"] for key in ALL})
        graph.branches.create("x")
        yield graph


def check_discarded(graph) -> None:
    (audit,) = read_audit(workspace_of(graph))
    assert audit.recovery_kind == "OrphanedBranchDiscarded"
    assert audit.recovery_for_actor == "ada"
    assert audit.graph_commit_id is None
    assert workspace_of(graph).store.list("__recovery") == []
    assert contents(graph) == {key: ["old"] for key in ALL}
    assert drifted(graph) == []


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("next_one", ["open", "write", "recreate"])
def test_a_pending_operation_of_a_deleted_branch_is_discarded(graph, moment, next_one):
    with dying_at(moment):
        write(workspace_of(graph), {key: ["lost"] for key in ALL}, branch="x", actor="ada")
    graph.branches.delete("x")
    if next_one == "recreate":
        graph.branches.create("x")
    elif next_one == "open":
        open_graph(graph.uri).close()
    else:
        assert len(heal(workspace_of(graph)).recovered) == 1
    check_discarded(graph)
    if next_one != "recreate":
        graph.branches.create("x")
    write(workspace_of(graph), {key: ["new"] for key in ALL}, branch="x")
    assert contents(graph, "x") == {key: ["new", "old"] for key in ALL}
    assert len(read_audit(workspace_of(graph))) == 1


@pytest.mark.parametrize(
    "point", ["recovery.before_discard", "recovery.record_audit", "recovery.sidecar_delete"]
)
def test_a_discard_that_dies_is_repeated(graph, point):
    with dying_at("load.after_table_commit"):
        write(workspace_of(graph), {key: ["lost"] for key in ALL}, branch="x", actor="ada")
    graph.branches.delete("x")
    for _ in range(2):
        with failpoints.arm(point, Died()), pytest.raises(Died):
            open_graph(graph.uri)
    open_graph(graph.uri).close()
    check_discarded(graph)


def test_a_branch_made_again_below_the_handle_does_not_keep_the_old_operation(graph):
    """Judged by the incarnation, not by the name."""
    with dying_at("load.after_phase_b_before_phase_c"):
        write(workspace_of(graph), {key: ["lost"] for key in ALL}, branch="x", actor="ada")
    refs.delete_ref(workspace_of(graph).manifest, "x")
    refs.create_ref(workspace_of(graph).manifest, "x", "main")
    open_graph(graph.uri).close()
    check_discarded(graph)
    assert contents(graph, "x") == {key: ["old"] for key in ALL}
    write(workspace_of(graph), {key: ["new"] for key in ALL}, branch="x")


def test_a_branch_deleted_under_a_live_writer(graph):
    """As by one that lost its locks: the write fails at its publish, and stays in nobody's way."""

    def delete(_: str) -> None:
        refs.delete_ref(workspace_of(graph).manifest, "x")

    with (
        failpoints.arm("load.after_phase_b_before_phase_c", delete),
        pytest.raises(RecoveryRequired),
    ):
        write(workspace_of(graph), {key: ["lost"] for key in ALL}, branch="x", actor="ada")
    assert heal(workspace_of(graph)).recovered
    check_discarded(graph)
    graph.branches.create("x")
    write(workspace_of(graph), {key: ["new"] for key in ALL}, branch="x")
    assert contents(graph, "x") == {key: ["new", "old"] for key in ALL}
