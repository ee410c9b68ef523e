"""`if_commit` of merges and reverts: they happen on the head that the caller knows, or not at all."""

from __future__ import annotations

import pytest

from omnigraph.errors import PreconditionFailed
from tests.merge.harbors import new_harbor, paused, put, ship, ships


@pytest.fixture
def graph(tmp_path):
    """A branch `side`, on which ship S1 has another tonnage."""
    with new_harbor(tmp_path / "g") as graph:
        graph.branches.create("side")
        put(graph, "side", ship("S1", tonnage=10))
        yield graph


def head(graph, branch="main"):
    return graph.snapshot(branch=branch).graph_commit_id


def test_a_merge_happens_only_on_the_head_that_the_caller_knows(graph):
    known = head(graph)
    put(graph, "main", ship("S2", tonnage=20))
    with pytest.raises(PreconditionFailed) as raised:
        graph.branches.merge("side", if_commit=known)
    assert raised.value.details == {"branch": "main", "expected": known, "actual": head(graph)}
    assert ships(graph)["S1"] == 1
    assert graph.branches.merge("side", if_commit=head(graph)).outcome == "merged"
    assert ships(graph)["S1"] == 10


def test_the_head_of_the_source_does_not_count(graph):
    known = head(graph)
    put(graph, "side", ship("S3", tonnage=30))
    assert graph.branches.merge("side", if_commit=known).outcome == "fast_forward"


def test_a_head_that_moves_while_a_merge_is_prepared_is_the_answer(graph):
    known = head(graph)
    with paused(
        "branch_merge.before_locks", lambda: graph.branches.merge("side", if_commit=known)
    ) as merge:
        put(graph, "main", ship("S1", tonnage=11))
        with pytest.raises(PreconditionFailed):
            merge.go_on()
    assert ships(graph)["S1"] == 11


def test_a_revert_happens_only_on_the_head_that_the_caller_knows(graph):
    made = put(graph, "main", ship("S2", tonnage=20))
    put(graph, "main", ship("S3", tonnage=30))
    with pytest.raises(PreconditionFailed):
        graph.commits.revert(made.graph_commit_id, if_commit=made.graph_commit_id)
    assert ships(graph)["S2"] == 20
    graph.commits.revert(made.graph_commit_id, if_commit=head(graph))
    assert ships(graph)["S2"] == 2


def test_a_repetition_by_its_id_comes_before_the_condition(graph):
    known, operation = head(graph), "01JZZZZZZZZZZZZZZZZZZZZZZ1"
    first = graph.branches.merge("side", if_commit=known, operation_id=operation)
    again = graph.branches.merge("side", if_commit=known, operation_id=operation)
    assert again.replayed
    assert again.commit == first.commit
