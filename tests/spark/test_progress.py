"""Progress of loads on Spark: counts that run while tasks do, in this process and on a terminal."""

from __future__ import annotations

import re
import time

import pytest

import omnigraph as og
from omnigraph.errors import InputError
from omnigraph.pipeline.spark.read_plan import count
from omnigraph.pipeline.spark.spark_engine import TaskTally
from tests.cli.terminal import at_terminal
from tests.pipeline.load_helpers import load_gathered
from tests.spark.progress_helpers import fill, waiting_frame
from tests.spark.sessions import QUICK_JAVA


@pytest.fixture
def place(tmp_path):
    fill(tmp_path)
    return tmp_path


@pytest.mark.parametrize("mode", ["merge", "append", "overwrite"])
def test_records_are_counted_while_tasks_still_read(spark, place, mode):
    mark, seen = place / "seen", []

    def progress(now):
        seen.append(now)
        if now.records == 300:
            mark.touch()  # Only now the other task can end.

    def gather(inputs):
        inputs.json(str(place / "a.jsonl"))
        inputs.nodes("Doc", waiting_frame(spark, place / "b.jsonl", mark))

    with og.open(place / "g") as graph:
        result = load_gathered(graph, gather, mode=mode, spark=spark, progress=progress)
    assert (result.engine, result.total_rows) == ("spark", 500)
    assert result.embeddings_pending == 200
    assert [now.records for now in seen if now.phase == "reading"] == [0, 300, 500]
    assert list(dict.fromkeys((now.stage, now.phase) for now in seen)) == [
        (1, "reading"),
        (2, "validating"),
        (3, "embedding"),
        (4, "writing"),
    ]
    assert {now.stages for now in seen} == {5}
    assert seen[-1].staged == seen[-1].records == 500


def test_a_merge_stages_what_it_writes_and_frames_of_this_process_count(spark, place):
    seen = []
    with og.open(place / "g") as graph:
        graph.load(str(place / "a.jsonl"), engine="local")
        records = [{"type": "Doc", "data": {"slug": slug}} for slug in ("d0", "new", "new")]
        graph.load(records, mode="merge", spark=spark, progress=seen.append)
    assert (seen[-1].records, seen[-1].staged) == (3, 2)


def test_a_tally_is_told_while_the_job_runs_and_settled_after(spark, tmp_path):
    mark, told = tmp_path / "seen", []

    def tell(rows):
        told.append(rows)
        mark.touch()

    tally = TaskTally(spark, tell)
    counter = tally.counter

    def work(batches):
        for batch in batches:
            if batch.column(0)[0].as_py() == 0:
                count(counter, 5)
            else:
                deadline = time.monotonic() + 600
                while not mark.exists():
                    assert time.monotonic() < deadline
                    time.sleep(0.02)
                count(counter, 7)
            yield batch

    with tally.watched():
        assert spark.range(0, 2, 1, 2).mapInArrow(work, "id long").count() == 2
    assert told[0] == 5
    tally.settle(11)
    assert sum(told) == 11


def test_a_failing_job_ends_the_watch_and_nobody_listening_costs_nothing(spark):
    from omnigraph.runner.spark_errors import spark_errors

    def fails(_batches):
        raise ValueError("no")

    tally = TaskTally(spark, lambda _rows: None)
    with pytest.raises(InputError), spark_errors(), tally.watched():
        spark.range(1).mapInArrow(fails, "id long").count()
    silent = TaskTally(spark, None)
    assert silent.counter is None
    with silent.watched():
        count(silent.counter, 3)
    silent.settle(3)


@pytest.mark.thorough
@pytest.mark.usefixtures("_spark_here")
def test_a_terminal_sees_stages_and_counts(place):
    argv = ("load", "--mode", "append", "--data", "a.jsonl", "--spark-master", "local[1]", "g")
    env = {
        "SPARK_SUBMIT_OPTS": QUICK_JAVA,
        "COLUMNS": "120",
    }
    code, out, shown = at_terminal(argv, place, env)
    assert code == 0, shown
    assert out.startswith("loaded 300 rows into branch main (append, spark)")
    assert "stage 1 of 5, reading: 0 records read" in shown
    assert re.search(r"stage 4 of 5, writing: 300 records read, 300 staged, \d+ s", shown), shown
