"""The process of one engine: reads orders as JSON lines, answers each with a line.

python -m benchmarks.contest.worker ENGINE DATASET PLACE
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.contest.dataset import Dataset, read_dataset
from benchmarks.contest.engines import Engine, Question, engine

MERGED = 100


def obey(order: dict[str, Any], player: Engine, dataset: Path, place: Path) -> dict[str, Any]:
    """Carry out one order."""
    start, used = time.perf_counter(), time.process_time()
    if order["do"] == "merge":
        return merge_edges(read_dataset(dataset), place)
    if order["do"] == "load":
        player.load(read_dataset(dataset), place)
        return {"seconds": time.perf_counter() - start, "cpu": time.process_time() - used}
    if order["do"] == "open":
        player.open(place)
        return {"seconds": time.perf_counter() - start}
    if order["do"] == "ask":
        rows = player.ask(Question(**order["question"]))
        spent = {"seconds": time.perf_counter() - start, "cpu": time.process_time() - used}
        return {**spent, "rows": rows}
    if order["do"] == "write":
        player.write(Question(**order["question"]))
        return {"seconds": time.perf_counter() - start}
    return {"peak": peak_memory()}


def merge_edges(data: Dataset, place: Path) -> dict[str, Any]:
    """Merge some edges into the largest table of edges of a graph of ours, found by their ids."""
    import pyarrow.parquet as pq

    import omnigraph

    sizes = {edge.name: pq.read_metadata(data.file(edge.name)).num_rows for edge in data.edges}
    name = max(sizes, key=lambda one: sizes[one])
    with omnigraph.open(place) as graph:
        stored = next(iter(graph.edges(name, ["id", "from", "to"])))
        some = stored[:: max(1, len(stored) // MERGED)][:MERGED]
        start, used = time.perf_counter(), time.process_time()
        graph.load_edges(name, some, mode="merge")
        return {
            "seconds": time.perf_counter() - start,
            "cpu": time.process_time() - used,
            "rows": len(some),
            "stored": sizes[name],
        }


def peak_memory() -> int:
    """Bytes of memory this program held at most."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Not ru_maxrss: a child starts with what its parent had when it was forked.
    (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def main() -> None:
    """Obey until the orders end."""
    # What libraries print goes to stderr; the answers keep the pipe to themselves.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    name, dataset, place = sys.argv[1:]
    player = engine(name)
    for line in sys.stdin:
        try:
            answer = obey(json.loads(line), player, Path(dataset), Path(place))
        except Exception as error:  # noqa: BLE001 - the referee shows it and goes on
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
