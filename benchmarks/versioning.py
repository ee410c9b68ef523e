"""What a merge and a diff of 100 rows cost in a small and in a large table, and 1,000 branches.

`./dev bench versioning` compares tables of 10,000 and 5,000,000 rows; `--rows N` takes another large one. Both
are measured as loaded, and again after a tenth of the rows was updated all over the table. Cold is a new
process that has the libraries loaded and nothing else. A merge is only planned, so that it can be repeated
(`dry_run`); what it takes with its commit is measured once. `--step N` loads so many rows at a time, which sets the size of the
fragments.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import omnigraph

SMALL, LARGE, DELTA, STEP = 10_000, 5_000_000, 100, 1_000_000
WARM_RUNS, COLD_RUNS, BRANCHES = 7, 3, 1_000
SCHEMA = "node Item { key: String @key  count: I64  note: String? }"
MAX_WARM, MAX_COLD, MAX_BYTES = 1.5, 4.0, 1_000_000


def rows(numbers: Any, count: int) -> pa.Table:
    """Items with these numbers, and counts that depend on ``count`` and differ from row to row.

    Lance packs a column of one value into few large blocks, and then decodes a block for every row it takes:
    100 rows of 5,000,000 take 25 ms from such a column and 2 ms from any other.
    """
    keys = np.char.add("item ", np.asarray(numbers).astype(str))
    counts = pa.array(np.asarray(numbers, np.int64) * 7919 % 1_000_003 + count, pa.int64())
    return pa.table({"key": keys, "count": counts, "note": keys})


def build(place: Path, size: int, step: int) -> omnigraph.Graph:
    """A graph with that many indexed rows, loaded so many at a time."""
    graph = omnigraph.init(place, SCHEMA)
    for begin in range(0, size, step):
        part = np.arange(begin, min(begin + step, size))
        graph.load_nodes("Item", rows(part, 0), mode="append")
    graph.ensure_indices()
    return graph


def fork(graph: omnigraph.Graph, name: str, size: int, count: int) -> None:
    """A branch with 100 rows of another count, spread over the table."""
    graph.branches.create(name)
    graph.load_nodes("Item", rows(np.arange(0, size, size // DELTA)[:DELTA], count), branch=name)


def operations(graph: omnigraph.Graph, branch: str) -> dict[str, Callable[[], Any]]:
    """What is measured: neither changes anything, so both can be repeated."""

    def diff() -> Any:
        found = graph.diff("main", branch)
        assert sum(1 for _ in found) == DELTA
        return found.stats

    def merge() -> Any:
        stats = graph.branches.merge(branch, dry_run=True).stats
        assert stats.updates == DELTA
        return stats

    return {"diff": diff, "merge": merge}


def measured(action: Callable[[], Any]) -> tuple[float, int]:
    """The milliseconds of one run, and the bytes it read."""
    start = time.perf_counter()
    stats = action()
    return (time.perf_counter() - start) * 1000, stats.bytes_read


def cold(place: Path, branch: str, name: str) -> tuple[float, int]:
    """The same in a process of its own."""
    argv = [sys.executable, "-m", "benchmarks.versioning", "--probe", str(place), branch, name]
    done = subprocess.run(argv, check=True, capture_output=True, text=True)  # noqa: S603 - ourselves
    answer = done.stdout
    milliseconds, read = json.loads(answer)
    return milliseconds, read


def probe(place: str, branch: str, name: str) -> None:
    """One measured run, for ``cold``."""
    with omnigraph.open(place, mode="r") as graph:
        print(json.dumps(measured(operations(graph, branch)[name])))


def measure(graph: omnigraph.Graph, place: Path, branch: str) -> dict[str, dict[str, float]]:
    """Warm and cold times and bytes of both operations, and the time of the merge that is kept."""
    found: dict[str, dict[str, float]] = {}
    for name, action in operations(graph, branch).items():
        action()
        warm = [measured(action) for _ in range(WARM_RUNS)]
        first = [cold(place, branch, name) for _ in range(COLD_RUNS)]
        found[name] = {
            "warm": statistics.median(ms for ms, _ in warm),
            "warm_bytes": max(read for _, read in warm),
            "cold": statistics.median(ms for ms, _ in first),
            "cold_bytes": max(read for _, read in first),
        }
    start, used = time.perf_counter(), time.process_time()
    graph.branches.merge(branch, delete_branch=True)
    found["merge"]["committed"] = (time.perf_counter() - start) * 1000
    found["merge"]["committed_cpu"] = (time.process_time() - used) * 1000
    return found


def compare(directory: Path, sizes: tuple[int, int], step: int) -> dict[str, Any]:
    """Both sizes, as loaded and after scattered updates."""
    result: dict[str, Any] = {}
    for size in sizes:
        place = directory / str(size)
        with build(place, size, step) as graph:
            fork(graph, "first", size, 1)
            result[f"{size}"] = measure(graph, place, "first")
            scattered = np.random.default_rng(5).choice(size, size // 10, replace=False)
            graph.load_nodes("Item", rows(scattered, 2))
            fork(graph, "second", size, 3)
            result[f"{size} after updates"] = measure(graph, place, "second")
    return result


def branches(directory: Path) -> dict[str, float]:
    """The times to make branches early and late."""
    with omnigraph.init(directory / "branches", SCHEMA) as graph:
        graph.load_nodes("Item", rows(np.arange(10), 0))
        times = []
        for number in range(BRANCHES):
            start = time.perf_counter()
            graph.branches.create(f"b{number:04}")
            times.append((time.perf_counter() - start) * 1000)
        start = time.perf_counter()
        assert len(graph.branches.list()) == BRANCHES + 1
        listed = (time.perf_counter() - start) * 1000
    early, late = statistics.median(times[:50]), statistics.median(times[-50:])
    return {"early": early, "late": late, "list": listed}


def report(result: dict[str, Any], sizes: tuple[int, int]) -> None:
    """The ratios between the two sizes, and the bytes against their bar."""
    small, large = sizes
    for state in ("", " after updates"):
        for name in ("diff", "merge"):
            one, other = (result[f"{size}{state}"][name] for size in (small, large))
            for kind, bar in (("warm", MAX_WARM), ("cold", MAX_COLD)):
                ratio = other[kind] / one[kind]
                print(
                    f"{name}{state}, {kind}: {one[kind]:.1f} ms of {small:,} rows, "
                    f"{other[kind]:.1f} ms of {large:,}: {ratio:.2f} x (bar {bar})"
                )
            print(
                f"{name}{state}: {other['warm_bytes']:,} bytes read (bar {MAX_BYTES:,}), cold "
                f"{other['cold_bytes']:,} with what opening the table reads"
            )
        for kind, what in (("committed", ""), ("committed_cpu", " of processor time")):
            times = [result[f"{size}{state}"]["merge"][kind] for size in sizes]
            print(
                f"merge with its commit{state}: {times[0]:.1f} ms, {times[1]:.1f} ms{what}: "
                f"{times[1] / times[0]:.2f} x (no bar: Lance's commit of an update grows with the table)"
            )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=LARGE, help="rows of the large table")
    parser.add_argument("--step", type=int, default=STEP, help="rows loaded at a time")
    parser.add_argument("--json", action="store_true", help="print what was measured")
    parser.add_argument("--probe", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.probe:
        probe(*given.probe)
        return
    # One index over all rows at the end: that of the first load would cover only the rows it found.
    os.environ.setdefault("OMNIGRAPH_INDEX_MIN_ROWS", str(10 * given.rows))
    sizes = SMALL, given.rows
    with tempfile.TemporaryDirectory() as directory:
        result = compare(Path(directory), sizes, given.step)
        made = branches(Path(directory))
    if given.json:
        print(json.dumps({**result, "branches": made}, indent=2))
        return
    report(result, sizes)
    print(
        f"a branch: {made['early']:.1f} ms at first, {made['late']:.1f} ms as number {BRANCHES:,}; "
        f"listing them {made['list']:.1f} ms"
    )


if __name__ == "__main__":
    main()
