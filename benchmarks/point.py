"""Small reads on a warm handle against the Lance calls they need, by one thread, by many, beside a writer.

    ./dev bench point [--small] [--json]

The graph has 100,000 persons and a million edges; `--small` is a twentieth of it. A count over all edges works on
all cores by itself, so that more threads can add little to it. So counts are measured in three ways: as they are,
with every thread kept to one core (Linux only), and in a graph of a sixth of the size, where a loop is too
short for a second core. The writer commits one
row at a time to the tables that are read, in turns a new person, a changed one and an edge: 20 commits per
second as far as the machine lets it, in another process and in a thread of this one.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import omnigraph
from omnigraph.graph.graph import state_of
from omnigraph.storage.tables.table import open_table

SCHEMA = """
node Person { key: String @key  name: String  age: I32 }
edge Knows: Person -> Person
"""
READ = """query q($key: String) { match { $p: Person { key: $key } }
          return { $p.name as name, $p.age as age } }"""
HOP = """query q($key: String) { match { $p: Person { key: $key }  $p knows $f }
         return { $f.name as name, $f.age as age } }"""
THREE = """query q($key: String) { match { $p: Person { key: $key }  $p knows{1,3} $f }
           return { $f.name as name, $f.age as age } }"""
COUNT = """query q($age: I32) { match { $a: Person  $a.age > $age  $a knows $b  $b.age > $age
           $b knows $c  $c.age > $age } return { count($b) as n } }"""
COLUMNS = ["name", "age"]
SAMPLES, THREADS = 60, 8
WRITES = (
    'query q($key: String) { insert Person { key: $key, name: "new", age: 1 } }',
    "query q($key: String) { update Person set { age: 70 } where key = $key }",
    "query q($key: String, $to: String) { insert Knows { from: $key, to: $to } }",
)
COMMITS_PER_SECOND = 20
SMALL, PINNED = "counts in a small graph", "counts, a core for each thread"
# How many times the reads of one thread eight should reach.
BARS = {"queries": 0.8, SMALL: 1.3, PINNED: 1.3}

Action = Callable[[str], int]


def filled(place: Path, persons: int, seed: int = 3) -> omnigraph.Graph:
    """Persons who know ten others each, with the indexes of the schema."""
    draw = np.random.default_rng(seed)
    keys = np.array([f"p{number}" for number in range(persons)])
    graph = omnigraph.init(place, SCHEMA)
    people = {
        "key": keys,
        "name": [f"person {number}" for number in range(persons)],
        "age": pa.array(draw.integers(18, 66, persons), pa.int32()),
    }
    graph.load_nodes("Person", pa.table(people), mode="append")
    ends = draw.integers(0, persons, (2, persons * 10))
    ends = np.unique(ends[:, ends[0] != ends[1]], axis=1)
    frame = pa.table({"from": keys[ends[0]], "to": keys[ends[1]]})
    graph.load_edges("Knows", frame, mode="append")
    graph.ensure_indices()
    return graph


class Raw:
    """The same reads by hand: is the version still the newest, then indexed look-ups and rows."""

    def __init__(self, graph: omnigraph.Graph) -> None:
        tables = graph.snapshot().tables
        self.manifest = state_of(graph).workspace.manifest.state("main").table
        self.nodes = open_table(state_of(graph).workspace.pinned(tables["node:Person"])).dataset
        self.edges = open_table(state_of(graph).workspace.pinned(tables["edge:Knows"])).dataset

    def probe(self) -> None:
        """Whether somebody published meanwhile."""
        assert not self.manifest.has_version(self.manifest.version + 1)

    def read(self, key: str) -> int:
        """One row by its id: a look-up in the index, then the row."""
        self.probe()
        wanted = pc.field("id") == key
        found = self.nodes.scanner(columns=[], filter=wanted, with_row_id=True).to_table()
        return self._rows(found["_rowid"].to_pylist())

    def hop(self, key: str) -> int:
        """The neighbours of one node."""
        self.probe()
        return self._named(self._neighbours([key]))

    def three(self, key: str) -> int:
        """Everybody within three hops."""
        self.probe()
        seen, frontier = {key}, [key]
        for _ in range(3):
            frontier = [found for found in self._neighbours(frontier) if found not in seen]
            seen.update(frontier)
        return self._named([found for found in seen if found != key])

    def _neighbours(self, keys: list[str]) -> list[str]:
        wanted = pc.field("src").isin(keys)
        found = self.edges.to_table(columns=["dst"], filter=wanted)
        return list(found["dst"].unique().to_pylist())

    def _named(self, keys: list[str]) -> int:
        wanted = pc.field("id").isin(keys)
        found = self.nodes.scanner(columns=[], filter=wanted, with_row_id=True).to_table()
        return self._rows(found["_rowid"].to_pylist())

    def _rows(self, row_ids: list[int]) -> int:
        taken = self.nodes._take_rows(row_ids, COLUMNS)  # noqa: SLF001
        return len(taken.to_pylist())


def ours(graph: omnigraph.Graph, text: str) -> Action:
    """A query by key, with its rows as dicts."""
    return lambda key: len(graph.query(text, params={"key": key}).rows)


def counting(graph: omnigraph.Graph) -> Action:
    """Paths of two hops between persons above an age: a query that spends its time in loops over edges."""

    def count(key: str) -> int:
        found: int = graph.query(COUNT, params={"age": 20 + int(key[1:]) % 40}).rows[0]["n"]
        return found

    return count


def alternating(one: Action, other: Action, keys: list[str]) -> tuple[float, float]:
    """Median milliseconds of both, in turns on the same keys, with equal numbers of rows."""
    times: tuple[list[float], list[float]] = ([], [])
    for place, key in enumerate(keys):
        counts = []
        for action, taken in zip((one, other), times, strict=True):
            start = time.perf_counter()
            counts.append(action(key))
            if place >= 5:
                taken.append((time.perf_counter() - start) * 1000)
        assert counts[0] == counts[1], (key, counts)
    return statistics.median(times[0]), statistics.median(times[1])


def latency(graph: omnigraph.Graph, persons: int) -> dict[str, dict[str, float]]:
    """Reads by key against the calls they need."""
    raw, draw = Raw(graph), random.Random(5)
    keys = [f"p{draw.randrange(persons)}" for _ in range(SAMPLES + 5)]
    cases: list[tuple[str, str, Action]] = [
        ("one node by its key", READ, raw.read),
        ("its neighbours", HOP, raw.hop),
        ("everybody within 3 hops", THREE, raw.three),
    ]
    result = {}
    for name, text, action in cases:
        mine, floor = alternating(ours(graph, text), action, keys)
        result[name] = {"ours": mine, "raw": floor}
    return result


# ------------------------------------------------------------------ threads


class Rate(NamedTuple):
    """What some threads achieved: reads per second, and how many cores they kept busy."""

    reads: float
    cores: float


def throughput(
    actions: Sequence[Action], persons: int, threads: int, seconds: float, *, pinned: bool = False
) -> Rate:
    """Reads of that many threads on one handle: the actions in turns on one key.

    ``pinned``: each thread may use one core only, and so may the loops it runs.
    """
    done = [0] * threads
    failures: list[BaseException] = []
    until = time.perf_counter() + seconds

    def work(number: int) -> None:
        draw = random.Random(number)
        try:
            if pinned:
                cores = sorted(os.sched_getaffinity(0))
                os.sched_setaffinity(0, {cores[number % len(cores)]})
            while time.perf_counter() < until:
                key = f"p{draw.randrange(persons)}"
                for action in actions:
                    action(key)
                    done[number] += 1
        except BaseException as failure:  # noqa: BLE001 - raised again by the main thread
            failures.append(failure)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    start, used = time.perf_counter(), time.process_time()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if failures:
        raise failures[0]
    spent = time.perf_counter() - start
    return Rate(sum(done) / spent, (time.process_time() - used) / spent)


def threads(
    graph: omnigraph.Graph, small: omnigraph.Graph, persons: int, seconds: float
) -> dict[str, dict[str, Rate]]:
    """One thread and eight: by hand, queries, and counts over all edges of two graphs."""
    raw, queries = Raw(graph), (ours(graph, READ), ours(graph, HOP))
    kinds: list[tuple[str, Sequence[Action], bool]] = [
        ("Lance", (raw.read, raw.hop), False),
        ("queries", queries, False),
        ("counts", (counting(graph),), False),
        (SMALL, (counting(small),), False),
    ]
    if sys.platform == "linux":
        kinds.append((PINNED, (counting(graph),), True))
    result = {}
    for name, actions, pinned in kinds:
        # Long enough for compiled loops to be there.
        throughput(actions, persons, 2, 4.0 if name == "counts" else 0.3)
        result[name] = {
            str(count): throughput(actions, persons, count, seconds, pinned=pinned)
            for count in (1, THREADS)
        }
    return result


# ------------------------------------------------------------------ beside a writer


def write(graph: omnigraph.Graph, persons: int, stop: Callable[[], bool]) -> int:
    """Commit one row at a time at a steady pace; how many commits were made."""
    draw, start = random.Random(7), time.perf_counter()
    for number in itertools.count():
        time.sleep(max(0.0, start + number / COMMITS_PER_SECOND - time.perf_counter()))
        if stop():
            return number
        text = WRITES[number % len(WRITES)]
        new = f"new{time.time_ns()}" if number % len(WRITES) == 0 else f"p{draw.randrange(persons)}"
        to = {"to": f"p{draw.randrange(persons)}"} if "$to" in text else {}
        graph.mutate(text, params={"key": new, **to})
    raise AssertionError


def write_until_told(place: str, persons: str) -> None:
    """What the writer's process runs: it stops when its input ends."""
    told = threading.Event()

    def listen() -> None:
        sys.stdin.read()
        told.set()

    threading.Thread(target=listen, daemon=True).start()
    with omnigraph.open(place) as graph:
        print("ready", flush=True)
        print(write(graph, int(persons), told.is_set), flush=True)


@contextmanager
def writing(how: str, graph: omnigraph.Graph, place: Path, persons: int) -> Iterator[list[int]]:
    """Have somebody write meanwhile; afterwards the list holds the number of commits."""
    made: list[int] = []
    if how == "idle":
        yield made
    elif how == "a thread":
        told = threading.Event()
        writer = threading.Thread(target=lambda: made.append(write(graph, persons, told.is_set)))
        writer.start()
        yield made
        told.set()
        writer.join()
    else:
        command = [sys.executable, __file__, "--write", str(place), str(persons)]
        with subprocess.Popen(  # noqa: S603
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            if process.stdout.readline() != "ready\n":
                raise RuntimeError(f"the writer ended with status {process.wait()}")
            yield made
            made.append(int(process.communicate()[0]))


def beside(place: Path, persons: int, seconds: float) -> dict[str, Any]:
    """Eight threads of each read: alone, beside another process that writes, beside a thread that does.

    Alone and beside a writer take turns, so that a machine that is busy otherwise is so for both.
    """
    result: dict[str, Any] = {}
    with omnigraph.open(place) as graph:
        for name, text in (("one node by its key", READ), ("its neighbours", HOP)):
            reads = [ours(graph, text)]
            throughput(reads, persons, 1, 1.0)
            for how in ("a process", "a thread"):
                rates: dict[str, list[float]] = {"idle": [], how: []}
                commits = 0
                for turn in ("idle", how) * 3:
                    with writing(turn, graph, place, persons) as made:
                        rates[turn].append(throughput(reads, persons, THREADS, seconds).reads)
                    commits += sum(made)
                result[f"{name}, {how}"] = {
                    "idle": statistics.median(rates["idle"]),
                    "beside": statistics.median(rates[how]),
                    "commits_per_second": commits / (3 * seconds),
                }
    return result


def show(times: dict[str, dict[str, float]], rates: dict[str, dict[str, Rate]]) -> None:
    """Both tables."""
    print(
        f"\n{'warm, ms, medians of ' + str(SAMPLES):36}{'query':>10}{'Lance':>10}{'ratio':>8}   bar"
    )
    for name, case in times.items():
        ratio = case["ours"] / case["raw"]
        passed = "pass" if ratio <= 2 else "FAIL"
        print(f"{name:36}{case['ours']:10.2f}{case['raw']:10.2f}{ratio:8.2f}   2 x  {passed}")
    print(
        f"\n{'reads per second (cores in use)':36}{'1 thread':>16}{f'{THREADS} threads':>16}"
        f"{'ratio':>8}   bar"
    )
    for name, rate in rates.items():
        one, many = rate["1"], rate[str(THREADS)]
        cells = "".join(f"{each.reads:10.0f} ({each.cores:.1f})" for each in (one, many))
        ratio, least = many.reads / one.reads, BARS.get(name)
        bar = f"   {least} x  {'pass' if ratio >= least else 'FAIL'}" if least else ""
        print(f"{name:36}{cells}{ratio:8.2f}{bar}")
    against = rates["queries"][str(THREADS)].reads / rates["Lance"][str(THREADS)].reads
    print(f"{THREADS} threads of queries against as many of Lance calls: {against:.2f} x the reads")


def show_beside(rates: dict[str, Any]) -> None:
    """What a writer takes from the readers."""
    head = f"{THREADS} threads, reads per second"
    print(f"\n{head:36}{'idle':>10}{'beside':>10}{'ratio':>8}{'commits/s':>11}   bar")
    for name, case in rates.items():
        ratio = case["beside"] / case["idle"]
        print(
            f"{name:36}{case['idle']:10.0f}{case['beside']:10.0f}{ratio:8.2f}"
            f"{case['commits_per_second']:11.1f}   0.5 x  {'pass' if ratio >= 0.5 else 'FAIL'}"
        )


def main() -> None:
    """Measure latency, then throughput, then both beside a writer."""
    parser = argparse.ArgumentParser(prog="./dev bench point")
    parser.add_argument("--small", action="store_true", help="a twentieth of the size")
    parser.add_argument("--json", action="store_true", help="everything measured as JSON")
    parser.add_argument("--write", nargs=2, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.write:
        write_until_told(*chosen.write)
        return
    persons, seconds = (5_000, 1.0) if chosen.small else (100_000, 4.0)
    with tempfile.TemporaryDirectory() as name:
        place = Path(name) / "graph"
        filled(place, persons).close()
        little = Path(name) / "small"
        filled(little, persons // 6).close()
        with omnigraph.open(place, mode="r") as graph, omnigraph.open(little, mode="r") as small:
            times = latency(graph, persons)
            rates = threads(graph, small, persons, seconds)
        written = beside(place, persons, seconds)
    if chosen.json:
        threaded = {
            name: {count: rate._asdict() for count, rate in case.items()}
            for name, case in rates.items()
        }
        measured = {"latency_ms": times, "throughput": threaded, "beside_a_writer": written}
        print(json.dumps(measured, indent=2))
    else:
        show(times, rates)
        show_beside(written)


if __name__ == "__main__":
    main()
