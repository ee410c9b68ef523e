"""Merges of a required property with a default: rows of the side without it have the default.

When such a property is added, the rows that are there get the default, which no version of a row tells. So
what they got must not be lost where the default changes later, and is no change of a row by itself.
"""

import pytest

import omnigraph as og
from omnigraph.errors import MergeConflicts

SCHEMA = "node Ship { imo: String @key  flag: String? }\n"


def crew(kind):
    return SCHEMA.replace("flag: String?", f"flag: String?  crew: {kind}")


def ship(imo, **data):
    return {"type": "Ship", "data": {"imo": imo, **data}}


def ships(graph, branch="main"):
    text = "query q() { match { $s: Ship } return { $s.imo as imo, $s.crew as crew } }"
    return {row["imo"]: row["crew"] for row in graph.query(text, branch=branch).rows}


@pytest.fixture
def graph(tmp_path):
    with og.init(tmp_path / "g", SCHEMA) as graph:
        graph.load([ship("S1"), ship("S2")])
        graph.branches.create("feature")
        yield graph


def test_a_row_of_the_source_gets_the_default_of_the_target(graph):
    graph.schema.apply(crew("I32 @default(3)"))
    graph.load([ship("S3", flag="NO")], branch="feature")
    graph.branches.merge("feature")
    assert ships(graph) == {"S1": 3, "S2": 3, "S3": 3}


@pytest.mark.parametrize(
    ("later", "new"),
    [
        (["I32 @default(4)"], 4),
        (["I32?"], None),
        (["I64 @default(3)", "I64?"], None),
    ],
    ids=["other_default", "nullable", "widened"],
)
@pytest.mark.parametrize("source", ["feature", "main"])
def test_rows_keep_the_default_that_they_got(graph, source, later, new):
    target = {"feature": "main", "main": "feature"}[source]
    before = graph.snapshot()
    for kind in ["I32 @default(3)", *later]:
        graph.schema.apply(crew(kind), branch=source)
    graph.load([ship("S3")], branch=target)
    # A value that a row without the property would not have today is a difference of the row.
    found = graph.diff(before, source).changes
    assert [(one.id, one.op) for one in found] == [("S1", "update"), ("S2", "update")]
    graph.branches.merge(source, target)
    assert ships(graph, target) == {"S1": 3, "S2": 3, "S3": new}


@pytest.mark.parametrize("deletes", ["feature", "main"])
def test_a_default_that_all_rows_got_does_not_stand_against_a_deletion(graph, deletes):
    adds = {"feature": "main", "main": "feature"}[deletes]
    graph.schema.apply(crew("I32 @default(3)"), branch=adds)
    graph.mutate('query q() { delete Ship where imo = "S2" }', "q", {}, branch=deletes)
    graph.branches.merge("feature")
    assert ships(graph) == {"S1": 3}


@pytest.mark.parametrize("deletes", ["feature", "main"])
def test_a_value_of_a_new_property_stands_against_a_deletion(graph, deletes):
    adds = {"feature": "main", "main": "feature"}[deletes]
    graph.schema.apply(crew("I32 @default(3)"), branch=adds)
    graph.load([ship("S2", crew=9)], mode="patch", branch=adds)
    graph.mutate('query q() { delete Ship where imo = "S2" }', "q", {}, branch=deletes)
    with pytest.raises(MergeConflicts) as refused:
        graph.branches.merge("feature")
    (conflict,) = refused.value.details["conflicts"]
    assert (conflict["kind"], conflict["row_id"]) == ("delete_vs_update", "S2")


def test_both_sides_add_the_same_with_the_same_default(graph):
    for branch in ("feature", "main"):
        graph.schema.apply(crew("I32 @default(3)"), branch=branch)
    graph.load([ship("S1", flag="NO")], branch="feature")
    graph.branches.merge("feature")
    assert ships(graph) == {"S1": 3, "S2": 3}
