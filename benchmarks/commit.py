"""What a publish and an open cost, early and late in a graph's history, and against raw Lance.

`./dev bench commit [COMMITS]` measures up to that many commits, 2000 if not said.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from omnigraph.graph import Graph, init
from omnigraph.manifest import rows
from omnigraph.manifest.create import new_commit_id, now_us
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.publisher import Changes, Intent, publish
from omnigraph.storage.handles import TableRef, create_table
from omnigraph.storage.tables import merge_insert_exclusive

EARLY, WINDOW = 50, 50


def schema(types: int) -> str:
    """A schema of that many node types."""
    return "\n".join(f"node T{number} {{ key: String @key  n: I64? }}" for number in range(types))


def timed(action: Callable[[], object]) -> float:
    """The milliseconds one run takes."""
    start = time.perf_counter()
    action()
    return (time.perf_counter() - start) * 1000


def median(samples: list[float]) -> float:
    """The middle of the samples."""
    return statistics.median(samples)


def publish_one(manifest: Manifest, branch: str = "main") -> None:
    """Publish a commit that moves one table by one version."""
    table = manifest.state(branch).head.tables["node:T0"]
    moved = replace(table, table_version=table.table_version + 1)
    intent = Intent(new_commit_id(), "load", now_us())
    publish(manifest, branch, Changes(tables=(moved,)), {"node:T0": table.table_version}, intent)


def window(graph: Graph) -> dict[str, float]:
    """Medians over the next commits: publish, fresh open, warm read without a change."""
    publishes, opens, warm = [], [], []
    for _ in range(WINDOW):
        publishes.append(timed(lambda: publish_one(graph.manifest)))
        opens.append(timed(lambda: Manifest(graph.root).state("main")))
        graph.snapshot()
        warm.append(timed(graph.snapshot))
    return {"publish": median(publishes), "open": median(opens), "warm read": median(warm)}


def raw_publish(directory: Path, graph: Graph) -> float:
    """The one Lance call a publish must make, on a manifest-like table of the same size."""
    state = graph.manifest.state("main")
    table = create_table(TableRef(str(directory / "raw")), state.table.schema, state.table.read())
    samples = []
    for _ in range(WINDOW):
        head = state.head
        commit = replace(head.commit, graph_commit_id=new_commit_id())
        new = [
            rows.version_row(head.tables["node:T0"]),
            rows.commit_row(commit),
            rows.head_row(replace(head, commit=commit)),
        ]
        batch = rows.to_table(new, table.schema)
        start = time.perf_counter()
        table = merge_insert_exclusive(table, batch)
        samples.append((time.perf_counter() - start) * 1000)
        if len(table.fragments()) >= 32:
            shutil.rmtree(directory / "raw")
            table = create_table(TableRef(str(directory / "raw")), table.schema, state.table.read())
    return median(samples)


def history(directory: Path, late: int) -> None:
    """The same operations after few commits and after many."""
    graph = init(directory / "history", schema(5))
    while (
        len(graph.commits.list(limit=1))
        and graph.manifest.state("main").head.commit.manifest_version < EARLY
    ):
        publish_one(graph.manifest)
    early = window(graph)
    raw = raw_publish(directory, graph)
    made = EARLY + WINDOW
    while made < late:
        publish_one(graph.manifest)
        made += 1
    now = window(graph)
    bars = {"publish": "1.4 x", "open": "2 x, 8 ms", "warm read": "0.3 ms"}
    print(
        f"\n{'ms, medians of ' + str(WINDOW):24}{'commit ' + str(EARLY):>12}{'commit ' + str(late):>14}{'ratio':>8}   bar"
    )
    for name in early:
        ratio = now[name] / early[name]
        print(f"{name:24}{early[name]:12.2f}{now[name]:14.2f}{ratio:8.2f}   {bars[name]}")
    print(
        f"{'publish / raw call':24}{early['publish'] / raw:12.2f}{'':14}{'':8}   2 x (raw: {raw:.2f} ms)"
    )
    graph.close()


def branches(directory: Path) -> None:
    """Making a branch of a graph with few types and with many."""
    print(f"\n{'branch create, ms':24}", end="")
    medians = []
    for types in (5, 200):
        graph = init(directory / f"types{types}", schema(types))
        samples = [timed(partial(graph.branches.create, f"b{number}")) for number in range(15)]
        medians.append(median(samples))
        print(f"{str(types) + ' types':>12}{medians[-1]:8.2f}", end="")
        graph.close()
    print(f"   ratio {medians[1] / medians[0]:.2f}")


def main() -> None:
    """Measure a growing history, then branches."""
    late = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    with tempfile.TemporaryDirectory() as name:
        history(Path(name), late)
        branches(Path(name))


if __name__ == "__main__":
    main()
