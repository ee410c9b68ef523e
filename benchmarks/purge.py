"""What it takes to purge ten entities from a large graph with many versions.

`./dev bench purge` makes a graph of 500,000 rows and 50 versions (`--rows N`, `--versions N`), deletes some of the
entities and changes others on the way, and purges ten of them: seconds, memory, and the bytes that were written anew.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path

import pyarrow as pa

import omnigraph as og

SCHEMA = "node Item { key: String @key  note: String? }  edge Next: Item -> Item"
SET = "query q($k: String, $n: String) { update Item set { note: $n } where key = $k }"
PURGED = 10


def build(place: Path, rows: int, versions: int) -> og.Graph:
    """Half of the rows are nodes and half are edges; single-row commits make the versions."""
    graph = og.init(place, SCHEMA)
    half = rows // 2
    keys = [f"item {number}" for number in range(half)]
    graph.load_nodes("Item", pa.table({"key": keys, "note": keys}))
    following = pa.table({"from": keys, "to": [*keys[1:], keys[0]]})
    graph.load_edges("Next", following)
    graph.ensure_indices()
    for number in range(versions):
        key = keys[number * 7 % half]
        graph.mutate(SET, params={"k": key, "n": f"changed {number}"})
    return graph


def data_bytes(place: Path) -> dict[Path, int]:
    """The files of rows and of indexes, with their sizes."""
    folders = ("nodes", "edges")
    return {
        path: path.stat().st_size
        for folder in folders
        for path in (place / folder).rglob("*.lance")
    }


def split(sizes: dict[Path, int]) -> dict[str, float]:
    """Megabytes of rows and of indexes."""
    indexes = sum(size for path, size in sizes.items() if "_indices" in path.parts)
    return {
        "rows_mb": round((sum(sizes.values()) - indexes) / 1e6, 1),
        "indexes_mb": round(indexes / 1e6, 1),
    }


def main() -> None:
    """Build, purge, and print what it took as one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--versions", type=int, default=50)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory) / "graph"
        with build(place, arguments.rows, arguments.versions) as graph:
            ids = [f"item {number * 7}" for number in range(PURGED)]
            before = data_bytes(place)
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            started = time.perf_counter()
            plan = graph.purge({"Item": ids}, dry_run=True)
            looked = time.perf_counter()
            report = graph.purge({"Item": ids})
            ended = time.perf_counter()
            after = data_bytes(place)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            print(
                json.dumps(
                    {
                        "rows": arguments.rows,
                        "versions": arguments.versions,
                        "dry_run_s": round(looked - started, 2),
                        "purge_s": round(ended - looked, 2),
                        "more_memory_mb": round((peak - memory) / 1024),
                        "before": split(before),
                        "written": split({k: v for k, v in after.items() if k not in before}),
                        "removed": split({k: v for k, v in before.items() if k not in after}),
                        "purged": dict(report.purged),
                        "versions_removed": report.versions_removed,
                        "unreadable": len(plan.unreadable),
                    }
                )
            )


if __name__ == "__main__":
    main()
