"""`graph.diff`: the net difference of two states of a graph."""

from __future__ import annotations

import pytest

import omnigraph as og
from omnigraph import errors
from tests.graphs import graph_of, person

SCHEMA = """
node Person { name: String @key
  age: I32?
  born: Date? }
node City { name: String @key }
edge Knows: Person -> Person { since: I32? }
"""


def knows(number, one, other, **data):
    return {"edge": "Knows", "from": one, "to": other, "data": {"id": number, **data}}


graph = graph_of(
    SCHEMA,
    [
        *(person(name, age=30, born="1990-02-03") for name in ("Ann", "Bob", "Cy", "Dee")),
        {"type": "City", "data": {"name": "Oslo"}},
        knows("k1", "Ann", "Bob", since=2000),
        knows("k2", "Cy", "Dee"),
    ],
)


def changed(result):
    return [(change.kind, change.type, change.id, change.op) for change in result]


class TestChanges:
    def test_nodes_come_before_edges_in_order_of_types_and_ids(self, graph):
        before = graph.snapshot()
        graph.mutate('query q() { delete Person where name = "Bob" }')
        graph.load([person("Ann", age=31, born="1990-02-03"), person("Eve")], mode="merge")
        result = graph.diff(before, "main")
        assert [change.to_json() for change in result] == [
            {
                "kind": "node",
                "type": "Person",
                "id": "Ann",
                "op": "update",
                "before": {"properties": {"name": "Ann", "age": 30, "born": "1990-02-03"}},
                "after": {"properties": {"name": "Ann", "age": 31, "born": "1990-02-03"}},
            },
            {
                "kind": "node",
                "type": "Person",
                "id": "Bob",
                "op": "delete",
                "before": {"properties": {"name": "Bob", "age": 30, "born": "1990-02-03"}},
            },
            {
                "kind": "node",
                "type": "Person",
                "id": "Eve",
                "op": "insert",
                "after": {"properties": {"name": "Eve", "age": None, "born": None}},
            },
            {
                "kind": "edge",
                "type": "Knows",
                "id": "k1",
                "op": "delete",
                "before": {
                    "properties": {"since": 2000},
                    "endpoints": {"from": "Ann", "to": "Bob"},
                },
            },
        ]
        document = result.to_json()
        assert document["from"]["graph_commit_id"] == before.graph_commit_id
        assert document["to"]["version"] == graph.snapshot().manifest_version
        stats = document["stats"]
        assert (stats["inserts"], stats["updates"], stats["deletes"]) == (1, 1, 2)
        assert stats["types_affected"] == ["Knows", "Person"]
        assert stats["tables_skipped"] == 1
        assert stats["candidates"] == 4
        assert stats["bytes_read"] > 0

    def test_swapped_sides_swap_inserts_and_deletes(self, graph):
        graph.branches.create("side")
        graph.load([person("Ann", age=1), person("New")], mode="merge", branch="side")
        graph.mutate('query q() { delete Person where name = "Dee" }')
        there = {c.id: c for c in graph.diff("main", "side")}
        back = {c.id: c for c in graph.diff("side", "main")}
        other = {"insert": "delete", "delete": "insert", "update": "update"}
        assert {key: (other[c.op], c.after, c.before) for key, c in there.items()} == {
            key: (c.op, c.before, c.after) for key, c in back.items()
        }
        assert set(there) == {"Ann", "Dee", "New", "k2"}

    def test_without_images_only_endpoints_are_shown(self, graph):
        before = graph.snapshot()
        graph.load([person("Ann", age=9), knows("k1", "Ann", "Cy")], mode="merge")
        node, edge = graph.diff(before, "main", images=False)
        assert node.to_json() == {"kind": "node", "type": "Person", "id": "Ann", "op": "update"}
        assert edge.before == {"endpoints": {"from": "Ann", "to": "Bob"}}
        assert edge.after == {"endpoints": {"from": "Ann", "to": "Cy"}}

    def test_a_result_stays_what_it_was_and_can_be_read_again(self, graph):
        before = graph.snapshot()
        graph.load([person("Ann", age=9)], mode="merge")
        result = graph.diff(before, "main")
        graph.load([person("Bob", age=9)], mode="merge")
        assert changed(result) == changed(result) == [("node", "Person", "Ann", "update")]
        assert result.stats.updates == 1


class TestFilters:
    @pytest.mark.parametrize(
        ("options", "ids"),
        [
            ({"kinds": ["edge"]}, ["k1"]),
            ({"types": ["City"]}, ["Rome"]),
            ({"ops": ["update", "update"]}, ["Ann", "k1"]),
            ({"ops": ["insert"], "kinds": ["node", "edge"]}, ["Rome"]),
            ({"types": ["Person"], "kinds": ["edge"]}, []),
        ],
    )
    def test_filters_choose_and_never_reclassify(self, graph, options, ids):
        before = graph.snapshot()
        rome = {"type": "City", "data": {"name": "Rome"}}
        graph.load([person("Ann", age=9), knows("k1", "Ann", "Cy"), rome], mode="merge")
        assert [change.id for change in graph.diff(before, "main", **options)] == ids

    @pytest.mark.parametrize(
        "options",
        [{"ops": ["upsert"]}, {"kinds": ["table"]}, {"types": ["Submarine"]}, {"types": "Person"}],
    )
    def test_unknown_words_are_refused_at_once(self, graph, options):
        with pytest.raises(errors.BadRequest):
            graph.diff("main", "main", **options)


class TestPages:
    @pytest.mark.parametrize("limit", [1, 2, 3, 8192])
    def test_pages_are_the_whole_in_parts(self, graph, limit):
        before = graph.snapshot()
        graph.load([person("Ann", age=9), person("New"), knows("k1", "Ann", "Cy")], mode="merge")
        result = graph.diff(before, "main")
        page = result.page(limit)
        assert page.stats.updates == 2
        shown = list(page.changes)
        while page.next_page_token is not None:
            page = graph.diff(before, "main").page(limit, page.next_page_token)
            assert page.stats is None
            assert len(page.changes) <= limit
            shown += page.changes
        assert tuple(shown) == result.changes

    def test_a_token_of_another_diff_is_refused(self, graph):
        before = graph.snapshot()
        graph.load([person("Ann", age=9), person("New")], mode="merge")
        token = graph.diff(before, "main").page(1).next_page_token
        others = [
            graph.diff("main", before),
            graph.diff(before, "main", ops=["insert"]),
            graph.diff(before, "main", images=False),
        ]
        for other in others:
            with pytest.raises(errors.CursorRejected):
                other.page(1, token)
        with pytest.raises(errors.ResourceLimit):
            others[0].page(8193)


class TestSchemas:
    def test_renames_and_relaxations_are_no_difference(self, graph):
        before = graph.snapshot()
        renamed = SCHEMA.replace("node Person {", 'node Human @rename_from("Person") {')
        renamed = renamed.replace("Person -> Person", "Human -> Human")
        renamed = renamed.replace("age: I32?", 'years: I32? @rename_from("age")')
        graph.schema.apply(renamed)
        assert changed(graph.diff(before, "main")) == []
        graph.load([{"type": "Human", "data": {"name": "Ann", "years": 1}}], mode="merge")
        (change,) = graph.diff(before, "main", types=["Person"])
        assert (change.type, change.before["properties"]["years"]) == ("Human", 30)

    def test_two_past_states_are_shown_as_they_were_declared(self, graph):
        before = graph.snapshot()
        graph.load([person("Ann", age=31)], mode="merge")
        after = graph.snapshot()
        later = SCHEMA.replace("born: Date?", "height: F64?")
        graph.schema.apply(later.replace("age: I32?", 'years: I32? @rename_from("age")'))
        (change,) = graph.diff(before, after)
        assert change.before == {"properties": {"name": "Ann", "years": 30, "born": "1990-02-03"}}

    def test_a_type_dropped_and_added_again_is_deleted_and_inserted(self, graph):
        before = graph.snapshot()
        without = SCHEMA.replace("node City { name: String @key }", "")
        graph.schema.apply(without)
        assert changed(graph.diff(before, "main")) == [("node", "City", "Oslo", "delete")]
        graph.schema.apply(SCHEMA)
        cities = [{"type": "City", "data": {"name": name}} for name in ("Bonn", "Oslo", "Rome")]
        graph.load(cities, mode="merge")
        assert changed(graph.diff(before, "main")) == [
            ("node", "City", "Bonn", "insert"),
            ("node", "City", "Oslo", "delete"),
            ("node", "City", "Oslo", "insert"),
            ("node", "City", "Rome", "insert"),
        ]


def test_a_side_that_is_gone_is_said_to_be(graph):
    graph.branches.create("side")
    graph.load([person("Ann", age=9)], mode="merge", branch="side")
    there = graph.snapshot(branch="side")
    result = graph.diff("main", there)
    graph.branches.delete("side")
    with pytest.raises(errors.HistoryReclaimed):
        list(result)
    with pytest.raises((errors.HistoryReclaimed, errors.CommitNotFound)):
        graph.diff("main", there)
    with pytest.raises(errors.BranchNotFound):
        graph.diff("main", "side")


def test_damaged_data_is_told_as_an_error_of_storage(tmp_path):
    with og.init(tmp_path / "g", "node Person { name: String @key }") as graph:
        graph.load([{"type": "Person", "data": {"name": "ann"}}])
        graph.branches.create("side")
        for name in ("bea", "cid"):
            graph.load([{"type": "Person", "data": {"name": name}}], branch="side")
    for path in (tmp_path / "g" / "nodes").rglob("data/*.lance"):
        path.write_bytes(b"damaged")
    with og.open(tmp_path / "g") as graph, pytest.raises(og.errors.StorageError):
        list(graph.diff("main", "side"))
