"""Expressions and conditions over many nodes, beside DuckDB on the same Parquet columns.

    ./dev bench expressions [--rows COUNT] [--json]

Both have the columns in memory and have answered each question before; the fastest of some runs counts. Every
answer is compared with DuckDB's.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import omnigraph as og

SCHEMA = "node Item { key: I64 @key  a: I64  b: I64  c: I64  name: String  day: Date }"
ROWS, NAMES, RUNS = 10_000_000, 100_000, 5
MOST = 2.0  # times DuckDB's
QUESTIONS = {
    "lower(name) = …": (
        'match { $i: Item  lower($i.name) = "name 77" } return { count($i) as n }',
        "select count(*) from t where lower(name) = 'name 77'",
    ),
    "a + b > c": (
        "match { $i: Item  $i.a + $i.b > $i.c } return { count($i) as n }",
        "select count(*) from t where a + b > c",
    ),
    "a in (1,000 values)": (
        "($l: [I64]) match { $i: Item  $i.a in $l } return { count($i) as n }",
        "select count(*) from t where a in ({values})",
    ),
    "a in (1,000,000 values)": (
        "($m: [I64]) match { $i: Item  $i.a in $m } return { count($i) as n }",
        "select count(*) from t where a in (select v from million)",
    ),
    "a = 3 or lower(name) = … or b is null": (
        'match { $i: Item  $i.a = 3 or lower($i.name) = "name 77" or $i.b is null } return { count($i) as n }',
        "select count(*) from t where a = 3 or lower(name) = 'name 77' or b is null",
    ),
    'group by floor(day, "month")': (
        'match { $i: Item } return { floor($i.day, "month") as m, count($i) as n } order { m }',
        "select cast(date_trunc('month', day) as date) m, count(*) from t group by m order by m",
    ),
    "sum(a * b) by part(day, year)": (
        'match { $i: Item } return { part($i.day, "year") as y, sum($i.a * $i.b) as s } order { y }',
        "select year(day) y, cast(sum(a * b) as bigint) from t group by y order by y",
    ),
    "count(distinct a)": (
        "match { $i: Item } return { count(distinct $i.a) as n }",
        "select count(distinct a) from t",
    ),
    "count(distinct a) by day": (
        "match { $i: Item } return { $i.day as d, count(distinct $i.a) as n } order { d }",
        "select day, count(distinct a) from t group by day order by day",
    ),
    "collect(a) by name": (
        "match { $i: Item } return { $i.name as k, collect($i.a) as l } order { k }",
        "select name k, list(a order by a) from t group by k order by k",
    ),
    "collect(distinct name) by day": (
        "match { $i: Item } return { $i.day as d, collect(distinct $i.name) as l } order { d }",
        "select day, list(distinct name order by name) from t group by day order by day",
    ),
    "distinct name, month": (
        'match { $i: Item } return distinct { $i.name as k, part($i.day, "month") as m } order { k, m }',
        "select distinct name k, month(day) m from t order by k, m",
    ),
}


def columns(rows: int) -> pa.Table:
    """Keys, three integers, one of many names, and a day of four years."""
    random = np.random.default_rng(5)
    names = pa.array([f"Name {at}" for at in range(NAMES)])
    days = random.integers(18_000, 19_500, rows).astype(np.int32)
    return pa.table(
        {
            "key": np.arange(rows),
            "a": random.integers(0, 10**6, rows),
            "b": random.integers(0, 10**6, rows),
            "c": random.integers(0, 2 * 10**6, rows),
            "name": names.take(pa.array(random.integers(0, NAMES, rows))),
            "day": pa.array(days).view(pa.date32()),
        }
    )


def fastest(ask: Callable[[], pa.Table]) -> tuple[float, pa.Table]:
    """The least milliseconds of some runs after a first one, and the answer."""
    answer = ask()
    spent = []
    for _ in range(RUNS):
        started = time.perf_counter()
        ask()
        spent.append((time.perf_counter() - started) * 1e3)
    return min(spent), answer


def same(one: pa.Table, other: pa.Table) -> bool:
    """Whether two answers have the same rows, whatever their columns are called."""
    cast = other.rename_columns(one.column_names).cast(one.schema)
    return bool(one.equals(cast))


def measured(folder: Path, rows: int) -> list[dict[str, Any]]:
    """Every question asked of both."""
    path = folder / "items.parquet"
    pq.write_table(columns(rows), path)
    random = np.random.default_rng(6)
    lists = {
        "l": random.permutation(10**6)[:1000].tolist(),
        "m": random.permutation(10**7)[: 10**6].tolist(),
    }
    beside = duckdb.connect()
    beside.read_parquet(str(path)).create("t")
    beside.register("given", pa.table({"v": lists["m"]}))
    beside.execute("create table million as select v from given")
    lines = []
    with og.init(folder / "graph", SCHEMA) as graph:
        graph.load_nodes("Item", pq.read_table(path))
        for name, (text, sql) in QUESTIONS.items():
            params = {key: value for key, value in lists.items() if f"${key}:" in text}
            said = sql.format(values=", ".join(map(str, lists["l"])))

            def asked(text: str = text, params: dict[str, Any] = params) -> pa.Table:
                return graph.query(text, params).to_arrow()

            ours, answer = fastest(asked)
            theirs, expected = fastest(lambda said=said: beside.sql(said).to_arrow_table())  # type: ignore[misc]
            if not same(answer, expected):
                raise SystemExit(f"{name}: {answer.slice(0, 3)} is not {expected.slice(0, 3)}")
            lines.append(
                {"question": name, "ms": ours, "duckdb_ms": theirs, "times": ours / theirs}
            )
    return lines


def main() -> None:
    """Ask, and say how it compares."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        lines = measured(Path(folder), given.rows)
    if given.json:
        print(json.dumps(lines, indent=2))
        return
    for line in lines:
        bar = "" if line["times"] <= MOST else f"   over {MOST:g} times"
        print(
            f"{line['question']:42} {line['ms']:8.1f} ms   DuckDB {line['duckdb_ms']:8.1f} ms"
            f"   {line['times']:5.2f} times{bar}"
        )


if __name__ == "__main__":
    main()
