"""Other programs commit to our tables, also in the middle of our operations.

What they wrote is never published by us and never undone by us; the way out is `repair`.
"""

from __future__ import annotations

import pytest

from omnigraph import failpoints
from omnigraph.commit.audit import read_audit
from omnigraph.commit.protocol import commit
from omnigraph.errors import Drift, ExpectedVersionMismatch, OmniGraphError, RecoveryRequired
from omnigraph.graph import Graph
from omnigraph.graph import open as open_graph
from omnigraph.storage.tables.table import open_table
from tests.commit.synthetic import (
    ALL,
    MEMBER_OF,
    PERSON,
    TEAM,
    contents,
    drifted,
    dying_at,
    foreign_append,
    prepare,
    write,
)
from tests.manifest.publishing import new_graph
from tests.opened import workspace_of


@pytest.fixture(params=["main", "x"])
def branch(request):
    return request.param


@pytest.fixture
def graph(tmp_path, branch):
    with new_graph(tmp_path) as graph:
        write(workspace_of(graph), {key: ["old"] for key in ALL})
        if branch != "main":
            graph.branches.create(branch)
            write(workspace_of(graph), {key: ["fork"] for key in ALL}, branch=branch)
        yield graph


def at_head(graph: Graph, branch: str, table_key: str) -> tuple[int, list[str]]:
    pin = graph.snapshot(branch=branch).tables[table_key]
    head = open_table(workspace_of(graph).ref(pin.location).on(pin.table_branch))
    return head.version, sorted(head.read(["id"]).column("id").to_pylist())


def check_left_alone(graph: Graph, branch: str, table_key: str, before: dict) -> None:
    """Neither published nor undone; other tables go on, this one waits for repair."""
    head = at_head(graph, branch, table_key)
    assert "alien" in head[1]
    for _ in range(2):
        with open_graph(graph.uri) as reopened:
            assert contents(reopened, branch)[table_key] == before[table_key]
            assert drifted(reopened, branch) == [table_key]
            assert workspace_of(reopened).store.list("__recovery") == []
            with pytest.raises(Drift, match="run omnigraph repair") as refused:
                write(workspace_of(reopened), {table_key: ["more"]}, branch=branch)
            assert refused.value.details["head"] == head[0]
            others = [key for key in ALL if key != table_key]
            write(workspace_of(reopened), {key: ["more"] for key in others}, branch=branch)
    assert at_head(graph, branch, table_key) == head
    assert len(read_audit(workspace_of(graph))) <= 1


def test_a_foreign_commit_on_a_quiet_table(graph, branch):
    before = contents(graph, branch)
    foreign_append(graph, PERSON, ["alien"], branch)
    check_left_alone(graph, branch, PERSON, before)


@pytest.mark.parametrize(
    ("point", "skip"),
    [
        ("load.before_phase_b", 0),
        ("load.after_table_commit", 0),
        ("load.after_table_commit", 1),
        ("load.after_phase_b_before_phase_c", 0),
    ],
)
@pytest.mark.parametrize("table_key", [PERSON, TEAM, MEMBER_OF])
def test_a_foreign_commit_on_top_of_a_dead_writers_operation(graph, branch, point, skip, table_key):
    """On the table that moved, on one that did not, or after all had moved."""
    before = contents(graph, branch)
    with dying_at(point, skip=skip):
        write(workspace_of(graph), {key: ["ours"] for key in ALL}, branch=branch)
    foreign_append(graph, table_key, ["alien"], branch)
    with pytest.raises((RecoveryRequired, Drift)):
        write(workspace_of(graph), {table_key: ["more"]}, branch=branch)
    open_graph(graph.uri).close()
    assert contents(graph, branch) == before
    check_left_alone(graph, branch, table_key, before)


def test_a_foreign_commit_between_two_table_commits_of_a_live_writer(graph, branch):
    before = contents(graph, branch)

    def arrive(_: str) -> None:
        foreign_append(graph, TEAM, ["alien"], branch)

    with (
        failpoints.arm("load.after_table_commit", arrive, times=1),
        pytest.raises(RecoveryRequired),
    ):
        write(workspace_of(graph), {PERSON: ["ours"], TEAM: ["ours"]}, branch=branch)
    assert contents(graph, branch) == before
    open_graph(graph.uri).close()
    check_left_alone(graph, branch, TEAM, before)


def test_a_foreign_commit_before_the_first_table_commit_of_a_live_writer(graph, branch):
    """Nothing of ours moved: the writer takes its sidecar back."""
    before = contents(graph, branch)

    def arrive(_: str) -> None:
        foreign_append(graph, PERSON, ["alien"], branch)

    with (
        failpoints.arm("load.before_table_commit", arrive, times=1),
        pytest.raises(OmniGraphError) as caught,
    ):
        write(workspace_of(graph), {PERSON: ["ours"], TEAM: ["ours"]}, branch=branch)
    assert not isinstance(caught.value, RecoveryRequired)
    assert workspace_of(graph).store.list("__recovery") == []
    check_left_alone(graph, branch, PERSON, before)


def test_a_foreign_commit_after_the_table_commits_is_not_in_what_we_publish(graph, branch):
    before = contents(graph, branch)

    def arrive(_: str) -> None:
        foreign_append(graph, PERSON, ["alien"], branch)

    with failpoints.arm("load.after_phase_b_before_phase_c", arrive, times=1):
        write(workspace_of(graph), {PERSON: ["ours"], TEAM: ["ours"]}, branch=branch)
    published = {**before, PERSON: sorted([*before[PERSON], "ours"])}
    assert contents(graph, branch)[PERSON] == published[PERSON]
    check_left_alone(graph, branch, PERSON, published)


def test_a_foreign_commit_does_not_make_a_stale_write_pass(graph, branch):
    stale = prepare(workspace_of(graph), {PERSON: ["stale"]}, branch=branch)
    write(workspace_of(graph), {PERSON: ["first"]}, branch=branch)
    foreign_append(graph, PERSON, ["alien"], branch)
    with pytest.raises(ExpectedVersionMismatch):
        commit(workspace_of(graph), stale)
