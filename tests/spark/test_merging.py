"""Merges on Spark: tasks write images in the pass that reads, and what becomes of them."""

from __future__ import annotations

from functools import partial

import pyarrow as pa
import pytest
from pyarrow import parquet

import omnigraph as og
from omnigraph import failpoints
from omnigraph.errors import ConstraintError
from omnigraph.pipeline.sources.splits import plan_splits
from omnigraph.pipeline.spark.spark_rows import SparkSizes
from tests.graphs import person
from tests.opened import table_of
from tests.pipeline.datasource_helpers import data_files, loose_files
from tests.stored import read_back

SCHEMA = """
node Person { name: String @key  age: I32?  mail: String? @unique }
edge Knows: Person -> Person { since: I32?  @unique(src, dst) }
"""


@pytest.fixture
def graph(tmp_path):
    with og.init(tmp_path / "g", SCHEMA) as graph:
        graph.load([person(f"p{n}", age=n) for n in range(20)], mode="append")
        yield graph


def ages(graph):
    return {name: row["age"] for name, row in read_back(graph).nodes["Person"].items()}


def places(graph):
    """Row id and version of creation of every person."""
    rows = table_of(graph, "node:Person").read(["id", "_row_created_at_version"], with_row_id=True)
    return {row.pop("id"): tuple(row.values()) for row in rows.to_pylist()}


@pytest.fixture
def jobs(spark):
    """A function that says how many jobs Spark ran since the last call."""
    seen = 0

    def count():
        nonlocal seen
        before, seen = seen, len(spark.sparkContext.statusTracker().getJobIdsForGroup("merges"))
        return seen - before

    spark.sparkContext.setJobGroup("merges", "merges")
    count()
    yield count
    spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)


def people(path, ages):
    columns = {"name": list(ages), "age": pa.array(ages.values(), pa.int32())}
    parquet.write_table(pa.table(columns), path)
    return str(path)


def test_a_merge_is_one_job_also_when_it_loses_a_race(graph, spark, tmp_path, jobs):
    """Other rows came meanwhile: the files of the tasks serve, and nothing is read again."""
    before = places(graph)
    file = people(tmp_path / "p.parquet", {"p3": 33, "new": 1, "p0": 30})

    def overtake(_):
        graph.load([person("p7", age=70), person("late", age=2)], engine="local")

    with failpoints.arm("load.before_locks", overtake, times=1):
        result = graph.load_nodes("Person", file, spark=spark)
    assert (result.engine, result.total_rows) == ("spark", 3)
    assert jobs() == 1
    expected = {f"p{n}": n for n in range(20)} | {"p3": 33, "p0": 30, "p7": 70}
    assert ages(graph) == expected | {"new": 1, "late": 2}
    assert {name: places(graph)[name] for name in before} == before
    assert loose_files(graph) == []

    def replace(_):
        """Make another row of one that the merge replaces."""
        graph.mutate('query q() { delete Person where name = "p3" }')
        graph.load([person("p3", age=0)], engine="local")

    with failpoints.arm("load.before_locks", replace, times=1):
        graph.load_nodes("Person", people(tmp_path / "q.parquet", {"p3": 5, "p1": 6}), spark=spark)
    assert (ages(graph)["p3"], ages(graph)["p1"]) == (5, 6)
    assert loose_files(graph) == []


@pytest.mark.sampled(1, every=())
@pytest.mark.parametrize("fetched_rows", [200_000, -1], ids=["asked here", "asked on executors"])
def test_records_of_several_tasks_that_mean_one_row(
    graph, spark, monkeypatch, fetched_rows, load_with
):
    """The last one counts; images with others are written again, by executors where they are many."""
    load_with(SparkSizes(fetched_rows=fetched_rows, here_rows=0))
    monkeypatch.setattr("omnigraph.pipeline.load_input.plan_splits", partial(plan_splits, size=120))
    before = places(graph)
    graph.load([edge("p1", "p2", 1)], engine="local")
    ((first, *_),) = read_back(graph).edges["Knows"]
    records = [person("p1", age=50), person("x", age=1), person("p2", age=51), person("x", age=2)]
    records += [edge("p1", "p2", 5), edge("p1", "x", 6), person("p1", age=52), edge("p1", "x", 7)]
    result = graph.load(records, spark=spark)
    assert result.tables == [
        {"table_key": "edge:Knows", "rows_loaded": 2},
        {"table_key": "node:Person", "rows_loaded": 3},
    ]
    expected = {f"p{n}": n for n in range(20)} | {"p1": 52, "p2": 51, "x": 2}
    assert ages(graph) == expected
    assert {name: places(graph)[name] for name in before} == before
    edges = {(src, dst): (row_id, row["since"]) for row_id, src, dst, row in known(graph)}
    assert edges["p1", "p2"] == (first, 5)
    assert edges["p1", "x"][1] == 7
    assert len(edges) == len(known(graph)) == 2
    assert loose_files(graph) == []


def edge(src, dst, since):
    return {"edge": "Knows", "from": src, "to": dst, "data": {"since": since}}


def known(graph):
    return read_back(graph).edges["Knows"]


def test_a_merge_that_breaks_a_rule_leaves_nothing(graph, spark, tmp_path):
    graph.load([person("p1", mail="m", age=1)], engine="local")
    before, files = ages(graph), data_files(graph)
    rows = pa.table({"name": ["p2", "y"], "mail": ["z", "m"]})
    parquet.write_table(rows, tmp_path / "bad.parquet")
    with pytest.raises(ConstraintError, match=r"row 2: @unique Person\.mail: m is held by both"):
        graph.load_nodes("Person", str(tmp_path / "bad.parquet"), spark=spark, mode="merge")
    with pytest.raises(ConstraintError, match="dst 'nobody' of edge Knows"):
        graph.load([edge("p1", "p2", 1), edge("p2", "nobody", 2)], spark=spark)
    assert (ages(graph), data_files(graph)) == (before, files)
