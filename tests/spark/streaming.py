"""Run queries of Structured Streaming in tests."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming import StreamingQuery

import omnigraph as og
from tests.opened import workspace_of
from tests.spark.cluster import DRIVER_SECONDS, descendants

COLUMNS = "name string, age int"

_TOO_SLOW = "Python worker failed to connect back"
_ATTEMPTS = 20


def run_to_end(start: Callable[[], StreamingQuery]) -> str:
    """Start a query and wait for its end; its id.

    Spark gives the Python process of a source or a sink ten seconds to start, which is less than a busy
    machine may need. Nothing has happened by then, and the query is started again.
    """
    for attempt in range(_ATTEMPTS):
        query = start()
        try:
            query.awaitTermination()
        except StreamingQueryException as stopped:
            if _TOO_SLOW not in str(stopped) or attempt == _ATTEMPTS - 1:
                raise
        else:
            return query.id
        finally:
            query.stop()
    raise AssertionError


# ------------------------------------------------------------------ files as a stream of people


def arrive(place: Path, number: int, **ages: int) -> None:
    """A file comes, which is the next micro-batch."""
    lines = [json.dumps({"name": name, "age": age}) for name, age in ages.items()]
    coming = place / f"{number}.tmp"
    coming.write_text("\n".join(lines))
    os.utime(coming, (number, number))  # Spark takes the oldest first
    coming.rename(place / "in" / f"{number}.json")


def frame(session, place: Path):
    source = session.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1)
    return source.json(str(place / "in"))


def sink(rows, place: Path, checkpoint: str = "cp", **options: str):
    """A query into the graph that ends with what is there."""
    writer = rows.writeStream.format("omnigraph").options(
        graph=str(place / "g"), type="Person", **options
    )
    return writer.option("checkpointLocation", str(place / checkpoint)).trigger(availableNow=True)


def run(writer) -> str:
    """Run a query to its end; its id."""
    return run_to_end(writer.start)


def refusal(writer) -> str:
    with pytest.raises(StreamingQueryException) as refused:
        run(writer)
    return str(refused.value)


def stored(place: Path) -> tuple[dict[str, int], list[int]]:
    """The people, and the batches of the commits, oldest first."""
    with og.open(place / "g") as graph:
        query = "query q() { match { $p: Person } return { $p.name, $p.age } }"
        people = {row["p.name"]: row["p.age"] for row in graph.query(query)}
        made = [one.facts["stream"] for one in graph.commits.list() if "stream" in one.facts]
        assert workspace_of(graph).store.list("__recovery") == []
    return people, [one["batch_id"] for one in reversed(made)]


# ------------------------------------------------------------------ drivers that are killed


def wait_until(condition, driver: subprocess.Popen) -> None:
    deadline = time.monotonic() + DRIVER_SECONDS
    while not condition():
        assert driver.poll() is None, "it ended before it came to the point"
        assert time.monotonic() < deadline
        time.sleep(0.05)


def kill(driver: subprocess.Popen) -> None:
    """End a driver as the machine would, with its Java and all its workers."""
    for pid in [driver.pid, *descendants(driver.pid)]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    driver.wait()
