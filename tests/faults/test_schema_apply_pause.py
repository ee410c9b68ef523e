"""Whoever meets a running schema apply sees the old or the new schema, whole, and only named errors."""

from __future__ import annotations

import shutil

import pytest

from omnigraph.graph import open as open_graph
from tests.faults.schema_apply_cases import (
    ACTIONS,
    CHANGES,
    apply_paused,
    build,
    check_whole,
    meet_an_apply,
)
from tests.storage.processes import stopped_at, talk_to
from tests.stored import read_back

# What schema.apply may cause in others; `recovery_required` is not among them.
ALLOWED = {
    "schema_apply_in_progress",
    "schema_conflict",
    "expected_version_mismatch",
    "contention",
}
# Whether readers see the new schema while the apply stands there.
STOPS = [
    pytest.param("soft", "schema_apply.before_phase_a", 0, False, id="A"),
    pytest.param("hard", "schema_apply.before_phase_b", 0, False, id="B-first"),
    pytest.param("soft", "schema_apply.before_table_commit", 5, False, id="B"),
    pytest.param("hard", "schema_apply.after_phase_b_before_phase_c", 0, False, id="C"),
    pytest.param("soft", "publish.after_write", 0, True, id="C-published"),
    pytest.param("hard", "schema_apply.after_phase_c_before_phase_d", 0, True, id="D"),
    pytest.param("hard", "schema_apply.before_purge", 0, True, id="purge"),
]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    return {
        name: build(tmp_path_factory.mktemp(name) / "graph", change)
        for name, change in CHANGES.items()
    }


@pytest.mark.parametrize(("name", "point", "skip", "is_new"), STOPS)
def test_others_meet_the_old_or_the_new_schema(
    prepared, tmp_path, monkeypatch, name, point, skip, is_new
):
    uri = str(shutil.copytree(prepared[name], tmp_path / "graph"))
    monkeypatch.setenv("OMNIGRAPH_LOCK_WAIT_MS", "50")
    pause = tmp_path / "pause"
    with talk_to(meet_an_apply, (uri, name, "50")) as (_, others):
        assert others.recv() == "ready"
        with stopped_at(pause, apply_paused, (uri, name, point, skip)) as apply:
            others.send("meet")
            met = others.recv()
            assert apply.go_on() == "applied"
        others.send("meet")
        after = others.recv()
    assert met.keys() == after.keys() == set(ACTIONS)
    free = point == "schema_apply.before_purge"
    for action, (outcome, seen) in met.items():
        assert seen == ("new" if is_new else "old"), action
        assert outcome == "done" or outcome in ALLOWED, action
        if action.startswith(("read", "open")):
            assert outcome == "done", action
        elif not free:
            assert outcome in ALLOWED, action
    assert after == dict.fromkeys(ACTIONS, ("done", "new"))


@pytest.mark.parametrize(
    ("meanwhile", "outcome"),
    [("write", "expected_version_mismatch"), ("branch", "applied")],
)
def test_what_happens_before_the_locks_are_taken_counts(prepared, tmp_path, meanwhile, outcome):
    change = CHANGES["soft"]
    uri = str(shutil.copytree(prepared["soft"], tmp_path / "graph"))
    with open_graph(uri) as graph:
        place = (uri, "soft", "schema_apply.before_locks", 0)
        with stopped_at(tmp_path / "pause", apply_paused, place) as apply:
            if meanwhile == "write":
                graph.load(change.records(is_new=False, key="q"), mode="append")
            else:
                graph.branches.create("b")
            assert apply.go_on() == outcome
        check_whole(graph, change, is_new=meanwhile == "branch", extra="q")
        if meanwhile == "branch":
            # It begins at the head before the apply, and keeps the schema of that.
            assert graph.schema.show(branch="b").source != graph.schema.source
            graph.branches.delete("b")
        graph.schema.apply(change.new)
        check_whole(graph, change, is_new=True, extra="q")
        found = read_back(graph).nodes["All"]
        assert set(found) == ({"p", "q"} if meanwhile == "write" else {"p"})
