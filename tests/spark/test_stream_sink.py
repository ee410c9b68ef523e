"""Streams of Spark into a graph: real queries, real checkpoints, a driver that is killed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.spark import register
from tests.spark.streaming import arrive, frame, kill, refusal, run, sink, stored, wait_until

SCHEMA = "node Person { name: String @key  age: I32?  @range(age, 0..150) }"


@pytest.fixture
def place(tmp_path):
    """A graph, a directory whose files are the stream, and a checkpoint."""
    with og.init(tmp_path / "g", SCHEMA):
        pass
    (tmp_path / "in").mkdir()
    return tmp_path


def test_a_stream_of_files_becomes_one_commit_for_each_batch(spark, place):
    register(spark)
    arrive(place, 0, ada=1, bob=2)
    arrive(place, 1, cid=3)
    query_id = run(sink(frame(spark, place), place, app_id="files"))
    assert stored(place) == ({"ada": 1, "bob": 2, "cid": 3}, [0, 1])
    with og.open(place / "g") as graph:
        assert graph.commits.list()[0].facts["stream"] == {
            "app_id": "files",
            "batch_id": 1,
            "query_id": query_id,
            "table_key": "node:Person",
        }
    # Two queries go on from copies of one checkpoint, in one of which the answer to the last commit is
    # lost: Spark sends the batch again. Whoever comes second doubles nothing.
    shutil.copytree(place / "cp", place / "copy")
    for name in ("1", ".1.crc"):
        (place / "copy" / "commits" / name).unlink()
    arrive(place, 2, dan=4)
    for checkpoint in ("copy", "cp"):
        assert run(sink(frame(spark, place), place, checkpoint, app_id="files")) == query_id
    assert stored(place) == ({"ada": 1, "bob": 2, "cid": 3, "dan": 4}, [0, 1, 2])
    # A fresh checkpoint under the old name would lose its first batches.
    told = refusal(sink(frame(spark, place), place, "fresh", app_id="files"))
    assert "choose another app_id, or go on from the old checkpoint" in told
    assert query_id in told
    assert stored(place)[1] == [0, 1, 2]


def test_what_a_sink_refuses_is_said_in_one_sentence(spark, place):
    register(spark)
    arrive(place, 0, ada=200)
    told = refusal(sink(frame(spark, place), place, app_id="bad"))
    assert "partition 0, row 1: Person.age is 200, outside its @range 0..150" in told
    totals = frame(spark, place).groupBy("name").max("age").toDF("name", "age")
    told = refusal(sink(totals, place, "whole", app_id="w").outputMode("complete"))
    assert "the output mode complete would replace all rows" in told
    assert stored(place) == ({}, [])


def test_the_output_mode_update_goes_through_for_each_batch(spark, place):
    """Spark refuses it for every source in Python; a frame of `foreachBatch` says which batch it is."""
    register(spark)
    sent = []

    def write(rows, batch_id: int) -> None:
        for _ in range(2):  # Spark may call it again for the same batch
            sent.append(batch_id)
            rows.write.format("omnigraph").mode("append").options(
                graph=str(place / "g"),
                type="Person",
                merge=True,
                app_id="totals",
                batch_id=batch_id,
            ).save()

    arrive(place, 0, ada=1, bob=2)
    arrive(place, 1, ada=5)
    totals = frame(spark, place).groupBy("name").max("age").toDF("name", "age")
    writer = totals.writeStream.outputMode("update").foreachBatch(write)
    run(writer.option("checkpointLocation", str(place / "cp")).trigger(availableNow=True))
    assert sent[:4] == [0, 0, 1, 1]
    assert stored(place) == ({"ada": 5, "bob": 2}, [0, 1])


DRIVER = """
import sys
from omnigraph.runner.session import spark_session
from omnigraph.spark import register
from tests.spark.sessions import QUICK_START
from tests.spark.streaming import Path, frame, run, sink

session = spark_session("local[1]", QUICK_START)
register(session)
place = Path(sys.argv[1])
run(sink(frame(session, place), place, app_id="files", merge="true"))
"""


@pytest.mark.sampled(1, every=())
@pytest.mark.parametrize(
    "point",
    [
        "stream.before_commit",
        "load.before_table_commit",
        "load.after_phase_b_before_phase_c",
        "stream.after_commit",
    ],
)
def test_a_driver_that_is_killed_loses_and_doubles_nothing(spark, place, point):
    arrive(place, 0, ada=1, bob=2)
    arrive(place, 1, bob=20, cid=3)
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(place)],
        cwd=Path(__file__).parents[2],
        env={
            **os.environ,
            "OMNIGRAPH_FAILPOINTS": f"{point}=pause:{place / 'pause'}",
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until((place / "pause.reached").exists, driver)
    finally:
        kill(driver)
    assert not (place / "cp" / "commits" / "0").exists(), "the checkpoint does not have the batch"
    register(spark)
    run(sink(frame(spark, place), place, app_id="files", merge="true"))
    assert stored(place) == ({"ada": 1, "bob": 20, "cid": 3}, [0, 1])
