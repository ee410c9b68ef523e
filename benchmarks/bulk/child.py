"""What a measuring process runs: `python -m benchmarks.bulk.child NAME JSON` prints JSON."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import omnigraph as og
from benchmarks.bulk import typed
from benchmarks.bulk.costs import processor_seconds
from benchmarks.bulk.records import SCHEMA, SPARK_SCHEMA
from benchmarks.bulk.watch import peaks
from omnigraph.cores import usable_cores
from omnigraph.graph import writes
from omnigraph.graph.session import access_of

WITHOUT_INDEXES = str(10**12)


def load(
    directory: str,
    lines: str | None = None,
    columns: list[str] | None = None,
    engine: Any = "local",
    runs: int = 1,
    indexes: bool = False,
    against_spark: bool = False,
    conf: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Append the records to a new graph, `runs` times; the last one counts."""
    import duckdb  # noqa: F401 - nothing it is held against counts its imports

    os.environ["OMNIGRAPH_INDEX_MIN_ROWS"] = WITHOUT_INDEXES
    on_spark: dict[str, Any] = {"spark_conf": conf} if engine == "spark" else {}
    found: dict[str, Any] = {}
    for run in range(runs):
        if against_spark:
            found["spark_own"] = spark_own(directory, str(lines))
        place = Path(directory, f"graph-{os.getpid()}-{run}")
        with peaks() as memory, og.init(place, SCHEMA) as graph:
            start, busy = time.perf_counter(), time.process_time()
            result = writes.load_gathered(
                access_of(graph),
                lambda inputs: gather(inputs, lines, columns),
                mode="append",
                engine=engine,
                **on_spark,
            )
            seconds = time.perf_counter() - start
            found |= {"seconds": seconds, "timings": result.timings, "rows": result.total_rows}
            found |= {"cpu": time.process_time() - busy, "engine": result.engine}
            if run == 0:
                found["first"] = seconds
            if indexes and run == runs - 1:
                start = time.perf_counter()
                graph.ensure_indices(engine=engine)
                found["indexes"] = time.perf_counter() - start
        found["memory"] = memory
        shutil.rmtree(place)
    return found


def gather(inputs: Any, lines: str | None, columns: list[str] | None) -> None:
    """Add what there is to load."""
    if lines is not None:
        inputs.json(lines)
    if columns is not None:
        inputs.nodes("Person", columns[0])
        inputs.edges("Knows", columns[1], "from", "to")


def spark_own(directory: str, lines: str) -> float:
    """Let Spark read the same file and write Parquet: no checks, ids or splits into types."""
    from omnigraph.runner.session import spark_session

    session = spark_session()
    start = time.perf_counter()
    frame = session.read.schema(SPARK_SCHEMA).json(lines)
    frame.write.mode("overwrite").parquet(f"{directory}/own.parquet")
    return time.perf_counter() - start


def spark_start(directory: str, lines: str) -> dict[str, Any]:
    """Start Spark in this process; the seconds until the first records are staged."""
    staged: list[float] = []
    start = time.perf_counter()

    def watch(progress: og.Progress) -> None:
        if progress.staged and not staged:
            staged.append(time.perf_counter() - start)

    with og.init(Path(directory, f"graph-{os.getpid()}"), SCHEMA) as graph:
        graph.load(lines, mode="append", engine="spark", spark_master="local[*]", progress=watch)
    return {"seconds": staged[0], "cpu": _cpu_of_children()}


def bare_start(directory: str) -> dict[str, Any]:  # noqa: ARG001 - given to all
    """Start a plain session of PySpark and run one `mapInArrow`."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    start = time.perf_counter()
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false")
    session = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
    assert session.range(2).mapInArrow(_same, "id long").count() == 2
    return {"seconds": time.perf_counter() - start, "cpu": _cpu_of_children()}


def _same(batches: Any) -> Any:
    yield from batches


def _cpu_of_children() -> float:
    """The processor seconds of this process and of Java below it, which still runs."""
    return time.process_time() + sum(processor_seconds())


def arrow_own(directory: str, lines: str) -> dict[str, Any]:
    """Let pyarrow read the same file and Lance write what it read: no checks, ids or types."""
    import lance
    from pyarrow import json as arrow_json

    start, busy = time.perf_counter(), time.process_time()
    table = arrow_json.read_json(lines)
    lance.write_dataset(table, f"{directory}/raw.lance", mode="overwrite")
    return {"seconds": time.perf_counter() - start, "cpu": time.process_time() - busy}


def duckdb_own(directory: str, columns: list[str]) -> dict[str, Any]:
    """DuckDB reads, counts distinct ids and looks for missing ends; Lance writes the rows."""
    import duckdb
    import lance

    with peaks() as memory:
        start, busy = time.perf_counter(), time.process_time()
        connection = duckdb.connect()
        people = connection.sql(f"SELECT * FROM '{columns[0]}'").to_arrow_table()  # noqa: S608
        knows = connection.sql(f"SELECT * FROM '{columns[1]}'").to_arrow_table()  # noqa: S608
        connection.register("people", people)
        connection.register("knows", knows)
        ids = connection.execute("SELECT count(DISTINCT name) FROM people").fetchall()
        missing = [
            connection.execute(
                f'SELECT count(*) FROM knows k ANTI JOIN people p ON p.name = k."{end}"'  # noqa: S608
            ).fetchall()
            for end in ("from", "to")
        ]
        for name, table in (("people", people), ("knows", knows)):
            lance.write_dataset(table, f"{directory}/{name}.lance", mode="overwrite")
        seconds, cpu = time.perf_counter() - start, time.process_time() - busy
    assert (ids, missing) == ([(people.num_rows,)], [[(0,)]] * 2)
    return {"seconds": seconds, "cpu": cpu, "memory": memory}


def main() -> None:
    """Run the named function."""
    name, given = sys.argv[1:]
    # For all sides alike: Lance would leave cores idle.
    os.environ.setdefault("LANCE_CPU_THREADS", str(usable_cores()))
    functions: dict[str, Any] = {
        "load": load,
        "arrow_own": arrow_own,
        "spark_start": spark_start,
        "bare_start": bare_start,
        "duckdb_own": duckdb_own,
        "typed": typed.typed,
        "merge": typed.merge,
    }
    print(json.dumps(functions[name](**json.loads(given))))


if __name__ == "__main__":
    main()
