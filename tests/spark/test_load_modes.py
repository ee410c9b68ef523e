"""Patches and skipped records on Spark: what plain dicts give, whatever the parts of the input."""

from __future__ import annotations

import json
import random

import pytest

import omnigraph as og
import omnigraph.spark
from omnigraph.pipeline.spark.sizes import SparkSizes
from omnigraph.pipeline.spark.spark_engine import SparkEngine
from tests.pipeline.plain_load import SCHEMA, START, check_load

RANDOM = random.Random(5)
CHOICES = {
    "call": [None, "x", "y", "z"],
    "rank": ["mate", "cook", "mate", "king"],
    "age": [None, 4, 12],
    "visits": [7, None, "wrong"],
    "day": [None, 2],
    "note": [None, "o"],
}


def record():
    kind = RANDOM.choice(["Ship", "Ship", "Port", "Calls", "Calls", "Calls", "Moored"])

    def some(*names):
        return {name: RANDOM.choice(CHOICES[name]) for name in names if RANDOM.random() < 0.6}

    if kind == "Port":
        return {"type": kind, "data": {"code": RANDOM.choice("pqr")}}
    if kind == "Ship":
        data = {"imo": RANDOM.choice("abcd"), **some("call", "rank", "age")}
        return {"type": kind, "data": data}
    data = some("visits", "day") if kind == "Calls" else some("note")
    if kind == "Moored" or RANDOM.random() < 0.5:
        data["id"] = RANDOM.choice(["c1", "c2", "c3", "c4"] if kind == "Calls" else ["m1", "m2"])
    ends = {"from": RANDOM.choice("aabbcde"), "to": RANDOM.choice("ppqqrs")}
    kept = {end: node for end, node in ends.items() if RANDOM.random() < 0.9}
    return {"edge": kind, **kept, "data": data}


@pytest.mark.parametrize("mode", ["patch", "merge", "append"])
def test_what_is_stored_and_left_out(tmp_path, spark, monkeypatch, mode):
    """The rows stay with the executors: no size is small enough to fetch them."""
    sizes = SparkSizes(fetched_rows=0, looked_up_ids=0, rows_per_task=5)
    monkeypatch.setattr(SparkEngine, "sizes", sizes)
    with og.init(tmp_path / "g", SCHEMA) as graph:
        graph.load(START)
        records = [record() for _ in range(30)]
        check_load(graph, records, mode, "skip", tmp_path, files=3, engine="spark", spark=spark)


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


def test_the_data_source(tmp_path, spark):
    og.spark.register(spark)
    with og.init(tmp_path / "g", SCHEMA) as graph:
        graph.load(START)
        rows = [("a", 5), ("b", None), ("x", 1)]
        frame = spark.createDataFrame(rows, "imo string, age int")
        write = frame.write.format("omnigraph").mode("append").option("graph", graph.uri)
        write = write.option("type", "Ship").option("patch", "true")
        with pytest.raises(Exception, match=r"Ship.rank \(.*a value is required"):
            write.save()
        write.option("on_bad", "skip").save()
        found = graph.query("query q() { match { $s: Ship } return { $s.imo, $s.rank, $s.age } }")
    ages = {row["s.imo"]: (row["s.rank"], row["s.age"]) for row in found.rows}
    assert ages == {"a": ("mate", 5), "b": ("cook", None)}
