"""What periods cost: reads beside a graph of what holds alone, statements beside upserts, loads beside plain loads.

    ./dev bench periods [--edges N] [--records N] [--only reads,asserts,loads]

Half of the edges have ended. The same questions are asked, in turns, of a graph that has only the others and whose
types have no period; the answers must be equal. `--edges` is 10,000,000 unless told otherwise. The ratios are those of
medians of processor time, and below 1.0 times the bar is within.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import omnigraph as og

EDGES, RECORDS, STEP, TURNS, MANY = 10_000_000, 1_000_000, 1_000_000, 15, 10_000
EDGES_OF_ONE = 10
DAY_MS = 86_400_000
ENDED, PLANNED = 10_000 * DAY_MS, 30_000 * DAY_MS
"""Ended edges end in 1997, one after the other, and some of the others will in 2052."""
PERIOD = "@valid(since, until)"
SCHEMA = """
node Person { name: String @key }
node Item { name: String @key  since: DateTime?  until: DateTime?  VALID }
edge Knows: Person -> Person { since: DateTime?  until: DateTime?  VALID }
"""
LINKS = """
node Person { name: String @key }
edge Knows: Person -> Person { level: I64?  since: DateTime?  until: DateTime?  VALID  @unique(src, dst) }
"""
IN_ALL = "two hops, counted in all"
"""The question that is asked once; the others take so little that one run is many calls, each for another person."""
QUESTIONS = {
    IN_ALL: "match { $a: Person  $a knows $b  $b knows $c } return { count(*) as n }",
    "two hops of one": "match { $a: Person { name: $key }  $a knows $b  $b knows $c } return { count(*) as n }",
    "point read": "match { $a: Person { name: $key } } return { $a.name as n }",
    "point read of what has a period": "match { $a: Item { name: $key } } return { $a.name as n }",
    "one hop of one": "match { $a: Person { name: $key }  $a knows $b } return { $b.name as n } order { n }",
    "one hop of one, edges": "match { $a: Person { name: $key }  $a $e:knows $b } return { $b.name as n } order { n }",
}
RECORD = "{ a: String, b: String, level: I64 }"
UPSERT = (
    f"($rows: [{RECORD}]) for $r in $rows upsert Knows {{ from: $r.a, to: $r.b, level: $r.level }}"
)
ASSERT = (
    f"($rows: [{RECORD}]) for $r in $rows assert Knows {{ from: $r.a, to: $r.b, level: $r.level }}"
)


class Timer:
    """The processor and elapsed times of things that are done in turns, in milliseconds."""

    def __init__(self) -> None:
        self.cpu: dict[str, list[float]] = {}
        self.elapsed: dict[str, list[float]] = {}

    def run(self, name: str, action: Callable[[], Any]) -> Any:
        """Time one run."""
        start, cpu = time.perf_counter(), time.process_time()
        answer = action()
        self.elapsed.setdefault(name, []).append((time.perf_counter() - start) * 1000)
        self.cpu.setdefault(name, []).append((time.process_time() - cpu) * 1000)
        return answer

    def report(self, what: str, one: str, other: str, bar: float | None) -> None:
        """Print the ratio of two medians with its bar."""
        mine, theirs = (statistics.median(self.cpu[name]) for name in (one, other))
        held = "" if bar is None else f"   bar {bar}: {mine / theirs / bar:.2f}"
        elapsed = statistics.median(self.elapsed[one]) / statistics.median(self.elapsed[other])
        print(
            f"{what:<52}{mine:>10.2f} {theirs:>10.2f} ms {mine / theirs:>6.2f} x"
            f" (elapsed {elapsed:.2f}){held}",
            flush=True,
        )


def instants(stored: Any) -> pa.Array:
    """Milliseconds as DateTimes; 0 is open."""
    return pa.array(stored, pa.int64(), mask=stored == 0).cast(pa.timestamp("ms"))


def edge_batches(edges: int, persons: int) -> Iterator[tuple[Any, Any, Any, Any]]:
    """Ends and bounds of edges: every second one has ended, every thousandth of the others has an end to come."""
    rng = np.random.default_rng(7)
    for begin in range(0, edges, STEP):
        numbers = np.arange(begin, min(begin + STEP, edges))
        src, dst = rng.integers(0, persons, (2, len(numbers)))
        since = np.where(numbers % 4 < 2, 0, ENDED - DAY_MS - numbers)
        until = np.where(numbers % 2 == 0, ENDED + numbers, 0)
        until[numbers % 2000 == 1] = PLANNED + numbers[numbers % 2000 == 1]
        yield src, dst, since, until


def read_graphs(place: Path, edges: int) -> dict[str, og.Graph]:
    """One graph with periods, and one without that has only what holds."""
    persons = max(1, edges // EDGES_OF_ONE)
    names = pa.array(np.char.add("person ", np.arange(persons).astype(str)))
    graphs = {
        "periods": og.init(place / "periods", SCHEMA.replace("VALID", PERIOD)),
        "plain": og.init(place / "plain", SCHEMA.replace("VALID", "")),
    }
    for name, graph in graphs.items():
        graph.load_nodes("Person", pa.table({"name": names}), mode="append")
        items = pa.table({"name": names, "since": pa.array([ENDED] * persons, pa.timestamp("ms"))})
        graph.load_nodes("Item", items, mode="append")
        for src, dst, since, until in edge_batches(edges, persons):
            some = (
                np.ones(len(src), np.bool_)
                if name == "periods"
                else (until == 0) | (until >= PLANNED)
            )
            rows = pa.table(
                {
                    "from": names.take(pa.array(src[some])),
                    "to": names.take(pa.array(dst[some])),
                    "since": instants(since[some]),
                    "until": instants(until[some]),
                }
            )
            graph.load_edges("Knows", rows, mode="append")
        graph.ensure_indices()
    return graphs


def ask(graph: og.Graph, name: str, keys: list[int], **asked: Any) -> list[Any]:
    """The answers to a question, for each of some persons if it is about one."""
    text = QUESTIONS[name]
    if "$key" in text:
        text = f"($key: String) {text}"
        return [graph.query(text, {"key": f"person {key}"}, **asked).rows for key in keys]
    return [graph.query(text, **asked).rows for _ in keys]


def reads(place: Path, edges: int) -> None:
    """Warm reads at now, and the first one after a bound has passed."""
    graphs = read_graphs(place, edges)
    persons = max(1, edges // EDGES_OF_ONE)
    timer = Timer()
    keys = [int(key) for key in np.random.default_rng(1).integers(0, persons, 20)]
    for turn in range(TURNS + 1):
        for name in QUESTIONS:
            asked = keys[:1] if name == IN_ALL else keys
            ways = list(graphs.items())
            watch = timer if turn else Timer()
            answers = [
                watch.run(f"{name}, {way}", partial(ask, graph, name, asked))
                for way, graph in (ways if turn % 2 else reversed(ways))
            ]
            assert answers[0] == answers[1], name
    for name in QUESTIONS:
        timer.report(name, f"{name}, periods", f"{name}, plain", 1.1)
    # Each moment is after another bound, so that nothing that is kept serves it.
    moments = itertools.count(PLANNED + 2001, 2000)
    for name in QUESTIONS:
        for _ in range(7):
            moment = f"{np.datetime64(next(moments), 'ms')}Z"
            timer.run(f"first {name}", lambda: ask(graphs["periods"], name, keys[:1], as_of=moment))  # noqa: B023
            timer.run(f"one {name}", lambda: ask(graphs["plain"], name, keys[:1]))  # noqa: B023
        timer.report(f"after a bound: {name}", f"first {name}", f"one {name}", 2.0)
    for graph in graphs.values():
        graph.close()


def asserts(place: Path) -> None:
    """10,000 records asserted, beside an upsert of them: where all are new, and where each has a rival."""
    persons = 2 * MANY
    names = [f"person {number}" for number in range(persons)]
    timer = Timer()
    graphs = {
        "assert": (og.init(place / "assert", LINKS.replace("VALID", PERIOD)), ASSERT),
        "upsert": (og.init(place / "upsert", LINKS.replace("VALID", "")), UPSERT),
    }
    for graph, _ in graphs.values():
        graph.load_nodes("Person", pa.table({"name": names}))
        graph.ensure_indices()
    for turn in range(6):
        # Half of the turns begin facts of which nothing is known, the others follow up on these.
        step = turn // 2 + 1
        rows = [
            {"a": names[number], "b": names[(number + step) % persons], "level": turn}
            for number in range(MANY)
        ]
        kind = "new" if turn % 2 == 0 else "with rivals"
        for name, (graph, text) in graphs.items():
            done = timer.run(f"{kind}, {name}", partial(graph.mutate, text, params={"rows": rows}))
            assert done.affected_edges == MANY * (
                2 if (name, kind) == ("assert", "with rivals") else 1
            )
    for kind in ("new", "with rivals"):
        timer.report(
            f"{MANY:,} records by `for`, {kind}", f"{kind}, assert", f"{kind}, upsert", 2.0
        )
    for graph, _ in graphs.values():
        graph.close()


def loads(place: Path, records: int) -> None:
    """Edges with rules per moment, beside the same edges without a period that keep the rules over all."""
    persons = records // 4
    names = pa.array(np.char.add("person ", np.arange(persons).astype(str)))
    numbers = np.arange(records)
    # Four edges of each person to others, one year after the other.
    rows = pa.table(
        {
            "from": names.take(pa.array(numbers % persons)),
            "to": names.take(pa.array((numbers * 7 + numbers // persons + 1) % persons)),
            "since": instants(ENDED + numbers // persons * 365 * DAY_MS),
            "until": instants(ENDED + (numbers // persons + 1) * 365 * DAY_MS),
        }
    )
    timer = Timer()
    rules = ("unique", "card")
    for turn, rule in itertools.product(range(3), rules):
        for way, period in (("periods", PERIOD), ("plain", "")):
            text = LINKS.replace("VALID", period)
            if rule == "card":
                limit = "@card(0..1)" if period else "@card(0..4)"
                text = text.replace("@unique(src, dst)", "")
                text = text.replace("-> Person {", f"-> Person {limit} {{")
            with og.init(place / f"{rule} {way} {turn}", text) as graph:
                graph.load_nodes("Person", pa.table({"name": names}))
                load = partial(graph.load_edges, "Knows", rows, mode="append")
                timer.run(f"{rule}, {way}", load)
    for rule in rules:
        what = f"{records:,} edges by load, @{rule} per moment"
        timer.report(what, f"{rule}, periods", f"{rule}, plain", 1.3)


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edges", type=int, default=EDGES)
    parser.add_argument("--records", type=int, default=RECORDS)
    parser.add_argument("--only", default="reads,asserts,loads")
    given = parser.parse_args()
    parts: dict[str, Callable[[Path], None]] = {
        "reads": partial(reads, edges=given.edges),
        "asserts": asserts,
        "loads": partial(loads, records=given.records),
    }
    for name in given.only.split(","):
        with tempfile.TemporaryDirectory() as scratch:
            parts[name](Path(scratch))


if __name__ == "__main__":
    main()
