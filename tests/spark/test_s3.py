"""Graphs and sources in S3 on Spark: loads, the data source, index builds."""

from __future__ import annotations

import io
import json
import random
from uuid import uuid4

import obstore
import pyarrow as pa
import pytest
from pyarrow import parquet

import omnigraph as og
from omnigraph.errors import BadRequest, ConstraintError
from omnigraph.pipeline.spark import maintenance_jobs
from omnigraph.spark import register
from omnigraph.storage.objects.stores import open_bucket
from omnigraph.storage.uris import Root
from tests.graphs import ages
from tests.pipeline.load_helpers import load_gathered
from tests.s3_server import BUCKET, S3Server
from tests.spark.document_helpers import (
    CITES,
    DOCS,
    answers,
    check_whole,
    fill,
    fill_branch,
    table_of,
)
from tests.spark.document_helpers import SCHEMA as DOCUMENTS
from tests.stored import read_back

SCHEMA = """
node Person { name: String @key  age: I32? @index @range(age, 0..150) }
edge Knows: Person -> Person
"""


def reach(server, patch):
    for name, value in server.environment().items():
        patch.setenv(name, value)
    return f"s3://{BUCKET}/{uuid4().hex}"


@pytest.fixture(scope="module")
def other_server():
    """Another S3 than the one that the session's workers would find by themselves."""
    server = S3Server().start()
    yield server
    server.stop()


@pytest.fixture
def elsewhere(other_server, monkeypatch):
    """An address that only this process has the way to."""
    return reach(other_server, monkeypatch)


def put(address, name, data):
    obstore.put(
        open_bucket(Root("s3", BUCKET, "")),
        f"{address.removeprefix(f's3://{BUCKET}/')}/{name}",
        data,
    )


def person(name, **data):
    return json.dumps({"type": "Person", "data": {"name": name, **data}})


def test_files_in_s3_are_loaded_into_a_graph_in_s3(spark, elsewhere):
    knows = [json.dumps({"edge": "Knows", "from": f"p{n}", "to": "q0"}) for n in range(3)]
    put(elsewhere, "in/a.jsonl", "\n".join(person(f"p{n}", age=n) for n in range(100)).encode())
    put(elsewhere, "in/b.jsonl", "\n".join(knows).encode())
    sink = io.BytesIO()
    rows = pa.table({"name": [f"q{n}" for n in range(9)], "age": range(9)})
    parquet.write_table(rows, sink, row_group_size=4)
    put(elsewhere, "people.parquet", sink.getvalue())

    def gather(inputs):
        inputs.json(f"{elsewhere}/in")
        inputs.nodes("Person", f"{elsewhere}/people.parquet")

    with og.init(f"{elsewhere}/g", SCHEMA) as graph:
        result = load_gathered(graph, gather, mode="append", spark=spark)
        assert (result.engine, result.total_rows) == ("spark", 112)
        expected = {f"p{n}": n for n in range(100)} | {f"q{n}": n for n in range(9)}
        assert ages(graph) == expected
        assert len(read_back(graph).edges["Knows"]) == 3

        put(elsewhere, "c.jsonl", f"{person('p1', age=99)}\n{person('new', age=1)}\n".encode())
        graph.load(f"{elsewhere}/c.jsonl", mode="merge", spark=spark)
        expected |= {"p1": 99, "new": 1}
        assert ages(graph) == expected
        graph.load(
            f"{elsewhere}/c.jsonl", mode="merge", spark=spark, branch="side", from_branch="main"
        )
        assert ages(graph, "side") == expected

        head = graph.snapshot()
        put(elsewhere, "bad.jsonl", f"{person('x')}\n{person('y', age=200)}\n".encode())
        with pytest.raises(ConstraintError, match=rf"{elsewhere}/bad\.jsonl, line 2: "):
            graph.load(f"{elsewhere}/bad.jsonl", spark=spark)
        with pytest.raises(BadRequest, match="nothing"):
            graph.load(f"{elsewhere}/nothing.jsonl", spark=spark)
        assert graph.snapshot() == head
    with og.open(f"{elsewhere}/g") as graph:
        assert ages(graph) == expected


@pytest.mark.thorough
def test_executors_build_indexes_and_compact_in_s3(spark, elsewhere, monkeypatch):
    monkeypatch.setattr(maintenance_jobs, "ROWS_PER_PART", 1)
    with og.init(f"{elsewhere}/g", DOCUMENTS) as graph:
        fill(graph, random.Random(6), parts=2)
        before = answers(graph)
        report = graph.ensure_indices(engine="spark")
        assert (report.engine, report.failed) == ("spark", [])
        check_whole(table_of(graph), DOCS)
        check_whole(table_of(graph, "edge:Cites"), CITES)
        assert answers(graph) == before
        graph.load([{"type": "Doc", "data": {"ref": "late"}}])
        assert graph.optimize(engine="spark").failed == ()
        assert answers(graph) == before
        fill_branch(graph, random.Random(8), parts=2)
        before = answers(graph, "dev")
        optimized = graph.optimize("dev", "spark")
        assert optimized.failed == ()
        assert {row.table_key: row.fragments_removed for row in optimized}["node:Doc"] == 2
        check_whole(table_of(graph, branch="dev"), DOCS)
        assert answers(graph, "dev") == before


@pytest.mark.thorough
def test_registering_the_data_source_hands_over_the_way_to_s3(spark, elsewhere):
    register(spark)
    og.init(f"{elsewhere}/g", SCHEMA).close()
    options = {"graph": f"{elsewhere}/g", "type": "Person"}

    def write(rows, mode="append", **more):
        frame = spark.createDataFrame(rows, "name string, age int").coalesce(2)
        frame.write.format("omnigraph").options(**options, **more).mode(mode).save()

    def read(**more):
        rows = spark.read.format("omnigraph").options(**options, **more).load().collect()
        return {row.name: row.age for row in rows}

    write([(f"p{n}", n) for n in range(20)])
    assert read() == {f"p{n}": n for n in range(20)}
    write([("p1", 99), ("new", 1)], merge="true")
    expected = {f"p{n}": n for n in range(20)} | {"p1": 99, "new": 1}
    assert read() == expected
    assert read(filter="age > 50") == {"p1": 99}
    with og.open(f"{elsewhere}/g") as graph:
        assert ages(graph) == expected
        graph.branches.create("side")
    write([("side", 5)], branch="side")
    assert read(branch="side") == expected | {"side": 5}
    assert read() == expected
    write([("only", 1)], mode="overwrite")
    assert read() == {"only": 1}


def test_options_of_the_data_source_say_how_s3_is_reached(spark, other_server, monkeypatch, capsys):
    """Nothing leads there but the options, and plans of Spark show no secret of theirs."""
    for name in other_server.environment():
        monkeypatch.delenv(name, raising=False)
    register(spark)
    store = {
        "endpoint": other_server.endpoint,
        "region": "us-east-1",
        "access_key_id": "a-key",
        "secret_access_key": "hidden-secret",
        "session_token": "hidden-token",
        "allow_http": "true",
    }
    place = f"s3a://{BUCKET}/{uuid4().hex}"
    og.init(f"{place}/g", SCHEMA, storage_options=store).close()
    options = {f"s3.{name}": value for name, value in store.items()}
    options |= {"graph": f"{place}/g", "type": "Person"}
    frame = spark.createDataFrame([("a", 1), ("old", 200)], "name string, age int").coalesce(1)
    skipping = {"merge": "true", "on_bad": "skip", "rejects": f"{place}/bad.jsonl"}
    frame.write.format("omnigraph").options(**options, **skipping).mode("append").save()
    found = spark.read.format("omnigraph").options(**options).load()
    assert [(row.name, row.age) for row in found.collect()] == [("a", 1)]
    with og.open(f"{place}/g", storage_options=store) as graph:
        # What a load reads and where it runs: the handle's options reach the executors, too.
        result = graph.load(f"{place}/bad.jsonl", spark=spark, on_bad="skip")
        assert (result.engine, result.total_rows, result.skipped) == ("spark", 0, 1)
        graph.load([{"type": "Person", "data": {"name": "b"}}], spark=spark)
        assert ages(graph) == {"a": 1, "b": None}
    found.explain("extended")
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW people USING omnigraph OPTIONS ("
        + ", ".join(f"`{name}` '{value}'" for name, value in options.items())
        + ")"
    )
    assert spark.sql("SELECT count(*) AS n FROM people").collect()[0].n == 2
    spark.sql("EXPLAIN EXTENDED SELECT * FROM people").show(truncate=False)
    spark.catalog.dropTempView("people")
    shown = capsys.readouterr().out
    assert "omnigraph" in shown
    assert "hidden" not in shown
    with pytest.raises(Exception, match=r"option `s3\.regoin`; did you mean `region`") as caught:
        spark.read.format("omnigraph").options(**options, **{"s3.regoin": "x"}).load()
    assert "hidden" not in str(caught.value)
