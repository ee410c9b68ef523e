"""Inserted rows are appended if no row has their ids, and replace the row that has: whoever wrote that one."""

from __future__ import annotations

import random

import pytest

import omnigraph as og
from omnigraph.graph.graph import state_of
from omnigraph.storage.tables import recent_ids
from omnigraph.storage.tables.recent_ids import RecentIds
from omnigraph.storage.tables.table import open_table
from tests.commit.synthetic import drifted
from tests.write.writing import nodes, run

SCHEMA = "node Person { name: String @key  age: I64? }"


@pytest.fixture
def graph(tmp_path):
    with og.init(tmp_path / "g", SCHEMA) as graph:
        yield graph
        assert drifted(graph) == []


def insert(graph, name, age, branch="main"):
    run(graph, f'insert Person {{ name: "{name}", age: {age} }}', branch=branch)


def upsert(graph, name, age, branch="main"):
    run(graph, f'upsert Person {{ name: "{name}", age: {age} }}', branch=branch)


def update(graph, name, age, branch="main"):
    run(graph, f'update Person set {{ age: {age} }} where name = "{name}"', branch=branch)


def ages(graph, branch="main"):
    """The age of everybody; fails if anybody is there twice."""
    rows = graph.nodes("Person", branch=branch).to_arrow().to_pylist()
    assert len({row["name"] for row in rows}) == len(rows)
    return {row["name"]: row["age"] for row in rows}


def last_operation(graph):
    """What the newest version of the table of people is: an append, or an update of rows."""
    state = state_of(graph)
    pin = graph.snapshot().tables["node:Person"]
    table = open_table(state.workspace.pinned(pin))
    return type(table.dataset.read_transaction(table.version).operation).__name__


class TestSteps:
    def test_a_new_key_is_appended(self, graph):
        for at in range(3):
            insert(graph, f"p{at}", at)
            assert last_operation(graph) == "Append"
        upsert(graph, "q", 1)
        assert last_operation(graph) == "Append"

    @pytest.mark.parametrize("write", [insert, upsert, update])
    def test_a_known_key_is_updated(self, graph, write):
        insert(graph, "a", 1)
        insert(graph, "b", 1)
        write(graph, "a", 2)
        assert last_operation(graph) == "Update"
        assert ages(graph) == {"a": 2, "b": 1}

    def test_what_another_handle_wrote_is_known(self, graph):
        insert(graph, "a", 1)
        with og.open(graph.uri) as other:
            insert(other, "b", 1)
        insert(graph, "b", 2)
        assert ages(graph) == {"a": 1, "b": 2}

    def test_what_lies_in_a_large_fragment_is_known(self, graph, monkeypatch):
        monkeypatch.setattr(recent_ids, "SMALL_ROWS", 2)
        graph.load([{"type": "Person", "data": {"name": f"p{at}", "age": 0}} for at in range(5)])
        insert(graph, "p3", 1)
        insert(graph, "new", 1)
        assert last_operation(graph) == "Append"
        insert(graph, "p4", 1)
        assert ages(graph) == {"p0": 0, "p1": 0, "p2": 0, "p3": 1, "p4": 1, "new": 1}

    def test_a_branch_has_rows_of_its_own(self, graph):
        insert(graph, "a", 1)
        graph.branches.create("side")
        insert(graph, "b", 1, branch="side")
        insert(graph, "b", 2)
        insert(graph, "b", 3, branch="side")
        assert ages(graph) == {"a": 1, "b": 2}
        assert ages(graph, "side") == {"a": 1, "b": 3}

    def test_a_row_that_was_deleted_comes_again(self, graph):
        insert(graph, "a", 1)
        run(graph, 'delete Person where name = "a"')
        insert(graph, "a", 2)
        assert ages(graph) == {"a": 2}


@pytest.mark.parametrize("seed", range(3))
def test_writers_of_the_same_keys_leave_one_row_of_each(tmp_path, monkeypatch, seed):
    """Two handles, with everything that adds, changes, moves or removes rows."""
    monkeypatch.setattr(recent_ids, "SMALL_ROWS", 6)
    rnd = random.Random(seed)
    known = {}
    with og.init(tmp_path / "g", SCHEMA) as one, og.open(one.uri) as other:
        for step in range(40):
            graph = rnd.choice([one, one, other])
            name = f"p{rnd.randrange(12)}"
            match rnd.choice(["insert"] * 5 + ["upsert", "update", "delete", "load", "optimize"]):
                case "insert":
                    insert(graph, name, step)
                    known[name] = step
                case "upsert":
                    upsert(graph, name, step)
                    known[name] = step
                case "update":
                    update(graph, name, step)
                    known |= {name: step} if name in known else {}
                case "delete":
                    run(graph, f'delete Person where name = "{name}"')
                    known.pop(name, None)
                case "load":
                    names = [f"p{at}" for at in rnd.sample(range(12), 7)]
                    graph.load(
                        [{"type": "Person", "data": {"name": each, "age": step}} for each in names],
                        mode="merge",
                    )
                    known |= dict.fromkeys(names, step)
                case "optimize":
                    graph.optimize()
            assert ages(graph) == known, f"seed {seed}, step {step}"
        assert sorted(nodes(other, "Person")) == sorted(known)


class TestRecentIds:
    def table(self, graph):
        return open_table(state_of(graph).workspace.pinned(graph.snapshot().tables["node:Person"]))

    def test_nothing_is_taken_from_another_state(self, graph):
        insert(graph, "a", 1)
        recent = RecentIds()
        assert recent.lacks_all("t", 1, self.table(graph), ["b"])
        insert(graph, "b", 1)
        # Of state 2 nobody told what was written.
        assert not recent.lacks_all("t", 2, self.table(graph), ["b"])

    def test_what_is_noted_counts_for_the_state_after_it(self, graph):
        insert(graph, "a", 1)
        recent, table = RecentIds(), self.table(graph)
        assert recent.lacks_all("t", 1, table, ["b"])
        recent.note("t", 1, 2, ["b"])
        assert not recent.lacks_all("t", 2, table, ["b"])
        recent.note("t", 7, 8, ["c"])
        assert recent.lacks_all("t", 2, table, ["c"])

    def test_with_too_many_small_rows_nothing_is_known(self, graph, monkeypatch):
        monkeypatch.setattr(recent_ids, "MOST_IDS", 1)
        for name in "ab":
            insert(graph, name, 1)
        assert not RecentIds().lacks_all("t", 1, self.table(graph), ["c"])
        insert(graph, "a", 3)
        assert ages(graph) == {"a": 3, "b": 1}

    def test_more_ids_than_are_looked_up_are_not_known(self, graph, monkeypatch):
        insert(graph, "a", 1)
        monkeypatch.setattr(recent_ids, "MOST_ASKED", 1)
        assert not RecentIds().lacks_all("t", 1, self.table(graph), ["b", "c"])
