"""What schemas of branches cost: applies, merges and diffs across them, and many of them at once.

`./dev bench schemas` changes tables of 1,000,000 and 10,000,000 rows, and merges and compares 100 rows in 5,000,000.
`--rows N,N` and `--changed-in N` take other sizes, `--only PART` one part (`apply`, `rows`, `diff`, `many`). Every ratio
is one of two medians of the same run, taken in turns. `./dev bench schema` has the columns that are written anew and the
rules that are checked.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import omnigraph
from benchmarks.export import memory
from benchmarks.versioning import DELTA, build, rows

SIZES, CHANGED_IN, STEP, REPEATS, MANY = (1_000_000, 10_000_000), 5_000_000, 1_000_000, 5, 100
FIRST = "node Item { key: String @key  count: I64  note: String? }"
POINT = 'query q() { match { $i: Item { key: "item 5" } } return { $i.count as count } }'
MAX_WRITTEN, MAX_READ, MAX_MEMORY = 200_000, 1_000_000, 100


class Timer:
    """The times of things that are done in turns, in milliseconds: elapsed, and with a core to run on."""

    def __init__(self) -> None:
        self.elapsed: dict[str, list[float]] = {}
        self.cpu: dict[str, list[float]] = {}

    def run(self, name: str, action: Callable[[], Any]) -> Any:
        """Time one run."""
        start, cpu = time.perf_counter(), time.process_time()
        answer = action()
        self.elapsed.setdefault(name, []).append((time.perf_counter() - start) * 1000)
        self.cpu.setdefault(name, []).append((time.process_time() - cpu) * 1000)
        return answer

    def medians(self) -> dict[str, Any]:
        """The medians by name."""
        return {
            name: {"ms": statistics.median(times), "cpu_ms": statistics.median(self.cpu[name])}
            for name, times in self.elapsed.items()
        }


def files(place: Path) -> dict[str, int]:
    """Every file below a directory with its size."""
    return {
        str(Path(folder) / name): (Path(folder) / name).stat().st_size
        for folder, _, names in os.walk(place)
        for name in names
    }


def written(place: Path, action: Callable[[], Any]) -> dict[str, int]:
    """The bytes of the files that an action makes, and how many of them hold rows."""
    before = files(place)
    action()
    new = {name: size for name, size in files(place).items() if name not in before}
    tables = [name for name in new if "/data/" in name and "__manifest" not in name]
    return {"bytes": sum(new.values()), "data_files": len(tables)}


def wider(source: str, name: str) -> str:
    """The schema with one more property."""
    return source.replace("note:", f"{name}: I32?  note:")


def applies(directory: Path, size: int) -> dict[str, Any]:
    """One property added to `main` and to fresh branches; and merges that bring nothing but one."""
    timer, sizes = Timer(), {}
    place = directory / f"apply-{size}"
    with build(place, size, STEP) as graph:
        for turn in range(REPEATS):
            branch, source = f"b{turn}", graph.schema.source
            new, other = wider(source, f"branch{turn}"), wider(source, f"main{turn}")
            timer.run("branch", partial(graph.branches.create, branch))
            done: dict[str, Callable[[], Any]] = {
                "apply on a branch": partial(graph.schema.apply, new, branch=branch),
                "apply on main": partial(graph.schema.apply, other),
                "merge": partial(graph.branches.merge, branch),
            }
            for name, action in done.items():
                sizes[name] = written(place, partial(timer.run, name, action))
            graph.branches.delete(branch)
    return {**timer.medians(), "written": sizes}


def spread(size: int, shift: int) -> Any:
    """The numbers of 100 rows all over a table."""
    return (np.arange(0, size, size // DELTA)[:DELTA] + shift) % size


def rows_with_schema(directory: Path, size: int) -> dict[str, Any]:
    """Merges of 100 rows, of 100 rows with a new property, and the apply of that property."""
    timer = Timer()
    with build(directory / f"rows-{size}", size, STEP) as graph:
        for turn in range(REPEATS):
            source = graph.schema.source
            for name, schema in (("plain", None), ("wide", wider(source, f"new{turn}"))):
                branch = f"{name}{turn}"
                graph.branches.create(branch)
                if schema is not None:
                    graph.schema.apply(schema, branch=branch)
                changed = rows(spread(size, 2 * turn), 7 * turn + len(name))
                graph.load_nodes("Item", changed, mode="patch", branch=branch)
                graph.load_nodes("Item", rows([1 + 2 * turn], 9), mode="patch")
                timer.run(f"merge {name}", partial(graph.branches.merge, branch))
                graph.branches.delete(branch)
            again = wider(graph.schema.source, f"again{turn}")
            timer.run("apply", partial(graph.schema.apply, again))
    return timer.medians()


def diffs(directory: Path, size: int) -> dict[str, Any]:
    """Diffs of 100 changed rows, over nothing and over a property that was added, dropped and renamed."""
    timer, read = Timer(), {}
    with build(directory / f"diff-{size}", size, STEP) as graph:
        changes = {
            "plain": FIRST,
            "added": wider(FIRST, "more"),
            "dropped": FIRST.replace("note: String?", ""),
            "renamed": FIRST.replace("note: String?", 'words: String? @rename_from("note")'),
        }
        for name, schema in changes.items():
            graph.branches.create(name)
            graph.schema.apply(schema, branch=name)
            changed = rows(spread(size, 0), 3).select(["key", "count"])
            graph.load_nodes("Item", changed, mode="patch", branch=name)
        for _ in range(REPEATS + 1):
            for name in changes:
                found = timer.run(name, partial(_diff, graph, name))
                read[name] = found.bytes_read
    return {**timer.medians(), "bytes": read}


def _diff(graph: omnigraph.Graph, branch: str) -> Any:
    found = graph.diff("main", branch)
    assert sum(1 for _ in found) == DELTA
    return found.stats


def many(directory: Path) -> dict[str, Any]:
    """Point queries on many branches in turn, each with a schema of its own, and on one of them."""
    timer = Timer()
    with build(directory / "many", 10_000, STEP) as graph:
        names = [f"b{number:03}" for number in range(MANY)]
        graph.branches.create("one")
        timer.run("list of one", graph.branches.list)
        timer.run("status of one", graph.status)
        for number, name in enumerate(names):
            graph.branches.create(name)
            graph.schema.apply(wider(FIRST, f"own{number}"), branch=name)
        for _ in range(3):
            timer.run("list", graph.branches.list)
            timer.run("status", graph.status)
    with omnigraph.open(directory / "many", mode="r") as graph:
        for _ in range(MANY):
            graph.query(POINT, branch="one")
        resident = memory("VmRSS")
        for name in names:
            graph.query(POINT, branch=name)
        grown = memory("VmRSS") - resident
        for _ in range(3):
            for name in names:
                timer.run("in turn", partial(graph.query, POINT, branch=name))
            for _ in names:
                timer.run("on one", partial(graph.query, POINT, branch="one"))
    return {**timer.medians(), "grown_mb": grown}


# ------------------------------------------------------------------ what is printed


def ratio(what: str, one: dict[str, float], other: float, other_cpu: float, bar: float) -> None:
    """One ratio with its bar."""
    print(
        f"{what}: {one['ms']:.1f} ms beside {other:.1f}: {one['ms'] / other:.2f} x (bar {bar}); "
        f"processor time {one['cpu_ms'] / other_cpu:.2f} x"
    )


def report_applies(size: int, found: dict[str, Any]) -> None:
    """Applies and merges that bring nothing but a property."""
    main = found["apply on main"]
    ratio(f"apply on a branch of {size:,} rows, beside the apply on main", found["apply on a branch"],
          main["ms"], main["cpu_ms"], 1.3)  # fmt: skip
    ratio(f"merge of a schema alone, {size:,} rows, beside the apply", found["merge"],
          main["ms"], main["cpu_ms"], 2.0)  # fmt: skip
    for name, one in found["written"].items():
        print(
            f"  {name}: {one['bytes']:,} bytes (bar {MAX_WRITTEN:,}), data files {one['data_files']}"
        )
    print(f"  making the branch: {found['branch']['ms']:.1f} ms")


def report_rows(size: int, found: dict[str, Any]) -> None:
    """Merges of rows with a schema."""
    parts = found["merge plain"], found["apply"]
    ratio(f"merge of {DELTA} rows with a property in {size:,}, beside merge and apply",
          found["merge wide"], sum(one["ms"] for one in parts),
          sum(one["cpu_ms"] for one in parts), 1.2)  # fmt: skip


def report_diffs(size: int, found: dict[str, Any]) -> None:
    """Diffs across a change of the schema."""
    plain, read = found["plain"], found["bytes"]
    for name in ("added", "dropped", "renamed"):
        ratio(f"diff of {DELTA} rows in {size:,} across a property that was {name}", found[name],
              plain["ms"], plain["cpu_ms"], 1.2)  # fmt: skip
        print(
            f"  {read[name]:,} bytes read (bar {MAX_READ:,}), {read[name] / read['plain']:.2f} x (bar 1.5)"
        )


def report_many(found: dict[str, Any]) -> None:
    """Many branches with a schema each."""
    one = found["on one"]
    ratio(f"a point query on {MANY} branches in turn, beside one", found["in turn"],
          one["ms"], one["cpu_ms"], 1.2)  # fmt: skip
    print(f"  memory: {found['grown_mb']:.0f} MB more (bar {MAX_MEMORY})")
    for name in ("list", "status"):
        print(
            f"  {name}: {found[name]['ms']:.1f} ms; with one branch {found[f'{name} of one']['ms']:.1f}"
        )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", default=",".join(map(str, SIZES)), help="sizes of the tables")
    parser.add_argument(
        "--changed-in", type=int, default=CHANGED_IN, help="rows beside 100 changed"
    )
    parser.add_argument("--only", choices=("apply", "rows", "diff", "many"))
    parser.add_argument("--json", action="store_true", help="print what was measured")
    given = parser.parse_args()
    # One index over all rows at the end: that of the first load would cover only the rows it found.
    os.environ.setdefault("OMNIGRAPH_INDEX_MIN_ROWS", str(10**9))
    changed_in = given.changed_in
    wanted: list[tuple[str, Callable[[Path], Any], Callable[[Any], None]]] = [
        ("rows", partial(rows_with_schema, size=changed_in), partial(report_rows, changed_in)),
        ("diff", partial(diffs, size=changed_in), partial(report_diffs, changed_in)),
        ("many", many, report_many),
        *(
            ("apply", partial(applies, size=size), partial(report_applies, size))
            for size in map(int, given.rows.split(","))
        ),
    ]
    for name, measure, report in wanted:
        if given.only in (None, name):
            with tempfile.TemporaryDirectory() as directory:
                found = measure(Path(directory))
            if given.json:
                print(json.dumps({name: found}))
            else:
                report(found)


if __name__ == "__main__":
    main()
