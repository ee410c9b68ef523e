"""A write under a condition, stopped between its checks and its publish, against all others.

Whoever comes meanwhile waits, is told to try again, or succeeds. Nobody is ever stranded: no
`recovery_required`, no reopen.
"""

from __future__ import annotations

import os

import pytest

from omnigraph.graph import Graph
from omnigraph.graph import open as open_graph
from tests.commit.synthetic import drifted
from tests.faults.remade_workers import BASE, KINDS, SCHEMA, Content, look, outcome, records
from tests.graphs import graph_of
from tests.opened import workspace_of
from tests.storage.processes import run_processes, talk_to

graph = graph_of(SCHEMA, records(BASE))


@pytest.fixture
def writer(graph, writers, tmp_path):
    """Start a writer that stops at a moment; it is ended when its test does not hear it out."""

    def start(name: str, moment: str, **options):
        return writers.start(tmp_path / "pause", graph.uri, "main", name, options, moment)

    yield start
    writers.end()


def load_nothing(graph: Graph) -> int:
    return graph.load([]).total_rows


def write_elsewhere(graph: Graph) -> int:
    """To a table that the conditional writer does not touch."""
    return graph.load(records(Content({}, (("base2", "base1"),)))).total_rows


def write_to_the_same_table(graph: Graph) -> int:
    return graph.load(records(Content({"beside": 3}))).total_rows


def make_a_branch(graph: Graph) -> str:
    name = f"made-{len(graph.branches.list())}"
    return graph.branches.create(name).name


def make_a_tag(graph: Graph) -> str:
    return graph.tags.create(f"made-{len(graph.tags.list())}").name


OTHERS = [load_nothing, write_elsewhere, write_to_the_same_table, make_a_branch, make_a_tag]
NO_COMMIT = (make_a_branch, make_a_tag)
MOMENTS = ["before_phase_a", "after_phase_b_before_phase_c"]
CASES = [(name, moment) for name in ("insert", "merge", "edge") for moment in MOMENTS]
# Without a table there is one effect, the publish.
CASES.append(("empty", "before_phase_a"))


def after(name: str) -> Content:
    _, content = KINDS[name].judge(BASE)
    return content


@pytest.mark.parametrize(("name", "moment"), CASES)
def test_nobody_strands_a_conditional_writer(graph, writer, monkeypatch, name, moment):
    stopped = writer(name, moment, at_head=True)
    with monkeypatch.context() as patch:
        patch.setenv("OMNIGRAPH_LOCK_WAIT_MS", "20")
        for other in OTHERS:
            told = outcome(other, graph)
            # Only a branch is nothing that the head lock or a table lock keeps out.
            wanted = {"contention", "done"} if other is make_a_branch else {"contention"}
            assert told[0] in wanted, (other, told)
        with open_graph(graph.uri) as another:
            assert outcome(load_nothing, another)[0] == "contention"
    told = stopped.go_on()
    assert told[0] == "done", told
    assert workspace_of(graph).store.list("__recovery") == []
    ((found, drift, sidecars),) = run_processes(look, [(graph.uri, "main")])
    assert (found, drift, sidecars) == (after(name), [], [])
    stopped.pipe.send("again")
    assert stopped.answer()[0] == "done"
    for other in OTHERS:
        assert outcome(other, graph)[0] == "done"


def run_others(pipe, environment, uri) -> None:
    os.environ.update(environment)
    with open_graph(uri) as graph:
        pipe.send("open")
        pipe.send([outcome(other, graph) for other in OTHERS])


@pytest.mark.parametrize(("name", "moment"), CASES)
def test_others_wait_for_a_conditional_writer(graph, writer, name, moment):
    stopped = writer(name, moment, at_head=True)
    with talk_to(run_others, ({}, graph.uri)) as (_, others):
        assert others.recv() == "open"
        told = stopped.go_on()
        assert told[0] == "done", told
        stopped.pipe.send("close")
        assert [one[0] for one in others.recv()] == ["done"] * len(OTHERS)
    content = after(name).put(beside=3).link(("base2", "base1"))
    ((found, drift, sidecars),) = run_processes(look, [(graph.uri, "main")])
    assert (found, drift, sidecars) == (content, [], [])
    assert drifted(graph) == []


@pytest.mark.parametrize("other", OTHERS)
def test_any_commit_before_the_locks_breaks_the_condition(graph, writer, other):
    """Related or not, with a table or without; a branch or a tag is no commit."""
    stopped = writer("insert", "before_locks", at_head=True)
    assert outcome(other, graph)[0] == "done"
    told = stopped.go_on()
    assert told[0] == ("done" if other in NO_COMMIT else "precondition_failed"), told
    assert workspace_of(graph).store.list("__recovery") == []
    assert drifted(graph) == []
    stopped.pipe.send("again")
    assert stopped.answer()[0] == "done"


@pytest.mark.parametrize("name", ["insert", "empty"])
def test_a_conditional_writer_waits_for_a_publish_without_a_table(graph, writer, monkeypatch, name):
    stopped = writer("empty", "before_phase_a")
    head = graph.snapshot().graph_commit_id
    with monkeypatch.context() as patch:
        patch.setenv("OMNIGRAPH_LOCK_WAIT_MS", "20")
        assert outcome(KINDS[name].run, graph, "main", if_commit=head)[0] == "contention"
    assert stopped.go_on()[0] == "done"
    stopped.pipe.send("close")
    assert outcome(KINDS[name].run, graph, "main", if_commit=head)[0] == "precondition_failed"
    head = graph.snapshot().graph_commit_id
    assert outcome(KINDS[name].run, graph, "main", if_commit=head)[0] == "done"
