"""A graph whose topology is larger than the cache: time and memory of new processes.

    ./dev bench large [--edges N] [--cache-mb N] [--at DIRECTORY]

By default 5,000,000 edges and a cache of 32 MB. The first process numbers the edges straight to disk, the second
uses what the first kept. Memory is that of the process itself (`RssAnon`): pages of mapped files are not counted,
because the system takes them back when it needs room. Every answer is compared with one worked out in NumPy.
`--at` keeps the graph there for another run. Fifty million edges take 4 minutes and 6 GB of disk.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

DEGREE = 25
SCHEMA = "node Person { number: I64 @key  age: I64 }  edge Follows: Person -> Person"
QUESTIONS = {
    "one person's follows": "match { $a: Person { number: 42 }  $a follows $b } return { count($b) as n }",
    "follows by target": "match { $a follows $b } return { $b.number as b, count($a) as n } order { n desc } limit 1",
    "two-hop paths": "match { $a follows $b  $b follows $c } return { count($c) as n }",
    "two-hop, tests at the ends": "match { $a follows $b  $b follows $c  $a.age < 25  $c.age > 75 } "
    "return { count($c) as n }",
}
# Linux says how much memory of a process is its own; elsewhere nothing is shown.
ASK = """
import json, sys, threading, time
from pathlib import Path
import omnigraph

status, peak = Path("/proc/self/status"), [0]

def own():
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) // 1024 for line in lines if line.startswith("RssAnon")), 0)

def watch():
    while True:
        peak[0] = max(peak[0], own())
        time.sleep(0.02)

threading.Thread(target=watch, daemon=True).start()
graph = omnigraph.open(sys.argv[1], mode="r")
for text in json.loads(sys.argv[2]):
    for _ in range(2):
        peak[0] = own()
        wall, used = time.perf_counter(), time.process_time()
        rows = graph.query("query q() { " + text + " }").rows
        spent = time.perf_counter() - wall, time.process_time() - used
        print(json.dumps([list(rows[0].values()), *spent, max(peak[0], own())]))
"""


def make(place: Path, edges: int) -> None:
    """Follows that many persons make and few get, in two Parquet files, and the graph."""
    import omnigraph

    rng = np.random.default_rng(1)
    count = max(edges // DEGREE, 100)
    people = pa.table({"number": np.arange(count), "age": rng.integers(18, 80, count)})
    source = rng.integers(0, count, edges)
    target = rng.permutation(count)[(count * rng.random(edges) ** 2.5).astype(np.int64)]
    place.mkdir(parents=True, exist_ok=True)
    pq.write_table(people, place / "Person.parquet")
    pq.write_table(pa.table({"src": source, "dst": target}), place / "Follows.parquet")
    with omnigraph.init(place / "graph", SCHEMA) as graph:
        graph.load_nodes("Person", place / "Person.parquet", mode="append")
        follows = place / "Follows.parquet"
        graph.load_edges("Follows", follows, from_col="src", to_col="dst", mode="append")


def answers(place: Path) -> list[list[int]]:
    """The right answers, by the order of the questions."""
    age = pq.read_table(place / "Person.parquet")["age"].to_numpy()
    follows = pq.read_table(place / "Follows.parquet")
    size = len(age)
    pairs = np.unique(follows["src"].to_numpy() * size + follows["dst"].to_numpy())
    source, target = pairs // size, pairs % size
    out, into = np.bincount(source, minlength=size), np.bincount(target, minlength=size)
    young = np.bincount(target[age[source] < 25], minlength=size)
    old = np.bincount(source[age[target] > 75], minlength=size)
    best = int(into.argmax())
    return [[int(out[42])], [best, int(into[best])], [int(into @ out)], [int(young @ old)]]


def ask(place: Path, cache: Path, cache_mb: int) -> list[list[Any]]:
    """What a new process answers, and what each answer takes."""
    kept = {name: text for name, text in os.environ.items() if name[:10] != "OMNIGRAPH_"}
    environment = kept | {"OMNIGRAPH_CACHE_DIR": str(cache), "OMNIGRAPH_CACHE_MB": str(cache_mb)}
    asked = json.dumps(list(QUESTIONS.values()))
    command = [sys.executable, "-c", ASK, str(place / "graph"), asked]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603
    return [json.loads(line) for line in done.stdout.splitlines()]


def main() -> None:
    """Load once, then ask everything in two processes."""
    parser = argparse.ArgumentParser(prog="./dev bench large")
    parser.add_argument("--edges", type=int, default=5_000_000)
    parser.add_argument("--cache-mb", type=int, default=32)
    parser.add_argument("--at", type=Path, help="where the graph is, or shall be")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        place = given.at or Path(name)
        if not (place / "graph").exists():
            make(place, given.edges)
        right = answers(place)
        print(f"{given.edges:,} edges, a cache of {given.cache_mb} MB; each question twice")
        for title in ("nothing kept", "kept by another process"):
            print(f"\n{title:30}{'s':>10}{'cpu s':>10}{'MB':>10}")
            found = ask(place, Path(name) / "cache", given.cache_mb)
            for at, (rows, wall, used, peak) in enumerate(found):
                shown = list(QUESTIONS)[at // 2]
                is_right = rows == right[at // 2]
                cells = f"{wall:10.2f}{used:10.2f}{peak:10}" if is_right else f"{'wrong':>10}"
                print(f"{shown:30}{cells}")


if __name__ == "__main__":
    main()
