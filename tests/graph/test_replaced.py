"""A table that takes the place of another one is not read through what was cached of the old one."""

from __future__ import annotations

import shutil

import pytest

import omnigraph as og
from omnigraph.clock import new_ulid
from omnigraph.errors import NotAGraph

SCHEMA = "node Person { name: String @key  age: I32? }"


def people(*names, age=0):
    return [{"type": "Person", "data": {"name": name, "age": age}} for name in names]


def names(graph, branch="main"):
    found = graph.query("query q() { match { $p: Person } return { $p.name as n } }", branch=branch)
    return sorted(row["n"] for row in found)


def filled(place):
    graph = og.init(place, SCHEMA)
    graph.load(people(*(f"p{number}" for number in range(12))))
    graph.ensure_indices(engine="local")
    return graph


def test_a_branch_made_again_finds_its_rows(tmp_path):
    graph = filled(tmp_path / "g")
    graph.branches.create("side")
    graph.load(people("p3", age=1), mode="merge", branch="side")
    graph.load(people("p5", age=1), mode="merge", branch="side")
    graph.load(people("p1", age=1), mode="merge")
    graph.branches.delete("side")
    graph.branches.create("side")
    graph.load(people("p3", "p10", "p11", age=2), mode="merge", branch="side")
    assert names(graph, "side") == names(graph) == sorted(set(names(graph)))


def test_a_graph_made_again_finds_its_rows(tmp_path):
    graph = filled(tmp_path / "g")
    graph.load(people("p3", age=1), mode="merge")
    graph.load(people("p5", age=1), mode="merge")
    graph.close()
    shutil.rmtree(tmp_path / "g")
    graph = filled(tmp_path / "g")
    graph.load(people("p1", age=1), mode="merge")
    graph.load(people("p3", "p10", "p11", age=2), mode="merge")
    assert len(names(graph)) == len(set(names(graph))) == 12


WRITES = {
    "load": lambda g: g.load(people("late")),
    "mutate": lambda g: g.mutate('query q() { insert Person { name: "late" } }'),
    "once": lambda g: g.mutate(
        'query q() { insert Person { name: "late" } }', operation_id=new_ulid()
    ),
    "branch": lambda g: g.branches.create("late"),
    "delete": lambda g: g.branches.delete("side"),
    "tag": lambda g: g.tags.create("late"),
    "merge": lambda g: g.branches.merge("side"),
    "schema": lambda g: g.schema.apply(SCHEMA + "node City { name: String @key }"),
    "blob": lambda g: g.embed(),
    "optimize": lambda g: g.optimize(),
    "refresh": lambda g: g.refresh(),
    "query": names,
}


@pytest.mark.parametrize("call", WRITES)
def test_a_graph_that_was_deleted_stays_deleted(tmp_path, call):
    with filled(tmp_path / "g") as graph:
        graph.branches.create("side")
        graph.load(people("p3", age=1), branch="side")
        shutil.rmtree(tmp_path / "g")
        with pytest.raises(NotAGraph):
            WRITES[call](graph)
        assert not (tmp_path / "g").exists()
