"""Mutations of many processes at once: no orphan, nothing lost, nothing twice."""

from __future__ import annotations

from collections import Counter

import pytest

from omnigraph.graph import open as open_graph
from tests.commit.synthetic import drifted
from tests.graphs import graph_of
from tests.opened import workspace_of
from tests.storage.processes import run_processes
from tests.stored import read_back
from tests.write.race_workers import count_up, insert_own, link, unlink, upsert
from tests.write.writing import ends, nodes, run

SCHEMA = """
node Person { name: String @key  age: I64? }
edge Knows: Person -> Person
"""


graph = graph_of(SCHEMA)


@pytest.mark.parametrize("seed", range(2))
def test_edges_inserted_while_their_ends_are_deleted_leave_no_orphan(graph, seed):
    ids = [f"p{at}" for at in range(12)]
    run(graph, " ".join(f'insert Person {{ name: "{name}" }}' for name in ids))
    workers = [(link, (graph.uri, ids, 12, seed * 10 + at)) for at in range(2)]
    workers += [(unlink, (graph.uri, ids[at::2], seed * 10 + at)) for at in range(2)]
    made_a, made_b, gone_a, gone_b = run_processes(_each, [(w, a) for w, a in workers])
    left = set(nodes(graph, "Person"))
    assert left == set(ids) - set(gone_a) - set(gone_b)
    kept = ends(graph, "Knows")
    assert all(src in left and dst in left for src, dst in kept)
    # Every acknowledged edge whose ends are still there is there, exactly once.
    told = Counter(made_a + made_b)
    wanted = Counter({e: n for e, n in told.items() if e[0] in left and e[1] in left})
    assert Counter(kept) == wanted
    assert drifted(graph) == []
    assert workspace_of(graph).store.list("__recovery") == []


def _each(worker, arguments):
    return worker(*arguments)


def test_of_many_upserts_of_one_key_the_last_commit_stands(graph):
    told = run_processes(upsert, [(graph.uri, "one", 8, worker) for worker in range(3)])
    values = {commit: value for each in told for commit, value in each}
    history = [commit.graph_commit_id for commit in graph.commits.list()]
    assert set(values) <= set(history)
    assert len(values) == sum(map(len, told))
    newest = next(commit for commit in history if commit in values)
    assert nodes(graph, "Person") == {"one": {"name": "one", "age": values[newest]}}
    assert len(history) == len(values) + 1


def test_inserts_that_may_be_run_again_all_succeed(graph):
    told = run_processes(insert_own, [(graph.uri, worker, 8, 200) for worker in range(4)])
    wanted = {name for names in told for name in names}
    assert len(wanted) == 32
    assert set(nodes(graph, "Person")) == wanted
    assert len(graph.commits.list()) == 33
    assert drifted(graph) == []


def test_conditional_writes_count_without_a_gap(graph):
    run(graph, 'insert Person { name: "counter", age: 0 }')
    done = run_processes(count_up, [(graph.uri, 12) for _ in range(3)])
    assert sum(done) > 0
    assert nodes(graph, "Person")["counter"]["age"] == sum(done)
    with open_graph(graph.uri) as again:
        assert read_back(again) == read_back(graph)
    assert workspace_of(graph).store.list("__recovery") == []
