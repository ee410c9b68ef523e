"""Bulk loads on both engines, against what any loader must do, and their memory.

    ./dev bench pipeline [PART...] [--only PART,PART] [--rows N] [--small]

The parts are `start`, `local`, `memory`, `parquet`, `spark`, `typed`, `merge`, `cores`, `session`,
`cluster` and `executors`; all of them without one. `--rows` is how many rows `typed`, `merge` and `executors` take,
`--small` takes a tenth of everything. Every load runs in a process of its own; those that are held
against a plain Spark job run in one session with it.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.bulk.records import SCHEMA, write_columns, write_lines
from benchmarks.bulk.watch import peaks
from omnigraph.runner.session import spark_problem

CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


@dataclass
class Contest:
    """The data of one run, and how each figure compares with its bar."""

    directory: Path
    large: int = 5_000_000
    medium: int = 500_000
    rows: int = 3_000_000
    results: list[tuple[str, str, str, bool]] = field(default_factory=list)

    def lines(self, total: int) -> str:
        """That many records as JSON lines."""
        return str(write_lines(self.directory / f"{total}.jsonl", total))

    def measure(self, name: str, *, under: tuple[str, ...] = (), **given: Any) -> dict[str, Any]:
        """Run a function of `bulk.child` in a process of its own."""
        given = {"directory": str(self.directory), **given}
        command = [*under, sys.executable, "-m", "benchmarks.bulk.child", name, json.dumps(given)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603
        return dict(json.loads(done.stdout.splitlines()[-1]))

    def hold(self, what: str, shown: str, bar: str, *, met: bool) -> None:
        """Say how a figure compares with its bar, now and at the end."""
        self.results.append((what, shown, bar, met))
        print(f"  {what:48}{shown:>12}   bar {bar:10} {'met' if met else 'MISSED'}", flush=True)


def say(title: str) -> None:
    """A heading."""
    print(f"\n{title}", flush=True)


def stages(found: Mapping[str, Any]) -> str:
    """The seconds of each stage of a load."""
    return ", ".join(f"{name} {seconds:.2f}" for name, seconds in found["timings"].items())


def megabytes(memory: Mapping[str, float]) -> str:
    """The memory of each kind of process."""
    return ", ".join(f"{kind} {size:,.0f} MB" for kind, size in sorted(memory.items()))


def rates(found: Mapping[str, Any], title: str) -> None:
    """A load in numbers."""
    seconds, rows = found["seconds"], found["rows"]
    print(f"  {title}: {seconds:.2f} s, {rows / seconds:,.0f} records/s ({stages(found)})")
    print(f"  {'':{len(title)}}  cpu of this process {found['cpu']:.2f} s, ", end="")
    print(megabytes(found["memory"]), flush=True)


def local(contest: Contest) -> None:
    """Records per second on the local engine, and against reading and writing alone."""
    total = contest.medium
    say(f"Local load of {total:,} JSONL records")
    found = contest.measure("load", lines=contest.lines(total), indexes=True)
    raw = contest.measure("arrow_own", lines=contest.lines(total))
    rates(found, "without index builds")
    print(f"  with index builds: {found['seconds'] + found['indexes']:.2f} s")
    print(f"  read_json + write_dataset: {raw['seconds']:.2f} s, cpu {raw['cpu']:.2f} s")
    rate, ratio = total / found["seconds"], found["seconds"] / raw["seconds"]
    contest.hold("records per second", f"{rate:,.0f}", ">= 150,000", met=rate >= 150_000)
    contest.hold("against read_json + write_dataset", f"{ratio:.2f} x", "<= 5 x", met=ratio <= 5)


def memory(contest: Contest) -> None:
    """The memory of a large load on the local engine."""
    say(f"Local load of {contest.large:,} JSONL records")
    found = contest.measure("load", lines=contest.lines(contest.large))
    rates(found, "without index builds")
    peak = found["memory"]["driver"] / 1000
    contest.hold("memory of the local load", f"{peak:.2f} GB", "<= 1.5 GB", met=peak <= 1.5)


def spark(contest: Contest) -> None:
    """A warm Spark load, against Spark's own reading and writing."""
    total = contest.large
    say(f"Spark load of {total:,} JSONL records, warm session, second run")
    found = contest.measure(
        "load",
        lines=contest.lines(total),
        engine="spark",
        runs=2,
        indexes=True,
        against_spark=True,
    )
    rates(found, "without index builds")
    print(f"  first run {found['first']:.2f} s; index builds {found['indexes']:.2f} s")
    print(f"  read.json(schema) -> write.parquet: {found['spark_own']:.2f} s")
    ratio = found["seconds"] / found["spark_own"]
    contest.hold("against Spark's read.json -> parquet", f"{ratio:.2f} x", "<= 2.5 x",
                 met=ratio <= 2.5)  # fmt: skip


def costs_table(found: Mapping[str, Mapping[str, Any]]) -> None:
    """What each way of doing the same cost."""
    columns = ("seconds", "queries", "jobs", "stages", "tasks", "shuffle write", "shuffle read",
               "spilled", "JVM cpu", "Python cpu", "driver cpu")  # fmt: skip
    print(f"  {'':26}" + "".join(f"{name:>14}" for name in columns))
    for way, cost in found.items():
        cells = []
        for name in columns:
            value = cost[name]
            if "shuffle" in name or name == "spilled":
                cells.append(f"{value / 1e6:,.1f} MB")
            else:
                cells.append(f"{value:,.2f}" if isinstance(value, float) else f"{value:,}")
        print(f"  {way:26}" + "".join(f"{cell:>14}" for cell in cells))
        print(f"  {'':26}{megabytes(cost['memory'])}", flush=True)


def processor(cost: Mapping[str, float]) -> float:
    """The processor seconds of all processes together."""
    return cost["JVM cpu"] + cost["Python cpu"] + cost["driver cpu"]


def against_plain(
    contest: Contest, found: Mapping[str, Mapping[str, Any]], what: str, ways: Mapping[str, float]
) -> None:
    """Hold the named ways against the plain Spark job, which comes first."""
    plain = next(iter(found.values()))
    for way, bar in ways.items():
        ratio = found[way]["seconds"] / plain["seconds"]
        print(f"  in processor time: {processor(found[way]) / processor(plain):.2f} x")
        contest.hold(f"{what}: {way}, against plain", f"{ratio:.2f} x", f"<= {bar:g} x",
                     met=ratio <= bar)  # fmt: skip


def typed(contest: Contest) -> None:
    """Typed columns on Spark, against a job of Spark's own that copies the same files."""
    found = contest.measure("typed", rows=contest.rows, roots=[], conf={})
    for what, ways in (
        ("nodes", {"load_nodes, Spark": 2.0, "load_nodes, Spark, indexed": 2.5, "df.write": 2.0}),
        ("edges", {"load_edges, Spark": 3.0, "load_edges, Spark, indexed": 2.5, "df.write": 3.0}),
    ):
        say(f"{contest.rows:,} {what} of Parquet on Spark, warm session, without and with indexes")
        costs_table(found[what])
        against_plain(contest, found[what], what, ways)


def merge(contest: Contest) -> None:
    """A small merge into a large table, against a job of Spark's own over the same rows."""
    say(f"{contest.rows // 30:,} rows merged into {contest.rows:,} on Spark, warm session")
    found = contest.measure("merge", rows=contest.rows, roots=[], conf={})["merge"]
    costs_table(found)
    against_plain(contest, found, "merge", {"load_nodes, Spark": 10.0, "df.write": 10.0})


def executors(contest: Contest) -> None:
    """Typed columns on a standalone cluster: one executor of a core, then two of them."""
    standalone_cluster = import_module("tests.spark.cluster").standalone_cluster
    ways = {"nodes": "load_nodes, Spark", "edges": "load_edges, Spark"}
    seconds: dict[str, list[float]] = {what: [] for what in ways}
    conf = {"spark.executor.memory": "1g", "spark.sql.shuffle.partitions": "4"}
    for count in (1, 2):
        place = contest.directory / f"executors-{count}"
        # Otherwise the executor of one core would use the other one beside it: for Python, Lance and Java.
        pins = CORES[:count] if len(CORES) > 1 else ()
        with standalone_cluster(place, workers=count, memory="1g", pins=pins) as running:
            os.environ["OMNIGRAPH_SPARK_MASTER"] = running.master
            try:
                roots = [process.pid for process in running.processes]
                found = contest.measure("typed", rows=contest.rows, roots=roots, conf=conf)
            finally:
                del os.environ["OMNIGRAPH_SPARK_MASTER"]
        for what, way in ways.items():
            say(
                f"{contest.rows:,} {what} of Parquet, {count} executor{'s' * (count - 1)} of a core"
            )
            costs_table(found[what])
            seconds[what].append(found[what][way]["seconds"])
    for what, (one, two) in seconds.items():
        contest.hold(f"{what}: two executors against one", f"{one / two:.2f} x", ">= 1.5 x",
                     met=one / two >= 1.5)  # fmt: skip


def session(contest: Contest) -> None:
    """From a new process to the first staged record on Spark, against a bare session and one job."""
    say("Spark from nothing to the first of 100 staged records, local[*], median of 3")
    cache = contest.directory / "cache"
    os.environ["OMNIGRAPH_CACHE_DIR"] = str(cache)
    lines = contest.lines(100)
    try:
        made = subprocess.run(
            [sys.executable, "-m", "omnigraph.runner.archive_build"], check=False, text=True
        )
        if made.returncode:
            print("  this Java makes no archive of classes")
        found: dict[str, list[dict[str, Any]]] = {}
        for _ in range(3):
            found.setdefault("bare session and mapInArrow", []).append(
                contest.measure("bare_start")
            )
            for setting, name in (("1", "with the archive"), ("0", "without")):
                os.environ["OMNIGRAPH_SPARK_ARCHIVE"] = setting
                found.setdefault(name, []).append(contest.measure("spark_start", lines=lines))
    finally:
        for name in ("OMNIGRAPH_CACHE_DIR", "OMNIGRAPH_SPARK_ARCHIVE"):
            os.environ.pop(name, None)
    middle = {name: sorted(runs, key=lambda one: one["seconds"])[1] for name, runs in found.items()}
    for name, one in middle.items():
        print(f"  {name:30}{one['seconds']:6.2f} s, cpu {one['cpu']:6.2f} s")
    bare, *ours = (one["seconds"] for one in middle.values())
    for name, seconds in zip(list(middle)[1:], ours, strict=True):
        ratio = seconds / bare
        contest.hold(f"start, {name}, against a bare session", f"{ratio:.2f} x", "<= 1.3 x",
                     met=ratio <= 1.3)  # fmt: skip


def parquet(contest: Contest) -> None:
    """A load of columns, against DuckDB's checks and Lance's writing."""
    say(f"Local load of {contest.large:,} rows of Parquet")
    columns = [str(path) for path in write_columns(contest.directory, contest.large)]
    found = contest.measure("load", columns=columns)
    own = contest.measure("duckdb_own", columns=columns)
    rates(found, "without index builds")
    print(f"  DuckDB + write_dataset: {own['seconds']:.2f} s, cpu {own['cpu']:.2f} s, ", end="")
    print(megabytes(own["memory"]))
    print(f"  in processor time: {found['cpu'] / own['cpu']:.2f} x")
    ratio = found["seconds"] / own["seconds"]
    contest.hold("against DuckDB + write_dataset", f"{ratio:.2f} x", "<= 1.5 x", met=ratio <= 1.5)


def cores(contest: Contest) -> None:
    """One core against two, on both engines."""
    total = contest.large * 2 // 5
    say(f"Two cores against one, {total:,} JSONL records, stages 1 to 4")
    if len(CORES) < 2:
        print("  left out: this machine has one core")
        return
    for engine in ("local", "spark"):
        if engine == "spark" and spark_problem():
            continue
        seconds = []
        for count in (1, 2):
            under = ("taskset", "-c", ",".join(map(str, CORES[:count])))
            runs = 2 if engine == "spark" else 1
            found = contest.measure(
                "load", under=under, lines=contest.lines(total), engine=engine, runs=runs
            )
            seconds.append(sum(found["timings"].values()))
            rates(found, f"{engine}, {count} core{'s' * (count - 1)}")
        ratio = seconds[0] / seconds[1]
        contest.hold(f"{engine}: two cores against one", f"{ratio:.2f} x", ">= 1.5 x",
                     met=ratio >= 1.5)  # fmt: skip


def cluster(contest: Contest) -> None:
    """The memory of loads on a standalone cluster, with 1 GB for each Java."""
    # Not annotated, as tests are, so not for the type checker either.
    standalone_cluster = import_module("tests.spark.cluster").standalone_cluster
    say("Loads on a standalone cluster with two executors, -Xmx1g")
    conf = {"spark.driver.memory": "1g", "spark.executor.memory": "1g"}
    driver = {}
    for total in (contest.medium, contest.large):
        lines = contest.lines(total)
        with standalone_cluster(contest.directory / f"cluster-{total}") as running:
            os.environ["OMNIGRAPH_SPARK_MASTER"] = running.master
            try:
                with peaks(*(process.pid for process in running.processes)) as around:
                    found = contest.measure("load", lines=lines, engine="spark", conf=conf)
            finally:
                del os.environ["OMNIGRAPH_SPARK_MASTER"]
        # Driver and Java are below both processes, executors and their workers only around them.
        found["memory"] = {**found["memory"], **around}
        rates(found, f"{total:,} records")
        driver[total] = found["memory"]["driver"]
    contest.hold(f"{contest.large:,} records with -Xmx1g", "finished", "finishes", met=True)
    ratio = driver[contest.large] / driver[contest.medium]
    contest.hold("Python driver, large against medium", f"{ratio:.2f} x", "<= 1.1 x",
                 met=ratio <= 1.1)  # fmt: skip


def start(contest: Contest) -> None:
    """The command line from nothing to 100 records."""
    say("100 records by the command line, in a new process")
    lines, graph = contest.lines(100), str(contest.directory / "small")
    schema = contest.directory / "small.pg"
    schema.write_text(SCHEMA)
    cli = [sys.executable, "-m", "omnigraph"]
    subprocess.run(  # noqa: S603
        [*cli, "init", "--quiet", "--schema", str(schema), graph],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    seconds = []
    for _ in range(5):
        command = [*cli, "load", "--data", lines, "--mode", "overwrite", "--quiet", "--json", graph]
        begin = time.perf_counter()
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603
        seconds.append(time.perf_counter() - begin)
        assert json.loads(done.stdout)["engine"] == "local", "no JVM for a hundred records"
    middle = sorted(seconds)[2]
    contest.hold("small load, median of 5", f"{middle:.2f} s", "<= 2.5 s", met=middle <= 2.5)


PARTS: dict[str, Callable[[Contest], None]] = {
    "start": start,
    "local": local,
    "memory": memory,
    "parquet": parquet,
    "spark": spark,
    "typed": typed,
    "merge": merge,
    "cores": cores,
    "session": session,
    "cluster": cluster,
    "executors": executors,
}
ON_SPARK = {"spark", "session", "typed", "merge", "cluster", "executors"}


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description="Bulk loads on both engines.")
    parser.add_argument("parts", nargs="*", metavar="PART")
    parser.add_argument("--only", default="", help="the same, separated by commas")
    parser.add_argument("--rows", type=int, help="of the parts typed, merge and executors")
    parser.add_argument("--small", action="store_true", help="a tenth of everything")
    given = parser.parse_args()
    chosen = [*given.parts, *filter(None, given.only.split(","))] or list(PARTS)
    unknown = [name for name in chosen if name not in PARTS]
    if unknown:
        sys.exit(f"there is no part {unknown[0]}; the parts are {', '.join(PARTS)}")
    problem = spark_problem()
    os.environ.setdefault("LANCE_LOG", "error")
    # `timeout` sends it: what was started is ended and removed then, as on Ctrl-C.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with tempfile.TemporaryDirectory() as name:
        contest = Contest(Path(name))
        if given.small:
            contest.large, contest.medium = contest.large // 10, contest.medium // 10
            contest.rows //= 10
        contest.rows = given.rows or contest.rows
        for part in chosen:
            if part in ON_SPARK and problem:
                say(f"{part} is left out: {problem}")
            else:
                PARTS[part](contest)
    say("Bars")
    for what, shown, bar, met in contest.results:
        print(f"  {'met   ' if met else 'MISSED'}  {what:48}{shown:>12}   bar {bar}")


if __name__ == "__main__":
    main()
