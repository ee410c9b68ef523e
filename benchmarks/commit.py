"""What a commit of one row costs, through `graph.mutate`, early and late in a history.

    ./dev bench commit [--commits N] [--long] [--work NAME,...] [--place main,fork] [--upkeep MODE]

The tables have 100,000 rows and their indexes. N is 2,000 if not said; with `--long` there are 10,000 commits, and
a line for 2,000 on the way. Every ratio is given twice: of the clock, and of the processor time of the process
(`cpu`), which a busy machine disturbs less.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from omnigraph.graph import Graph, init
from omnigraph.graph.graph import state_of
from omnigraph.storage.tables.table import open_table

ROWS = 100_000
EARLY, WINDOW, FRESH = 50, 50, 5
SEED = 11
SCHEMA = """
node Person { name: String @key  age: I64? }
node Company { name: String @key  size: I64? }
edge Knows: Person -> Person { since: I64? }
"""
INSERT = "query q($name: String, $n: I64) { insert Person { name: $name, age: $n } }"
UPDATE = "query q($name: String, $n: I64) { update Person set { age: $n } where name = $name }"
DELETE = "query q($name: String) { delete Person where name = $name }"
TOGETHER = """query q($name: String, $n: I64, $friend: String) {
    insert Person { name: $name, age: $n }
    insert Company { name: $name, size: $n }
    insert Knows { from: $name, to: $friend, since: $n }
}"""
POINT = "query q($name: String) { match { $p: Person { name: $name } } return { $p.age } }"
FRESH_READ = """
import sys, time
import lance, duckdb, omnigraph.read.execute, omnigraph.graph.reads, omnigraph.commit.heal
from omnigraph.graph import open
start, busy = time.perf_counter(), time.process_time()
with open(sys.argv[1]) as graph:
    rows = graph.query(sys.argv[2], {"name": sys.argv[3]}, branch=sys.argv[4])
    assert len(rows) == 1, rows
    print((time.perf_counter() - start) * 1000, (time.process_time() - busy) * 1000)
"""

Statement = tuple[str, dict[str, Any]]


@dataclass
class Names:
    """Which persons there are, so that a statement always finds its row."""

    dice: random.Random = field(default_factory=lambda: random.Random(SEED))
    present: list[str] = field(default_factory=lambda: [person(n) for n in range(ROWS)])
    made: int = 0

    def new(self) -> str:
        """A name that nobody has yet."""
        self.made += 1
        name = f"new {self.made:09}"
        self.present.append(name)
        return name

    def any(self) -> str:
        """A name that somebody has."""
        return self.dice.choice(self.present)

    def gone(self) -> str:
        """A name that somebody had until now; never one of the first two, which others point at."""
        at = self.dice.randrange(2, len(self.present))
        self.present[at], self.present[-1] = self.present[-1], self.present[at]
        return self.present.pop()


def person(number: int) -> str:
    """The name of a person who was there from the start."""
    return f"person {number:09}"


def insert(names: Names) -> Statement:
    """One new person."""
    return INSERT, {"name": names.new(), "n": names.made}


def update(names: Names) -> Statement:
    """Another age for one person."""
    return UPDATE, {"name": names.any(), "n": names.dice.randrange(100)}


def delete(names: Names) -> Statement:
    """One person less, with all that person's edges."""
    return DELETE, {"name": names.gone()}


def mixture(names: Names) -> Statement:
    """One of the three."""
    return names.dice.choice((insert, update, delete))(names)


def together(names: Names) -> Statement:
    """A row in each of two node tables and an edge."""
    name = names.new()
    return TOGETHER, {"name": name, "n": names.made, "friend": person(0)}


WORK: Mapping[str, Callable[[Names], Statement]] = {
    "inserts": insert,
    "updates": update,
    "deletes": delete,
    "mixture": mixture,
    "together": together,
}


def filled(directory: Path, upkeep: str) -> Graph:
    """A graph of three tables of 100,000 rows, with indexes."""
    graph = init(directory, SCHEMA, upkeep=upkeep)  # type: ignore[arg-type]
    ids = [person(number) for number in range(ROWS)]
    numbers = pa.array(range(ROWS), pa.int64())
    graph.load_nodes("Person", pa.table({"name": ids, "age": numbers}))
    graph.load_nodes("Company", pa.table({"name": ids, "size": numbers}))
    ends = pa.table({"from": ids, "to": [*ids[7:], *ids[:7]], "since": numbers})
    graph.load_edges("Knows", ends)
    return graph


def fresh_ms(graph: Graph, branch: str) -> list[float]:
    """A new process opens the graph and reads one row: its time by the clock and of the processor.

    Imports do not count.
    """
    command = [sys.executable, "-c", FRESH_READ, graph.uri, POINT, person(0), branch]
    samples = [
        subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()  # noqa: S603
        for _ in range(FRESH)
    ]
    return [statistics.median(map(float, times)) for times in zip(*samples, strict=True)]


def size_of(graph: Graph, branch: str) -> tuple[int, int]:
    """The fragments and the bytes of the manifest of the table that has most of them."""
    state = state_of(graph)
    found = []
    for pin in state.workspace.manifest.state(branch).head.tables.values():
        table = open_table(state.workspace.pinned(pin))
        manifest = table.dataset._ds.serialized_manifest()  # noqa: SLF001 - no public way
        found.append((len(table.fragments()), len(manifest)))
    return max(fragments for fragments, _ in found), max(size for _, size in found)


def measure(graph: Graph, branch: str, work: str, ends: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Make commits; at each end medians early and late, the worst, and what a new process needs."""
    names, samples, burnt = Names(), [], []
    early_fresh: list[float] = []
    most_fragments = 0
    for number in range(1, max(ends) + WINDOW // 2 + 1):
        text, params = WORK[work](names)
        start, busy = time.perf_counter(), time.process_time()
        graph.mutate(text, params, branch=branch)
        samples.append((time.perf_counter() - start) * 1000)
        burnt.append((time.process_time() - busy) * 1000)
        if number == EARLY + WINDOW // 2:
            early_fresh = fresh_ms(graph, branch)
        if number % 64 == 0:
            most_fragments = max(most_fragments, size_of(graph, branch)[0])
        if number - WINDOW // 2 in ends:
            fragments, manifest = size_of(graph, branch)
            late_fresh = fresh_ms(graph, branch)
            by_clock, by_processor = (
                {**compared(times), "fresh": late / early}
                for times, late, early in zip(
                    (samples, burnt), late_fresh, early_fresh, strict=True
                )
            )
            yield {
                "work": work,
                "branch": branch,
                "commits": number - WINDOW // 2,
                **by_clock,
                "cpu": by_processor,
                "fresh_ms": late_fresh[0],
                "fragments": max(fragments, most_fragments),
                "manifest_bytes": manifest,
            }


def compared(samples: Sequence[float]) -> dict[str, float]:
    """The last commits beside those around the fiftieth, and the slowest beside the usual one."""
    around = slice(EARLY - WINDOW // 2, EARLY + WINDOW // 2)
    early, late = statistics.median(samples[around]), statistics.median(samples[-WINDOW:])
    steady = sorted(samples[EARLY - WINDOW // 2 :])
    middle = statistics.median(steady)
    return {
        "early_ms": early,
        "late_ms": late,
        "late": late / early,
        "p98": steady[int(len(steady) * 0.98)] / middle,
        "worst": steady[-1] / middle,
    }


BARS = {"late": 1.4, "p98": 3.0, "worst": 30.0, "fresh": 2.0}


def shown(figures: Mapping[str, Any]) -> str:
    """One line; a ratio above its bar is marked."""
    ratios = "".join(
        f"{ratio[name]:>10.2f}{'!' if ratio[name] > bar else ' '}"
        for ratio in (figures, figures["cpu"])
        for name, bar in BARS.items()
    )
    return (
        f"{figures['work']:10}{figures['branch']:6}{figures['commits']:>7}{figures['early_ms']:>9.1f}"
        f"{figures['late_ms']:>9.1f}{ratios}{figures['fresh_ms']:>10.1f}{figures['fragments']:>7}"
        f"{figures['manifest_bytes']:>10}"
    )


def main() -> None:
    """Measure every kind of work at every place, and print a line for each."""
    parser = argparse.ArgumentParser(prog="./dev bench commit")
    parser.add_argument("--commits", type=int, default=2_000)
    parser.add_argument("--long", action="store_true", help="10,000 commits")
    parser.add_argument("--work", default=",".join(WORK))
    parser.add_argument("--place", default="main,fork")
    parser.add_argument("--upkeep", default="inline", choices=("inline", "background", "off"))
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    ends = (2_000, 10_000) if asked.long else (asked.commits,)
    if not asked.json:
        bars = "".join(f"{name:>10} " for name in [*BARS, *(f"cpu {name}" for name in BARS)])
        print(f"{'work':10}{'place':6}{'N':>7}{'50, ms':>9}{'N, ms':>9}{bars}", end="")
        print(f"{'fresh, ms':>10}{'frags':>7}{'manifest':>10}")
        limits = "".join(f"{'≤ ' + str(bar):>10} " for bar in BARS.values()) * 2
        print(f"{'':41}{limits}")
    for work in asked.work.split(","):
        for place in asked.place.split(","):
            with tempfile.TemporaryDirectory() as name, filled(Path(name), asked.upkeep) as graph:
                if place != "main":
                    graph.branches.create(place)
                for figures in measure(graph, place, work, ends):
                    print(json.dumps(figures) if asked.json else shown(figures), flush=True)


if __name__ == "__main__":
    main()
