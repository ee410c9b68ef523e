"""Many processes commit at once: nothing lost, nothing twice, nothing half visible, no wedge."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter

import pytest

from omnigraph import failpoints
from omnigraph.commit.audit import read_audit
from omnigraph.commit.heal import heal, sweep
from omnigraph.commit.protocol import commit
from omnigraph.errors import Contention
from omnigraph.graph import Graph
from omnigraph.graph import open as open_graph
from tests.commit.synthetic import (
    ALL,
    MEMBER_OF,
    PERSON,
    TEAM,
    contents,
    drifted,
    dying_at,
    prepare,
    write,
)
from tests.faults.commit_workers import (
    Told,
    attempt,
    open_read_write,
    watch,
    write_many,
    write_paused,
)
from tests.graphs import graph_of
from tests.manifest.publishing import SCHEMA
from tests.opened import workspace_of
from tests.sampling import runs_all
from tests.storage.processes import run_processes, talk_to

PROCESSES = 8
TIMES = 50 if runs_all() else 16
OVERLAPPING = [[PERSON, TEAM], [TEAM, MEMBER_OF], [PERSON, MEMBER_OF], [PERSON, TEAM, MEMBER_OF]]


graph = graph_of(SCHEMA)


@pytest.fixture(autouse=True)
def _patient(monkeypatch):
    """A busy machine takes seconds for a commit, and there are seven before it."""
    monkeypatch.setenv("OMNIGRAPH_LOCK_WAIT_MS", "600000")


def check(graph: Graph, told: Told) -> None:
    """What was acknowledged is there, whole and once; what was refused is not."""
    with open_graph(graph.uri) as reopened:
        assert workspace_of(reopened).store.list("__recovery") == []
        assert drifted(reopened) == []
        found = contents(reopened)
    for key, ids in found.items():
        assert len(ids) == len(set(ids))
        acknowledged = {i for outcome, i, keys in told if outcome == "committed" and key in keys}
        possible = {i for outcome, i, keys in told if outcome != "refused" and key in keys}
        assert acknowledged <= set(ids) <= possible
    visible = {i for ids in found.values() for i in ids}
    for _, row_id, keys in told:
        # Whole or not at all.
        assert {key for key, ids in found.items() if row_id in ids} in (set(), set(keys))
    chain = graph.commits.list()
    recoveries = [
        audit for audit in read_audit(workspace_of(graph)) if audit.recovery_kind == "RolledBack"
    ]
    made = [one for one in chain if one.operation != "optimize"]  # upkeep comes when it likes
    assert len(made) == 1 + len(visible) + len(recoveries)
    parents = Counter(one.parent_commit_id for one in chain)
    assert set(parents.values()) == {1}
    write(workspace_of(graph), {key: ["afterwards"] for key in ALL})
    assert drifted(graph) == []


def test_all_on_the_same_tables(graph):
    calls = [(graph.uri, [[PERSON, TEAM]], TIMES, f"p{n}") for n in range(PROCESSES)]
    with talk_to(watch, (graph.uri, [PERSON, TEAM])) as (_, reader):
        told = [one for result in run_processes(write_many, calls) for one in result]
        reader.send("stop")
        assert reader.recv()[0] == "whole"
    assert len(told) == PROCESSES * TIMES
    assert sum(outcome == "committed" for outcome, _, _ in told) >= TIMES
    check(graph, told)


def test_all_on_overlapping_tables(graph):
    calls = [
        (graph.uri, OVERLAPPING[n % 4 :] + OVERLAPPING[: n % 4], TIMES, f"p{n}")
        for n in range(PROCESSES)
    ]
    told = [one for result in run_processes(write_many, calls) for one in result]
    assert sum(outcome == "committed" for outcome, _, _ in told) >= TIMES
    check(graph, told)


def test_different_tables_never_refuse_each_other(graph):
    calls = [(graph.uri, [[key]], 15, key) for key in ALL]
    told = [one for result in run_processes(write_many, calls) for one in result]
    assert {outcome for outcome, _, _ in told} == {"committed"}
    check(graph, told)


def test_threads_of_one_handle(graph):
    told: Told = []
    rounds = threading.Barrier(6)

    def work(name: str) -> None:
        rounds.wait()
        for number in range(8):
            told.append((attempt(graph, [PERSON, TEAM], row := f"{name}-{number}"), row, [PERSON, TEAM]))  # fmt: skip

    threads = [threading.Thread(target=work, args=(f"t{n}",)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(told) == 48
    assert any(outcome == "committed" for outcome, _, _ in told)
    check(graph, told)


def test_many_processes_recover_many_operations_at_once(graph):
    """Also the first row of the audit table is written by several at once."""
    branches = [f"b{n}" for n in range(6)]
    for branch in branches:
        graph.branches.create(branch)
    for number, branch in enumerate(branches):
        point = ["load.after_table_commit", "load.after_phase_b_before_phase_c"][number % 2]
        with dying_at(point):
            # Without the heal of a write, which would settle the ones before it.
            commit(
                workspace_of(graph),
                prepare(workspace_of(graph), {PERSON: [branch], TEAM: [branch]}, branch=branch),
            )
    assert len(workspace_of(graph).store.list("__recovery")) == 6
    run_processes(open_read_write, [(graph.uri,)] * 4)
    # One that met another at work left that operation to it.
    open_graph(graph.uri).close()
    assert workspace_of(graph).store.list("__recovery") == []
    operations = [audit.operation_id for audit in read_audit(workspace_of(graph))]
    assert len(operations) == len(set(operations)) == 6
    for number, branch in enumerate(branches):
        finished = [branch] if number % 2 else []
        assert contents(graph, branch) == {PERSON: finished, TEAM: finished, MEMBER_OF: []}
        assert drifted(graph, branch) == []
        assert len(graph.commits.list(branch)) == 2


# ------------------------------------------------------------------ paused writers


@pytest.mark.parametrize(
    "point",
    [
        "load.before_phase_b",
        "load.before_table_commit",
        "load.after_table_commit",
        "load.after_phase_b_before_phase_c",
        "publish.after_write",
        "load.after_phase_c_before_phase_d",
    ],
)
def test_nobody_disturbs_a_writer_paused_between_its_phases(graph, tmp_path, point, monkeypatch):
    pause = failpoints.FilePause(tmp_path / "pause")
    rows = {PERSON: ["slow"], TEAM: ["slow"]}
    arguments = ({}, graph.uri, rows, point, str(tmp_path / "pause"))
    with talk_to(write_paused, arguments) as (_, pipe):
        pause.wait_until_reached()
        (pending,) = workspace_of(graph).store.list("__recovery")
        with open_graph(graph.uri) as other:
            assert workspace_of(other).store.list("__recovery") == [pending]
            assert len(sweep(workspace_of(other)).in_flight) == 1
            assert len(heal(workspace_of(other)).in_flight) == 1
            write(workspace_of(other), {MEMBER_OF: ["beside"]})
            monkeypatch.setenv("OMNIGRAPH_LOCK_WAIT_MS", "20")
            with pytest.raises(Contention):
                write(workspace_of(other), {PERSON: ["impatient"]})
        pause.resume()
        outcome, commit_id = pipe.recv()
    assert outcome == "committed"
    assert graph.commits.show(commit_id)
    assert contents(graph) == {PERSON: ["slow"], TEAM: ["slow"], MEMBER_OF: ["beside"]}
    assert read_audit(workspace_of(graph)) == []
    assert workspace_of(graph).store.list("__recovery") == []
    assert drifted(graph) == []


def test_a_writer_stopped_by_a_signal_loses_nothing(graph, tmp_path, monkeypatch):
    pause = failpoints.FilePause(tmp_path / "pause")
    point = "load.after_table_commit"
    rows = {PERSON: ["stopped"], TEAM: ["stopped"]}
    with talk_to(write_paused, ({}, graph.uri, rows, point, str(tmp_path / "pause"))) as (
        process,
        pipe,
    ):
        pause.wait_until_reached()
        os.kill(process.pid, signal.SIGSTOP)
        pause.resume()
        with open_graph(graph.uri) as other:
            assert len(workspace_of(other).store.list("__recovery")) == 1
            monkeypatch.setenv("OMNIGRAPH_LOCK_WAIT_MS", "20")
            with pytest.raises(Contention):
                write(workspace_of(other), {TEAM: ["meanwhile"]})
        os.kill(process.pid, signal.SIGCONT)
        outcome, _ = pipe.recv()
    assert outcome == "committed"
    assert contents(graph) == {PERSON: ["stopped"], TEAM: ["stopped"], MEMBER_OF: []}
    assert read_audit(workspace_of(graph)) == []


def test_a_writer_killed_while_paused_is_recovered_from(graph, tmp_path):
    pause = failpoints.FilePause(tmp_path / "pause")
    arguments = ({}, graph.uri, {PERSON: ["a"], TEAM: ["a"]}, "load.after_table_commit",
                 str(tmp_path / "pause"))  # fmt: skip
    with talk_to(write_paused, arguments) as (process, _):
        pause.wait_until_reached()
        process.kill()
        process.join()
        with open_graph(graph.uri) as other:
            assert workspace_of(other).store.list("__recovery") == []
            assert contents(other) == {PERSON: [], TEAM: [], MEMBER_OF: []}
            write(workspace_of(other), {PERSON: ["b"]})


# ------------------------------------------------------------------ readers, sweeps, branches


def test_sweeps_and_branches_during_writes(graph):
    """Opens and branch changes all the while, as a fleet of short commands makes them."""
    calls = [(graph.uri, [[PERSON, TEAM]], 25, f"p{n}") for n in range(2)]
    with talk_to(watch, (graph.uri, [PERSON, TEAM])) as (_, reader):
        processes = run_in_background(write_many, calls)
        rounds = 0
        while any(process.is_alive() for process, _ in processes):
            with open_graph(graph.uri) as other:
                other.branches.create(f"b{rounds}")
                write(workspace_of(other), {PERSON: ["on branch"]}, branch=f"b{rounds}")
                if rounds % 2:
                    other.branches.delete(f"b{rounds}")
            rounds += 1
        told = [one for _, pipe in processes for one in pipe.recv()]
        reader.send("stop")
        assert reader.recv()[0] == "whole"
    assert rounds > 0
    check(graph, told)
    assert read_audit(workspace_of(graph)) == []


def run_in_background(worker, calls):
    from tests.storage.processes import context

    running = []
    for arguments in calls:
        mine, theirs = context.Pipe()
        process = context.Process(target=send_result, args=(theirs, worker, arguments), daemon=True)
        process.start()
        theirs.close()
        running.append((process, mine))
    return running


def send_result(pipe, worker, arguments) -> None:
    pipe.send(worker(*arguments))
