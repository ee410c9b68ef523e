"""The same work without a server, each part in a process of its own; prints what it measured as JSON."""

from __future__ import annotations

import json
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import omnigraph
from benchmarks.serving.graphs import POINT, RAISE, ROWS
from benchmarks.serving.http import Connection, many, query_body
from benchmarks.serving.processes import Watched

WARM = 200


def point(place: str, persons: str, count: str) -> dict[str, Any]:
    """Point queries, one after another, with the document of each as JSON."""
    from omnigraph.service import query as service

    people, times = int(persons), int(count)
    with omnigraph.open(place) as graph:
        session = graph.session(None)

        def ask(number: int) -> None:
            params = {"key": f"p{number * 7919 % people}"}
            answer = service.query(session, service.QueryRequest(query=POINT, params=params))
            "".join(answer.json_text()).encode()

        for number in range(WARM):
            ask(number)
        began, used = time.perf_counter(), time.process_time()
        for number in range(times):
            ask(number)
        spent, cpu = time.perf_counter() - began, time.process_time() - used
    return {"cpu": cpu / times, "rate": times / spent}


def rows(place: str) -> dict[str, Any]:
    """All rows of a query, drained as JSON; and how large they are as Arrow holds them."""
    from omnigraph.service import query as service

    with omnigraph.open(place) as graph:
        held = graph.query(ROWS).to_arrow().nbytes
        began, used = time.perf_counter(), time.process_time()
        answer = service.query(graph.session(None), service.QueryRequest(query=ROWS))
        size = sum(len(piece.encode()) for piece in answer.json_text())
        spent, cpu = time.perf_counter() - began, time.process_time() - used
    return {"seconds": spent, "cpu": cpu, "bytes": size, "held_mb": held / (1 << 20)}


def export(place: str, file: str) -> dict[str, Any]:
    """An export to a file."""
    with omnigraph.open(place, mode="r") as graph:
        graph.query(POINT, params={"key": "p1"})
        began, used = time.perf_counter(), time.process_time()
        graph.export(Path(file), engine="local")
        spent, cpu = time.perf_counter() - began, time.process_time() - used
    return {"seconds": spent, "cpu": cpu, "bytes": Path(file).stat().st_size}


def mutations(place: str, persons: str, count: str) -> dict[str, Any]:
    """Updates of one row."""
    people, took = int(persons), []
    with omnigraph.open(place) as graph:
        for number in range(int(count)):
            began = time.perf_counter()
            graph.mutate(RAISE, params={"key": f"p{number * 104729 % people}"})
            took.append(time.perf_counter() - began)
    return {"p50": statistics.median(took)}


def opening(*places: str) -> dict[str, Any]:
    """Open the graphs, and nothing else."""
    graphs = [omnigraph.open(place) for place in places]
    used = resource.getrusage(resource.RUSAGE_SELF)
    memory = Watched(os.getpid()).memory()
    for graph in graphs:
        graph.close()
    return {"cpu": used.ru_utime + used.ru_stime, "memory": memory}


def clients(
    host: str, port: str, persons: str, count: str, seconds: str, token: str = ""
) -> dict[str, Any]:
    """Point queries from many clients of a server, in a process of their own."""
    people = int(persons)

    def request(connection: Any, turn: int) -> bytes:
        body = query_body(POINT, key=f"p{turn * 7919 % people}")
        return bytes(connection.request("POST", "/graphs/people/query", body))

    return many(host, int(port), int(count), float(seconds), request, token)


def flooded(host: str, port: str, persons: str, kind: str, seconds: str) -> dict[str, Any]:
    """Reads of a kind over many connections of a server, in a process of their own."""
    from benchmarks.serving.flood import flood
    from benchmarks.serving.workers import CONNECTIONS, requests

    asked = requests(host, int(port), kind, int(persons))
    return flood(host, int(port), CONNECTIONS, float(seconds), asked)


def inserting(
    host: str, port: str, query: str, prefix: str, seconds: str, connections: str
) -> dict[str, Any]:
    """Inserts of one row each over many connections of a server, in a process of their own."""
    from benchmarks.serving.flood import flood
    from omnigraph.clock import new_ulid

    connection = Connection(host, int(port))
    asked = []
    for number in range(int(1000 * float(seconds))):
        body = query_body(query, name=f"{prefix} {number:09}", n=number)
        plain = connection.request("POST", "/graphs/g/mutate", body)
        field = f"\r\nOmnigraph-Operation-Id: {new_ulid()}\r\nContent-Length".encode()
        asked.append(plain.replace(b"\r\nContent-Length", field, 1))
    connection.close()
    return flood(host, int(port), int(connections), float(seconds), asked)


PARTS: dict[str, Callable[..., dict[str, Any]]] = {
    function.__name__: function
    for function in (point, rows, export, mutations, opening, clients, flooded, inserting)
}

if __name__ == "__main__":
    print(json.dumps(PARTS[sys.argv[1]](*sys.argv[2:])))
