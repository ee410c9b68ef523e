"""What an export costs, against reading the tables with Lance and writing every row with `json.dumps`.

`./dev bench export` takes 500,000 rows of mixed properties and 20,000 with vectors of 768 dimensions; `--rows N` any
other number. Each step is a process of its own. The bars: as fast as that, though an export sorts, and
300 MB of memory over idle.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

import omnigraph
from omnigraph.graph.graph import state_of
from omnigraph.storage.tables.table import open_table
from omnigraph.types import column_to_json

SCHEMA = """
node Person {
  name: String @key
  text: String?
  age: I32?
  score: F64?
  tags: [String]?
  at: DateTime?
}
node Doc { name: String @key  vector: Vector(768)? }
node Word { name: String @key  vector: Vector(2)?  count: F64? }
"""
MB, BAR, RATIO = 1_000_000, 300, 1.0
STEP_ROWS = 100_000
SHARE = 25
"""One row with a vector for so many without."""


def people(rows: int) -> pa.Table:
    """Rows of mixed properties, whose ids are in no order."""
    chance = np.random.default_rng(rows)
    numbers = chance.permutation(rows)
    return pa.table(
        {
            "name": [f"person {number:09}" for number in numbers],
            "text": [f'the "{number}" of all\npersons, número {number}' for number in numbers],
            "age": pa.array(numbers % 90, pa.int32(), mask=numbers % 7 == 0),
            "score": chance.random(rows) * 1000,
            "tags": [["red", "green", "blue"][: number % 4] for number in numbers],
            "at": pa.array(chance.integers(0, 2**40, rows), pa.timestamp("ms", "UTC")),
        }
    )


def docs(rows: int) -> pa.Table:
    """Rows with vectors."""
    chance = np.random.default_rng(rows)
    vectors = pa.array(chance.standard_normal(rows * 768, dtype=np.float32))
    return pa.table(
        {
            "name": [f"doc {number:09}" for number in chance.permutation(rows)],
            "vector": pa.FixedSizeListArray.from_arrays(vectors, 768),
        }
    )


def export(graph: omnigraph.Graph, type_name: str, out: Path) -> None:
    """`graph.export` of one type."""
    graph.export(out, types=[type_name])


def plain(graph: omnigraph.Graph, type_name: str, out: Path) -> None:
    """Every row in whatever order, with the codec of the product and `json.dumps`."""
    workspace = state_of(graph).workspace
    entity = graph.schema.catalog.nodes[type_name]
    table = open_table(workspace.pinned(graph.snapshot().tables[entity.table_key]))
    with out.open("w", encoding="utf-8", newline="\n") as file:
        for batch in table.scan(["id", *entity.properties]):
            columns = {"id": batch.column("id").to_pylist()}
            for name, prop in entity.properties.items():
                columns[name] = column_to_json(prop.type, batch.column(name))
            for values in zip(*columns.values(), strict=True):
                record = {"type": type_name, "data": dict(zip(columns, values, strict=True))}
                file.write(json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n")


STEPS: dict[str, Callable[[omnigraph.Graph, str, Path], None]] = {
    "export": export,
    "plain": plain,
}


def memory(field: str) -> float:
    """`VmRSS` or `VmHWM` of this process, in MB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024 / MB
    raise RuntimeError(f"no {field} in /proc/self/status; this benchmark needs Linux")


def measure(step: str, type_name: str, root: str, out: str) -> None:
    """Run one step in this process, and print what it took."""
    with omnigraph.open(root) as graph:
        # Libraries are loaded before the step begins.
        STEPS[step](graph, "Word", Path(out))
        idle = memory("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        start, used = time.perf_counter(), time.process_time()
        STEPS[step](graph, type_name, Path(out))
        print(
            json.dumps(
                {
                    "mb": max(0.0, memory("VmHWM") - idle),
                    "seconds": time.perf_counter() - start,
                    "cpu": time.process_time() - used,
                }
            )
        )


def ask(step: str, type_name: str, root: Path, out: Path) -> dict[str, float]:
    """Have a process of its own run a step; return its figures."""
    command = [
        sys.executable, "-m", "benchmarks.export", "--step", step, type_name, str(root), str(out),
    ]  # fmt: skip
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 - our own command
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def run(place: Path, rows: int) -> None:
    """Make the graph, then measure both steps for each type."""
    root = place / "graph"
    with omnigraph.init(root, SCHEMA) as graph:
        for start in range(0, rows, STEP_ROWS):
            part = people(rows).slice(start, STEP_ROWS)
            graph.load_nodes("Person", part, mode="append")
        graph.load([{"type": "Word", "data": {"name": "w", "vector": [0.5, 1]}}])
        graph.load_nodes("Doc", docs(max(1, rows // SHARE)), mode="append")
    for type_name, count in (("Person", rows), ("Doc", max(1, rows // SHARE))):
        figures = {}
        for step in STEPS:
            out = place / f"{step}.jsonl"
            figures[step] = ask(step, type_name, root, out)
            size = out.stat().st_size
            took, used = figures[step]["seconds"], figures[step]["cpu"]
            print(
                f"{type_name:7} {step:7} {count / took:10,.0f} rows/s {size / MB / took:7,.1f} MB/s "
                f"{used:6.1f} s of cores, {figures[step]['mb']:5.0f} MB over idle"
            )
        lines = [(place / f"{step}.jsonl").read_bytes().splitlines() for step in STEPS]
        assert lines[0] == sorted(lines[1]), "both write the same lines"
        ratio = figures["export"]["seconds"] / figures["plain"]["seconds"]
        held = figures["export"]["mb"]
        print(f"{type_name:7} export / plain {ratio:.2f} (bar {RATIO}), {held:.0f} MB (bar {BAR})")


def main() -> None:
    """Run the benchmark, or one step of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=500_000, help="rows of mixed properties")
    parser.add_argument("--step", nargs=4, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.step is not None:
        measure(*asked.step)
        return
    place = Path(tempfile.mkdtemp(prefix="export-"))
    try:
        run(place, asked.rows)
    finally:
        shutil.rmtree(place)


if __name__ == "__main__":
    main()
