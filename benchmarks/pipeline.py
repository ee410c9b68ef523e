"""Bulk load on the local engine: rate against what any loader must do, and memory.

    ./dev bench pipeline [RECORDS] [--large]

`--large` adds the load of 5 million records whose memory is measured (a few minutes).
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import omnigraph as og

SCHEMA = """
node Person { name: String @key  age: I32?  city: String?  @range(age, 0..150) }
edge Knows: Person -> Person { since: Date? }
"""
WITHOUT_INDEXES = str(10**12)


def write_records(path: Path, total: int) -> tuple[int, int]:
    """Two fifths nodes, three fifths edges, as JSON lines."""
    nodes = total * 2 // 5
    with path.open("w", encoding="utf-8") as file:
        for number in range(nodes):
            data = {"name": f"person-{number}", "age": number % 90, "city": f"city-{number % 977}"}
            file.write(json.dumps({"type": "Person", "data": data}) + "\n")
        for number in range(total - nodes):
            ends = f"person-{number % nodes}", f"person-{number * 7919 % nodes}"
            record = {
                "edge": "Knows",
                "from": ends[0],
                "to": ends[1],
                "data": {"since": "2024-05-01"},
            }
            file.write(json.dumps(record) + "\n")
    return nodes, total - nodes


def timed_load(
    directory: Path, path: Path, name: str, min_rows: str
) -> tuple[float, dict[str, float]]:
    """Seconds of one append into a new graph, and of its stages."""
    os.environ["OMNIGRAPH_INDEX_MIN_ROWS"] = min_rows
    with og.init(directory / name, SCHEMA) as graph:
        start = time.perf_counter()
        result = graph.load(path, mode="append")
        return time.perf_counter() - start, result.timings


def raw_read_and_write(directory: Path, path: Path) -> float:
    """Let pyarrow read the same file, and Lance write what it read: no checks, ids or types."""
    import lance
    from pyarrow import json as arrow_json

    start = time.perf_counter()
    table = arrow_json.read_json(path)
    lance.write_dataset(table, directory / "raw.lance")
    return time.perf_counter() - start


def rate(directory: Path, total: int) -> None:
    """Records per second, with and without index builds."""
    path = directory / "records.jsonl"
    write_records(path, total)
    bare, stages = timed_load(directory, path, "bare", WITHOUT_INDEXES)
    indexed, _ = timed_load(directory, path, "indexed", "10000")
    raw = raw_read_and_write(directory, path)
    shown = ", ".join(f"{name} {seconds:.2f}" for name, seconds in stages.items())
    print(f"\nlocal load of {total:,} records")
    print(f"{'without index builds':28}{bare:8.2f} s {total / bare:12,.0f} records/s   bar 150,000")
    print(f"{'':28}{shown}")
    print(f"{'with index builds':28}{indexed:8.2f} s {total / indexed:12,.0f} records/s")
    print(f"{'read_json + write_dataset':28}{raw:8.2f} s   ratio {bare / raw:.2f}   bar 5")


def memory(directory: Path) -> None:
    """A load of 5 million records in a process of its own, for its peak memory."""
    path = directory / "large.jsonl"
    write_records(path, 5_000_000)
    code = (
        "import sys, benchmarks.pipeline as b; from pathlib import Path; "
        "b.large(Path(sys.argv[1]), Path(sys.argv[2]))"
    )
    subprocess.run([sys.executable, "-c", code, str(directory), str(path)], check=True)  # noqa: S603


def large(directory: Path, path: Path) -> None:
    """The child's part: load and report."""
    seconds, _ = timed_load(directory, path, "large", WITHOUT_INDEXES)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    print(f"\n5,000,000 records: {seconds:.1f} s, {5_000_000 / seconds:,.0f} records/s, "
          f"peak memory {peak:.2f} GiB   bar 1.5 GB")  # fmt: skip


def main() -> None:
    """Run what was asked for."""
    numbers = [argument for argument in sys.argv[1:] if argument.isdigit()]
    with tempfile.TemporaryDirectory() as name:
        rate(Path(name), int(numbers[0]) if numbers else 500_000)
        if "--large" in sys.argv:
            memory(Path(name))


if __name__ == "__main__":
    main()
