"""What the writing, reading, opening and dying processes of these tests run."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

from omnigraph import failpoints
from omnigraph.commit.changes import Write
from omnigraph.commit.heal import heal
from omnigraph.commit.protocol import commit
from omnigraph.errors import (
    Contention,
    Drift,
    ExpectedVersionMismatch,
    OmniGraphError,
    RecoveryRequired,
)
from omnigraph.graph import Graph
from omnigraph.graph import open as open_graph
from omnigraph.storage.tables.table import open_table
from tests.commit.synthetic import prepare
from tests.opened import workspace_of

Rows = Mapping[str, Sequence[str]]
Told = list[tuple[str, str, list[str]]]


def identified(write: Write, operation_id: str, graph_commit_id: str) -> Write:
    """The same write under ids its test knows."""
    intent = replace(write.intent, graph_commit_id=graph_commit_id)
    return replace(write, operation_id=operation_id, intent=intent)


def write_and_die(
    uri: str, rows: Rows, options: Mapping[str, str], ids: tuple[str, str], point: str, skip: int
) -> None:
    """Write once, and leave the process at the point without any clean-up."""
    with open_graph(uri) as graph:
        wanted = identified(prepare(workspace_of(graph), rows, **options), *ids)
        failpoints.arm(point, "exit:0", skip=skip)
        heal(workspace_of(graph))
        commit(workspace_of(graph), wanted)
    raise AssertionError(f"{point} was not reached")


def open_and_die(uri: str, point: str) -> None:
    """Open read-write, and leave the process at the point."""
    failpoints.arm(point, "exit:0")
    open_graph(uri)
    raise AssertionError(f"{point} was not reached")


def open_read_write(uri: str) -> list[str]:
    """What a process that opens and closes the graph leaves in `__recovery/`."""
    with open_graph(uri) as graph:
        return workspace_of(graph).store.list("__recovery")


def write_paused(
    pipe: Connection, environment: dict[str, str], uri: str, rows: Rows, point: str, pause: str
) -> None:
    """Write once, stopping at the point until told to go on; report what became of it."""
    os.environ.update(environment)
    with open_graph(uri) as graph:
        wanted = prepare(workspace_of(graph), rows)
        failpoints.arm(point, failpoints.FilePause(Path(pause)), times=1)
        try:
            made = commit(workspace_of(graph), wanted)
        except OmniGraphError as error:
            pipe.send((error.code, wanted.intent.graph_commit_id))
        else:
            pipe.send(("committed", made.graph_commit_id))


def write_many(uri: str, choices: Sequence[Sequence[str]], times: int, name: str) -> Told:
    """Commit one id into several tables, again and again; what became of each attempt."""
    told: Told = []
    with open_graph(uri) as graph:
        for number in range(times):
            keys = list(choices[number % len(choices)])
            row_id = f"{name}-{number}"
            outcome = attempt(graph, keys, row_id)
            told.append((outcome, row_id, keys))
    return told


def attempt(graph: Graph, keys: list[str], row_id: str) -> str:
    """Commit one id into these tables; what became of it."""
    try:
        heal(workspace_of(graph))
        wanted = prepare(workspace_of(graph), {key: [row_id] for key in keys})
        commit(workspace_of(graph), wanted)
    except ExpectedVersionMismatch as lost:
        assert lost.details["table_key"] in keys
        assert lost.details["actual"] > lost.details["expected"]
        return "refused"
    except Contention as lost:
        assert lost.details["attempts"] >= 1
        return "refused"
    except RecoveryRequired as lost:
        assert lost.details["operation_id"]
        return "unknown"
    except Drift as error:
        raise AssertionError(f"nobody else writes here: {error}") from error
    return "committed"


def watch(pipe: Connection, uri: str, keys: list[str]) -> None:
    """Read until told to stop; the first snapshot in which the tables differ, or how many agreed."""
    looks = 0
    with open_graph(uri, mode="r") as graph:
        while not pipe.poll():
            tables = graph.snapshot().tables
            rows = [
                sorted(
                    open_table(workspace_of(graph).pinned(tables[key]))
                    .read(["id"])["id"]
                    .to_pylist()
                )
                for key in keys
            ]
            if any(other != rows[0] for other in rows):
                pipe.send(("torn", [set(rows[0]) ^ set(other) for other in rows]))
                return
            looks += 1
    pipe.send(("whole", looks))


def open_paused(pipe: Connection, uri: str, point: str, pause: str) -> None:
    """Open read-write, stopping once at the point; say when the graph is open."""
    failpoints.arm(point, failpoints.FilePause(Path(pause)), times=1)
    with open_graph(uri):
        pipe.send("open")
