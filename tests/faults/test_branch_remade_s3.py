"""A branch deleted and made again under a writer that prepared on it, on an object store."""

from __future__ import annotations

from uuid import uuid4

import pytest

from omnigraph.errors import Contention
from tests.faults.remade_helpers import (
    AGAIN,
    BARE,
    EQUAL,
    FORKED_NOW,
    GONE,
    Race,
    WriterProcess,
    cases,
    judged,
    new_graph,
    prepare,
)
from tests.faults.remade_workers import BASE, KINDS, filled, look
from tests.s3_server import BUCKET
from tests.storage.processes import run_processes


@pytest.fixture(scope="module")
def shared(s3_server):
    """One graph for all tests, each with a branch of its own, and one process that writes."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in s3_server.environment().items():
            patch.setenv(name, value)
        graph = new_graph(f"s3://{BUCKET}/{uuid4().hex}")
    with graph, WriterProcess(s3_server.environment()) as writers:
        yield graph, writers


@pytest.fixture
def race(s3, shared, tmp_path):
    graph, writers = shared
    return Race(graph, writers, tmp_path, branch=f"b{uuid4().hex[:8]}")


@pytest.mark.sampled(5, every=("shape",))  # every kind is tried on disk
@pytest.mark.parametrize(
    ("name", "shape"),
    [
        *cases(KINDS, [AGAIN, EQUAL]),
        *cases(["insert", "merge", "data-source"], [GONE]),
        *cases(["edge", "indexes"], [FORKED_NOW, BARE]),
    ],
)
def test_a_write_runs_on_the_branch_that_is_there(race, name, shape):
    remake, content = prepare(race, shape)
    race.run(name, remake, judged(KINDS[name], content))


@pytest.mark.sampled(1, every=())
@pytest.mark.parametrize("name", ["insert", "merge"])
def test_without_retries_the_lost_race_is_told(race, name):
    remake, content = prepare(race, EQUAL)
    race.run(name, remake, [("expected_version_mismatch", content)], retries=0)


@pytest.mark.sampled(1, every=())
@pytest.mark.parametrize("name", ["update", "empty"])
def test_a_condition_on_the_old_branch_does_not_hold_on_the_new_one(race, name):
    remake, content = prepare(race, EQUAL)
    race.run(name, remake, [("precondition_failed", content)], at_head=True)


def test_a_branch_cannot_be_deleted_between_the_checks_and_the_publish(race, monkeypatch):
    prepare(race, EQUAL)
    call = (race.graph.uri, race.branch, "merge", {}, "before_phase_a")
    try:
        writer = race.writers.start(race.directory / "pause", *call)
        with monkeypatch.context() as patch:
            patch.setenv("OMNIGRAPH_LOCK_WAIT_MS", "50")
            with pytest.raises(Contention):
                race.graph.branches.delete(race.branch)
        told = writer.go_on()
        assert told[0] == "done", told
        writer.pipe.send("close")
    except BaseException:
        race.writers.end()
        raise
    _, content = KINDS["merge"].judge(filled(BASE, "old"))
    ((found, drift, sidecars),) = run_processes(look, [(race.graph.uri, race.branch)])
    assert (found, drift, sidecars) == (content, [], [])
    race.graph.branches.delete(race.branch)
