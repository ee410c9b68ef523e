"""Schemas of branches in an object store: what dies on the way has happened or has not, and leaves nothing behind."""

from __future__ import annotations

from uuid import uuid4

import pytest

import omnigraph as og
from tests.commit.synthetic import drifted, dying_at
from tests.faults.matrix.schema_graphs import left_over
from tests.faults.schema_branch_cases import OPERATIONS, build, seen_on
from tests.opened import workspace_of
from tests.s3_server import BUCKET

# Whether it has happened once the graph was opened again.
DEATHS = {
    "before_phase_b": (0, False),
    "after_table_commit": (0, False),
    "before_table_commit": (1, False),
    "after_phase_b_before_phase_c": (0, True),
    "after_phase_c_before_phase_d": (0, True),
}


def check_tidy(graph: og.Graph, branch: str) -> None:
    """Nothing is pending or ahead of its pin, the next write works, and a cleanup leaves nothing."""
    assert workspace_of(graph).store.list("__recovery") == []
    assert drifted(graph, branch) == []
    graph.mutate('query q() { insert Person { name: "next" } }', branch=branch)
    graph.cleanup(keep_versions=1)
    assert left_over(graph) == []
    assert graph.entity("node", "Person", "next", branch=branch) is not None


@pytest.mark.sampled(1, every=())
@pytest.mark.parametrize("moment", DEATHS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_apply_and_a_merge_that_die_are_whole(s3, operation, moment):
    uri = build(f"s3://{BUCKET}/{uuid4().hex}")
    run, branch, another, value = OPERATIONS[operation]
    skip, stands = DEATHS[moment]
    writer = "schema_apply" if operation.startswith("apply") else "branch_merge"
    with og.open(uri) as graph, dying_at(f"{writer}.{moment}", skip=skip):
        run(graph)
    with og.open(uri) as graph:
        assert seen_on(graph, branch, value) == ("new" if stands else "old")
        assert seen_on(graph, another, value) == "old"
        if not stands:
            run(graph)
            assert seen_on(graph, branch, value) == "new"
        if operation != "apply on a branch":
            assert graph.entity("node", "Ship", "S", branch=branch) is not None
            assert graph.blobs.read("node", "Person", "p", "face", branch=branch) == b"\x04\x05\x06"
        check_tidy(graph, branch)


@pytest.mark.sampled(1, every=())
@pytest.mark.parametrize(
    ("moment", "stands"), [("before_table_commit", False), ("after_table_commit", True)]
)
@pytest.mark.parametrize("branch", ["main", "work"])
def test_a_revert_that_dies_is_whole(s3, branch, moment, stands):
    """It has one table commit, after which it can only go on."""
    uri = build(f"s3://{BUCKET}/{uuid4().hex}")
    added = "node Person { name: String @key  age: I32? @index  body: Blob?  face: Blob? }"
    added += "\nnode Note { slug: String @key }\nnode Ship { imo: String @key }"
    with og.open(uri) as graph:
        made = graph.schema.apply(added, branch=branch).commit
        assert made is not None
        with dying_at(f"revert.{moment}"):
            graph.commits.revert(made.graph_commit_id, branch)
    with og.open(uri) as graph:
        assert (graph.schema.show(branch=branch).source == added) is not stands
        if not stands:
            graph.commits.revert(made.graph_commit_id, branch)
        assert graph.schema.diff(og.at(snapshot=made.parent_commit_id), branch).steps == ()
        assert (
            graph.query(
                "query q() { match { $p: Person } return { $p.age as v } }", branch=branch
            ).scalar()
            == 1
        )
        check_tidy(graph, branch)
