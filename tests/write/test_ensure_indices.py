"""Index builds: what is declared gets built, once, in one commit; the rest is reported."""

from __future__ import annotations

import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.lang.schema.indexes import IndexKind
from omnigraph.storage.filters import Condition, filter_expression
from omnigraph.storage.tables.indexing.table_indexes import Coverage, coverage, list_indexes
from omnigraph.storage.tables.table import open_table
from tests.graphs import graph_of
from tests.opened import workspace_of

SCHEMA = """
node Person {
  name: String @key
  age: I32? @index
  mail: String? @unique
  bio: String? @index
  vec: Vector(2)? @index
  tags: [String]?
}
edge Knows: Person -> Person { since: Date? @index }
"""
INSERT = """
query add($n: String, $v: Vector(2)?) {
  insert Person { name: $n, age: 3, bio: "some words", vec: $v }
}
query know($a: String, $b: String) { insert Knows { from: $a, to: $b } }
"""
PERSON = {
    ("id", IndexKind.BTREE),
    ("age", IndexKind.BTREE),
    ("mail", IndexKind.BTREE),
    ("bio", IndexKind.FTS),
    ("vec", IndexKind.VECTOR),
}
KNOWS = {("id", IndexKind.BTREE), ("src", IndexKind.BTREE), ("dst", IndexKind.BTREE),
         ("since", IndexKind.BTREE)}  # fmt: skip


graph = graph_of(SCHEMA)


def add(graph, name, vector=None):
    graph.mutate(INSERT, "add", {"n": name, "v": vector})


def indexed(graph, table_key, branch="main"):
    pin = graph.snapshot(branch=branch).tables[table_key]
    table = open_table(workspace_of(graph).pinned(pin))
    columns = [*table.schema.names]
    return {
        (name, kind)
        for name in columns
        for kind in IndexKind
        if coverage(table, name, kind) is not Coverage.NONE
    }


def test_every_declared_index_is_built_in_one_commit(graph):
    add(graph, "a", [1.0, 0.0])
    add(graph, "b", [0.0, 1.0])
    graph.mutate(INSERT, "know", {"a": "a", "b": "b"})
    before = len(graph.commits.list())
    report = graph.ensure_indices(actor="ada")
    assert indexed(graph, "node:Person") == PERSON
    assert indexed(graph, "edge:Knows") == KNOWS
    assert report.pending == report.failed == []
    assert {name for key, name in report.built if key == "node:Person"} == {n for n, _ in PERSON}
    (newest, *_) = graph.commits.list()
    assert newest == report.commit
    assert (newest.operation, newest.actor_id) == ("ensure_indices", "ada")
    assert len(graph.commits.list()) == before + 1


def test_a_second_run_does_nothing(graph):
    add(graph, "a", [1.0, 0.0])
    graph.ensure_indices()
    head = graph.snapshot()
    report = graph.ensure_indices()
    assert report.commit is None
    assert report.built == []
    assert graph.snapshot() == head


def test_empty_tables_are_left_alone(graph):
    assert graph.ensure_indices().commit is None
    assert len(graph.commits.list()) == 1


def test_a_vector_column_without_values_is_pending(graph):
    add(graph, "a")
    report = graph.ensure_indices()
    assert report.pending == [("node:Person", "vec")]
    assert indexed(graph, "node:Person") == PERSON - {("vec", IndexKind.VECTOR)}
    assert graph.ensure_indices().commit is None
    add(graph, "b", [1.0, 0.0])
    assert graph.ensure_indices().built == [("node:Person", "vec")]
    assert indexed(graph, "node:Person") == PERSON


def test_rows_written_after_the_build_degrade_coverage(graph):
    def age():
        pin = graph.snapshot().tables["node:Person"]
        return coverage(open_table(workspace_of(graph).pinned(pin)), "age", IndexKind.BTREE)

    add(graph, "a", [1.0, 0.0])
    graph.ensure_indices()
    assert age() is Coverage.INDEXED
    add(graph, "b", [1.0, 0.0])
    assert age() is Coverage.DEGRADED


def test_on_a_branch_main_is_left_alone(graph):
    add(graph, "a", [1.0, 0.0])
    graph.branches.create("x")
    graph.ensure_indices(branch="x")
    assert indexed(graph, "node:Person", "x") == PERSON
    assert indexed(graph, "node:Person") == set()


@pytest.mark.parametrize(
    "moment",
    ["before_phase_b", "after_table_commit", "after_phase_b_before_phase_c"],
)
def test_an_interrupted_build_is_recovered(graph, moment):
    add(graph, "a", [1.0, 0.0])
    with (
        failpoints.arm(f"ensure_indices.{moment}", RuntimeError("stop"), times=1),
        pytest.raises(RuntimeError),
    ):
        graph.ensure_indices()
    with og.open(graph.uri) as reopened:
        add(reopened, "b", [0.0, 1.0])
        reopened.ensure_indices()
        assert indexed(reopened, "node:Person") == PERSON
        pin = reopened.snapshot().tables["node:Person"]
        assert pin.row_count == 2
        assert open_table(workspace_of(reopened).pinned(pin)).is_head()


def test_a_renamed_property_and_a_new_one_under_its_old_name_both_get_theirs(graph):
    add(graph, "a", [0.0, 1.0])
    graph.ensure_indices()
    renamed = SCHEMA.replace("age: I32? @index", 'years: I32? @rename_from("age") @index')
    graph.schema.apply(renamed)
    graph.schema.apply(renamed.replace("years:", "age: I32? @index\n  years:"))
    graph.mutate('query q() { insert Person { name: "b", age: 3, years: 4 } }')
    report = graph.ensure_indices()
    assert ("node:Person", "age") in report.built
    assert indexed(graph, "node:Person") == PERSON | {("years", IndexKind.BTREE)}
    person = graph.schema.catalog.nodes["Person"].properties
    pin = graph.snapshot().tables["node:Person"]
    table = open_table(workspace_of(graph).pinned(pin))
    names = {state.column: state.name for state in list_indexes(table) if state.kind == "btree"}
    assert names["id"] == "id_btree"
    for name, found in (("age", ["b"]), ("years", ["a"])):
        assert names[name] == f"p{person[name].property_id}_btree"
        where = filter_expression(table.schema, [Condition(name, "=", 3)])
        plan = table.dataset.scanner(filter=where.lance_filter).explain_plan()
        assert names[name] in plan
        asked = f"query q() {{ match {{ $p: Person {{ {name}: 3 }} }} return {{ $p.name as n }} }}"
        assert [row["n"] for row in graph.query(asked).rows] == found
