"""The data source in a session of Spark Connect: the client is a process without any Java."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import omnigraph as og
from omnigraph.spark import register

CLIENT = """
import json, sys
from pyspark.sql import SparkSession
import omnigraph as og
from omnigraph.errors import BadRequest
from omnigraph.spark import register

graph, server = sys.argv[1:]
session = SparkSession.builder.remote(server).getOrCreate()
assert type(session).__module__.startswith("pyspark.sql.connect"), type(session)
if " " in sys.executable:  # where a server finds no source by itself, see the fixture spark
    register(session)
options = {"graph": graph, "type": "Person"}
people = session.createDataFrame([("ada", 36), ("alan", None)], "name string, age int")
people.write.format("omnigraph").options(**options).mode("append").save()
grown = session.read.format("omnigraph").options(**options, filter="age >= 30").load()
told = {"read": [row.asDict() for row in grown.collect()]}
try:
    people.write.format("omnigraph").options(**options).mode("append").save()
except Exception as error:
    told["refused"] = str(error).partition("JVM stacktrace")[0]
try:
    og.open(graph).load_nodes("Person", people, engine="spark")
except BadRequest as error:
    told["load"] = error.message
print(json.dumps(told))
"""


@pytest.mark.thorough
def test_the_source_is_read_and_written_and_loads_are_refused(spark, tmp_path):
    graph = og.init(tmp_path / "g", "node Person { name: String @key  age: I32? }")
    register(spark)
    service = getattr(spark._jvm, "org.apache.spark.sql.connect.service.SparkConnectService$")
    server = getattr(service, "MODULE$")
    server.start(spark._jsc.sc())
    try:
        address = f"sc://127.0.0.1:{server.localPort()}"
        command = [sys.executable, "-c", CLIENT, graph.uri, address]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    finally:
        server.server().shutdownNow()
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["read"] == [{"id": "ada", "name": "ada", "age": 36}]
    assert "already has the id 'ada'" in told["refused"]
    assert "File " not in told["refused"]
    assert "Traceback" not in told["refused"]
    assert "Spark Connect" in told["load"]
    assert "spark_master" in told["load"]
    found = graph.query("query q() { match { $p: Person } return { $p.name, $p.age } }").rows
    assert sorted(found, key=str) == [
        {"p.name": "ada", "p.age": 36},
        {"p.name": "alan", "p.age": None},
    ]
