"""Algorithms on Spark while executors and drivers are killed. They take minutes: `./dev faults --all` runs them."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import omnigraph as og
from tests.algorithms.random_graphs import SCHEMA, fill, values
from tests.stored import read_back

pytestmark = pytest.mark.thorough

ROUNDS = """
import json, pathlib, sys
import omnigraph as og
from omnigraph.algorithms.spark.spark_graph import Sizes, SparkGraph

SparkGraph.sizes = Sizes(partition=100, hub=20, broadcast=0)
uri, name, marks = sys.argv[1:]
options = {"max_iterations": 25, "tolerance": 0} if name == "pagerank" else {}

def on_round(done, _):
    pathlib.Path(marks, f"round-{done}").touch()

with og.open(uri) as graph:
    call = getattr(graph.algorithms, name)
    found = call("E8", engine="spark", progress=on_round, **options)
    table = found.to_arrow()
print(json.dumps([found.engine, dict(zip(*(one.to_pylist() for one in table.columns)))]))
"""


@pytest.mark.parametrize(("name", "at"), [("pagerank", 3), ("label_propagation", 2)])
def test_an_executor_dies_in_a_round(cluster, tmp_path, name, at):
    """The next round is on its way when the mark of one is seen, and needs what both executors have of it."""
    with og.init(tmp_path / "g", SCHEMA) as graph:
        fill(graph)
        options = {"max_iterations": 25, "tolerance": 0} if name == "pagerank" else {}
        wanted = values(getattr(graph.algorithms, name)("E8", engine="local", **options))
    with cluster.driver() as driver:
        driver.start(ROUNDS, tmp_path / "g", name, tmp_path)
        driver.wait_until((tmp_path / f"round-{at}").exists)
        executors = cluster.executor_pids()
        assert len(executors) == 2
        os.kill(executors[0], signal.SIGKILL)
        engine, found = json.loads(driver.answer())
    assert engine == "spark"
    assert found == (pytest.approx(wanted, abs=1e-9, rel=0) if name == "pagerank" else wanted)


KILLED = """
import os, signal, sys
import omnigraph as og
import omnigraph.commit.protocol  # declares the points
from omnigraph import failpoints
from omnigraph.algorithms.spark import frame_rows
from omnigraph.runner.session import spark_session
from tests.spark.sessions import QUICK_START

uri, point = sys.argv[1:]
frame_rows.FETCHED_ROWS = 0  # executors write the values
spark_session("local[2]", QUICK_START)
with og.open(uri) as graph:
    found = graph.algorithms.pagerank("E8", max_iterations=1, engine="spark")
    failpoints.arm(point, lambda _: os.kill(os.getpid(), signal.SIGKILL))
    found.write("mark")
"""


@pytest.mark.parametrize("point", ["load.before_phase_b", "load.before_table_commit"])
def test_the_driver_dies_before_the_values_are_committed(tmp_path, point):
    with og.init(tmp_path / "g", SCHEMA) as graph:
        fill(graph)
        loads = [one.operation for one in graph.commits.list()].count("load")
    command = [sys.executable, "-c", KILLED, str(tmp_path / "g"), point]
    killed = subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, check=False
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    with og.open(tmp_path / "g") as graph:
        # Opening it finds what was begun, and notes that it was undone.
        assert [one.operation for one in graph.commits.list()].count("load") == loads
        assert {data.get("mark") for data in read_back(graph).nodes["Node"].values()} == {None}
        assert graph.algorithms.pagerank("E8", max_iterations=1).write("mark") is not None
