"""A real cluster: sessions, the data source, maintenance jobs and loads run on its executors; one may die.

One driver runs all of it, so its session also serves one job after another. Its executors have no more
of the project than the wheel.
"""

from __future__ import annotations

import io
import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import obstore
import pyarrow as pa
import pytest
from pyarrow import parquet

import omnigraph as og
from omnigraph.storage.objects.stores import open_bucket
from omnigraph.storage.store_kinds.s3_options import S3Options
from omnigraph.storage.uris import Root
from tests.s3_server import BUCKET, S3Server
from tests.sampling import runs_all, seed
from tests.spark.cluster import command_line
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

ROOT = Path(__file__).parents[2]
SECRET = "hidden-secret"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory, built_wheel):
    """The wheel, under the name of a zip file, which is what Spark puts on executors' paths."""
    return shutil.copy(built_wheel, tmp_path_factory.mktemp("zip") / "omnigraph.zip")


@pytest.fixture(scope="module")
def executor_python(tmp_path_factory):
    """A Python with the libraries and these tests, and without `omnigraph`."""
    script = tmp_path_factory.mktemp("python") / "python"
    libraries = sysconfig.get_path("purelib")
    paths = f"{shlex.quote(libraries)}:{shlex.quote(str(ROOT))}"
    # Without `site` nothing reads the .pth file that leads to the sources.
    script.write_text(f'#!/bin/sh\nPYTHONPATH={paths} exec {shlex.quote(sys.executable)} -S "$@"\n')
    script.chmod(0o755)
    alone = [script, "-c", "import pyarrow, omnigraph.graph"]
    answer = subprocess.run(alone, cwd="/", check=False, capture_output=True, text=True)
    assert "No module named 'omnigraph" in answer.stderr
    return script


@pytest.fixture(scope="module")
def driver(cluster, wheel, executor_python):
    """A driver whose executors have `omnigraph` from the wheel alone."""
    with cluster.driver(submit_pyFiles=str(wheel), pyspark_python=str(executor_python)) as driver:
        yield driver


@pytest.fixture
def store():
    """An S3 that neither the driver's environment nor that of the executors leads to."""
    server = S3Server().start()
    yield {
        "endpoint": server.endpoint,
        "region": "us-east-1",
        "access_key_id": "key",
        "secret_access_key": SECRET,
        "allow_http": "true",
    }
    server.stop()


ABANDONED = """
import json, sys, time
from pathlib import Path
from tests.spark.cluster import standalone_cluster

with standalone_cluster(Path(sys.argv[1]), workers=1) as cluster:
    print(json.dumps([process.pid for process in cluster.processes]), flush=True)
    time.sleep(600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends processes with their parent")
@pytest.mark.skipif(
    not runs_all(), reason="two more Javas, for a promise of these tests; in `./dev faults --all`"
)
@pytest.mark.usefixtures("_spark_here")
def test_a_cluster_ends_with_the_process_that_started_it(tmp_path):
    command = [sys.executable, "-c", ABANDONED, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as owner:
        started = json.loads(owner.stdout.readline())
        assert [bool(command_line(pid)) for pid in started] == [True, True]
        owner.kill()
    deadline = time.monotonic() + 300
    while left := [pid for pid in started if command_line(pid)]:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


# Each task leaves a mark and holds on, so both executors have taken work when one is killed.
IN_S3 = """
import json, sys
import omnigraph as og
from omnigraph.runner.session import spark_session
from omnigraph.spark import register

place, store, marks = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]

def held(batches):
    import os, pathlib, time
    import omnigraph
    pathlib.Path(marks, f"task-{os.getpid()}").write_text(omnigraph.__file__)
    while not pathlib.Path(marks, "go").exists():
        time.sleep(0.05)
    yield from batches

session = spark_session()
register(session)
with og.open(f"{place}/g", storage_options=store) as graph:
    loaded = [
        graph.load(f"{place}/in", mode="append", engine="spark"),
        graph.load_nodes("Person", f"{place}/people.parquet", engine="spark"),
    ]
options = {f"s3.{name}": value for name, value in store.items()}
options |= {"graph": f"{place}/g", "type": "Person"}
rows = session.range(0, 400, 1, 4).selectExpr("concat('p', id) AS name", "cast(id + 1 AS int) AS age")
rows = rows.mapInArrow(held, "name string, age int")
rows.write.format("omnigraph").options(**options, merge="true").mode("append").save()
frame = session.read.format("omnigraph").options(**options, columns="name, age", filter="age > 0")
found = {row.name: row.age for row in frame.load().collect()}
print(json.dumps([session.sparkContext.master, [one.total_rows for one in loaded], found]))
"""


@pytest.mark.thorough
def test_a_graph_in_s3_and_the_death_of_an_executor(cluster, driver, store, tmp_path):
    """Loads, a merge, a write and a read; whoever works on them knows the store from its task alone."""
    place = f"s3a://{BUCKET}/here"
    bucket = open_bucket(Root("s3", BUCKET, "here", S3Options.parse(store)))
    people = [{"type": "Person", "data": {"name": f"p{n}", "age": 0}} for n in range(300)]
    knows = [{"edge": "Knows", "from": f"p{n}", "to": "p0"} for n in range(1, 50)]
    for name, records in {"people.jsonl": people, "knows.jsonl": knows}.items():
        text = "".join(json.dumps(record) + "\n" for record in records)
        obstore.put(bucket, f"in/{name}", text.encode())
    sink = io.BytesIO()
    parquet.write_table(pa.table({"name": ["p0", "q"], "age": [99, 1]}), sink)
    obstore.put(bucket, "people.parquet", sink.getvalue())
    og.init(
        f"{place}/g",
        "node Person { name: String @key  age: I32? }  edge Knows: Person -> Person",
        storage_options=store,
    ).close()

    driver.start(IN_S3, place, json.dumps(store), tmp_path)
    driver.wait_until(lambda: len(list(tmp_path.glob("task-*"))) >= 2)
    executors = cluster.executor_pids()
    assert len(executors) == 2
    os.kill(executors[0], signal.SIGKILL)
    (tmp_path / "go").touch()
    master, loaded, found = json.loads(driver.answer())
    assert (master, loaded) == (cluster.master, [349, 2])
    expected = {f"p{n}": n + 1 for n in range(400)} | {"q": 1}
    assert found == expected
    assert {
        mark.read_text().rpartition("/omnigraph/")[0][-4:] for mark in tmp_path.glob("task-*")
    } == {".zip"}
    with og.open(f"{place}/g", storage_options=store) as graph:
        snapshot = graph.snapshot()
        counts = {key: table.row_count for key, table in snapshot.tables.items()}
        assert counts == {"node:Person": 401, "edge:Knows": 49}
        assert len(graph.commits.list()) == 4
    assert driver.complaints() == ""
    logs = [*cluster.directory.rglob("*.log"), *cluster.directory.rglob("std*")]
    assert logs
    assert not any(SECRET in log.read_text("utf-8", "replace") for log in logs)


def test_the_program_to_submit(driver, tmp_path):
    parquet.write_table(pa.table({"name": ["a", "b"], "age": [1, 200]}), tmp_path / "p.parquet")
    parquet.write_table(pa.table({"who": ["a"], "whom": ["a"]}), tmp_path / "k.parquet")
    schema = "node Person { name: String @key  age: I32? @range(age, 0..150) }  edge Knows: Person -> Person"
    program = (ROOT / "deploy" / "load.py").read_text("utf-8")
    with og.init(tmp_path / "g", schema) as graph:
        rejects = tmp_path / "bad.jsonl"
        arguments = (graph.uri, "Person", tmp_path / "p.parquet", "--rejects", rejects)
        result = json.loads(driver.run(program, *arguments))
        assert (result["engine"], result["skipped"]) == ("spark", 1)
        assert json.loads(rejects.read_text())["record"]["name"] == "b"
        ends = ("--from-col", "who", "--to-col", "whom")
        driver.run(program, graph.uri, "Knows", tmp_path / "k.parquet", *ends, "--branch", "main")
        with pytest.raises(AssertionError, match=r"SystemExit: .*there is no graph at"):
            driver.run(program, tmp_path / "none", "Person", tmp_path / "p.parquet")
        tables = graph.snapshot().tables
        assert {key: table.row_count for key, table in tables.items()} == {
            "node:Person": 1,
            "edge:Knows": 1,
        }


DATA_SOURCE = """
import sys
from omnigraph.runner.session import spark_session

from omnigraph.spark import register

session = spark_session()
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


@pytest.mark.thorough
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


QUERIES = """
import json, os, signal, sys
from pathlib import Path
import omnigraph as og
from omnigraph.runner.session import spark_session
from omnigraph.spark.queries import relations, rows

uri, place, texts = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])
rows.SMALL_ROWS = relations.SMALL_ROWS = 0  # all tables are shuffled, none is sent to every executor
session = spark_session()
session.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
session.conf.set("spark.sql.adaptive.autoBroadcastJoinThreshold", "-1")
session.conf.set("spark.sql.shuffle.partitions", "4")

def dying(batches):
    for batch in batches:
        yield batch
    try:
        (place / "died").touch(exist_ok=False)
    except FileExistsError:
        return
    daemon = Path(f"/proc/{os.getppid()}/status").read_text()
    executor = next(line.split()[1] for line in daemon.splitlines() if line.startswith("PPid:"))
    os.kill(int(executor), signal.SIGKILL)

told = []
with og.open(uri, "r") as graph:
    for text in texts:
        frame = graph.frame(text)
        # What dies has read a part of the join, and has parts of it that others shall read.
        told.append(sorted(map(list, frame.mapInArrow(dying, frame.schema).collect())))
print(json.dumps(told))
"""


def test_queries_survive_an_executor_that_dies_after_a_join(driver, tmp_path):
    texts = [
        "match { $a: Person  $a knows $b  $b knows $c } return { $a.name as a, count(*) as n }",
        "match { $a: Person  $a knows{1,2} $b } return { $a.name as a, $b.name as b }",
    ]
    with og.init(
        tmp_path / "g", "node Person { name: String @key } edge Knows: Person -> Person"
    ) as graph:
        graph.load(
            [
                *({"type": "Person", "data": {"name": f"p{at}"}} for at in range(60)),
                *(
                    {"edge": "Knows", "from": f"p{at}", "to": f"p{at * step % 60}"}
                    for at in range(60)
                    for step in (3, 7, 7)
                ),
            ]
        )
        told = json.loads(driver.run(QUERIES, graph.uri, tmp_path, json.dumps(texts)))
        assert (tmp_path / "died").exists()
        for text, rows in zip(texts, told, strict=True):
            assert rows == sorted(list(row.values()) for row in graph.query(text).rows)


WAYS = """
import json, sys
from pathlib import Path
from omnigraph.runner.session import spark_session
from omnigraph.spark import register
from tests.spark.ways import compare_all

session = spark_session()
register(session)
print(json.dumps(compare_all(session, Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))))
"""


def test_random_loads_and_writes_do_on_a_cluster_what_a_load_does_here(driver, tmp_path):
    for part in range(60 if runs_all() else 1):
        place = tmp_path / str(part)
        place.mkdir()
        assert json.loads(driver.run(WAYS, place, f"{seed()} {part}", 1)) == []


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
