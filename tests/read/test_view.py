"""Views: which tables a snapshot reads, what is remembered between reads, and what never is."""

from __future__ import annotations

import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

import omnigraph as og
from omnigraph.errors import HistoryReclaimed, NotFound, StorageError
from omnigraph.lang.query import compile_query
from omnigraph.lang.query.ir import NOW_PARAM, ReadPlan
from omnigraph.read.execute import run_read
from omnigraph.read.thresholds import Thresholds, ViewThresholds
from omnigraph.read.view.nodes import NodeIds
from omnigraph.read.view.view import Reader
from omnigraph.storage.tables.inline_residual import cleanup_versions
from omnigraph.storage.tables.table import open_table
from tests.graphs import graph_of, person
from tests.opened import workspace_of
from tests.read.view_helpers import SCHEMA, counted, edge, view_of
from tests.write.writing import run

graph = graph_of(SCHEMA, [person("a"), person("b"), edge("Knows", "a", "b")])


def names(view):
    return view.nodes("Person").id_array.to_pylist()


def test_one_view_for_one_commit(graph):
    reader = Reader(workspace_of(graph))
    first = view_of(graph, reader)
    assert view_of(graph, reader) is first
    assert (first.snapshot, first.catalog) == (graph.snapshot(), graph.schema.catalog)
    run(graph, 'insert Person { name: "c" }')
    second = view_of(graph, reader)
    assert (names(first), names(second)) == (["a", "b"], ["a", "b", "c"])


def test_another_catalog_is_another_view(graph):
    reader = Reader(workspace_of(graph))
    first = view_of(graph, reader)
    other = reader.view(graph.snapshot(), replace(graph.schema.catalog))
    assert other is not first
    assert names(other) == ["a", "b"]


def test_few_views_are_kept(graph):
    reader = Reader(workspace_of(graph), Thresholds(view=ViewThresholds(views=2)))
    first = view_of(graph, reader)
    old = graph.snapshot()
    for name in "cd":
        run(graph, f'insert Person {{ name: "{name}" }}')
        view_of(graph, reader)
    assert reader.view(old, graph.schema.catalog) is not first


def test_branches_that_are_read_in_turn_find_their_views_again(graph):
    """However few views are kept: one for each branch, up to a number of branches."""
    limits = ViewThresholds(views=2, branches=4)
    reader = Reader(workspace_of(graph), Thresholds(view=limits))
    branches = ["b0", "b1", "b2", "b3"]
    for name in branches:
        graph.branches.create(name)
    first = [view_of(graph, reader, name) for name in branches]
    run(graph, 'insert Person { name: "c" }', branch="b3")
    newer = view_of(graph, reader, "b3")
    again = [view_of(graph, reader, name) for name in branches]
    assert all(one is other for one, other in zip(again, [*first[:3], newer], strict=True))
    view_of(graph, reader)
    assert view_of(graph, reader, "b1") is first[1]
    assert view_of(graph, reader, "b0") is not first[0]


def test_a_pinned_table_opens_once_at_its_version(graph):
    view = view_of(graph)
    entity = graph.schema.catalog.nodes["Person"]
    ready = threading.Barrier(8)

    def ask():
        ready.wait()
        return view.table(entity).table

    with ThreadPoolExecutor(8) as pool:
        tables = [future.result() for future in [pool.submit(ask) for _ in range(8)]]
    pin = graph.snapshot().tables["node:Person"]
    assert all(table is tables[0] for table in tables)
    assert tables[0].version == pin.table_version
    assert view.table(entity).row_count == 2
    lineage, version = view.table(entity).identity
    assert (lineage.location, lineage.branch, lineage.identifier) == (pin.location, None, None)
    assert version == pin.table_version


def test_what_is_there_already_is_known_without_building_it(graph):
    view = view_of(graph)
    assert not view.has_nodes("Person")
    assert not view.has_topology("Knows")
    view.topology("Knows")
    assert view.has_nodes("Person")
    assert view.has_topology("Knows")
    assert not view.has_topology("LivesIn")
    assert not view.has_nodes("City")


def test_unchanged_tables_are_shared_between_commits_and_branches(graph, monkeypatch):
    builds = counted(monkeypatch, NodeIds, "read")
    reader = Reader(workspace_of(graph))
    view_of(graph, reader).nodes("Person")
    run(graph, 'insert City { name: "x" }')
    graph.branches.create("b")
    assert view_of(graph, reader).has_nodes("Person")
    assert view_of(graph, reader, "b").has_nodes("Person")
    assert names(view_of(graph, reader, "b")) == ["a", "b"]
    assert builds == {"read": 1}
    assert view_of(graph, reader, "b").snapshot.branch == "b"


def test_a_renamed_type_reads_its_table(graph):
    catalog = graph.schema.catalog
    human = replace(catalog.nodes["Person"], name="Human")
    city = catalog.nodes["City"]
    knows = replace(catalog.edges["Knows"], name="Likes", from_type="Human", to_type="Human")
    renamed = replace(catalog, nodes={"Human": human, "City": city}, edges={"Likes": knows})
    view = Reader(workspace_of(graph)).view(graph.snapshot(), renamed)
    assert view.nodes("Human").id_array.to_pylist() == ["a", "b"]
    assert view.topology("Likes").size == 1


def test_a_type_that_was_not_there_yet_is_named_with_the_snapshot(graph):
    catalog = graph.schema.catalog
    # The same name as a dropped type, but another table.
    later = replace(catalog.nodes["Person"], table_incarnation_id=999)
    view = Reader(workspace_of(graph)).view(
        graph.snapshot(), replace(catalog, nodes={**catalog.nodes, "Person": later})
    )
    with pytest.raises(NotFound) as caught:
        view.nodes("Person")
    assert "`Person`" in str(caught.value)
    assert graph.snapshot().graph_commit_id in str(caught.value)


def test_a_version_that_cleanup_removed_is_gone(graph):
    old = graph.snapshot()
    run(graph, 'insert Person { name: "c" }')
    table = open_table(workspace_of(graph).pinned(graph.snapshot().tables["node:Person"]))
    cleanup_versions(table, [old.tables["node:Person"].table_version])
    with pytest.raises(HistoryReclaimed, match="node:Person"):
        Reader(workspace_of(graph)).view(old, graph.schema.catalog).nodes("Person")


def _branch_with(graph, *people):
    graph.branches.create("b")
    for name in people:
        run(graph, f'insert Person {{ name: "{name}" }}', branch="b")


def test_a_branch_made_again_under_the_same_versions_is_never_mixed_up(graph):
    reader = Reader(workspace_of(graph))
    for round_, people in enumerate((("x", "y"), ("p", "q"), ("x", "z"))):
        _branch_with(graph, *people)
        run(graph, f'insert Knows {{ from: "a", to: "{people[0]}", since: {round_} }}', branch="b")
        snapshot = graph.snapshot(branch="b")
        pins = {
            key: (pin.table_branch, pin.table_version)
            for key, pin in snapshot.tables.items()
            if pin.table_branch is not None
        }
        if round_ == 0:
            expected = pins
        assert pins == expected, "the versions are equal, or this shows nothing"
        view = view_of(graph, reader, "b")
        assert names(view) == sorted(["a", "b", *people])
        topology = view.topology("Knows")
        assert topology.size == 2
        assert topology.edges.column("since").array.to_pylist() == [None, round_]
        target = topology.dst[topology.edges.column("since").codes == 0]
        assert topology.targets.ids(target).to_pylist() == [people[0]]
        graph.branches.delete("b")


def test_a_view_of_a_branch_that_is_gone_says_so(graph):
    _branch_with(graph, "x")
    snapshot = graph.snapshot(branch="b")
    graph.branches.delete("b")
    with pytest.raises(HistoryReclaimed, match="`b`"):
        Reader(workspace_of(graph)).view(snapshot, graph.schema.catalog).nodes("Person")


def test_a_branch_that_becomes_another_one_before_its_table_opens_is_noticed(graph):
    _branch_with(graph, "x")
    view = view_of(graph, branch="b")
    pinned = view.table(graph.schema.catalog.nodes["Person"])
    graph.branches.delete("b")
    _branch_with(graph, "y")
    with pytest.raises(HistoryReclaimed, match="`b`"):
        _ = pinned.table


AGES = "query q() { match { $p: Person } return { $p.name, $p.age } }"


def ask(graph, view):
    plan = compile_query(graph.schema.catalog, AGES)
    assert isinstance(plan, ReadPlan)
    return run_read(view, plan, {NOW_PARAM: 0})


@pytest.mark.parametrize("mode", ["csr", "indexed"])
def test_a_branch_that_goes_while_its_rows_are_read_is_named(graph, monkeypatch, mode):
    monkeypatch.setenv("OMNIGRAPH_TRAVERSAL_MODE", mode)
    _branch_with(graph, "x")
    view = view_of(graph, branch="b")
    assert view.table(graph.schema.catalog.nodes["Person"]).table.version
    graph.branches.delete("b")
    with pytest.raises(HistoryReclaimed, match="`b`, which held node:Person, was deleted"):
        ask(graph, view)


def test_a_version_that_goes_while_its_rows_are_read_is_named(graph):
    view = view_of(graph)
    table = view.table(graph.schema.catalog.nodes["Person"]).table
    graph.load([person("a"), person("b"), person("z")], mode="overwrite")
    now = open_table(workspace_of(graph).pinned(graph.snapshot().tables["node:Person"]))
    cleanup_versions(now, [at for at in range(1, now.version) if at <= table.version])
    with pytest.raises(HistoryReclaimed, match="read a newer state"):
        ask(graph, view)


def test_a_file_that_is_missing_is_still_told_as_such(graph, tmp_path):
    view = view_of(graph)
    (data,) = (tmp_path / "g" / "nodes").glob("*/data")
    shutil.rmtree(data)
    with pytest.raises(StorageError, match="missing or damaged"):
        ask(graph, view)


def test_a_graph_made_again_at_the_same_place_is_another_one(graph, tmp_path):
    reader = Reader(workspace_of(graph))
    assert names(view_of(graph, reader)) == ["a", "b"]
    shutil.rmtree(tmp_path / "g")
    again = og.init(tmp_path / "g", SCHEMA)
    again.load([person("c"), person("d"), edge("Knows", "c", "d")])
    snapshot = again.snapshot()
    view = reader.view(snapshot, again.schema.catalog)
    assert not view.has_nodes("Person")


def test_forget_drops_everything(graph):
    reader = Reader(workspace_of(graph))
    first = view_of(graph, reader)
    first.topology("Knows")
    reader.forget()
    assert view_of(graph, reader) is not first
    assert not view_of(graph, reader).has_nodes("Person")
    assert names(first) == ["a", "b"]


def test_the_budget_is_a_setting(graph, monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_CACHE_MB", "3")
    assert Reader(workspace_of(graph)).cache.budget == 3 * 2**20
    monkeypatch.setenv("OMNIGRAPH_CACHE_MB", "0")
    view = view_of(graph)
    assert view.topology("Knows").size == 1
    assert not view.has_topology("Knows")
