"""Frames as they come: odd names and types of columns, loaded on Spark and written by `df.write`."""

from __future__ import annotations

import json

import pytest

import omnigraph as og
from tests.graphs import graph_of
from tests.stored import read_back

SCHEMA = "node Item { code: String @key  size: I64?  tags: [String]? }"


graph = graph_of(SCHEMA)


def load(graph, frame, columns=None, **options):
    graph.load_nodes("Item", frame, mode="append", engine="spark", columns=columns, **options)


def write(graph, frame, columns=None, **options):
    if columns is not None:
        options["columns"] = json.dumps(columns)
    target = {"graph": graph.uri, "type": "Item"}
    frame.write.format("omnigraph").options(**target, **options).mode("append").save()


WAYS = pytest.mark.parametrize("store", [load, write])


@WAYS
def test_columns_may_have_any_name(spark, graph, store):
    """PySpark looks columns of a frame up by name when it hands them to Python."""
    names = ["Code.no", "a`b", "SIZE", "size", "0part", "", "ü x"]
    values = ["x1", 1, 2, 3, 4, 5, 6]
    frame = spark.createDataFrame([values], ["c1", "c2", "c3", "c4", "c5", "c6", "c7"]).toDF(*names)
    store(graph, frame, columns={"Code.no": "code"}, ignore_extra=True)
    assert read_back(graph).nodes["Item"] == {"x1": {"code": "x1", "size": 3, "tags": None}}


@WAYS
def test_a_column_with_a_backtick_is_renamed_like_any_other(spark, graph, store):
    frame = spark.createDataFrame([("x1", 7)], ["code", "c"]).toDF("code", "a`b")
    store(graph, frame, columns={"a`b": "size"})
    assert read_back(graph).nodes["Item"]["x1"]["size"] == 7


@WAYS
def test_an_empty_list_without_a_type_is_an_empty_list(spark, graph, store):
    store(graph, spark.sql("SELECT 'x1' AS code, array() AS tags"))
    assert read_back(graph).nodes["Item"]["x1"]["tags"] == []


@WAYS
@pytest.mark.parametrize("extra", [False, True])
def test_a_type_that_python_cannot_be_given_is_refused_by_name(spark, graph, store, extra):
    """Arrow's Python knows no months: the batch would fail with a bare `KeyError: 21`."""
    before = graph.snapshot().commit
    column = "more" if extra else "size"
    frame = spark.sql(f"SELECT 'x1' AS code, INTERVAL '1' MONTH AS {column}")
    with pytest.raises(
        Exception, match=f'"{column}" .* is of the type interval month, .*; cast it'
    ) as failure:
        store(graph, frame, ignore_extra=extra)
    assert "Traceback" not in str(failure.value)
    assert graph.snapshot().commit == before


@WAYS
def test_a_version_that_cleanup_removes_meanwhile_is_a_lost_race(spark, graph, store):
    graph.load([{"type": "Item", "data": {"code": "a"}}])
    uri = graph.uri

    def overtake(batches):
        with og.open(uri) as own:
            own.load([{"type": "Item", "data": {"code": "b"}}])
            own.cleanup(keep_versions=1)
        yield from batches

    frame = spark.sql("SELECT 'x1' AS code").mapInArrow(overtake, "code string")
    with pytest.raises(
        Exception, match=r"of node:Item, .* removed meanwhile, .*; run the write again"
    ):
        store(graph, frame)
    assert set(read_back(graph).nodes["Item"]) == {"a", "b"}
    store(graph, spark.sql("SELECT 'x1' AS code"))
    assert set(read_back(graph).nodes["Item"]) == {"a", "b", "x1"}
