"""What the history of an entity costs after few and after many commits of others.

`./dev bench history` makes 2,000 commits of single rows in a table of 20,000 rows; `--commits N` makes more. At 200,
2,000, 20,000 and 100,000 commits, as far as it goes, it asks for the history and the blame of a row with five
changes that are spread over all commits so far: in the process that has the graph open, and in a new handle.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

import omnigraph as og

ROWS, CHANGES, RUNS = 20_000, 5, 9
SIZES = (200, 2_000, 20_000, 100_000)
SCHEMA = "node Item { key: String @key  count: I64  note: String? }"
SET = "query q($k: String, $c: I64) { update Item set { count: $c } where key = $k }"
MAX_A_CHANGE, MAX_GROWTH = 10.0, 1.2


def watched(size: int) -> str:
    """The row that changes five times in so many commits."""
    return f"watched {size}"


def build(place: Path, sizes: list[int]) -> og.Graph:
    """A graph of 20,000 rows, with the rows that are watched among them."""
    graph = og.init(place, SCHEMA)
    keys = [f"item {n}" for n in range(ROWS)] + [watched(size) for size in sizes]
    counts = pa.array(np.arange(len(keys)), pa.int64())
    graph.load_nodes("Item", pa.table({"key": keys, "count": counts, "note": keys}))
    graph.ensure_indices()
    return graph


def write(graph: og.Graph, begin: int, end: int, sizes: list[int]) -> None:
    """Make single-row commits; each watched row is changed five times, evenly until its size is reached."""
    for at in range(begin, end):
        due = [size for size in sizes if at < size and at % (size // CHANGES) == 0]
        for size in due:
            graph.mutate(SET, params={"k": watched(size), "c": at + 1_000_000})
        if not due:
            graph.mutate(SET, params={"k": f"item {at * 7919 % ROWS}", "c": at})


def timed(action: Callable[[], Any]) -> dict[str, float]:
    """The middle of several runs, in milliseconds: on the clock, and of this process alone."""
    action()
    clock, own = [], []
    for _ in range(RUNS):
        begin, begun = time.perf_counter(), time.process_time()
        action()
        clock.append((time.perf_counter() - begin) * 1000)
        own.append((time.process_time() - begun) * 1000)
    return {"ms": statistics.median(clock), "cpu_ms": statistics.median(own)}


def measure(graph: og.Graph, size: int) -> dict[str, Any]:
    """What one watched row costs, in the handle that wrote and in one that has read nothing."""
    row: tuple[Literal["node"], str, str] = ("node", "Item", watched(size))
    assert len(graph.history(*row).entries) == CHANGES + 1

    def fresh() -> None:
        with og.open(graph.uri, mode="r") as other:
            other.history(*row)

    def opened() -> None:
        with og.open(graph.uri, mode="r") as other:
            other.entity(*row)

    return {
        "history": timed(lambda: graph.history(*row)),
        "blame": timed(lambda: graph.blame(*row)),
        "new handle, history": timed(fresh),
        "new handle, entity": timed(opened),
    }


def main() -> None:
    """Write, measure at each size, and say whether the bars are met."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--commits", type=int, default=2_000, help="how many commits to make")
    parser.add_argument("--json", action="store_true", help="print what was measured")
    given = parser.parse_args()
    sizes = [size for size in SIZES if size <= given.commits]
    found: dict[int, Any] = {}
    with tempfile.TemporaryDirectory() as place, build(Path(place) / "g.omni", sizes) as graph:
        made = 0
        for size in sizes:
            write(graph, made, size, sizes)
            made = size
            found[size] = measure(graph, size)
    if given.json:
        print(json.dumps(found))
        return
    for size, figures in found.items():
        print(f"{size:,} commits, {CHANGES + 1} entries")
        for name, one in figures.items():
            print(f"  {name:<20} {one['ms']:7.1f} ms, {one['cpu_ms']:7.1f} ms of the processor")
    costs = [figures["history"]["ms"] for figures in found.values()]
    per_change = costs[-1] / (CHANGES + 1)
    grown = costs[-1] / costs[0]
    print(
        f"a change {per_change:.1f} ms (bar {MAX_A_CHANGE}); grown {grown:.2f} x (bar {MAX_GROWTH})"
    )


if __name__ == "__main__":
    main()
