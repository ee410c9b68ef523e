"""kill -9 at every point of a micro-batch, then the batch again: the graph is as if nothing had happened."""

from __future__ import annotations

import os
import signal
from multiprocessing.connection import Connection
from typing import Any

import pytest

from tests.faults.matrix.children import Child, nursery

SCHEMA = "node Person { name: String @key  age: I32? }"
POINTS = (
    "stream.before_write",
    "stream.before_commit",
    "load.before_locks",
    "load.before_phase_a",
    "load.before_phase_b",
    "load.before_fork",
    "load.after_fork",
    "load.before_table_commit",
    "load.after_table_commit",
    "load.after_phase_b_before_phase_c",
    "publish.before_write",
    "publish.after_write",
    "load.after_phase_c_before_phase_d",
    "stream.after_commit",
)
FORKS = {"load.before_fork", "load.after_fork"}
KILLED_AT = 1
BATCHES = ({"ada": 1, "bob": 2}, {"bob": 20, "cid": 30}, {"ada": 100, "dan": 4})


@pytest.fixture(scope="module")
def children():
    modules = ("tests.faults.test_stream_kills", "tests.pipeline.stream_helpers")
    with nursery(*modules, "pyarrow", "omnigraph.pipeline.datasource.commit") as made:
        yield made


def _rows(number: int, mode: str) -> Any:
    import pyarrow as pa

    ages = BATCHES[number]
    names = [name if mode == "merge" else f"{name} {number}" for name in ages]
    return pa.record_batch({"name": names, "age": pa.array(list(ages.values()), pa.int32())})


def _run(_: Connection, uri: str, mode: str, batches: list[int], point: str | None) -> Any:
    """Run micro-batches; the process dies at a point of one of them. Then what readers see."""
    import omnigraph as og
    from omnigraph import failpoints
    from tests.opened import workspace_of
    from tests.pipeline.stream_helpers import send

    options = {"type": "Person", "branch": "side", "merge": str(mode == "merge").lower()}
    for number in batches:
        if number == KILLED_AT and point is not None:
            failpoints.arm(point, lambda _: os.kill(os.getpid(), signal.SIGKILL))
        with og.open(uri) as graph:  # a read-write open settles what was left, as in the sink
            send(graph, number, _rows(number, mode), **options)
    with og.open(uri) as graph:
        query = "query q() { match { $p: Person } return { $p.name, $p.age } }"
        found = {row["p.name"]: row["p.age"] for row in graph.query(query, branch="side")}
        made = [one.facts for one in graph.commits.list("side")]
        assert workspace_of(graph).store.list("__recovery") == []
        return found, sorted(one["stream"]["batch_id"] for one in made if "stream" in one)


def _case(uri: str, mode: str, point: str) -> Any:
    """One process that dies, and one that goes on with the batch that its checkpoint does not have."""
    # The fork of the table is made by the first batch on its branch.
    begun = [KILLED_AT] if point in FORKS else [0, KILLED_AT]
    assert Child(_run, uri, mode, begun, point).wait() is None, f"{point} was not reached"
    return Child(_run, uri, mode, [KILLED_AT, 2], None).wait()


def _prepare(_: Connection, uri: str) -> bool:
    import omnigraph as og

    with og.init(uri, SCHEMA) as graph:
        graph.branches.create("side")
    return True


def _new_graph(uri: str) -> None:
    Child(_prepare, uri).wait()


@pytest.mark.sampled(2, every=("mode",))
@pytest.mark.parametrize("mode", ["append", "merge"])
@pytest.mark.parametrize("point", POINTS)
def test_a_sink_that_is_killed_goes_on_as_if_nothing_had_happened(children, tmp_path, mode, point):
    uri = str(tmp_path / "g")
    children.run(_new_graph, uri)
    found, batches = children.run(_case, uri, mode, point)
    ran = [1, 2] if point in FORKS else [0, 1, 2]
    expected: dict[str, int] = {}
    for number in ran:
        for name, age in BATCHES[number].items():
            expected[name if mode == "merge" else f"{name} {number}"] = age
    assert found == expected
    assert batches == ran, "one commit for each"
