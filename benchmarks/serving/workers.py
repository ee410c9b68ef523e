"""Several workers: what a second one adds, what reads keep beside a loader and a merger, and the memory of each."""

from __future__ import annotations

import contextlib
import json
import statistics
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.serving.figures import Figure
from benchmarks.serving.graphs import POINT
from benchmarks.serving.http import Connection, query_body
from benchmarks.serving.processes import Server, Watched, child, serving

CONNECTIONS, ROUNDS = 32, 3
HOP = """query q($key: String) { match { $p: Person { key: $key }  $p knows $f }
         return { $f.name as name } }"""
KINDS = {"point queries": POINT, "one-hop reads": HOP}
WORKER_MB = 300


def two_against_one(people: Path, persons: int, seconds: float) -> Iterator[Figure]:
    """How many reads two workers answer, against one, in turns; and what memory they take."""
    graphs = {"people": people}
    with serving(graphs) as one, serving(graphs, flags=["--workers", "2"]) as two:
        for name in KINDS:
            rates: dict[int, list[float]] = {1: [], 2: []}
            costs: dict[int, list[float]] = {1: [], 2: []}
            for _ in range(ROUNDS):
                for count, server in ((1, one), (2, two)):
                    before = _cpu(server)
                    found = _reads(server, name, persons, seconds)
                    rates[count].append(found["rate"])
                    costs[count].append((_cpu(server) - before) / found["count"])
            alone, together = (statistics.median(rates[count]) for count in (1, 2))
            cost, both = (statistics.median(costs[count]) for count in (1, 2))
            shown = f"{both * 1000:.2f} ms against {cost * 1000:.2f} ms"
            yield Figure(f"processor time of {name}, two workers", shown, both / cost)
            shown = f"{together:.0f}/s against {alone:.0f}/s"
            yield Figure(f"two workers, {name}", shown, together / alone, 1.6, at_least=True)
        held = [worker.memory() for worker in _workers_of(two)]
    shown = " and ".join(f"{each:.0f} MB" for each in held)
    allowed = 1.4 * len(held) * WORKER_MB + people_bytes(people) / (1 << 20)
    yield Figure("memory of two workers, with what is mapped", shown, sum(held) / allowed, 1.0)


def people_bytes(place: Path) -> int:
    """The bytes of a graph on disk: more than a topology of it has."""
    return sum(path.stat().st_size for path in place.rglob("*") if path.is_file())


def beside_writers(people: Path, persons: int, seconds: float) -> Iterator[Figure]:
    """Reads of two workers while one client loads 10,000 rows a time, and another merges branches."""
    with serving({"people": people}, flags=["--workers", "2"]) as server:
        _reads(server, "point queries", persons, 1.0)
        idle = _reads(server, "point queries", persons, seconds)
        with _writing(server) as written:
            beside = _reads(server, "point queries", persons, seconds)
    strange = {status: count for status, count in beside["statuses"].items() if status != "200"}
    shown = f"{beside['rate']:.0f}/s against {idle['rate']:.0f}/s; {written['loads']} loads, {written['merges']} merges"
    ratio = beside["rate"] / idle["rate"]
    yield Figure("reads beside a loader and a merger", shown, ratio, 0.5, at_least=True)
    shown = f"{beside['p99'] * 1000:.0f} ms against {idle['p99'] * 1000:.0f} ms"
    yield Figure("p99 of them", shown, beside["p99"] / idle["p99"], 5.0)
    yield Figure("failures of them", str(strange or "none"), sum(strange.values()), 0)


@contextmanager
def _writing(server: Server) -> Iterator[dict[str, int]]:
    stop = threading.Event()
    written = {"loads": 0, "merges": 0}
    lines = "\n".join(
        json.dumps({"type": "Person", "data": {"key": f"l{at}", "name": "n", "age": at % 90}})
        for at in range(10_000)
    ).encode()

    def loading() -> None:
        connection = Connection(server.host, server.port)
        path = "/graphs/people/load/ndjson?mode=merge"
        while not stop.is_set():
            status, _ = connection.ask(
                connection.request("POST", path, lines, "application/x-ndjson")
            )
            written["loads"] += status == 200

    def merging() -> None:
        connection = Connection(server.host, server.port)

        def post(path: str, body: Any) -> int:
            data = json.dumps(body).encode()
            return connection.ask(connection.request("POST", f"/graphs/people/{path}", data))[0]

        number = 0
        # Nobody else writes to it: a merge into a branch that moves on would have to be run again.
        post("branches", {"name": "trunk"})
        while not stop.is_set():
            name, number = f"side-{number}", number + 1
            post("branches", {"name": name, "from": "trunk"})
            add = f'query q() {{ insert Person {{ key: "{name}", name: "m", age: 1 }} }}'
            post("mutate", {"query": add, "branch": name})
            written["merges"] += (
                post("branches/merge", {"source": name, "target": "trunk", "delete_branch": True})
                == 200
            )

    threads = [threading.Thread(target=work, daemon=True) for work in (loading, merging)]
    for thread in threads:
        thread.start()
    try:
        yield written
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _reads(server: Server, kind: str, persons: int, seconds: float) -> dict[str, Any]:
    words = [server.host, str(server.port), str(persons), kind, str(seconds)]
    return child("flooded", *words)


def requests(host: str, port: int, kind: str, persons: int) -> list[bytes]:
    """Return a thousand requests of a kind."""
    with contextlib.closing(Connection(host, port)) as connection:
        return [
            connection.request(
                "POST",
                "/graphs/people/query",
                query_body(KINDS[kind], key=f"p{number * 7919 % persons}"),
            )
            for number in range(1000)
        ]


def _cpu(server: Server) -> float:
    return server.cpu() + sum(worker.cpu() for worker in _workers_of(server))


def _workers_of(server: Server) -> list[Watched]:
    children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
    return [Watched(int(pid)) for pid in children]
