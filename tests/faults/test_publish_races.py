"""Publishers in many processes: one unforked chain, nothing lost, nothing twice."""

from __future__ import annotations

from collections import Counter

import pytest

from omnigraph.graph import Graph
from omnigraph.graph import open as open_graph
from omnigraph.manifest.row_reads import read_table_states
from tests.faults.publish_workers import (
    create_branches,
    publish_and_die,
    publish_kinds,
    publish_many,
)
from tests.manifest.publishing import MEMBER_OF, PERSON, TEAM, new_graph
from tests.opened import workspace_of
from tests.sampling import runs_all
from tests.storage.processes import run_processes

PROCESSES = 8
TIMES = 50 if runs_all() else 16


def check_branch(graph: Graph, branch: str, told: list[tuple[str, str]], inherited: int) -> None:
    """The branch holds exactly the acknowledged commits, in one chain, each once."""
    published = [commit_id for outcome, commit_id in told if outcome == "published"]
    chain = graph.commits.list(branch)
    assert len(chain) == len(published) + inherited
    assert {commit.graph_commit_id for commit in chain[: len(published)]} == set(published)
    assert len(set(published)) == len(published)
    versions = [commit.manifest_version for commit in chain]
    assert versions == sorted(set(versions), reverse=True)
    parents = Counter(commit.parent_commit_id for commit in chain)
    assert set(parents.values()) == {1}
    state = workspace_of(graph).manifest.state(branch)
    ids = state.table.read(["object_id"]).column("object_id").to_pylist()
    assert len(ids) == len(set(ids))
    assert read_table_states(workspace_of(graph).manifest.table_rows(state)) == dict(
        state.head.tables
    )


def test_one_branch_one_table(tmp_path):
    with new_graph(tmp_path) as graph:
        calls = [(graph.uri, "main", [PERSON], TIMES, f"p{n}") for n in range(PROCESSES)]
        told = [item for result in run_processes(publish_many, calls) for item in result]
        assert len(told) == PROCESSES * TIMES
        check_branch(graph, "main", told, inherited=1)
        published = sum(outcome == "published" for outcome, _ in told)
        assert graph.snapshot().tables[PERSON].table_version == 1 + published
        assert published >= TIMES


def test_one_branch_overlapping_tables(tmp_path):
    choices = [[PERSON], [TEAM], [MEMBER_OF], [PERSON, MEMBER_OF], [PERSON, TEAM]]
    with new_graph(tmp_path) as graph:
        calls = [
            (graph.uri, "main", choices[n % len(choices)], TIMES // 2, f"p{n}")
            for n in range(PROCESSES)
        ]
        results = run_processes(publish_many, calls)
        told = [item for result in results for item in result]
        check_branch(graph, "main", told, inherited=1)
        moves: Counter[str] = Counter()
        for call, result in zip(calls, results, strict=True):
            for outcome, _ in result:
                if outcome == "published":
                    moves.update(call[2])
        tables = graph.snapshot().tables
        assert {key: tables[key].table_version - 1 for key in tables} == {
            key: moves[key] for key in tables
        }


@pytest.mark.parametrize("is_trimmed", [False, True])
def test_publishes_of_every_kind_beside_tidying_and_cleanup(tmp_path, is_trimmed):
    with new_graph(tmp_path) as graph:
        calls = [(graph.uri, n, TIMES, is_trimmed and n == 0) for n in range(PROCESSES)]
        told = [item for result in run_processes(publish_kinds, calls) for item in result]
        published = [commit_id for outcome, commit_id in told if outcome == "published"]
        state = workspace_of(graph).manifest.state("main")
        records = workspace_of(graph).manifest.commits(state)
        chain, commit = [], state.head.commit
        while commit.parent_commit_id is not None:
            chain.append(commit.graph_commit_id)
            commit = records[commit.parent_commit_id]
        assert sorted(chain) == sorted(published)
        ids = state.table.read(["object_id"]).column("object_id").to_pylist()
        assert len(ids) == len(set(ids))
        assert {object_id for outcome, object_id in told if outcome == "row"} <= set(ids)
        pins = read_table_states(workspace_of(graph).manifest.table_rows(state))
        assert pins == dict(state.head.tables)


def test_different_branches_do_not_disturb_each_other(tmp_path):
    branches = [f"b{n}" for n in range(PROCESSES)]
    with new_graph(tmp_path) as graph:
        for branch in branches:
            graph.branches.create(branch)
        calls = [(graph.uri, branch, [PERSON], TIMES, branch) for branch in branches]
        for branch, told in zip(branches, run_processes(publish_many, calls), strict=True):
            assert {outcome for outcome, _ in told} == {"published"}
            check_branch(graph, branch, told, inherited=1)
        assert len(graph.commits.list()) == 1


def test_two_processes_on_each_of_four_branches(tmp_path):
    branches = [f"b{n}" for n in range(4)]
    with new_graph(tmp_path) as graph:
        for branch in branches:
            graph.branches.create(branch)
        calls = [
            (graph.uri, branch, [PERSON], TIMES // 2, f"{branch}-{n}")
            for branch in branches
            for n in range(2)
        ]
        results = run_processes(publish_many, calls)
        for at, branch in enumerate(branches):
            check_branch(graph, branch, results[2 * at] + results[2 * at + 1], inherited=1)


@pytest.mark.parametrize(
    ("point", "lands"), [("publish.before_write", False), ("publish.after_write", True)]
)
def test_a_process_that_dies_while_publishing(tmp_path, point, lands):
    with new_graph(tmp_path) as graph:
        run_until_death(graph.uri, point)
        assert len(graph.commits.list()) == (2 if lands else 1)
        assert graph.snapshot().tables[PERSON].table_version == (2 if lands else 1)
        (told,) = run_processes(publish_many, [(graph.uri, "main", [PERSON], 3, "next")])
        assert [outcome for outcome, _ in told] == ["published"] * 3


def run_until_death(uri: str, point: str) -> None:
    from tests.storage.processes import context

    process = context.Process(target=publish_and_die, args=(uri, point))
    process.start()
    process.join(600)
    assert process.exitcode == 0


def test_concurrent_creators_of_the_same_branches(tmp_path):
    names = [f"x/{n}" for n in range(6)]
    with new_graph(tmp_path) as graph:
        made = run_processes(create_branches, [(graph.uri, names)] * 4)
        assert sorted(name for result in made for name in result) == names
        assert graph.branches.list() == ["main", *names]
    with open_graph(graph.uri, mode="r") as reader:
        for name in names:
            assert reader.snapshot(branch=name).tables == reader.snapshot().tables
