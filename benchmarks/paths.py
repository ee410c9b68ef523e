"""Shortest and cheapest paths on the social graph: two random persons beside Kùzu, one start beside SciPy.

    ./dev bench paths [--small] [--json]

The graph is that of `social`: 100,000 persons, 2,400,000 follows, each with a random weight; `--small` is a twentieth.
Every answer is compared. What counts is the median, of the clock and of processor time: on a busy machine only the
latter says much, and Kùzu's is that of all its threads.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from scipy import sparse
from scipy.sparse import csgraph

import omnigraph as og
from benchmarks.contest.dataset import write_dataset
from benchmarks.contest.engines import Question
from benchmarks.contest.peers import peers_directory
from benchmarks.contest.referee import OURS, Player
from benchmarks.social import frames, network

PAIRS, TURNS, STARTS, FIRST = 40, 3, 8, 6
MOST_BY = 2.0  # times SciPy's Dijkstra
KUZU = "kuzu"

BETWEEN = (
    """($from: I64, $to: I64) match { $x: Person { number: $from }  $y: Person { number: $to }
    $x $p:follows{1,30} $y } return { length($p) as steps }""",
    """MATCH (x:Person {number: $from})-[p:Follows* SHORTEST 1..30]->(y:Person {number: $to})
    RETURN length(p)""",
)
FROM_ONE = """($from: I64) match { $x: Person { number: $from }  $x $p:follows by weight $y }
return { count($y) as nodes, sum(cost($p)) as cost, max(cost($p)) as most }"""


def spent(work: Callable[[], Any]) -> tuple[dict[str, float], Any]:
    """What a call takes, in milliseconds, and its answer."""
    clock, used = time.perf_counter(), time.process_time()
    answer = work()
    ended = time.perf_counter(), time.process_time()
    return {"ms": (ended[0] - clock) * 1e3, "cpu_ms": (ended[1] - used) * 1e3}, answer


def median(taken: list[dict[str, float]]) -> dict[str, float]:
    """The median of each."""
    return {key: statistics.median(one[key] for one in taken) for key in taken[0]}


def between(place: Path, persons: int) -> dict[str, dict[str, float]]:
    """Shortest paths of random pairs, asked of both in turns."""
    pairs = np.random.default_rng(20).integers(0, persons, (PAIRS, 2)).tolist()
    names = (OURS, KUZU) if peers_directory() is not None else (OURS,)
    players = [Player(name, place, place / f"{name}.db", peers_directory()) for name in names]
    taken: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    try:
        for player in players:
            player.order("load")
            player.order("open")
        for turn in range(TURNS):
            for source, target in pairs:
                params = {"from": source, "to": target}
                asked = asdict(Question("pair", "", *BETWEEN, "", params))
                answers = [player.order("ask", question=asked) for player in players]
                if any(one["rows"] != answers[0]["rows"] for one in answers):
                    raise SystemExit(f"{params}: {[one['rows'] for one in answers]}")
                for name, one in zip(names, answers, strict=True):
                    if turn:  # The first one warms up.
                        taken[name].append({"ms": one["seconds"] * 1e3, "cpu_ms": one["cpu"] * 1e3})
    finally:
        for player in players:
            player.__exit__(None, None, None)
    return {name: median(runs) for name, runs in taken.items()}


def from_one(place: Path, persons: int, follows: pa.Table) -> dict[str, dict[str, float]]:
    """The cheapest paths from one start to all others, beside SciPy on the same adjacency."""
    ends = follows["src"].to_numpy(), follows["dst"].to_numpy()
    matrix = sparse.csr_array((follows["weight"].to_numpy(), ends), shape=(persons, persons))
    taken: dict[str, list[dict[str, float]]] = {OURS: [], "scipy": []}
    with og.open(place / f"{OURS}.db", mode="r") as graph:
        for start in np.random.default_rng(21).integers(0, persons, FIRST + STARTS).tolist():

            def ours(start: int = start) -> dict[str, Any]:
                return graph.query(FROM_ONE, {"from": start}).one()

            def theirs(start: int = start) -> Any:
                return csgraph.dijkstra(matrix, indices=start)

            one, answer = spent(ours)
            two, costs = spent(theirs)
            costs = np.delete(costs, start)
            costs = costs[np.isfinite(costs)]
            expected = [len(costs), costs.sum(), costs.max()]
            if not np.allclose(list(answer.values()), expected):
                raise SystemExit(f"from {start}: {answer} is not {expected}")
            taken[OURS].append(one)
            taken["scipy"].append(two)
    # The first starts load the topology and the weights, and loops are compiled once they have taken long enough.
    return {name: median(runs[FIRST:]) for name, runs in taken.items()}


def measured(persons: int) -> dict[str, Any]:
    """Both questions on one graph."""
    net = network(persons)
    nodes, edges = frames(net)
    source, target, follows = edges["Follows"]
    weights = np.random.default_rng(22).uniform(1, 10, follows.num_rows)
    follows = follows.append_column("weight", pa.array(weights))
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        write_dataset(place, {"Person": nodes["Person"]}, {"Follows": (source, target, follows)})
        return {
            "edges": follows.num_rows,
            "shortest path of two persons": between(place, persons),
            "cheapest paths from one person": from_one(place, persons, follows),
        }


def main() -> None:
    """Ask, and say how it compares."""
    parser = argparse.ArgumentParser(prog="./dev bench paths")
    parser.add_argument("--small", action="store_true", help="a twentieth of the size")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    found = measured(5_000 if chosen.small else 100_000)
    if chosen.json:
        print(json.dumps(found, indent=2))
        return
    print(f"{found.pop('edges'):,} edges; medians, ms of the clock and of processor time")
    for (title, engines), bar in zip(found.items(), (1.0, MOST_BY), strict=True):
        ours, *others = engines.items()
        for name, one in [ours, *others]:
            print(f"{title:34}{name:>10}{one['ms']:10.2f}{one['cpu_ms']:10.2f}")
        for _, other in others:
            print(
                f"{'':34}{'ratio':>10}{ours[1]['ms'] / other['ms']:10.2f}"
                f"{ours[1]['cpu_ms'] / other['cpu_ms']:10.2f}   bar {bar:g}"
            )


if __name__ == "__main__":
    main()
