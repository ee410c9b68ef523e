"""Whoever meets a schema apply on a branch, or a merge of schemas, sees the old or the new schema, whole.

On the branch that changes, writers are refused by name. On every other branch reads and writes go on as if nothing
were under way; only what needs the graph lock (making branches, applies, merges) has to wait for it.
"""

from __future__ import annotations

import shutil

import pytest

import omnigraph as og
from tests.commit.synthetic import drifted
from tests.faults.schema_branch_cases import (
    ACTIONS,
    NEW,
    OPERATIONS,
    build,
    meet,
    run_paused,
    seen_on,
)
from tests.opened import workspace_of
from tests.storage.processes import stopped_at, talk_to

REFUSALS = {
    "contention",
    "schema_apply_in_progress",
    "schema_conflict",
    "expected_version_mismatch",
}
WAITS_FOR_THE_GRAPH = ("branch", "apply", "merge")
# Where the operation stands, and whether readers see what it does.
STOPS = {
    "A": ("before_phase_a", 0, False),
    "B": ("before_phase_b", 0, False),
    "B, between tables": ("before_table_commit", 1, False),
    "C": ("after_phase_b_before_phase_c", 0, False),
    "D": ("after_phase_c_before_phase_d", 0, True),
}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """Branches know their place, so the graph is put back there for every test."""
    place = tmp_path_factory.mktemp("schemas")
    build(str(place / "graph"))
    shutil.move(place / "graph", place / "kept")

    def put_back() -> str:
        shutil.rmtree(place / "graph", ignore_errors=True)
        return str(shutil.copytree(place / "kept", place / "graph"))

    return put_back


def writer_of(operation: str) -> str:
    return "schema_apply" if operation.startswith("apply") else "branch_merge"


def check_sound(graph: og.Graph) -> None:
    assert workspace_of(graph).store.list("__recovery") == []
    for branch in graph.branches.list():
        assert drifted(graph, branch) == [], branch


@pytest.mark.sampled(3, every=())
@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_others_meet_the_old_or_the_new_schema(prepared, tmp_path, monkeypatch, operation, stop):
    uri = prepared()
    monkeypatch.setenv("OMNIGRAPH_LOCK_WAIT_MS", "50")
    moment, skip, is_new = STOPS[stop]
    _, branch, another, _ = OPERATIONS[operation]
    point = f"{writer_of(operation)}.{moment}"
    with talk_to(meet, (uri, operation, "50")) as (_, others):
        assert others.recv() == "ready"
        arguments = (uri, operation, point, skip)
        with stopped_at(tmp_path / "pause", run_paused, arguments) as running:
            others.send("meet")
            met = others.recv()
            assert running.go_on() == "done"
        others.send("meet")
        after = others.recv()
    for action in ACTIONS:
        outcome, seen = met[branch, action]
        assert seen == ("new" if is_new else "old"), action
        if action.startswith(("read", "open")):
            assert outcome == "done", action
        else:
            assert outcome in REFUSALS, action
        outcome, seen = met[another, action]
        assert seen == "old", action
        assert outcome in (REFUSALS if action in WAITS_FOR_THE_GRAPH else {"done"}), action
    for action in ACTIONS:
        assert after[branch, action] == ("done", "new"), action
        assert after[another, action] == ("done", "old"), action
    with og.open(uri) as graph:
        check_sound(graph)


# What happens while the operation is planned and has no lock yet, and how the operation ends then.
MEANWHILE = {
    "a write to the branch": "expected_version_mismatch",
    "an apply on the branch": "schema_conflict",
    "an apply on another branch": "done",
    "a merge into another branch": "done",
    "an apply on the source": "done",
}


@pytest.mark.sampled(3, every=())
@pytest.mark.parametrize("meanwhile", MEANWHILE)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_what_happens_before_the_locks_are_taken_counts(prepared, tmp_path, operation, meanwhile):
    uri = prepared()
    run, branch, another, value = OPERATIONS[operation]
    extra = "\nnode Extra { k: String @key }"
    with og.open(uri) as graph:
        point = f"{writer_of(operation)}.before_locks"
        with stopped_at(tmp_path / "pause", run_paused, (uri, operation, point, 0)) as running:
            match meanwhile:
                case "a write to the branch":
                    graph.mutate('query q() { insert Note { slug: "x" } }', branch=branch)
                case "an apply on the branch":
                    graph.schema.apply(
                        graph.schema.show(branch=branch).source + extra, branch=branch
                    )
                case "an apply on another branch":
                    graph.schema.apply(
                        graph.schema.show(branch=another).source + extra, branch=another
                    )
                case "a merge into another branch":
                    graph.branches.merge("third", another)
                case "an apply on the source":
                    graph.schema.apply(NEW + extra, branch="grow")
            wanted = MEANWHILE[meanwhile]
            assert running.go_on() == wanted
        assert seen_on(graph, branch, value) == ("new" if wanted == "done" else "old")
        assert seen_on(graph, another, value) == "old"
        check_sound(graph)
        if wanted != "done":
            run(graph)
            assert seen_on(graph, branch, value) == "new"
