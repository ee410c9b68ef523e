"""Index builds and compactions by executors: the answers of before, whole indexes, one commit."""

from __future__ import annotations

import random
from operator import itemgetter
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.errors import BadRequest
from omnigraph.lang.schema.indexes import IndexKind
from omnigraph.pipeline.spark import maintenance_jobs
from omnigraph.pipeline.spark.spark_rows import SparkSizes
from omnigraph.runner import executors
from omnigraph.storage.tables.indexing.table_indexes import Coverage, index_name, list_indexes
from tests.maintenance.compacting import merged
from tests.opened import workspace_of
from tests.spark.document_helpers import (
    CITES,
    DOCS,
    DOCS_IN_PART,
    PARTS,
    SCHEMA,
    answers,
    check_whole,
    doc,
    fill,
    fill_branch,
    row_ids,
    table_of,
)
from tests.stored import read_back


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch):
    monkeypatch.setattr(maintenance_jobs, "ROWS_PER_PART", 1)


@pytest.fixture
def graph(tmp_path):
    with og.init(tmp_path / "g", SCHEMA) as graph:
        fill(graph, random.Random(6))
        yield graph


# ------------------------------------------------------------------ indexes


def test_executors_build_whole_indexes_and_answers_stay(spark, graph):
    before, content, commits = answers(graph), read_back(graph), len(graph.commits.list())
    assert len(table_of(graph).fragments()) == PARTS
    report = graph.ensure_indices(engine="spark", actor="ada")
    assert (report.engine, report.pending, report.failed) == ("spark", [], [])
    assert len(graph.commits.list()) == commits + 1
    assert (report.commit.operation, report.commit.actor_id) == ("ensure_indices", "ada")
    segments = check_whole(table_of(graph), DOCS)
    # Two cores, two groups of fragments; full text is merged, or searches lack files they open.
    assert segments == {"id": 2, "year": 2, "body": 1, "place": 2}
    check_whole(table_of(graph, "edge:Cites"), CITES)
    assert answers(graph) == before
    assert read_back(graph) == content
    assert graph.ensure_indices(engine="spark").commit is None


def test_what_executors_and_this_process_build_answers_alike(spark, graph):
    graph.branches.create("other")
    graph.ensure_indices(engine="spark")
    graph.ensure_indices(branch="other", engine="local")
    assert answers(graph, "other") == answers(graph)


def test_rows_written_after_a_build_are_found_and_optimised_in(spark, graph):
    graph.ensure_indices(engine="spark")
    rng = random.Random(7)
    graph.load([doc(rng, number) for number in range(100, 140)])
    graph.mutate('query q() { delete Doc where ref = "d0001" }')
    states = {state.column: state.coverage for state in list_indexes(table_of(graph))}
    assert set(states.values()) == {Coverage.DEGRADED}
    fresh = answers(graph)
    for state in list_indexes(table_of(graph)):
        assert state.unindexed_rows == 40
    with og.open(graph.uri) as again:
        assert answers(again) == fresh


def test_on_a_branch_main_is_left_alone(spark, graph):
    fill_more = random.Random(8)
    graph.load([doc(fill_more, 900 + n) for n in range(50)], branch="dev", from_branch="main")
    before = answers(graph, "dev")
    report = graph.ensure_indices(branch="dev", engine="spark")
    assert report.failed == []
    check_whole(table_of(graph, branch="dev"), DOCS)
    # This one had no fork yet.
    check_whole(table_of(graph, "edge:Cites", branch="dev"), CITES)
    assert answers(graph, "dev") == before
    assert list_indexes(table_of(graph)) == list_indexes(table_of(graph, "edge:Cites")) == []


def test_fragments_without_a_vector_do_not_stop_the_others(spark, tmp_path):
    rng = random.Random(9)
    with og.init(tmp_path / "g", SCHEMA) as graph:
        graph.load([doc(rng, n, placed=False) for n in range(60)], mode="append")
        assert graph.ensure_indices(engine="spark").pending == [("node:Doc", "place")]
        graph.load([doc(rng, n) for n in range(60, 90)], mode="append")
        before = answers(graph)
        report = graph.ensure_indices(engine="spark")
        assert (report.built, report.failed) == ([("node:Doc", "place")], [])
        assert answers(graph) == before
        table = table_of(graph)
        name = index_name(table, "place", IndexKind.VECTOR)
        place = table.dataset.stats.index_stats(name)
        assert place["num_unindexed_fragments"] == 0


def hide(table):
    """Move a data file of the table out of sight; what is returned brings it back."""
    (name,) = (f"{file.path}" for file in table.fragments()[1].files)
    (path,) = Path(table.ref.dataset_uri).rglob(name)
    away = path.with_suffix(".away")
    path.rename(away)
    return lambda: away.rename(path)


@pytest.fixture
def hidden_file(graph):
    """A data file of the documents, out of sight until `hidden_file()` brings it back."""
    return hide(table_of(graph))


def test_failing_tasks_leave_their_table_as_it_was(spark, graph, hidden_file):
    before = graph.snapshot().tables
    report = graph.ensure_indices(engine="spark")
    assert report.engine == "spark"
    assert {(key, name) for key, name, _ in report.failed} == {("node:Doc", n) for n in DOCS}
    assert graph.snapshot().tables["node:Doc"] == before["node:Doc"]
    check_whole(table_of(graph, "edge:Cites"), CITES)
    hidden_file()
    assert graph.ensure_indices(engine="spark").failed == []
    check_whole(table_of(graph), DOCS)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("branch", ["main", "dev"])
@pytest.mark.parametrize("engine", ["spark", "local"])
def test_where_every_build_fails_nothing_is_published(spark, graph, branch, engine):
    if branch != "main":
        graph.branches.create(branch)  # no table has a fork yet
    tables = {"node:Doc": DOCS, "edge:Cites": CITES}
    back = [hide(table_of(graph, key)) for key in tables]
    head, commits = graph.snapshot(branch=branch), len(graph.commits.list(branch=branch))
    report = graph.ensure_indices(branch=branch, engine=engine)
    assert (report.built, report.commit) == ([], None)
    wanted = {(key, name) for key, names in tables.items() for name in names}
    assert {(key, name) for key, name, _ in report.failed} == wanted
    assert all(why for _, _, why in report.failed)
    assert graph.snapshot(branch=branch) == head
    assert len(graph.commits.list(branch=branch)) == commits
    assert workspace_of(graph).store.list("__recovery") == []
    for bring in back:
        bring()
    report = graph.ensure_indices(branch=branch, engine=engine)
    assert (report.failed, report.commit.operation) == ([], "ensure_indices")
    check_whole(table_of(graph, branch=branch), DOCS)


@pytest.mark.parametrize("moment", ["after_table_commit", "after_phase_b_before_phase_c"])
def test_an_interrupted_build_is_recovered(spark, graph, moment):
    before = answers(graph)
    with (
        failpoints.arm(f"ensure_indices.{moment}", RuntimeError("stop"), times=1),
        pytest.raises(RuntimeError),
    ):
        graph.ensure_indices(engine="spark")
    with og.open(graph.uri) as reopened:
        reopened.ensure_indices(engine="spark")
        check_whole(table_of(reopened), DOCS)
        assert answers(reopened) == before


def test_a_load_on_spark_has_executors_build_its_indexes(spark, tmp_path, monkeypatch, load_with):
    load_with(SparkSizes(indexed_rows=1))
    monkeypatch.setenv("OMNIGRAPH_INDEX_MIN_ROWS", "100000")
    with og.init(tmp_path / "g", SCHEMA) as graph:
        fill(graph, random.Random(6), parts=1)
        monkeypatch.setenv("OMNIGRAPH_INDEX_MIN_ROWS", "1")
        rng = random.Random(7)
        result = graph.load([doc(rng, 500 + n) for n in range(60)], mode="append", engine="spark")
        assert (result.engine, len(result.indexes_built)) == ("spark", len(DOCS))
        assert check_whole(table_of(graph), DOCS)["id"] == 2


# ------------------------------------------------------------------ the choice of an engine


def test_auto_takes_spark_for_large_tables_only(spark, graph, monkeypatch):
    monkeypatch.setattr(executors, "LARGE_TABLE_ROWS", PARTS * DOCS_IN_PART + 1)
    assert graph.snapshot().tables["edge:Cites"].row_count > PARTS * DOCS_IN_PART
    assert graph.ensure_indices().engine == "spark"
    # The documents were built here, in one part.
    assert set(check_whole(table_of(graph), DOCS).values()) == {1}
    assert set(check_whole(table_of(graph, "edge:Cites"), CITES).values()) == {2}


def test_local_is_local_and_auto_leaves_small_tables_here(spark, graph):
    graph.branches.create("other")
    assert graph.ensure_indices().engine == "local"
    assert graph.ensure_indices(branch="other", engine="local").engine == "local"


def test_an_unknown_engine_is_refused(graph):
    with pytest.raises(BadRequest, match="duckdb"):
        graph.ensure_indices(engine="duckdb")


# ------------------------------------------------------------------ compaction


def rows_of(graph, branch):
    """All rows; edges by id, because a compaction moves rows within their table."""
    plain = read_back(graph, branch)
    return plain.nodes, {
        name: sorted(edges, key=itemgetter(0)) for name, edges in plain.edges.items()
    }


@pytest.mark.sampled(2)
# Of the three fragments of main, the two that the same part of the vector index covers; of a branch
# that has as many again, its own, which one part covers. Edges have no vector.
@pytest.mark.parametrize(
    ("branch", "other", "removed", "left"), [("main", "dev", 2, 2), ("dev", "main", PARTS, 4)]
)
@pytest.mark.parametrize("engine", ["spark", "local"])
def test_compaction_keeps_rows_ids_indexes_and_answers(
    spark, graph, branch, other, removed, left, engine
):
    fill_branch(graph, random.Random(8))
    graph.ensure_indices(branch=branch, engine="spark")
    gone = "d0130" if branch == "main" else "d1130"
    graph.mutate("query q($r: String) { delete Doc where ref = $r }", params={"r": gone},
                 branch=branch)  # fmt: skip
    before, content = answers(graph, branch), rows_of(graph, branch)
    ids = row_ids(table_of(graph, branch=branch))
    untouched = graph.snapshot(branch=other).tables
    report = graph.optimize(branch, engine)
    assert (report.engine, merged(report)) == (
        engine,
        {"node:Doc": (removed, 1), "edge:Cites": (PARTS, 1)},
    )
    assert report.commit.operation == "optimize"
    table = table_of(graph, branch=branch)
    assert [fragment.num_deletions for fragment in table.fragments()] == [0] * left
    assert row_ids(table) == ids
    parts = check_whole(table, DOCS)
    assert (parts["id"], parts["year"], parts["body"]) == (1, 1, 1)
    check_whole(table_of(graph, "edge:Cites", branch), CITES)
    assert answers(graph, branch) == before
    assert rows_of(graph, branch) == content
    assert graph.snapshot(branch=other).tables == untouched
    assert graph.optimize(branch, engine).commit is None


def test_what_executors_build_for_optimize_leaves_nothing_to_do(spark, graph):
    before = answers(graph)
    assert merged(graph.optimize(engine="spark"))["node:Doc"] == (PARTS, 1)
    parts = check_whole(table_of(graph), DOCS)
    assert parts == dict.fromkeys(DOCS, 1)
    assert answers(graph) == before
    assert graph.optimize(engine="spark").commit is None


def test_executors_leave_a_branch_without_fragments_of_its_own_alone(spark, graph):
    graph.branches.create("dev")
    graph.ensure_indices(branch="dev", engine="spark")
    fragments = table_of(graph, branch="dev").fragments()
    # What executors built in parts is made one; that is all.
    report = graph.optimize("dev", "spark")
    assert (report.engine, merged(report)) == ("local", {"node:Doc": (0, 0), "edge:Cites": (0, 0)})
    assert table_of(graph, branch="dev").fragments() == fragments
    assert graph.optimize("dev", "spark").commit is None


def test_a_failing_compaction_leaves_its_table_as_it_was(spark, graph, hidden_file):
    before, ids = graph.snapshot().tables, row_ids(table_of(graph, "edge:Cites"))
    report = graph.optimize(engine="spark")
    assert [row.table_key for row in report.failed] == ["node:Doc"]
    assert {row.table_key for row in report if row.committed} == {"edge:Cites"}
    assert row_ids(table_of(graph, "edge:Cites")) == ids
    head = graph.snapshot()
    assert graph.optimize(engine="spark").commit is None
    assert graph.snapshot() == head
    assert head.tables["node:Doc"] == before["node:Doc"]
    assert workspace_of(graph).store.list("__recovery") == []
    hidden_file()
    assert merged(graph.optimize(engine="spark"))["node:Doc"] == (PARTS, 1)


@pytest.mark.parametrize(("rows_per_part", "parts"), [(1, 3), (100, 3), (150, 2), (1000, 1)])
def test_an_index_has_no_part_for_few_rows(graph, monkeypatch, rows_per_part, parts):
    monkeypatch.setattr(maintenance_jobs, "ROWS_PER_PART", rows_per_part)
    wanted = [(column, IndexKind(DOCS[column])) for column in ("id", "body")]
    planned = list(maintenance_jobs.plan_parts(table_of(graph), wanted, cores=8))
    for column, _ in wanted:
        own = [part for part in planned if part.column == column]
        assert len(own) == parts
        assert [number for part in own for number in part.fragment_ids] == [0, 1, 2]
        assert sum(part.rows for part in own) == PARTS * DOCS_IN_PART
