"""Patches and skipped records on Spark: what plain dicts give, whatever the parts of the input."""

from __future__ import annotations

import json

import pytest

import omnigraph as og
from omnigraph.pipeline.spark.spark_rows import SparkSizes
from tests.pipeline.plain_load import SCHEMA, START, check_load


def ship(imo, **data):
    return {"type": "Ship", "data": {"imo": imo, **data}}


def calls(data, **ends):
    return {"edge": "Calls", **ends, "data": data}


RECORDS = {
    "patch": [
        ship("a", age=4),
        ship("c", rank="mate", call="x"),
        calls({"id": "c1", "visits": None}),
        calls({"day": 9}, **{"from": "b", "to": "p"}),
        ship("a", age=12),
        ship("b", call="y", age="wrong"),
        calls({"visits": 8}, **{"from": "c", "to": "q"}),
        ship("a", rank="cook"),
    ],
    "append": [
        ship("c", rank="mate", call="y"),
        ship("d", rank="mate", call="y"),
        ship("a", rank="mate"),
        calls({"id": "c4"}, **{"from": "d", "to": "p"}),
        calls({"id": "c4"}, **{"from": "c", "to": "p"}),
        {"edge": "Moored", "from": "c", "to": "p", "data": {"id": "m2"}},
        {"edge": "Moored", "from": "c", "to": "q", "data": {"id": "m3"}},
    ],
}


@pytest.mark.parametrize("mode", ["patch", "append"])
def test_what_is_stored_and_left_out(tmp_path, spark, mode, load_with):
    """The records of a patch come together by their ids in several tasks."""
    load_with(SparkSizes(here_rows=-1, rows_per_task=3))
    options = {"engine": "spark", "spark": spark}
    with og.init(tmp_path / "g", SCHEMA) as graph:
        graph.load(START)
        check_load(graph, RECORDS[mode], mode, "skip", tmp_path, files=2, **options)


def test_frames_of_spark(tmp_path, spark):
    with og.init(tmp_path / "g", SCHEMA) as graph:
        graph.load(START)
        rows = [("a", 5), ("b", 6), ("nobody", 7), ("b", 77)]
        frame = spark.createDataFrame(rows, "imo string, age int").repartition(2, "imo")
        rejects = tmp_path / "rejects"
        options = {"mode": "patch", "on_bad": "skip", "engine": "spark", "rejects": rejects}
        result = graph.load_nodes("Ship", frame, **options)
        told = [json.loads(line) for line in rejects.read_text().splitlines()]
        found = graph.query("query q() { match { $s: Ship } return { $s.imo, $s.rank, $s.age } }")
    assert {entry["property"] for entry in told} == {"rank", "age"}
    assert {entry["record"]["imo"] for entry in told} == {"b", "nobody"}
    assert result.skipped == 2
    ages = {row["s.imo"]: (row["s.rank"], row["s.age"]) for row in found.rows}
    assert ages == {"a": ("mate", 5), "b": ("cook", 6)}
