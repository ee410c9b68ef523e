"""A branch deleted, or deleted and made again, under a writer that prepared on it.

The writer stands between its preparation and its locks while another process does it. What is gone
is `branch_not_found`. What was made again is a lost race: the write runs on the new branch as if it
had come a moment later, or is refused; nothing of the old branch comes along.
"""

from __future__ import annotations

import pytest

from omnigraph.errors import BranchNotFound, Contention
from tests.faults.remade_helpers import (
    AGAIN,
    BARE,
    EQUAL,
    FORKED_NOW,
    GONE,
    SHAPES,
    Race,
    cases,
    judged,
    pins,
    prepare,
)
from tests.faults.remade_workers import BASE, KINDS, SCHEMA, fill, filled, look, records
from tests.graphs import graph_of
from tests.storage.processes import run_processes

graph = graph_of(SCHEMA, records(BASE))


@pytest.fixture
def race(graph, writers, tmp_path):
    return Race(graph, writers, tmp_path)


# Where forks are made, or there are none: one writer of each sort.
FORKING = ["insert", "edge", "merge", "append-strict", "empty", "data-source", "indexes"]


@pytest.mark.sampled(12)
@pytest.mark.parametrize(
    ("name", "shape"),
    [*cases(KINDS, [GONE, AGAIN, EQUAL]), *cases(FORKING, [FORKED_NOW, BARE])],
)
def test_a_write_runs_on_the_branch_that_is_there(race, name, shape):
    remake, content = prepare(race, shape)
    race.run(name, remake, judged(KINDS[name], content))


PLAIN = ["insert", "delete-old", "edge", "merge", "overwrite", "empty"]
CONDITIONAL = ["update", "delete-old", "append", "empty"]


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("name", "shape"),
    [*cases(["edge", "merge"], [GONE, FORKED_NOW, BARE]), *cases(PLAIN, [AGAIN, EQUAL])],
)
def test_without_retries_the_lost_race_is_told(race, name, shape):
    remake, content = prepare(race, shape)
    code = "branch_not_found" if content is None else "expected_version_mismatch"
    race.run(name, remake, [(code, content)], retries=0)


@pytest.mark.sampled(7)
@pytest.mark.parametrize(("name", "shape"), cases(CONDITIONAL, SHAPES))
def test_a_condition_on_the_old_branch_does_not_hold_on_the_new_one(race, name, shape):
    remake, content = prepare(race, shape)
    code = "branch_not_found" if content is None else "precondition_failed"
    race.run(name, remake, [(code, content)], at_head=True)


# ------------------------------------------------------------------ branches of branches


@pytest.mark.sampled(7)
@pytest.mark.parametrize("parents", ["parent stays", "parent made again"])
@pytest.mark.parametrize(
    ("name", "written"),
    [
        pytest.param(name, written, id=f"{name}-{'own fork' if written else 'fork of its parent'}")
        for name in ("insert", "edge-old", "merge", "append", "indexes")
        for written in (True, False)
        if written or not KINDS[name].on_old
    ],
)
def test_a_branch_of_a_branch_made_again(race, name, parents, written):
    """Its tables are forks of forks, or its parent's, which may be another one by then."""
    graph, branch = race.graph, race.branch
    parent = f"{branch}-parent"
    graph.branches.create(parent)
    fill(graph, parent, "parent")
    graph.branches.create(branch, from_=parent)
    if written:
        fill(graph, branch, "old")
    before = pins(graph, branch)

    def remake() -> None:
        graph.branches.delete(branch)
        if parents == "parent made again":
            graph.branches.delete(parent)
            graph.branches.create(parent)
            fill(graph, parent, "again")
        graph.branches.create(branch, from_=parent)
        if written:
            fill(graph, branch, "new")
        assert pins(graph, branch) == before

    content = filled(BASE, "again" if parents == "parent made again" else "parent")
    content = filled(content, "new") if written else content
    race.run(name, remake, judged(KINDS[name], content))
    parent_content = filled(BASE, "again" if parents == "parent made again" else "parent")
    ((found, drift, _),) = run_processes(look, [(graph.uri, parent)])
    assert (found, drift) == (parent_content, [])


def test_a_branch_made_again_from_another_one(race):
    """As a child of `main` it has the numbers that it had as a child of its parent."""
    graph = race.graph
    graph.branches.create("p")
    graph.branches.create("b", from_="p")
    fill(graph, "b", "old")
    before = pins(graph, "b")

    def remake() -> None:
        graph.branches.delete("b")
        graph.branches.create("b")
        fill(graph, "b", "new")
        assert pins(graph, "b") == before

    race.run("merge", remake, judged(KINDS["merge"], filled(BASE, "new")))


# ------------------------------------------------------------------ under the locks


ONE_OF_EACH = ["insert", "merge", "empty", "data-source", "indexes", "compaction"]


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_a_branch_cannot_be_deleted_between_the_checks_and_the_publish(race, name, monkeypatch):
    graph, branch = race.graph, race.branch
    prepare(race, EQUAL)
    call = (graph.uri, branch, name, {}, "before_phase_a")
    try:
        writer = race.writers.start(race.directory / "pause", *call)
        with monkeypatch.context() as patch:
            patch.setenv("OMNIGRAPH_LOCK_WAIT_MS", "20")
            with pytest.raises(Contention):
                graph.branches.delete(branch)
        assert branch in graph.branches.list()
        told = writer.go_on()
        assert told[0] == "done", told
        _, content = KINDS[name].judge(filled(BASE, "old"))
        ((found, drift, sidecars),) = run_processes(look, [(graph.uri, branch)])
        assert (found, drift, sidecars) == (content, [], [])
        graph.branches.delete(branch)
        writer.pipe.send("again")
        assert writer.answer()[0] == "branch_not_found"
    except BaseException:
        race.writers.end()
        raise
    with pytest.raises(BranchNotFound):
        graph.snapshot(branch=branch)
