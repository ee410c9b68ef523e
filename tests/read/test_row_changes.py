"""Nodes and edges derived from what changed are those that reading the tables again gives."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.read.thresholds import Thresholds, ViewThresholds
from omnigraph.read.view import edges
from omnigraph.read.view.edges import EdgeList
from omnigraph.read.view.properties import Properties
from omnigraph.storage.tables.inline_residual import cleanup_versions
from omnigraph.storage.tables.staging import (
    stage_append,
    stage_delete_ids,
    stage_overwrite,
    stage_replace_rows,
    stage_upsert,
    write_fragments,
)
from omnigraph.storage.tables.table import open_table
from omnigraph.storage.tables.table_commits import commit_staged
from tests.opened import fresh_reader, read_with, workspace_of
from tests.read.random_commits import Writer, fill
from tests.read.view_helpers import (
    SCHEMA,
    check_against_rows,
    check_same,
    counted,
    edge_pairs,
    view_of,
)
from tests.storage.table_places import compact
from tests.write.writing import run

SMALL_TABLES_TOO = ViewThresholds(derived_rows=0)


@pytest.fixture
def graph(tmp_path):
    graph = og.init(tmp_path / "g", SCHEMA)
    read_with(graph, Thresholds(view=SMALL_TABLES_TOO))
    fill(graph)
    return graph


@pytest.mark.parametrize("seed", range(3))
def test_random_commits(graph, seed, monkeypatch):
    reads, rereads = 0, counted(monkeypatch, EdgeList, "read")
    warm, writer, derived = fresh_reader(graph), Writer(graph, seed), 0
    for _ in range(16):
        writer.step()
        if writer.random.random() < 0.3:
            continue
        branch = writer.random.choice(writer.branches)
        view = view_of(graph, warm, branch)
        before = rereads["read"]
        check_against_rows(graph, view, branch)
        reads += len(view.catalog.edges)
        derived += len(view.catalog.edges) - (rereads["read"] - before)
        check_same(view, view_of(graph, branch=branch))
    assert derived > reads // 2, "most states are derived, or this shows nothing"


class Tables:
    """The tables of a graph moved by hand, and views of them as if they were published."""

    def __init__(self, graph):
        self.graph = graph
        self.reader = fresh_reader(graph)
        self.snapshot = graph.snapshot()
        self.tables = {
            key: open_table(workspace_of(graph).pinned(pin))
            for key, pin in self.snapshot.tables.items()
        }
        self.count = 0

    def commit(self, key, staged):
        self.tables[key] = commit_staged(staged)

    def view(self, reader=None):
        pins = {
            key: replace(pin, table_version=table.version, row_count=table.count_rows())
            for (key, pin), table in zip(
                self.snapshot.tables.items(), self.tables.values(), strict=True
            )
        }
        self.count += 1
        commit = replace(self.snapshot.commit, graph_commit_id=f"by-hand-{self.count}")
        made = replace(self.snapshot, commit=commit, tables=pins)
        return (reader or self.reader).view(made, self.graph.schema.catalog)

    def check(self):
        view = self.view()
        check_same(view, self.view(fresh_reader(self.graph)))
        return view


def rows_for(table, records):
    return pa.Table.from_pylist(records, table.schema)


def knows(table, *edges):
    return rows_for(table, [{"id": i, "src": src, "dst": dst} for i, src, dst in edges])


@pytest.fixture
def tables(graph):
    tables = Tables(graph)
    tables.view().topology("Knows")
    tables.view().topology("LivesIn")
    return tables


KNOWS, PERSON = "edge:Knows", "node:Person"


def test_appended_edges(tables, monkeypatch):
    rereads = counted(monkeypatch, EdgeList, "read")
    table = tables.tables[KNOWS]
    tables.commit(KNOWS, stage_append(table, knows(table, ("x", "p00", "p59"))))
    view = tables.view()
    assert ("p00", "p59") in edge_pairs(view.topology("Knows"))
    assert view.topology("Knows").size == 61
    assert not rereads


def test_an_edge_whose_ends_change(tables, monkeypatch):
    rereads = counted(monkeypatch, EdgeList, "read")
    table = tables.tables[KNOWS]
    tables.commit(KNOWS, stage_append(table, knows(table, ("x", "p00", "p59"))))
    tables.check()
    table = tables.tables[KNOWS]
    changed = knows(table, ("x", "p10", "p58"))
    tables.commit(KNOWS, stage_upsert(table, changed))
    rereads.clear()
    view = tables.view()
    pairs = edge_pairs(view.topology("Knows"))
    assert ("p10", "p58") in pairs
    assert ("p00", "p59") not in pairs
    assert not rereads
    tables.check()


def test_nodes_deleted_and_inserted_again_keep_their_edges(tables, monkeypatch):
    before = edge_pairs(tables.view().topology("Knows"))
    rereads = counted(monkeypatch, EdgeList, "read")
    table = tables.tables[PERSON]
    tables.commit(PERSON, stage_delete_ids(table, pa.array(["p03", "p04"])))
    table = tables.tables[PERSON]
    again = rows_for(table, [{"id": name, "name": name} for name in ("p04", "a", "p03")])
    tables.commit(PERSON, stage_append(table, again))
    view = tables.view()
    assert edge_pairs(view.topology("Knows")) == before
    assert view.nodes("Person").node_ids.origin is not None
    assert not rereads
    tables.check()


def test_adjacency_is_carried_over(tables, monkeypatch):
    older = tables.view().topology("Knows")
    assert older.out().indptr[-1] == older.into().indptr[-1] == 60
    sorts = counted(monkeypatch, edges, "csr_of")
    table = tables.tables[PERSON]
    tables.commit(PERSON, stage_append(table, rows_for(table, [{"id": "p00a", "name": "p00a"}])))
    table = tables.tables[KNOWS]
    new = knows(table, ("x", "p00", "p00a"), ("y", "p00", "p00a"), ("z", "p59", "p01"))
    tables.commit(KNOWS, stage_append(table, new))
    topology = tables.view().topology("Knows")
    assert topology.out().indptr[-1] == topology.into().indptr[-1] == 62
    assert not sorts
    tables.check()


def test_columns_are_carried_over(tables, monkeypatch):
    ages = tables.view().nodes("Person").column("age").array.to_pylist()
    rereads = counted(monkeypatch, Properties, "_read")
    table = tables.tables[PERSON]
    changed = [{"id": "p05", "name": "p05", "age": 500}, {"id": "p00a", "name": "p00a", "age": 3}]
    tables.commit(PERSON, stage_upsert(table, rows_for(table, changed)))
    table = tables.tables[PERSON]
    tables.commit(PERSON, stage_delete_ids(table, pa.array(["p09"])))
    now = tables.view().nodes("Person").column("age").array.to_pylist()
    assert now == [ages[0], 3, *ages[1:5], 500, *ages[6:9], *ages[10:]]
    assert not rereads
    tables.check()


def test_rows_written_again_by_fragment_are_seen(tables):
    """As executors write a merge: rows that keep their ids, and new ones, in one transaction."""
    older = tables.view().nodes("Person")
    assert older.column("age").array[older.ordinal_of("p05")].as_py() is None
    table = tables.tables[PERSON]
    stored = table.read(["id"], with_row_id=True, with_row_address=True)
    at = stored["id"].to_pylist().index("p05")
    changed = [{"id": "p05", "name": "p05", "age": 500}, {"id": "new", "name": "new", "age": 3}]
    kept = pa.array([stored["_rowid"][at].as_py(), None], pa.uint64())
    fragments = write_fragments(table, rows_for(table, changed), kept)
    address = np.array([stored["_rowaddr"][at].as_py()], np.uint64)
    tables.commit(PERSON, stage_replace_rows(table, address, fragments))
    space = tables.check().nodes("Person")
    assert space.node_ids.origin is not None
    ages = [space.column("age").array[space.ordinal_of(name)].as_py() for name in ("p05", "new")]
    assert ages == [500, 3]


def test_compaction_moves_nothing(tables, monkeypatch):
    for name in ("x", "y"):
        table = tables.tables[KNOWS]
        tables.commit(KNOWS, stage_append(table, knows(table, (name, "p00", "p59"))))
    before = tables.view().topology("Knows")
    rereads = counted(monkeypatch, EdgeList, "read")
    tables.tables[KNOWS] = compact(tables.tables[KNOWS])
    after = tables.view().topology("Knows")
    assert np.array_equal(before.row_ids, after.row_ids)
    assert not rereads
    tables.check()


def test_an_overwritten_table_is_read_again(tables):
    table = tables.tables[KNOWS]
    tables.commit(KNOWS, stage_overwrite(table, knows(table, ("x", "p00", "p59"))))
    assert edge_pairs(tables.check().topology("Knows")) == [("p00", "p59")]
    table = tables.tables[PERSON]
    kept = rows_for(table, [{"id": name, "name": name} for name in ("b", "p00", "p59")])
    tables.commit(PERSON, stage_overwrite(table, kept))
    assert edge_pairs(tables.check().topology("Knows")) == [("p00", "p59")]


def _restored(table, version):
    handle = open_table(table.ref.at(version))
    handle.dataset.restore()
    return open_table(table.ref.at(None))


def test_a_restore_undoes_an_update(tables):
    table = tables.tables[KNOWS]
    tables.commit(KNOWS, stage_append(table, knows(table, ("x", "p00", "p59"))))
    first = tables.tables[KNOWS].version
    table = tables.tables[KNOWS]
    tables.commit(KNOWS, stage_upsert(table, knows(table, ("x", "p10", "p58"))))
    assert ("p10", "p58") in edge_pairs(tables.check().topology("Knows"))
    tables.tables[KNOWS] = _restored(tables.tables[KNOWS], first)
    assert ("p00", "p59") in edge_pairs(tables.check().topology("Knows"))


def test_a_restore_lets_row_ids_be_used_again(tables):
    first = tables.tables[PERSON].version
    table = tables.tables[PERSON]
    tables.commit(PERSON, stage_append(table, rows_for(table, [{"id": "x", "name": "x"}])))
    assert tables.check().nodes("Person").ordinal_of("x") == 60
    tables.tables[PERSON] = _restored(tables.tables[PERSON], first)
    table = tables.tables[PERSON]
    tables.commit(PERSON, stage_append(table, rows_for(table, [{"id": "a", "name": "a"}])))
    space = tables.check().nodes("Person")
    assert (space.ordinal_of("a"), space.ordinal_of("x")) == (0, -1)


@pytest.mark.parametrize(
    "beyond", [{"derived_versions": 0}, {"derived_changes": 0}, {"derived_rows": 1000}], ids=str
)
def test_beyond_a_limit_tables_are_read_again(tables, beyond, monkeypatch):
    tables.reader.thresholds = Thresholds(view=replace(SMALL_TABLES_TOO, **beyond))
    rereads = counted(monkeypatch, EdgeList, "read")
    table = tables.tables[KNOWS]
    tables.commit(KNOWS, stage_append(table, knows(table, ("x", "p00", "p59"))))
    assert tables.view().topology("Knows").size == 61
    assert rereads == {"read": 1}


def test_history_that_is_gone_is_no_obstacle(tables):
    for name in ("x", "y"):
        table = tables.tables[KNOWS]
        tables.commit(KNOWS, stage_append(table, knows(table, (name, "p00", "p59"))))
    head = tables.tables[KNOWS]
    cleanup_versions(head, [v for v in head.versions() if v != head.version])
    assert tables.check().topology("Knows").size == 62


def test_a_branch_is_derived_from_an_older_main(graph, monkeypatch):
    warm = fresh_reader(graph)
    check_against_rows(graph, view_of(graph, warm))
    run(graph, 'insert Person { name: "x" } insert Knows { from: "x", to: "p00" }')
    graph.branches.create("b")
    run(graph, 'insert Person { name: "y" } insert Knows { from: "y", to: "x" }', branch="b")
    run(graph, 'delete Person where name = "p07"', branch="b")
    run(graph, 'delete Person where name = "p08"')
    rereads = counted(monkeypatch, EdgeList, "read")
    view = view_of(graph, warm, "b")
    check_against_rows(graph, view, "b")
    assert not rereads
    check_same(view, view_of(graph, branch="b"))
