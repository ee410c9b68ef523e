"""A lock that is lost on the way: the operation lets go, takes it anew, and changes nothing twice."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph.pipeline.load
import omnigraph.write.mutate  # noqa: F401 - they declare the points that are armed here
from omnigraph import failpoints
from omnigraph.graph import open as open_graph
from tests.commit.synthetic import drifted
from tests.graphs import graph_of
from tests.opened import workspace_of
from tests.write.writing import nodes, run

SCHEMA = "node Item { name: String @key  n: I64? }\nnode Note { text: String }"


graph = graph_of(SCHEMA)


@pytest.fixture
def lose_at(graph):
    """Remove the lock files when a point is reached for the first time: their holder has none."""

    def lose(_point):
        for file in Path(graph.uri, "__locks").glob("table-*.lock"):
            file.unlink()

    return lambda point: failpoints.arm(point, lose, times=1)


@pytest.mark.parametrize("moment", ["before_phase_a", "before_table_commit"])
def test_a_mutation_takes_a_lost_lock_anew(graph, lose_at, moment):
    """It does not try again and again under a lock that it does not hold."""
    reached = failpoints.arm("mutation.before_locks", lambda _: None)
    with reached, lose_at(f"mutation.{moment}"):
        run(graph, 'insert Item { name: "a", n: 1 }')
    assert reached.fired == 2
    assert nodes(graph, "Item") == {"a": {"name": "a", "n": 1}}
    assert len(graph.commits.list()) == 2
    assert workspace_of(graph).store.list("__recovery") == []
    assert drifted(graph) == []


@pytest.mark.parametrize("type_name", ["Item", "Note"])
@pytest.mark.parametrize("mode", ["merge", "append", "overwrite"])
def test_rows_written_to_a_fork_that_is_made_again_are_written_again(
    graph, lose_at, mode, type_name
):
    """The files of the first attempt go with the fork that it made."""
    graph.branches.create("b")
    values = {"name": "a", "n": 1} if type_name == "Item" else {"text": "a"}
    with lose_at("load.before_table_commit"):
        graph.load([{"type": type_name, "data": values}], mode=mode, branch="b")
    with open_graph(graph.uri) as fresh:
        assert [*nodes(fresh, type_name, branch="b").values()] == [values]
        assert workspace_of(fresh).store.list("__recovery") == []
