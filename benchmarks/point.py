"""Small reads on a warm handle against the Lance calls they need, by one thread and by many.

    ./dev bench point [--small] [--json]

The graph has 100,000 persons and a million edges; `--small` is a twentieth of it.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

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
INSERT = 'query q($key: String) { insert Person { key: $key, name: "new", age: 1 } }'
COLUMNS = ["name", "age"]
SAMPLES, THREADS = 60, 8
WRITER = """
import sys, itertools, omnigraph
with omnigraph.open(sys.argv[1]) as graph:
    print("ready", flush=True)
    for number in itertools.count():
        graph.mutate(sys.argv[2], params={"key": f"new{number}"})
        print(number, flush=True)
"""

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


def throughput(actions: tuple[Action, Action], persons: int, threads: int, seconds: float) -> float:
    """Reads per second of that many threads on one handle: a node and its neighbours in turns."""
    read, hop = actions
    done = [0] * threads
    failures: list[BaseException] = []
    until = time.perf_counter() + seconds

    def work(number: int) -> None:
        draw = random.Random(number)
        try:
            while time.perf_counter() < until:
                key = f"p{draw.randrange(persons)}"
                read(key)
                hop(key)
                done[number] += 2
        except BaseException as failure:  # noqa: BLE001 - raised again by the main thread
            failures.append(failure)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    start = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if failures:
        raise failures[0]
    return sum(done) / (time.perf_counter() - start)


class Writer:
    """Another process that commits one node after the other."""

    def __init__(self, place: Path) -> None:
        self._process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-c", WRITER, str(place), INSERT], stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "ready\n":
            raise RuntimeError(f"the writer ended with status {self._process.wait()}")

    def stop(self) -> int:
        """End it, and say how many commits it made."""
        self._process.terminate()
        printed, _ = self._process.communicate()
        return printed.count("\n")


def threads(graph: omnigraph.Graph, place: Path, persons: int, seconds: float) -> dict[str, Any]:
    """One thread and eight: by hand, queries, and queries beside a writer."""
    raw, queries = Raw(graph), (ours(graph, READ), ours(graph, HOP))
    cases = {"Lance": (raw.read, raw.hop), "queries": queries, "beside a writer": queries}
    result: dict[str, Any] = {}
    for name, actions in cases.items():
        throughput(actions, persons, 2, 0.3)
        writer = Writer(place) if name == "beside a writer" else None
        measured = {count: throughput(actions, persons, count, seconds) for count in (1, THREADS)}
        commits = writer.stop() if writer else 0
        result[name] = {"1": measured[1], str(THREADS): measured[THREADS], "commits": commits}
    return result


def show(times: dict[str, dict[str, float]], rates: dict[str, Any]) -> None:
    """Both tables."""
    print(
        f"\n{'warm, ms, medians of ' + str(SAMPLES):36}{'query':>10}{'Lance':>10}{'ratio':>8}   bar"
    )
    for name, case in times.items():
        ratio = case["ours"] / case["raw"]
        passed = "pass" if ratio <= 2 else "FAIL"
        print(f"{name:36}{case['ours']:10.2f}{case['raw']:10.2f}{ratio:8.2f}   2 x  {passed}")
    print(f"\n{'reads per second':36}{'1 thread':>10}{f'{THREADS} threads':>10}{'ratio':>8}   bar")
    for name, case in rates.items():
        ratio = case[str(THREADS)] / case["1"]
        shown = f"{name} ({case['commits']} commits)" if case["commits"] else name
        bar = "" if name == "Lance" else f"   0.8 x  {'pass' if ratio >= 0.8 else 'FAIL'}"
        print(f"{shown:36}{case['1']:10.0f}{case[str(THREADS)]:10.0f}{ratio:8.2f}{bar}")
    against = rates["queries"][str(THREADS)] / rates["Lance"][str(THREADS)]
    print(f"{THREADS} threads of queries against as many of Lance calls: {against:.2f} x the reads")


def main() -> None:
    """Measure latency, then throughput."""
    parser = argparse.ArgumentParser(prog="./dev bench point")
    parser.add_argument("--small", action="store_true", help="a twentieth of the size")
    parser.add_argument("--json", action="store_true", help="everything measured as JSON")
    chosen = parser.parse_args()
    persons = 5_000 if chosen.small else 100_000
    with tempfile.TemporaryDirectory() as name:
        place = Path(name) / "graph"
        filled(place, persons).close()
        with omnigraph.open(place, mode="r") as graph:
            times = latency(graph, persons)
            rates = threads(graph, place, persons, 1.0 if chosen.small else 4.0)
    if chosen.json:
        print(json.dumps({"latency_ms": times, "reads_per_second": rates}, indent=2))
    else:
        show(times, rates)


if __name__ == "__main__":
    main()
