"""A branch deleted and made again under a load of Spark, or under tasks of the data source."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from omnigraph import failpoints
from omnigraph.graph import Graph
from omnigraph.graph import open as open_graph
from omnigraph.spark import register
from tests.commit.synthetic import drifted
from tests.faults.remade_helpers import AGAIN, EQUAL, GONE, SHAPES, new_graph
from tests.faults.remade_workers import BASE, MERGED, Content, fill, filled, look, outcome, records
from tests.opened import workspace_of
from tests.storage.processes import run_processes

WITHIN = [GONE, AGAIN, EQUAL]


@pytest.fixture
def graph(tmp_path):
    with new_graph(tmp_path / "g") as graph:
        graph.branches.create("b")
        fill(graph, "b", "old")
        yield graph


def remake(uri: str, shape: str) -> None:
    new = SHAPES[shape][1]
    with open_graph(uri) as graph:
        graph.branches.delete("b")
        if new is not None:
            graph.branches.create("b")
        if new:
            fill(graph, "b", "new")


def made(shape: str) -> Content:
    return filled(BASE, "new") if SHAPES[shape][1] else BASE


def check(graph: Graph, content: Content) -> None:
    assert workspace_of(graph).store.list("__recovery") == []
    assert drifted(graph, "b") == []
    ((found, _, _),) = run_processes(look, [(graph.uri, "b")])
    assert found == content
    graph.mutate('query q() { insert Person { name: "next" } }', branch="b")


@pytest.mark.sampled(2, every=())
@pytest.mark.parametrize("shape", WITHIN)
@pytest.mark.parametrize("mode", ["merge", "append"])
def test_a_load_whose_rows_were_written_for_another_branch_is_refused_at_once(
    graph, spark, mode, shape
):
    given = MERGED if mode == "merge" else Content({"w": 9})

    def overtake(_):
        run_processes(remake, [(graph.uri, shape)])

    with (
        failpoints.arm("load.before_locks", overtake, times=1) as point,
        failpoints.arm("attempt.pinned", lambda _: None) as attempts,
    ):
        told = outcome(
            graph.load, records(given), mode=mode, branch="b", engine="spark", spark=spark
        )
        assert point.fired == 1
    if shape == GONE:
        assert told[0] == "branch_not_found", told
        return
    # What executors wrote for the old branch has gone with it, and another attempt has no other rows.
    assert told[0] == "expected_version_mismatch"
    assert "branch `b` was deleted and made again" in told[1]
    assert attempts.fired == 1
    check(graph, made(shape))


class Overtaken:
    """A frame whose only task pauses, and what happens meanwhile."""

    def __init__(self, spark, uri, directory, shape):
        from pyspark.sql.functions import udf

        place = str(directory / "pause")

        def slowly(age):
            from pathlib import Path

            from omnigraph.failpoints import FilePause

            FilePause(Path(place))("a task")
            return age

        frame = spark.createDataFrame([("w", 9)], "name string, age long").coalesce(1)
        self.frame = frame.withColumn("age", udf(slowly, "long")("age"))
        self._pause = failpoints.FilePause(directory / "pause")
        self._remake = uri, shape

    def outcome(self, run, *given, **options):
        """Remake the branch when the task runs, and tell what became of the call."""
        with ThreadPoolExecutor(1) as other:
            overtaken = other.submit(self._overtake)
            told = outcome(run, *given, **options)
            overtaken.result()
        return told

    def _overtake(self):
        try:
            self._pause.wait_until_reached()
            run_processes(remake, [self._remake])
        finally:
            self._pause.resume()


@pytest.mark.sampled(2, every=())
@pytest.mark.parametrize("shape", WITHIN)
@pytest.mark.parametrize("merge", ["true", "false"])
def test_tasks_of_the_data_source_are_overtaken(graph, spark, tmp_path, shape, merge):
    """The write is planned and pinned when its tasks run, and commits after them."""
    register(spark)
    tasks = Overtaken(spark, graph.uri, tmp_path, shape)
    writing = tasks.frame.write.format("omnigraph").mode("append")
    for name, value in {"graph": graph.uri, "type": "Person", "branch": "b", "merge": merge}.items():  # fmt: skip
        writing = writing.option(name, value)
    code, message = tasks.outcome(writing.save)
    # Spark tells what a commit raises as a text of its own.
    assert "damaged" not in str(message)
    if shape == GONE:
        assert "no branch `b`" in message
        assert graph.branches.list() == ["main"]
        return
    # What tasks wrote for the old branch may have gone with it.
    assert code == "done" or "ExpectedVersionMismatch" in message, message
    check(graph, made(shape).put(w=9) if code == "done" else made(shape))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("shape", [GONE, AGAIN])
@pytest.mark.parametrize("mode", ["merge", "append"])
def test_tasks_of_a_load_are_overtaken(graph, spark, tmp_path, shape, mode):
    """They find no place for their rows any more."""
    tasks = Overtaken(spark, graph.uri, tmp_path, shape)
    options = {"mode": mode, "branch": "b", "engine": "spark", "spark": spark}
    code, message = tasks.outcome(graph.load_nodes, "Person", tasks.frame, **options)
    if shape == GONE:
        assert (code, graph.branches.list()) == ("branch_not_found", ["main"]), message
        return
    assert code == "expected_version_mismatch", message
    assert "branch `b` was deleted and made again" in message
    check(graph, made(shape))
