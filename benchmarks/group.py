"""Mutations of one row by many threads that share commits, beside one thread alone, raw Lance and Kùzu.

    ./dev bench group [--threads N] [--connections N] [--seconds S] [--rows N]

One thread runs with and without `group_commit`, and raw Lance beside them, call by call in turns, so that a busy machine
disturbs all alike. Each way writes to a graph of its own: upkeep follows one commit in 64, and on a shared graph each would
meet the table at another age. What raw Lance takes for the tables of one such commit is an append and a merge-insert of a
row each: `lone / raw`, on the clock and in processor time. The threads and, later, the connections write to a third graph.
Over HTTP the same inserts come from many connections, each under an operation id, to servers of one worker and of two, in
turns.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from benchmarks.contest.peers import peers_directory
from benchmarks.serving.processes import Server, child, serving
from omnigraph.clock import new_ulid
from omnigraph.graph import Graph, init

SCHEMA = "node Person { name: String @key  age: I64? }"
INSERT = "query q($name: String, $n: I64) { insert Person { name: $name, age: $n } }"
TURN = 20
"""Mutations of one thread by each way in a turn."""
KUZU = """
import shutil, sys, tempfile, time
sys.path.insert(0, sys.argv[1])
import kuzu
place = tempfile.mkdtemp()
made = kuzu.Connection(kuzu.Database(place + "/k"))
made.execute("CREATE NODE TABLE Person(name STRING, age INT64, PRIMARY KEY(name))")
for n in range(50):
    made.execute("CREATE (:Person {name: $name, age: $n})", {"name": f"warm{n}", "n": n})
begun, done = time.perf_counter(), 0
while time.perf_counter() - begun < float(sys.argv[2]):
    made.execute("CREATE (:Person {name: $name, age: $n})", {"name": f"p{done}", "n": done})
    done += 1
print(done / (time.perf_counter() - begun))
shutil.rmtree(place)
"""


class Took(NamedTuple):
    """Milliseconds that a call took, on the clock and of the processor."""

    clock: float
    cpu: float


def timed(call: Callable[[], object]) -> Took:
    """Run a call, and return what it took."""
    begun, used = time.perf_counter(), time.process_time()
    call()
    return Took(1000 * (time.perf_counter() - begun), 1000 * (time.process_time() - used))


def raw_commits(place: Path, rows: int) -> Callable[[int], object]:
    """One Lance append and one merge-insert of a row, each with its commit, to tables of so many rows."""
    import lance

    def table(names: list[str]) -> pa.Table:
        return pa.table(
            {"id": names, "name": names, "age": pa.array(range(len(names)), pa.int64())}
        )

    many = table([f"person {number:09}" for number in range(rows)])
    uris = [str(place / name) for name in ("appended", "merged")]
    for uri in uris:
        made = lance.write_dataset(many, uri, enable_stable_row_ids=True)
        made.create_scalar_index("id", "BTREE")

    def once(number: int) -> None:
        row = table([f"new {number:09}"])
        lance.write_dataset(row, uris[0], mode="append")
        merged = lance.dataset(uris[1]).merge_insert("id")
        merged.when_matched_update_all().when_not_matched_insert_all().execute(row)

    return once


def inserts(graph: Graph) -> Callable[[int], object]:
    """One mutation of a row."""
    return lambda number: graph.mutate(INSERT, {"name": f"one {number:09}", "n": number})


def one_thread(
    ways: dict[str, Callable[[int], object]], turns: int, numbers: count[int]
) -> dict[str, list[Took]]:
    """What each call took, by the way it was made, in turns."""
    took: dict[str, list[Took]] = {name: [] for name in ways}
    each = list(ways.items())
    for _ in range(turns * TURN):
        for name, call in each:
            number = next(numbers)
            took[name].append(timed(lambda: call(number)))  # noqa: B023
        each = [*each[1:], each[0]]
    return took


def new_graph(place: Path, rows: int, *, group_commit: bool) -> Graph:
    """A new graph with so many rows and their index."""
    graph = init(place, SCHEMA, group_commit=group_commit)
    names = [f"person {number:09}" for number in range(rows)]
    graph.load_nodes("Person", pa.table({"name": names, "age": pa.array(range(rows))}))
    graph.ensure_indices()
    return graph


def many_threads(
    graph: Graph, threads: int, seconds: float, prefix: str, *, identified: bool = False
) -> tuple[float, list[float], int]:
    """Mutations a second by all threads together, what each took, and how many commits they made.

    ``identified``: each has an operation id, as those over HTTP do.
    """
    took: list[float] = []
    commits: set[str] = set()
    until = time.perf_counter() + seconds

    def work(at: int) -> None:
        for number in count():
            if time.perf_counter() >= until:
                return
            given = {"name": f"{prefix} {at:03} {number:09}", "n": number}
            begun = time.perf_counter()
            made = graph.mutate(INSERT, given, operation_id=new_ulid() if identified else None)
            took.append(1000 * (time.perf_counter() - begun))
            assert made.commit is not None
            commits.add(made.commit.graph_commit_id)

    begun = time.perf_counter()
    running = [threading.Thread(target=work, args=(at,)) for at in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return len(took) / (time.perf_counter() - begun), sorted(took), len(commits)


def served(
    place: Path, seconds: float, connections: int
) -> tuple[dict[int, float], dict[str, int]]:
    """Inserts a second over HTTP by the number of workers, and how often each status came."""
    graphs, statuses = {"g": place}, Counter[str]()
    rates: dict[int, list[float]] = {1: [], 2: []}

    def ask(workers: int, server: Server, turn: int, spent: float) -> float:
        words = [server.host, str(server.port), INSERT, f"w{workers} {turn}", str(spent)]
        found = child("inserting", *words, str(connections))
        statuses.update(found["statuses"])
        return float(found["rate"])

    # All connections are those of one actor here.
    env = {"OMNIGRAPH_PER_ACTOR_INFLIGHT_MAX": str(2 * connections)}
    with serving(graphs, env) as one, serving(graphs, env, flags=["--workers", "2"]) as two:
        for workers, server in ((1, one), (2, two)):
            ask(workers, server, 0, 1.0)
        for turn in range(1, 4):
            for workers, server in ((1, one), (2, two)):
                rates[workers].append(ask(workers, server, turn, seconds / 3))
    return {workers: statistics.median(found) for workers, found in rates.items()}, dict(statuses)


def kuzu_rate(seconds: float) -> float | None:
    """Inserts of one row a second by Kùzu, one connection, each its own transaction; None without it."""
    peers = peers_directory()
    if peers is None:
        return None
    command = [sys.executable, "-c", KUZU, str(peers), str(seconds)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    return float(done.stdout)


def line(what: str, figure: float, bar: float | None = None, *, least: bool = False) -> None:
    """Print a figure and, if there is one, its bar and how near it is; below 1.0 is within."""
    held = ""
    if bar is not None:
        ratio = bar / figure if least else figure / bar
        held = f"   bar {'>=' if least else '<='} {bar:g}: {ratio:.2f}"
    print(f"{what:<46}{figure:>10.2f}{held}", flush=True)


def main() -> None:
    """Measure, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=32)
    parser.add_argument("--connections", type=int, default=32, help="of clients over HTTP")
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--turns", type=int, default=8)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        numbers = count()
        with (
            new_graph(place / "alone", given.rows, group_commit=False) as plain,
            new_graph(place / "group", given.rows, group_commit=True) as grouped,
            new_graph(place / "many", given.rows, group_commit=True) as shared,
        ):
            ways = {
                "alone": inserts(plain),
                "group": inserts(grouped),
                "raw": raw_commits(place, given.rows),
            }
            one_thread(ways, 1, numbers)
            took = one_thread(ways, given.turns, numbers)
            rate, each, commits = many_threads(shared, given.threads, given.seconds, "many")
            identified, _, _ = many_threads(
                shared, given.threads, given.seconds, "identified", identified=True
            )
            # Again, so that what the machine did meanwhile disturbs both alike.
            later = one_thread(ways, given.turns, numbers)
        http, statuses = served(place / "many", given.seconds, given.connections)
        kuzu = kuzu_rate(min(5.0, given.seconds))
    both = {name: [*took[name], *later[name]] for name in took}
    clock = {name: statistics.median(each.clock for each in calls) for name, calls in both.items()}
    cpu = {name: statistics.median(each.cpu for each in calls) for name, calls in both.items()}
    lone = clock["alone"]
    lone_rate = 1000 * len(both["alone"]) / sum(each.clock for each in both["alone"])
    line("raw append and merge-insert, ms", clock["raw"])
    line("lone mutation, ms", lone)
    line("lone / raw", lone / clock["raw"], 1.4)
    line("lone / raw, processor time", cpu["alone"] / cpu["raw"], 1.4)
    line("one thread, with group_commit / without", clock["group"] / lone, 1.03)
    line("the same, processor time", cpu["group"] / cpu["alone"], 1.03)
    line("one thread, mutations a second", lone_rate)
    line(f"{given.threads} threads, mutations a second", rate)
    line(f"{given.threads} threads / one thread", rate / lone_rate, 12, least=True)
    line("mutations a commit", len(each) / max(1, commits))
    line("p50 / lone", each[len(each) // 2] / lone)
    line("p99 / lone", each[int(0.99 * len(each))] / lone, 4)
    line("the same under operation ids, mutations a second", identified)
    line("over HTTP, one worker, mutations a second", http[1])
    line("over HTTP, one worker / threads", http[1] / identified, 0.8, least=True)
    line("over HTTP, two workers / one", http[2] / http[1], 1.2, least=True)
    print(f"statuses over HTTP: {statuses}")
    if kuzu is not None:
        line("Kùzu, inserts a second", kuzu)
        line(f"{given.threads} threads / Kùzu", rate / kuzu)


if __name__ == "__main__":
    main()
