"""A load on Spark that is hurt: the right rows exactly once, or the graph as it was."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import types
from pathlib import Path

import pytest

from omnigraph import failpoints
from omnigraph.errors import BadRequest, InputError
from omnigraph.graph import init
from omnigraph.graph import open as open_graph
from omnigraph.runner.spark_errors import spark_errors
from tests.commit.synthetic import Died, drifted
from tests.opened import workspace_of
from tests.stored import read_back
from tests.write.crash_helpers import LOAD_POINTS, content, expected, whole
from tests.write.crash_helpers import SCHEMA as CRASH_SCHEMA

SCHEMA = """
node Doc { slug: String @key  body: String?  vec: Vector(2)? @embed(body) }
edge Cites: Doc -> Doc
"""
ROWS = 40

# A frame of the caller's is made by code of the caller's on executors: it can fail, hold on and leave
# marks there. The embedder stays in the driver and counts its calls.
DRIVER = """
import json, os, pathlib, sys, time
import omnigraph as og
from omnigraph.runner.session import spark_session
from tests.pipeline.load_helpers import load_gathered

from omnigraph.pipeline.spark.spark_rows import SparkSizes
from omnigraph.pipeline.spark.spark_engine import SparkEngine

SparkEngine.sizes = SparkSizes(here_rows=-1)  # executors write, however few the rows are
uri, marks, mode, trouble = sys.argv[1:]
marks = pathlib.Path(marks)
calls = []

class Embedder:
    model = "test"
    def embed(self, texts, dimension):
        calls.append(list(texts))
        return [[float(len(text)), 1.0] for text in texts]

def hurt(batches):
    dead = len(list(marks.glob("task-*")))
    (marks / f"task-{os.getpid()}").touch()
    if trouble == "die" and dead < 2:
        os._exit(3)
    while trouble == "hold" and not (marks / "go").exists():
        time.sleep(0.05)
    yield from batches

def wait(progress):
    if trouble == "hold " + progress.phase:
        (marks / "phase").touch()
        while not (marks / "go").exists():
            time.sleep(0.05)

session = spark_session()
docs = session.read.json(str(marks / "docs.jsonl"), "slug string, body string").repartition(4)

def gather(inputs):
    inputs.nodes("Doc", docs.mapInArrow(hurt, docs.schema))
    inputs.json(str(marks / "edges.jsonl"))

with og.open(uri, embedder=Embedder()) as graph:
    result = load_gathered(graph, gather, mode=mode, engine="spark", spark=session, progress=wait)
texts = [text for call in calls for text in call]
print(json.dumps({
    "engine": result.engine, "rows": result.total_rows,
    "calls": len(calls), "texts": len(texts), "distinct": len(set(texts)),
}))
"""
# 40 texts, one of them empty, fit one call.
PRINTED = {"engine": "spark", "rows": 80, "calls": 1, "texts": 40, "distinct": 40}


@pytest.fixture
def place(tmp_path):
    """A graph with one row of each kind, and files of rows that replace one of them."""
    with init(tmp_path / "g", SCHEMA) as graph:
        old = [{"type": "Doc", "data": {"slug": name, "vec": [0, 0]}} for name in ("d0", "old")]
        graph.load([*old, {"edge": "Cites", "from": "old", "to": "d0"}], engine="local")
    docs = "".join(f'{{"slug":"d{n}","body":"{"x" * n}"}}\n' for n in range(ROWS))
    (tmp_path / "docs.jsonl").write_text(docs)
    edges = "".join(f'{{"edge":"Cites","from":"d{n}","to":"d0"}}\n' for n in range(ROWS))
    (tmp_path / "edges.jsonl").write_text(edges)
    return tmp_path


def check(place):
    with open_graph(place / "g") as graph:
        plain = read_back(graph)
        vectors = {slug: list(row["vec"]) for slug, row in plain.nodes["Doc"].items()}
        assert vectors == {"old": [0, 0], **{f"d{n}": [n, 1] for n in range(ROWS)}}
        ends = [(src, dst) for _, src, dst, _ in plain.edges["Cites"]]
        assert len(ends) == ROWS + 1
        assert set(ends) == {("old", "d0"), *((f"d{n}", "d0") for n in range(ROWS))}
        assert drifted(graph, "main") == []
        assert workspace_of(graph).store.list("__recovery") == []


@pytest.fixture(scope="module")
def driver(cluster):
    """What is slow is begun a second time, on another executor."""
    with cluster.driver(
        speculation="true", speculation_multiplier="1", speculation_quantile="0.1"
    ) as driver:
        yield driver


@pytest.mark.thorough
def test_a_cluster_merges_and_repeats_tasks_that_died_or_are_slow(driver, place):
    printed = driver.run(DRIVER, place / "g", place, "merge", "die")
    assert json.loads(printed) == PRINTED
    assert len(list(place.glob("task-*"))) > 2, "others took over from those that died"
    check(place)


@pytest.mark.sampled(1, every=())
@pytest.mark.parametrize("trouble", ["hold", "hold validating", "hold embedding", "hold writing"])
def test_an_executor_that_dies_takes_no_row_along_and_leaves_none_twice(
    cluster, driver, place, trouble
):
    marks = "task-*" if trouble == "hold" else "phase"
    driver.start(DRIVER, place / "g", place, "merge", trouble)
    driver.wait_until(lambda: any(place.glob(marks)) and cluster.executor_pids())
    os.kill(cluster.executor_pids()[0], signal.SIGKILL)
    (place / "go").touch()
    assert json.loads(driver.answer()) == PRINTED
    check(place)


@pytest.mark.thorough
@pytest.mark.parametrize("trouble", ["hold", "hold validating", "hold writing"])
@pytest.mark.parametrize("mode", ["append", "merge"])
def test_rows_that_are_written_at_once_survive_an_executor(cluster, driver, place, mode, trouble):
    """Tasks write what they read; whatever an executor kept of it is lost afterwards."""
    uri = place / "plain"
    with init(
        uri, "node Doc { slug: String @key  body: String? }  edge Cites: Doc -> Doc"
    ) as graph:
        graph.load([{"type": "Doc", "data": {"slug": "old"}}], engine="local")
    marks = "task-*" if trouble == "hold" else "phase"
    driver.start(DRIVER, uri, place, mode, trouble)
    driver.wait_until(lambda: any(place.glob(marks)) and cluster.executor_pids())
    os.kill(cluster.executor_pids()[-1], signal.SIGKILL)
    (place / "go").touch()
    assert json.loads(driver.answer())["rows"] == 2 * ROWS
    with open_graph(uri) as graph:
        plain = read_back(graph)
        assert {slug: len(row["body"] or "") for slug, row in plain.nodes["Doc"].items()} == {
            "old": 0,
            **{f"d{n}": n for n in range(ROWS)},
        }
        ends = sorted((src, dst) for _, src, dst, _ in plain.edges["Cites"])
        assert ends == sorted((f"d{n}", "d0") for n in range(ROWS))
        assert drifted(graph, "main") == []


MODES = ("merge", "append", "overwrite")


# Compacting the manifest is the same for both engines.
POINTS = [point for point in LOAD_POINTS if point != "publish.before_compact"]


@pytest.mark.sampled(6, every=())  # every point is tried without Spark
@pytest.mark.parametrize(("at", "point"), list(enumerate(POINTS)))
def test_a_load_that_stops_has_happened_or_has_not(tmp_path, spark, at, point):
    mode = MODES[at % 3]
    branch = "x" if point.endswith("_fork") else "main"
    uri = str(tmp_path / "g")
    with init(uri, CRASH_SCHEMA) as graph:
        graph.load([*whole("old", 1), *whole("kept", 2)], engine="local")
        if branch != "main":
            graph.branches.create(branch)
    records = whole("new", 9) + (whole("old", 5) if mode != "append" else [])
    with open_graph(uri) as graph, failpoints.arm(point, Died(point)), pytest.raises(Died):
        graph.load(records, mode=mode, branch=branch, engine="spark", spark=spark)
    after = {
        "merge": {"old": 5, "kept": 2, "new": 9},
        "append": {"old": 1, "kept": 2, "new": 9},
        "overwrite": {"old": 5, "new": 9},
    }
    ages = after[mode] if LOAD_POINTS[point] else {"old": 1, "kept": 2}
    with open_graph(uri) as graph:
        assert content(graph, branch) == expected(ages)
        assert drifted(graph, branch) == []
        assert workspace_of(graph).store.list("__recovery") == []


KILLED = """
import os, signal, sys
import omnigraph as og
import omnigraph.commit.protocol  # declares the points; a graph that is only open has no need of it
from omnigraph import failpoints
from tests.spark.sessions import QUICK_START

uri, source, mode, point = sys.argv[1:]

def die(_):
    os.kill(os.getpid(), signal.SIGKILL)

def watch(progress):
    if point == progress.phase:
        die(progress)

with og.open(uri) as graph:
    if "." in point:
        failpoints.arm(point, die)
    graph.load(source, mode=mode, engine="spark", spark_master="local[1]", progress=watch,
               spark_conf=QUICK_START)
"""


@pytest.mark.thorough
@pytest.mark.usefixtures("_spark_here")
@pytest.mark.parametrize(
    "point",
    [
        # Between the stages of the load, and between those of its commit.
        "reading",
        "validating",
        "writing",
        "load.before_phase_a",
        "load.after_table_commit",
        "load.after_phase_b_before_phase_c",
        "load.after_phase_c_before_phase_d",
    ],
)
@pytest.mark.parametrize("mode", ["merge", "overwrite"])
def test_a_driver_that_is_killed_leaves_a_graph_that_the_next_open_settles(tmp_path, mode, point):
    uri = str(tmp_path / "g")
    with init(uri, CRASH_SCHEMA) as graph:
        graph.load([*whole("old", 1), *whole("kept", 2)], engine="local")
    source = tmp_path / "new.jsonl"
    source.write_text("".join(json.dumps(r) + "\n" for r in whole("new", 9) + whole("old", 5)))
    killed = subprocess.run(
        [sys.executable, "-W", "error", "-c", KILLED, uri, source, mode, point],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    ages = {"old": 1, "kept": 2}
    if LOAD_POINTS.get(point):
        ages = {"old": 5, "new": 9} | ({"kept": 2} if mode == "merge" else {})
    with open_graph(uri) as graph:
        assert content(graph, "main") == expected(ages)
        assert drifted(graph, "main") == []
        assert workspace_of(graph).store.list("__recovery") == []
        graph.load(whole("next", 3), engine="local")
        assert content(graph, "main") == expected({**ages, "next": 3})


def test_what_fails_on_executors_for_good_is_one_error_and_changes_nothing(tmp_path, spark):
    def broken(_batches):
        raise SystemExit("gone")

    init(tmp_path / "g", SCHEMA).close()
    frame = spark.createDataFrame([("a", "b")], "slug string, body string")
    with open_graph(tmp_path / "g") as graph:
        head = graph.snapshot().graph_commit_id
        with pytest.raises(InputError, match="SystemExit: gone; raised by a function") as caught:
            graph.load_nodes("Doc", frame.mapInArrow(broken, frame.schema), spark=spark)
        assert "\n" not in str(caught.value)
        assert graph.snapshot().graph_commit_id == head


def test_an_embedder_stays_in_this_process(tmp_path, spark):
    class Locked:
        model = "test"

        def __init__(self):
            self.lock = threading.Lock()  # cannot be pickled

        def embed(self, texts, dimension):
            with self.lock:
                return [[1.0, 1.0] for _ in texts]

    init(tmp_path / "g", SCHEMA).close()
    with open_graph(tmp_path / "g", embedder=Locked()) as graph:
        record = {"type": "Doc", "data": {"slug": "a", "body": "b"}}
        assert graph.load([record], spark=spark).engine == "spark"
        assert list(read_back(graph).nodes["Doc"]["a"]["vec"]) == [1.0, 1.0]


class TestFunctionsThatDoNotTravel:
    def test_one_whose_module_the_workers_lack_is_named(self, spark, monkeypatch):
        module = types.ModuleType("only_here")
        exec("def far(batches):\n    yield from batches\n", module.__dict__)
        monkeypatch.setitem(sys.modules, "only_here", module)
        with pytest.raises(BadRequest, match="no module only_here; install"), spark_errors():
            spark.range(1).mapInArrow(module.far, "id long").count()

    def test_anything_else_that_cannot_be_pickled_is_told_by_us(self, spark):
        lock = threading.Lock()

        def holds(batches):
            assert lock
            yield from batches

        with pytest.raises(BadRequest, match="cannot be sent to Spark's executors"), spark_errors():
            spark.range(1).mapInArrow(holds, "id long").count()
