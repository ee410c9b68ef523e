"""A real cluster: sessions, the data source, maintenance jobs and loads run on its executors; one may die.

One driver runs all of it, so its session also serves one job after another.
"""

from __future__ import annotations

import json
import os
import random
import signal

import pytest

import omnigraph as og
from tests.spark.document_helpers import (
    CITES,
    DOCS,
    PARTS,
    SCHEMA,
    answers,
    check_whole,
    fill,
    table_of,
)
from tests.spark.progress_helpers import fill as fill_for_progress


@pytest.fixture(scope="module")
def driver(cluster):
    with cluster.driver() as driver:
        yield driver


# Each task leaves a mark and holds on, so both executors have taken work when one is killed.
OUTLIVE = """
import sys
from omnigraph.runner.session import spark_session

marks = sys.argv[1]

def held(batches):
    import os, pathlib, time
    pathlib.Path(marks, f"task-{os.getpid()}").touch()
    while not pathlib.Path(marks, "go").exists():
        time.sleep(0.05)
    yield from batches

session = spark_session()
rows = session.range(0, 1000, 1, 4).mapInArrow(held, "id long").collect()
print(session.sparkContext.master, len(rows), sum(row.id for row in rows))
"""


def test_a_job_spreads_over_executors_and_survives_the_death_of_one(cluster, driver, tmp_path):
    driver.start(OUTLIVE, tmp_path)
    driver.wait_until(lambda: len(list(tmp_path.glob("task-*"))) >= 2)
    executors = cluster.executor_pids()
    assert len(executors) == 2
    os.kill(executors[0], signal.SIGKILL)
    (tmp_path / "go").touch()
    assert driver.answer().split() == [cluster.master, "1000", str(sum(range(1000)))]
    assert driver.complaints() == ""


DATA_SOURCE = """
import sys
from omnigraph.runner.session import spark_session

session = spark_session()
if " " in sys.executable:
    from omnigraph.spark import register
    register(session)

def failing_once(batches):
    from pyspark import TaskContext
    task = TaskContext.get()
    for batch in batches:
        yield batch
        if task.partitionId() == 1 and task.attemptNumber() == 0:
            raise ConnectionError("lost once")

rows = session.range(0, 3000, 1, 3).selectExpr("concat('p', id) AS name", "cast(id % 99 AS int) AS age")
rows = rows.mapInArrow(failing_once, "name string, age int")
rows.write.format("omnigraph").options(graph=sys.argv[1], type="Person").mode("append").save()
frame = session.read.format("omnigraph").options(
    graph=sys.argv[1], type="Person", columns="name", filter="age < 9", partition_rows="1000"
).load()
found = frame.collect()
print(frame.rdd.getNumPartitions(), len(found), len(set(found)))
"""


def test_the_data_source_writes_and_reads_and_a_repeated_task_doubles_nothing(driver, tmp_path):
    with og.init(tmp_path / "g", "node Person { name: String @key  age: I32? }") as graph:
        printed = driver.run(DATA_SOURCE, graph.uri)
        matching = sum(1 for number in range(3000) if number % 99 < 9)
        assert [int(word) for word in printed.split()] == [3, matching, matching]
        assert graph.snapshot().tables["node:Person"].row_count == 3000
        assert len(graph.commits.list()) == 2


# The first task hands its rows on to the sink and then takes its executor along.
STREAM = """
import sys
from pathlib import Path
from omnigraph.runner.session import spark_session
from omnigraph.spark import register

uri, place = sys.argv[1], Path(sys.argv[2])

def dying(batches):
    import os, signal
    yield from batches
    try:
        (place / "died").touch(exist_ok=False)
    except FileExistsError:
        return
    daemon = Path(f"/proc/{os.getppid()}/status").read_text()
    executor = next(line.split()[1] for line in daemon.splitlines() if line.startswith("PPid:"))
    os.kill(int(executor), signal.SIGKILL)

session = spark_session()
register(session)
columns = "name string, age int"
rows = session.readStream.schema(columns).json(str(place / "in")).mapInArrow(dying, columns)
sink = rows.writeStream.format("omnigraph").options(graph=uri, type="Person", app_id="s")
query = sink.option("checkpointLocation", str(place / "cp")).trigger(availableNow=True).start()
query.awaitTermination()
print(query.lastProgress["numInputRows"])
"""


def test_a_stream_survives_an_executor_that_dies_while_its_rows_are_written(driver, tmp_path):
    (tmp_path / "in").mkdir()
    lines = (json.dumps({"name": f"p{number}", "age": number % 90}) for number in range(500))
    (tmp_path / "in" / "0.json").write_text("\n".join(lines))
    with og.init(tmp_path / "g", "node Person { name: String @key  age: I32? }") as graph:
        assert int(driver.run(STREAM, graph.uri, tmp_path)) == 500
        assert (tmp_path / "died").exists()
        assert graph.snapshot().tables["node:Person"].row_count == 500
        assert [one.facts.get("stream", {}).get("batch_id") for one in graph.commits.list()] == [
            0,
            None,
        ]


JOBS = """
import json, sys
import omnigraph as og
from omnigraph.pipeline.spark import maintenance_jobs

maintenance_jobs.ROWS_PER_PART = 1
with og.open(sys.argv[1]) as graph:
    report = graph.ensure_indices(engine="spark")
    merged = {row.table_key: row.fragments_removed for row in graph.optimize(engine="spark")}
    print(json.dumps([report.to_json(), merged]))
"""


def test_executors_build_indexes_and_compact(driver, tmp_path):
    with og.init(tmp_path / "g", SCHEMA) as graph:
        fill(graph, random.Random(6))
        before = answers(graph)
        report, removed = json.loads(driver.run(JOBS, graph.uri))
        assert (report["engine"], report["failed"]) == ("spark", [])
        assert {name for key, name in report["built"] if key == "node:Doc"} == set(DOCS)
        assert removed == {"node:Doc": 2, "edge:Cites": PARTS}
        check_whole(table_of(graph), DOCS)
        check_whole(table_of(graph, "edge:Cites"), CITES)
        assert answers(graph) == before


LOAD = """
import json, pathlib, sys
import omnigraph as og
from omnigraph.runner.session import spark_session
from tests.pipeline.load_helpers import load_gathered
from tests.spark.progress_helpers import waiting_frame

place = pathlib.Path(sys.argv[1])
mark, seen = place / "seen", []
session = spark_session()

def progress(now):
    seen.append([now.phase, now.records, now.staged])
    if now.records == 300:
        mark.touch()

def gather(inputs):
    inputs.json(str(place / "a.jsonl"))
    inputs.nodes("Doc", waiting_frame(session, place / "b.jsonl", mark))

with og.open(str(place / "g")) as graph:
    load_gathered(graph, gather, spark=session, progress=progress)
print(json.dumps(seen))
"""


def test_a_load_counts_its_records_while_tasks_still_read(driver, tmp_path):
    fill_for_progress(tmp_path)
    seen = json.loads(driver.run(LOAD, tmp_path))
    assert [records for phase, records, _ in seen if phase == "reading"] == [0, 300, 500]
    assert seen[-1] == ["writing", 500, 500]
