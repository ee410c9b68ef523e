"""What the processes run that write to one table at the same time, all arguments at their defaults."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pyarrow as pa

import omnigraph.pipeline.load
import omnigraph.write.mutate  # noqa: F401 - they declare the points that are armed here
from omnigraph import failpoints
from omnigraph.errors import OmniGraphError
from omnigraph.graph import Graph
from omnigraph.graph import open as open_graph

INSERT = "query q($name: String, $n: I64) { insert Item { name: $name, n: $n } }"
UPDATE = "query q($name: String, $n: I64) { update Item set { n: $n } where name = $name }"
DELETE = "query q($name: String) { delete Item where name = $name }"
CLAIM = "query q($free: String, $me: String) { update Item set { owner: $me } where owner = $free }"


@dataclass
class Told:
    """What one process did: the rows it has left, what it claimed, and its longest call."""

    left: dict[str, int] = field(default_factory=dict)
    claimed: list[int] = field(default_factory=list)
    longest: float = 0.0


class Writer:
    """Five mutations in turn, each of one row: two inserts, an update, a delete, a claim.

    The rows are this process's own, but for the claim: of all that ask for a row, the first gets it.
    """

    def __init__(self, graph: Graph, name: str) -> None:
        self.graph = graph
        self.name = name
        self.told = Told()

    def step(self, number: int) -> None:
        turn, kind = divmod(number, 5)
        first, second = f"{self.name}-{turn}-a", f"{self.name}-{turn}-b"
        match kind:
            case 0:
                assert self._affected(INSERT, name=first, n=turn) == 1
            case 1:
                assert self._affected(INSERT, name=second, n=turn) == 1
            case 2:
                assert self._affected(UPDATE, name=first, n=-turn) == 1
                self.told.left[first] = -turn
            case 3:
                assert self._affected(DELETE, name=second) == 1
            case _:
                if self._affected(CLAIM, free=f"free-{turn}", me=self.name):
                    self.told.claimed.append(turn)

    def _affected(self, source: str, **params: Any) -> int:
        start = time.monotonic()
        result = self.graph.mutate(source, params=params)
        self.told.longest = max(self.told.longest, time.monotonic() - start)
        assert (result.commit is None) == (result.affected_nodes == 0)
        return result.affected_nodes


def write_in_turn(uri: str, name: str, times: int) -> Told:
    """Run that many mutations of a `Writer`; all must succeed."""
    with open_graph(uri) as graph:
        writer = Writer(graph, name)
        for number in range(times):
            writer.step(number)
        return writer.told


def write_beside(
    pipe: Connection, environment: dict[str, str], uri: str, name: str, times: int
) -> None:
    """As `write_in_turn`, saying when the first mutation is done."""
    os.environ.update(environment)
    with open_graph(uri) as graph:
        writer = Writer(graph, name)
        for number in range(times):
            writer.step(number)
            if number == 0:
                pipe.send("begun")
        pipe.send(writer.told)


def load_beside(pipe: Connection, environment: dict[str, str], uri: str, rows: int) -> None:
    """Merge many rows; once they are pinned and before they are judged, wait for a word."""
    os.environ.update(environment)
    waited = False

    def wait(progress: Any) -> None:
        nonlocal waited
        if progress.phase == "validating" and not waited:
            waited = True
            pipe.send("pinned")
            pipe.recv()

    with open_graph(uri) as graph:
        names = pa.array([f"row-{number}" for number in range(rows)])
        frame = pa.table({"name": names, "n": pa.array(range(rows), pa.int64())})
        start = time.monotonic()
        try:
            result = graph.load_nodes("Item", frame, progress=wait)
        except OmniGraphError as error:
            pipe.send(f"{error.code}: {error}")
        else:
            pipe.send((result.total_rows, time.monotonic() - start))


def mutate_paused(
    pipe: Connection,
    environment: dict[str, str],
    uri: str,
    call: dict[str, Any],
    point: str,
    pause: str,
) -> None:
    """Run one mutation that stops at a point; tell what it did, or the code of its error."""
    os.environ.update(environment)
    with open_graph(uri) as graph:
        failpoints.arm(point, failpoints.FilePause(Path(pause)), times=1)
        try:
            result = graph.mutate(**call)
        except OmniGraphError as error:
            pipe.send((error.code, str(error)))
        else:
            pipe.send((result.affected_nodes, result.affected_edges))


def load_paused(
    pipe: Connection, environment: dict[str, str], uri: str, records: Any, point: str, pause: str
) -> None:
    """Load a few records, stopping at a point; tell how many, or the code of the error."""
    os.environ.update(environment)
    with open_graph(uri) as graph:
        failpoints.arm(point, failpoints.FilePause(Path(pause)), times=1)
        try:
            result = graph.load(records)
        except OmniGraphError as error:
            pipe.send((error.code, str(error)))
        else:
            pipe.send(result.total_rows)
