"""Everything at once for some minutes: what a server holds at the end, against after the first minute.

Reads, mutations, loads, merges, exports and clients that go away in the middle, on two workers. Looked at are the
memory, threads and open files of all processes, the files of the spool, and what locks and leases leave in the graph.
"""

from __future__ import annotations

import contextlib
import json
import random
import socket
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.serving.figures import Figure
from benchmarks.serving.graphs import HEAVY, POINT, RAISE
from benchmarks.serving.http import Connection, query_body
from benchmarks.serving.processes import Server, Watched, serving

TRUNK = "trunk"
ENV = {"OMNIGRAPH_QUERY_TIMEOUT_MS": "20000"}


class Held(NamedTuple):
    """What a server holds at a moment."""

    memory_mb: float
    threads: int
    files: int
    spool: int
    leases: int


def soak(people: Path, persons: int, minutes: float) -> Iterator[Figure]:
    """Do everything at once, and compare the end with the first minute."""
    with tempfile.TemporaryDirectory() as temporary:
        env = {**ENV, "TMPDIR": temporary}
        with serving({"people": people}, env, flags=["--workers", "2"]) as server:
            work = _Work(server, persons)
            first = min(1.0, minutes / 4)
            with work.going_on():
                time.sleep(60 * first)
            _settle(server)
            early = _held(server, people, Path(temporary))
            with work.going_on():
                time.sleep(60 * (minutes - first))
            _settle(server)
            late = _held(server, people, Path(temporary))
    did = ", ".join(f"{count} {what}" for what, count in sorted(work.done.items()))
    for name in Held._fields:
        before, after = getattr(early, name), getattr(late, name)
        room = {"memory_mb": 1.25 * before, "threads": before + 8, "files": before + 64}
        allowed = room.get(name, before + 1)
        shown = f"{after:.0f} against {before:.0f}"
        yield Figure(f"{name.replace('_', ' ')} after {minutes:g} min", shown, after / allowed, 1.0)
    strange = sum(count for what, count in work.done.items() if " 5" in what)
    yield Figure("answers of 500 and more", did, strange, 0)


def _settle(server: Server) -> None:
    """Wait until the processor time of all processes hardly grows."""
    before = -1.0
    for _ in range(60):
        now = sum(each.cpu() for each in _processes(server))
        if now - before < 0.05:
            return
        before = now
        time.sleep(1)


def _processes(server: Server) -> list[Watched]:
    children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
    return [Watched(server.pid), *(Watched(int(pid)) for pid in children)]


def _held(server: Server, people: Path, temporary: Path) -> Held:
    processes = _processes(server)
    places = [Path(f"/proc/{each.pid}") for each in processes]
    return Held(
        memory_mb=sum(each.memory() for each in processes),
        threads=sum(len(list((place / "task").iterdir())) for place in places),
        files=sum(len(list((place / "fd").iterdir())) for place in places),
        spool=sum(path.is_file() for path in temporary.rglob("body-*")),
        leases=sum("lease" in str(path.parent) for path in people.rglob("*") if path.is_file()),
    )


class _Work:
    """Clients of all kinds, and how often each got what."""

    def __init__(self, server: Server, persons: int) -> None:
        self._server, self._persons = server, persons
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._number = 0
        self.done: Counter[str] = Counter()

    @contextlib.contextmanager
    def going_on(self) -> Iterator[None]:
        """Work as long as the block lasts."""
        self._over.clear()
        kinds: list[Callable[[Connection, random.Random], None]] = [
            *(self._read for _ in range(4)),
            *(self._mutate for _ in range(2)),
            self._heavy,
            self._load,
            self._merge,
            self._export,
            self._leave,
        ]
        threads = [
            threading.Thread(target=self._repeat, args=(kind, at), daemon=True)
            for at, kind in enumerate(kinds)
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._over.set()
            for thread in threads:
                thread.join()

    def _repeat(self, kind: Callable[[Connection, random.Random], None], at: int) -> None:
        chance, connection = random.Random(at), self._connected()
        while not self._over.is_set():
            try:
                kind(connection, chance)
            except OSError:
                self._count("connections lost")
                connection = self._connected()

    def _connected(self) -> Connection:
        return Connection(self._server.host, self._server.port)

    def _count(self, what: str) -> None:
        with self._lock:
            self.done[what] += 1

    def _next(self) -> int:
        with self._lock:
            self._number += 1
            return self._number

    def _post(
        self, connection: Connection, path: str, body: bytes, what: str, kind: str = ""
    ) -> int:
        asked = connection.request(
            "POST", f"/graphs/people/{path}", body, kind or "application/json"
        )
        status, _ = connection.count(asked)
        self._count(f"{what} {status}")
        return status

    def _read(self, connection: Connection, chance: random.Random) -> None:
        body = query_body(POINT, key=f"p{chance.randrange(self._persons)}")
        self._post(connection, "query", body, "reads")

    def _heavy(self, connection: Connection, chance: random.Random) -> None:
        self._post(
            connection, "query", query_body(HEAVY, age=chance.randrange(60, 80)), "heavy reads"
        )

    def _mutate(self, connection: Connection, chance: random.Random) -> None:
        body = query_body(RAISE, key=f"p{chance.randrange(self._persons)}")
        self._post(connection, "mutate", body, "mutations")

    def _load(self, connection: Connection, chance: random.Random) -> None:
        first = chance.randrange(self._persons)
        rows: list[Any] = [
            {"type": "Person", "data": {"key": f"s{first + at}", "name": "n", "age": 3}}
            for at in range(500)
        ]
        lines = "\n".join(map(json.dumps, rows)).encode()
        self._post(connection, "load/ndjson?mode=merge", lines, "loads", "application/x-ndjson")
        time.sleep(0.5)

    def _merge(self, connection: Connection, _: random.Random) -> None:
        name = f"soak-{self._next()}"
        # Between branches that nobody else writes to: a merge into a branch that moves on is to be run again.
        if name == "soak-1":
            self._post(connection, "branches", json.dumps({"name": TRUNK}).encode(), "branches")
        body = json.dumps({"name": name, "from": TRUNK}).encode()
        self._post(connection, "branches", body, "branches")
        add = f'query q() {{ insert Person {{ key: "{name}", name: "m", age: 1 }} }}'
        body = json.dumps({"query": add, "branch": name}).encode()
        self._post(connection, "mutate", body, "mutations")
        body = json.dumps({"source": name, "target": TRUNK, "delete_branch": True}).encode()
        self._post(connection, "branches/merge", body, "merges")
        time.sleep(0.5)

    def _export(self, connection: Connection, _: random.Random) -> None:
        self._post(connection, "export", b"{}", "exports")
        time.sleep(1)

    def _leave(self, connection: Connection, chance: random.Random) -> None:
        """Ask for something long, and go away."""
        host, port = self._server.host, self._server.port
        path, body = chance.choice([("export", b"{}"), ("query", query_body(HEAVY, age=20))])
        with socket.create_connection((host, port)) as leaving:
            leaving.sendall(connection.request("POST", f"/graphs/people/{path}", body))
            if chance.random() < 0.5:
                leaving.recv(100)
            time.sleep(0.2 * chance.random())
        self._count("clients that went away")
