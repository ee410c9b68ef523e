"""The server beside the same work embedded: processor time, rates, memory. Needs Linux.

    ./dev bench server [PART]... [--small] [--export-mb N] [--minutes N] [--json]

Both sides run in processes of their own, in turns where a busy machine would make a difference. `--small` is a
fiftieth of the data; the bars are meant for all of it. `soak`, everything at once for ten minutes, runs when it is named.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

from benchmarks.serving import graphs, policies
from benchmarks.serving import soak as soaking
from benchmarks.serving import workers as several
from benchmarks.serving.figures import Figure
from benchmarks.serving.graphs import HEAVY, LARGE, POINT, RAISE, ROWS, SMALL, Sizes
from benchmarks.serving.http import Connection, many, query_body
from benchmarks.serving.processes import Command, Server, child, serving

LINES, ARROW = "application/x-ndjson", "application/vnd.apache.arrow.stream"
NO_LIMITS = {"OMNIGRAPH_QUERY_MAX_ROWS": "10000000", "OMNIGRAPH_LOAD_BODY_MAX_MB": "8192"}
CLIENTS, HEAVY_CLIENTS, ROUNDS, MUTATIONS = 32, 8, 3, 40
NOW_AND_THEN, PAUSE_SECONDS = 20, 0.5


POLICY = """\
version: 1
groups: { all: [heavy, light] }
rules:
  - id: work
    allow: { actors: { group: all }, actions: [read, change], branch_scope: any }
"""


class Bench:
    """The graphs and files of one run, made when a part first needs them."""

    def __init__(self, place: Path, sizes: Sizes, minutes: float) -> None:
        self.place, self.sizes, self.minutes = place, sizes, minutes

    def people(self) -> Path:
        """The graph for queries."""
        return self._made("people", lambda path: graphs.make_people(path, self.sizes))

    def texts(self) -> Path:
        """The graph for exports."""
        return self._made("texts", lambda path: graphs.make_texts(path, self.sizes.export_mb))

    def records(self) -> Path:
        """The file for loads."""
        return self._made(
            "records.jsonl", lambda path: graphs.make_records(path, self.sizes.load_mb)
        )

    def empty(self, name: str) -> Path:
        """A graph without records."""
        import omnigraph

        return self._made(name, lambda path: omnigraph.init(path, graphs.SCHEMA).close())

    def blobs(self) -> Path:
        """The graph for blobs."""
        return self._made("blobs", graphs.make_blobs)

    def _made(self, name: str, make: Callable[[Path], object]) -> Path:
        path = self.place / name
        if not path.exists():
            make(path)
        return path


def _point(connection: Connection, number: int, persons: int) -> bytes:
    body = query_body(POINT, key=f"p{number * 7919 % persons}")
    return connection.request("POST", "/graphs/people/query", body)


def point(bench: Bench) -> Iterator[Figure]:
    """Processor time of a point query, and how many a second 32 clients get."""
    persons, count = bench.sizes.persons, bench.sizes.points
    served, empty, alone, rates, alone_rates, refused = [], [], [], [], [], 0
    with serving({"people": bench.people()}) as server:
        connection = Connection(server.host, server.port)
        for number in range(200):
            connection.ask(_point(connection, number, persons))
        for _ in range(ROUNDS):
            embedded = child("point", str(bench.people()), str(persons), str(count))
            alone.append(embedded["cpu"])
            alone_rates.append(embedded["rate"])
            used = server.cpu()
            for number in range(count):
                status, _ = connection.ask(_point(connection, number, persons))
                assert status == 200, status
            served.append((server.cpu() - used) / count)
            used = server.cpu()
            for _ in range(count):
                connection.ask(connection.request("GET", "/healthz"))
            empty.append((server.cpu() - used) / count)
            words = [server.host, str(server.port), str(persons), "point queries"]
            found = child("flooded", *words, str(bench.sizes.seconds))
            rates.append(found["rate"])
            refused += found["statuses"].get("429", 0)
            assert set(found["statuses"]) <= {"200", "429"}, found
    ours, theirs = statistics.median(served), statistics.median(alone)
    shown = f"{ours * 1000:.2f} ms against {theirs * 1000:.2f} ms"
    yield Figure("a point query over HTTP, processor time", shown, ours / theirs, 1.4)
    nothing = statistics.median(empty)
    yield Figure("an empty request beside it", f"{nothing * 1000:.2f} ms", nothing / theirs)
    rate, one = statistics.median(rates), statistics.median(alone_rates)
    shown = f"{rate:.0f}/s against {one:.0f}/s of one thread; {refused} refused (429)"
    yield Figure(f"{CLIENTS} clients", shown, rate / one, 0.75, at_least=True)
    yield Figure("refused of them", str(refused), refused, 0)


def rows(bench: Bench) -> Iterator[Figure]:
    """A million rows in three forms: processor time and memory."""
    embedded = child("rows", str(bench.people()))
    used: dict[str, float] = {}
    with serving({"people": bench.people()}, NO_LIMITS) as server:
        connection = Connection(server.host, server.port)
        connection.ask(_point(connection, 1, bench.sizes.persons))
        connection.count(_all_rows(connection, "application/json"))
        idle = server.memory()
        for name, accept in (("JSON", "application/json"), ("NDJSON", LINES), ("Arrow", ARROW)):
            server.forget_peak()
            before, began = server.cpu(), perf_counter()
            status, size = connection.count(_all_rows(connection, accept))
            assert status == 200, status
            spent, used[name] = perf_counter() - began, server.cpu() - before
            grown = server.peak() - idle
            allowed = embedded["held_mb"] + 64
            shown = f"{used[name]:.2f} s, {spent:.2f} s on the clock, {size / 1e6:.0f} MB"
            if name == "JSON":
                shown += f"; drained embedded {embedded['cpu']:.2f} s"
                yield Figure(f"rows as {name}", shown, used[name] / embedded["cpu"], 1.2)
            elif name == "Arrow":
                yield Figure(
                    f"rows as {name}, against JSON", shown, used[name] / used["JSON"], 0.25
                )
            else:
                yield Figure(f"rows as {name}, against JSON", shown, used[name] / used["JSON"])
            shown = f"+{grown:.0f} MB; held as Arrow {embedded['held_mb']:.0f} MB and 64 MB"
            yield Figure(f"memory of rows as {name}", shown, grown / allowed, 1.0)
        left = server.memory() - idle
        yield Figure("memory kept afterwards", f"+{left:.0f} MB", left / 64, 1.0)


def _all_rows(connection: Connection, accept: str) -> bytes:
    body = query_body(ROWS)
    return connection.request("POST", "/graphs/people/query", body, accept=accept)


def export(bench: Bench) -> Iterator[Figure]:
    """An export over HTTP, against one to a file."""
    with serving({"texts": bench.texts()}) as server:
        connection = Connection(server.host, server.port)
        ask = connection.request("POST", "/graphs/texts/export", b"{}")
        connection.ask(connection.request("GET", "/graphs/texts/snapshot"))
        pairs = []
        for _ in range(ROUNDS):
            embedded = child("export", str(bench.texts()), str(bench.place / "out.jsonl"))
            before, began = server.cpu(), perf_counter()
            status, size = connection.count(ask)
            assert (status, size) == (200, embedded["bytes"]), (status, size, embedded["bytes"])
            pairs.append((perf_counter() - began, server.cpu() - before, embedded))
    seconds, cpu, embedded = min(pairs, key=lambda pair: pair[0] / pair[2]["seconds"])
    shown = f"{seconds:.2f} s against {embedded['seconds']:.2f} s, {size / 1e6:.0f} MB"
    yield Figure("an export, on the clock", shown, seconds / embedded["seconds"], 1.15)
    shown = f"{cpu:.2f} s against {embedded['cpu']:.2f} s"
    yield Figure("an export, processor time", shown, cpu / embedded["cpu"])


def load(bench: Bench) -> Iterator[Figure]:
    """A load of JSON lines, against `omnigraph load`."""
    records = bench.records()
    command = [sys.executable, "-m", "omnigraph", "load", str(bench.empty("alone")), str(records)]
    alone = Command([*command, "--mode", "append", "--quiet"])
    with serving({"empty": bench.empty("empty")}, NO_LIMITS) as server:
        connection = Connection(server.host, server.port)
        connection.ask(connection.request("GET", "/graphs/empty/snapshot"))
        server.forget_peak()
        path = "/graphs/empty/load/ndjson?mode=append"
        before, began = server.cpu(), perf_counter()
        status, body = connection.send_file("POST", path, records, LINES)
        assert status == 200, body
        seconds, cpu, peak = perf_counter() - began, server.cpu() - before, server.peak()
    shown = f"{seconds:.2f} s against {alone.seconds:.2f} s, {records.stat().st_size / 1e6:.0f} MB"
    yield Figure("a load, on the clock", shown, seconds / alone.seconds, 1.15)
    shown = f"{cpu:.2f} s against {alone.cpu:.2f} s"
    yield Figure("a load, processor time", shown, cpu / alone.cpu, 1.15)
    over = peak - alone.peak
    yield Figure(
        "a load, peak memory", f"{peak:.0f} MB against {alone.peak:.0f} MB", over / 64, 1.0
    )


def blob(bench: Bench) -> Iterator[Figure]:
    """A blob in and out: what memory it takes over idle."""
    file = bench.place / "blob"
    with file.open("wb") as out:
        for _ in range(bench.sizes.blob_mb):
            out.write(os.urandom(1 << 20))
    path = "/graphs/blobs/blob?kind=node&type=Doc&id=d&property=body"
    with serving({"blobs": bench.blobs()}) as server:
        connection = Connection(server.host, server.port)
        # The first write and the first read load code, which is not what a blob takes.
        connection.ask(connection.request("PUT", path, b"first", "application/octet-stream"))
        connection.ask(connection.request("GET", path))
        idle = server.memory()
        server.forget_peak()
        began = perf_counter()
        status, body = connection.send_file("PUT", path, file, "application/octet-stream")
        assert status == 200, body
        grown, took = server.peak() - idle, perf_counter() - began
        yield Figure("a blob in, memory", f"+{grown:.0f} MB, {took:.1f} s", grown / 64, 1.0)
        server.forget_peak()
        began = perf_counter()
        status, size = connection.count(connection.request("GET", path))
        assert (status, size) == (200, file.stat().st_size), (status, size)
        grown, took = server.peak() - idle, perf_counter() - began
        yield Figure("a blob out, memory", f"+{grown:.0f} MB, {took:.1f} s", grown / 64, 1.0)


@contextmanager
def _busy(server: Server, bench: Bench) -> Iterator[None]:
    """Eight clients of heavy queries, and a load, as long as the block runs."""
    stop = threading.Event()

    def heavy(number: int) -> None:
        connection = Connection(server.host, server.port, "heavy")
        while not stop.is_set():
            body = query_body(HEAVY, age=20 + number)
            connection.ask(connection.request("POST", "/graphs/people/query", body))

    def loading() -> None:
        connection = Connection(server.host, server.port, "heavy")
        path = "/graphs/empty/load/ndjson?mode=overwrite"
        while not stop.is_set():
            connection.send_file("POST", path, bench.records(), LINES)

    threads = [threading.Thread(target=heavy, args=(number,)) for number in range(HEAVY_CLIENTS)]
    threads.append(threading.Thread(target=loading))
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def busy(bench: Bench) -> Iterator[Figure]:
    """How soon `/healthz` answers, and how many point queries there are, while much else is done.

    Point queries are those of another actor than the rest: readers take turns by actors.
    """
    seconds, persons = bench.sizes.seconds, bench.sizes.persons
    bench.records()
    policy = bench.place / "policy.yaml"
    policy.write_text(POLICY, "utf-8")
    tokens = {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": '{"heavy": "heavy", "light": "light"}'}
    served = {"people": bench.people(), "empty": bench.empty("empty")}
    with serving(served, tokens, policy) as server:

        def health(connection: Connection, _: int) -> bytes:
            return connection.request("GET", "/healthz")

        def points() -> dict[str, Any]:
            words = [server.host, str(server.port), str(persons), "4"]
            return child("clients", *words, str(seconds), "light")

        points()
        idle = points()
        with _busy(server, bench):
            healthy = many(server.host, server.port, 1, seconds, health)
            beside = points()
    shown = f"p99 {healthy['p99'] * 1000:.0f} ms of {healthy['count']}"
    yield Figure("/healthz beside 8 heavy queries and a load", shown, healthy["p99"] / 0.1, 1.0)
    shown = f"{beside['rate']:.0f}/s against {idle['rate']:.0f}/s idle"
    ratio = beside["rate"] / idle["rate"]
    yield Figure("point queries beside them", shown, ratio, 0.5, at_least=True)


def flood(bench: Bench) -> Iterator[Figure]:
    """What somebody waits who asks now and then, while another token asks without end."""
    persons, policy = bench.sizes.persons, bench.place / "policy.yaml"
    policy.write_text(POLICY, "utf-8")
    tokens = {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": '{"heavy": "heavy", "light": "light"}'}
    with serving({"people": bench.people()}, tokens, policy) as server:
        connection = Connection(server.host, server.port, "light")

        def slowest() -> float:
            took = []
            for number in range(NOW_AND_THEN):
                sleep(PAUSE_SECONDS)
                began = perf_counter()
                status, body = connection.ask(_point(connection, number, persons))
                took.append(perf_counter() - began)
                assert status == 200, body
            return max(took)

        slowest()
        alone = slowest()
        seconds = str(2 * NOW_AND_THEN * PAUSE_SECONDS)
        words = [server.host, str(server.port), str(persons), str(CLIENTS), seconds, "heavy"]
        found: list[dict[str, Any]] = []
        flooding = threading.Thread(target=lambda: found.append(child("clients", *words)))
        flooding.start()
        sleep(NOW_AND_THEN * PAUSE_SECONDS / 2)
        beside = slowest()
        flooding.join()
    shown = (
        f"{beside * 1000:.1f} ms against {alone * 1000:.1f} ms; the others {found[0]['rate']:.0f}/s"
    )
    yield Figure(f"the slowest of {NOW_AND_THEN}, beside a flood", shown, beside / alone, 10)


def mutation(bench: Bench) -> Iterator[Figure]:
    """A mutation of one row: the median of single ones, in turns."""
    persons, ours, theirs = bench.sizes.persons, [], []
    with serving({"people": bench.people()}) as server:
        connection = Connection(server.host, server.port)
        for turn in range(ROUNDS):
            took = []
            for number in range(MUTATIONS):
                key = f"p{(turn * MUTATIONS + number) * 15485863 % persons}"
                ask = connection.request(
                    "POST", "/graphs/people/mutate", query_body(RAISE, key=key)
                )
                began = perf_counter()
                status, body = connection.ask(ask)
                took.append(perf_counter() - began)
                assert status == 200, body
            ours.append(statistics.median(took))
            words = [str(bench.people()), str(persons), str(MUTATIONS)]
            theirs.append(child("mutations", *words)["p50"])
    served, alone = statistics.median(ours), statistics.median(theirs)
    shown = f"{served * 1000:.1f} ms against {alone * 1000:.1f} ms"
    yield Figure("a mutation, median", shown, served / alone, 1.3)


def ready(bench: Bench) -> Iterator[Figure]:
    """What a server takes until it is ready, against opening the graph."""
    used, memory, alone = [], [], []
    for _ in range(ROUNDS):
        alone.append(child("opening", str(bench.people())))
        with serving({"people": bench.people()}) as server:
            used.append(server.ready)
            memory.append(server.memory_when_ready)
    cpu = statistics.median(one["cpu"] for one in alone)
    held = statistics.median(one["memory"] for one in alone)
    ours, ours_held = statistics.median(used), statistics.median(memory)
    shown = f"{ours:.2f} s against {cpu:.2f} s"
    yield Figure("ready, processor time of the process", shown, ours / cpu, 1.3)
    shown = f"{ours_held:.0f} MB against {held:.0f} MB"
    yield Figure("ready, memory over it", shown, (ours_held - held) / 30, 1.0)


def policy(bench: Bench) -> Iterator[Figure]:
    """What policies, stored queries and tools for agents cost."""
    yield from policies.first_decision()
    yield from policies.greeting(bench.people())
    yield from policies.requests(bench.place, bench.people(), bench.sizes.persons)


def workers(bench: Bench) -> Iterator[Figure]:
    """What a second worker adds, and what reads keep beside writers."""
    sizes = bench.sizes
    yield from several.two_against_one(bench.people(), sizes.persons, sizes.seconds)
    yield from several.beside_writers(bench.people(), sizes.persons, sizes.seconds)


def soak(bench: Bench) -> Iterator[Figure]:
    """Everything at once for some minutes."""
    yield from soaking.soak(bench.people(), bench.sizes.persons, bench.minutes)


PARTS: dict[str, Callable[[Bench], Iterator[Figure]]] = {
    part.__name__: part
    for part in (
        ready,
        point,
        mutation,
        rows,
        export,
        load,
        blob,
        busy,
        flood,
        policy,
        workers,
        soak,
    )
}
ONLY_WHEN_ASKED = ("soak",)


def main() -> None:
    """Measure the parts that are asked for."""
    parser = argparse.ArgumentParser(prog="./dev bench server")
    parser.add_argument("--small", action="store_true", help="a fiftieth of the size")
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--only", action="append", choices=PARTS, help="a part; repeatable")
    parser.add_argument("--export-mb", type=int, help="the size of the export")
    parser.add_argument("--minutes", type=float, default=10, help="how long `soak` goes on")
    parser.add_argument("--json", action="store_true", help="everything measured as JSON")
    chosen = parser.parse_args()
    parts = [*chosen.parts, *(chosen.only or ())]
    if unknown := [part for part in parts if part not in PARTS]:
        parser.error(f"there is no part {unknown[0]}; there are {', '.join(PARTS)}")
    sizes = SMALL if chosen.small else LARGE
    if chosen.export_mb:
        sizes = sizes._replace(export_mb=chosen.export_mb)
    figures: list[Figure] = []
    print(f"load average {os.getloadavg()[0]:.1f}", file=sys.stderr)
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(Path(name), sizes, chosen.minutes)
        for part in parts or [part for part in PARTS if part not in ONLY_WHEN_ASKED]:
            for figure in PARTS[part](bench):
                figures.append(figure)
                if not chosen.json:
                    line = f"{figure.what:46}{figure.shown:62}{figure.ratio:7.2f}  {figure.verdict}"
                    print(line, flush=True)
    if chosen.json:
        print(json.dumps([figure._asdict() for figure in figures], indent=2))


if __name__ == "__main__":
    main()
