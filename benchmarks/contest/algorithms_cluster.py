"""Algorithms and a query on a standalone cluster of two executors with 2 GB, beside plain PySpark jobs of the same rounds.

The driver is a process of its own, so that its memory is not that of what made the graph: `python -m
benchmarks.contest.algorithms_cluster JSON`. On a busy machine processor time says more than the wall: it is that of all
processes of the cluster.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import omnigraph as og
from benchmarks.bulk.costs import RETAINED, costs
from benchmarks.contest.algorithms_spark import Plain, settings
from omnigraph.runner.session import spark_session, stop_session

EXECUTORS = 2
DRIVER_MB = 1000
QUERY = (
    "match { $a: Node  $a link $b  $b link $c }"
    " return { $a.team as team, count(*) as n } order { team }"
)


def on_a_cluster(uri: str, edges: int, rounds: int, place: Path) -> None:
    """Start the cluster, and measure in a driver of its own."""
    # Not annotated, as tests are, so not for the type checker either.
    standalone_cluster = import_module("tests.spark.cluster").standalone_cluster
    with standalone_cluster(place, workers=EXECUTORS, memory="2g") as running:
        given = {
            "uri": uri,
            "edges": edges,
            "rounds": rounds,
            "roots": [process.pid for process in running.processes],
        }
        subprocess.run(  # noqa: S603
            [sys.executable, "-m", "benchmarks.contest.algorithms_cluster", json.dumps(given)],
            env={**os.environ, "OMNIGRAPH_SPARK_MASTER": running.master},
            check=True,
        )


def measured(uri: str, edges: int, rounds: int, roots: list[int]) -> None:
    """Run everything both ways, and print a line for each."""
    conf = {"spark.driver.memory": "640m", "spark.executor.memory": "2g", **RETAINED}
    session = spark_session(conf=conf)
    with og.open(uri, mode="r") as graph, settings(session, edges):
        run, plain = graph.algorithms, Plain(session, uri, rounds)
        run.degree("Link", engine="spark")  # starts Python workers and compiles
        done: list[int] = []

        def noted(number: int, _: int) -> None:
            done.append(number)

        jobs: list[tuple[str, Callable[[], Any], Callable[[], Any]]] = [
            (
                f"pagerank, {rounds} rounds",
                lambda: run.pagerank("Link", tolerance=0, max_iterations=rounds, engine="spark"),
                plain.pagerank,
            ),
            (
                "components",
                lambda: run.connected_components("Link", engine="spark", progress=noted),
                lambda: plain.components(len(done)),
            ),
            (
                "two hops by group",
                lambda: [
                    (row["team"], row["n"]) for row in graph.query(QUERY, engine="spark").rows
                ],
                plain.two_hops,
            ),
        ]
        for name, ours, theirs in jobs:
            both = []
            for who, call in (("OmniGraph", ours), ("plain", theirs)):
                with costs(session, *roots) as found:
                    answer = call()
                print(f"  {name}, {who}: {_told(found)}", flush=True)
                both.append((found, answer))
            (mine, one), (other, two) = both
            if name == "two hops by group":
                assert one == two, "both jobs have the same rows"
            ratios = f"{mine['seconds'] / other['seconds']:.2f} x, processor time {_cpu(mine) / _cpu(other):.2f} x"
            print(f"{name}: {ratios} | bar 1 x", flush=True)
            driver = mine["memory"]["driver"] + mine["memory"]["JVM"]
            verdict = "met" if driver < DRIVER_MB else "MISSED"
            print(f"{name}: driver {driver:.0f} MB, with its Java | bar {DRIVER_MB} MB | {verdict}")
    stop_session()


def _cpu(found: dict[str, Any]) -> float:
    return float(found["driver cpu"] + found["JVM cpu"] + found["Python cpu"])


def _told(found: dict[str, Any]) -> str:
    memory = ", ".join(f"{kind} {size:.0f}" for kind, size in sorted(found["memory"].items()))
    return (
        f"{found['seconds']:.1f} s, {_cpu(found):.1f} s of processor time, {found['jobs']} jobs, {found['stages']} stages, "
        f"{found['tasks']} tasks, {found['shuffle write'] / 1e6:.1f} MB shuffled, "
        f"{found['spilled'] / 1e6:.1f} MB spilled; peaks in MB: {memory}"
    )


if __name__ == "__main__":
    measured(**json.loads(sys.argv[1]))
