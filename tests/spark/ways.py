"""Three ways for the same rows: a load here, a load on Spark, and `df.write`.

They must store the same, leave out the same, and refuse the same in the same words, in every mode.
Only ids that a load makes up differ, and how a row is called: a frame that is written has partitions.
"""

from __future__ import annotations

import json
import random
import re
import shutil
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

import omnigraph as og
from omnigraph.errors import OmniGraphError
from omnigraph.pipeline.load_options import MODES, ON_BAD
from tests.commit.synthetic import drifted
from tests.spark.sizes import ALL_ON_EXECUTORS, all_loads_with
from tests.stored import read_back

SCHEMA = """
node P {
  name: String @key
  kind: enum(x, y)
  mail: String? @unique
  n: I32?
  big: U64?
  ok: Bool?
  day: Date?
  f: F64?
  grade: I32 @default(3)
  @range(n, 0..9)
}
node Q { t: String  n: I32? }
edge K: P -> P @card(0..3) { n: I32?  day: Date? @default("2024-02-29")  @unique(src, dst) }
"""
START = [
    *({"type": "P", "data": {"name": f"p{n}", "kind": "x", "mail": f"m{n}"}} for n in range(4)),
    {"type": "Q", "data": {"id": "q1", "t": "first", "n": 1}},
    {"edge": "K", "from": "p0", "to": "p1", "data": {"id": "k1", "n": 1}},
    {"edge": "K", "from": "p0", "to": "p2", "data": {"id": "k2"}},
]
TYPES = {
    "name": pa.string(), "kind": pa.string(), "mail": pa.string(), "n": pa.int64(),
    "big": pa.decimal128(20, 0), "ok": pa.bool_(), "day": pa.date32(), "f": pa.float64(), "grade": pa.int64(),
    "t": pa.string(), "id": pa.string(), "a": pa.string(), "b": pa.string(),
}  # fmt: skip
MADE = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")
KINDS = ("P", "Q", "K")


# ------------------------------------------------------------------ rows


def rows_of(rnd, kind, mode, *, messy):
    """Columns of one type, by name: rows that can be loaded, or also some that cannot."""
    count = 12 if messy else 5
    if kind == "P":
        columns = _people(rnd, count, mode, messy=messy)
    elif kind == "Q":
        columns = {
            "t": [f"text {n}" if not messy or rnd.random() < 0.8 else None for n in range(count)],
            "n": [rnd.choice([None, 1, 2**31 - 1]) for _ in range(count)],
        }
        if rnd.random() < 0.5:
            taken = ["q1", "q2", "q3"] if messy else [f"q{n}" for n in range(5, 5 + count)]
            columns["id"] = [rnd.choice(taken) if messy else taken[n] for n in range(count)]
    else:
        columns = _links(rnd, count, messy=messy)
    if rnd.random() < 0.5:  # as a CSV file would have them
        return {
            name: pa.array([None if value is None else str(value) for value in values], pa.string())
            for name, values in columns.items()
        }
    return {name: pa.array(values, TYPES[name]) for name, values in columns.items()}


def _people(rnd, count, mode, *, messy):
    some = partial(rnd.choice, [None, "m7", "m8", "m1"]) if messy else lambda: None
    new = [f"p{n}" for n in range(4, 4 + count)]
    known = ["p0", "p1", "p2", "p3", *new[:3]]
    columns = {
        "name": [rnd.choice([*known, None]) for _ in range(count)] if messy else new,
        "kind": [rnd.choice(["x", "y", "y", "z"] if messy else "xy") for _ in range(count)],
        "mail": [some() for _ in range(count)],
        "n": [rnd.choice([0, 9, None, 12] if messy else [0, 9, None]) for _ in range(count)],
        "big": [rnd.choice([None, 0, 2**64 - 1]) for _ in range(count)],
        "ok": [rnd.choice([None, True, False]) for _ in range(count)],
        "f": [rnd.choice([None, 0.5, -1e300]) for _ in range(count)],
        "grade": [rnd.choice([1, 2, None] if messy else [1, 2]) for _ in range(count)],
    }
    if mode == "patch" and messy:
        del columns["kind"]  # those who are there have one
    return {
        name: columns[name]
        for name in columns
        if name == "kind" or rnd.random() < (0.5 if name == "grade" else 0.8) or name == "name"
    }


def _links(rnd, count, *, messy):
    pairs = [(f"p{a}", f"p{b}") for a in range(4) for b in range(4)]
    # Three edges of each source that has none yet: so many it may have.
    valid = [(f"p{a}", f"p{b}") for a in range(1, 4) for b in range(4) if (a + b) % 4]
    chosen = [rnd.choice(pairs) for _ in range(count)] if messy else rnd.sample(valid, count)
    if messy:
        chosen[rnd.randrange(count)] = ("p0", "nobody")
    columns = {
        "a": [a for a, _ in chosen],
        "b": [b for _, b in chosen],
        "n": [rnd.choice([None, 1, 2]) for _ in range(count)],
    }
    if messy and rnd.random() < 0.3:
        columns["id"] = [rnd.choice(["k1", f"l{n}"]) for n in range(count)]
    return columns


# ------------------------------------------------------------------ the three ways


@dataclass
class Given:
    """The same rows as a file and as a frame of Spark's, and how both are read."""

    kind: str
    path: Path
    frame: DataFrame
    shape: dict[str, Any] = field(default_factory=dict)
    file_shape: dict[str, Any] = field(default_factory=dict)

    def load(self, graph, **options):
        options |= self.shape | self.file_shape
        if self.kind == "K":
            return graph.load_edges("K", self.path, "a", "b", **options)
        return graph.load_nodes(self.kind, self.path, **options)

    def write(self, graph, mode, **options):
        given = {"graph": graph.uri, "type": self.kind, **options}
        if self.kind == "K":
            given |= {"from_col": "a", "to_col": "b"}
        if mode in {"merge", "patch"}:
            given[mode] = "true"
        if "columns" in self.shape:
            given["columns"] = json.dumps(self.shape["columns"])
        if self.shape.get("ignore_extra"):
            given["ignore_extra"] = "true"
        writer = self.frame.write.format("omnigraph").options(**given)
        writer.mode("overwrite" if mode == "overwrite" else "append").save()


class Ways:
    """One graph for each way, alike at first."""

    def __init__(self, place, started, spark):
        self.place, self.spark = place, spark
        self.rejects = place / "rejects.jsonl"
        for name in ("here", "there", "written"):
            shutil.copytree(started, place / name)
        self.here, self.there, self.written = (
            og.open(place / name) for name in ("here", "there", "written")
        )

    def close(self):
        for graph in (self.here, self.there, self.written):
            assert drifted(graph, "main") == []
            graph.close()

    def go(self, given, about, mode, on_bad, operation_id=None):
        """Go all three ways and compare; return what became of it."""
        options = {"mode": mode, "on_bad": on_bad, "operation_id": operation_id}
        here = self.load(given, self.here, engine="local", **options)
        there = self.load(given, self.there, engine="spark", spark=self.spark, **options)
        assert there == here, about
        assert contents(self.there) == contents(self.here), about
        self._compare_written(given, here, about, options)
        return here

    def load(self, given, graph, **options):
        """What became of a load: of the rows, and of the file for rejects."""
        self.rejects.unlink(missing_ok=True)
        head = graph.snapshot().graph_commit_id
        try:
            result = given.load(graph, rejects=self.rejects, **options)
        except OmniGraphError as error:
            assert graph.snapshot().graph_commit_id == head
            outcome = {"error": type(error).__name__, "says": str(error), **error.details}
        else:
            assert result.engine == options["engine"]
            outcome = {"tables": result.tables, "bad_records": result.bad_records}
            outcome |= {"replayed": result.replayed, "commit": result.commit is not None}
        return unmade(outcome | {"rejects": self._rejected()})

    def _rejected(self):
        if not self.rejects.exists():
            return []
        return [json.loads(line) for line in self.rejects.read_text().splitlines()]

    def _compare_written(self, given, here, about, options):
        self.rejects.unlink(missing_ok=True)
        options = {name: value for name, value in options.items() if value is not None}
        try:
            given.write(self.written, rejects=str(self.rejects), **options)
        except PySparkException as error:
            assert "error" in here, (about, str(error))
            assert unplaced(here["says"]) in unplaced(unmade(str(error))), about
        else:
            assert "error" not in here, about
        assert contents(self.written) == contents(self.here), about
        assert sorted_rejects(unmade(self._rejected())) == sorted_rejects(here["rejects"]), about


def unmade(value):
    """A value without the ids that were made up in it."""
    if isinstance(value, str):
        return MADE.sub("<made>", value)
    if isinstance(value, dict):
        return {name: unmade(one) for name, one in value.items()}
    return [unmade(one) for one in value] if isinstance(value, list | tuple) else value


def unplaced(message):
    """A message without what each way names after itself: the place of a row, and options."""
    message = message.replace("load with mode merge", "merge")
    message = message.replace('write with .option("merge", "true")', "merge")
    return re.sub(r"(\S+rows\.parquet|partition \d+), row \d+", "<row>", message)


def sorted_rejects(lines):
    """The lines of rejects without the places of the rows."""
    places = {"source", "row"}
    left = ({name: one for name, one in line.items() if name not in places} for line in lines)
    return sorted(({**line, "reason": unplaced(line["reason"])} for line in left), key=repr)


def contents(graph):
    """Every row, without made ids."""
    plain = read_back(graph)
    nodes = {
        name: sorted(unmade(list(rows.items())), key=repr) for name, rows in plain.nodes.items()
    }
    edges = {name: sorted(unmade(list(rows)), key=repr) for name, rows in plain.edges.items()}
    return nodes, edges


def as_given(ways, rnd, kind, columns):
    """The columns in a file; for Spark in two partitions whose rows are in the order of the file."""
    shape = {}
    if rnd.random() < 0.3:
        shape["columns"] = {f"{name} of old": name for name in columns if name not in {"a", "b"}}
        olds = {new: old for old, new in shape["columns"].items()}
        columns = {olds.get(name, name): values for name, values in columns.items()}
    count = len(next(iter(columns.values())))
    if rnd.random() < 0.3:
        shape["ignore_extra"] = True
        columns["fax"] = pa.array(range(count))
    path, numbered = ways.place / "rows.parquet", ways.place / "numbered.parquet"
    pq.write_table(pa.table(columns), path, row_group_size=3)
    pq.write_table(pa.table({**columns, "at": pa.array(range(count))}), numbered)
    frame = ways.spark.read.parquet(str(numbered)).repartitionByRange(2, "at")
    return Given(kind, path, frame.sortWithinPartitions("at").drop("at"), shape)


def start(place: Path) -> Path:
    """Make the graph that all ways begin with."""
    with og.init(place, SCHEMA) as graph:
        graph.load(START)
    return place


def compare(ways: Ways, about: str, mode: str, on_bad: str, kind: str) -> None:
    """Go all ways with rows that are drawn by the text ``about``."""
    rnd = random.Random(about)
    with ExitStack() as sizes:
        if rnd.random() < 0.7:  # executors do it all, although it is little
            sizes.enter_context(all_loads_with(ALL_ON_EXECUTORS))
        for messy in (True, False) if on_bad == "fail" else (True,):
            columns = rows_of(rnd, kind, mode, messy=messy)
            shown = {name: values.to_pylist() for name, values in columns.items()}
            found = ways.go(as_given(ways, rnd, kind, columns), f"{about}: {shown}", mode, on_bad)
            # Only edges that lose their ends cannot be left out: they are in no record.
            loses_ends = mode == "overwrite" and kind == "P"
            assert messy or loses_ends or "error" not in found, (shown, found)
            assert on_bad == "fail" or loses_ends or "error" not in found, (shown, found)


def compare_all(session: Any, place: Path, seed: str, count: int) -> list[str]:
    """Compare the ways with that many random loads, each of graphs of its own; what differed."""
    started, wrong = start(place / "started"), []
    for number in range(count):
        about = f"{seed} {number}"
        rnd = random.Random(about)
        mode, on_bad, kind = (rnd.choice(one) for one in (MODES, ON_BAD, KINDS))
        (place / "ways").mkdir()
        ways = Ways(place / "ways", started, session)
        try:
            compare(ways, about, mode, on_bad, kind)
            ways.close()
        except AssertionError as error:
            wrong.append(f"{about} {mode} {on_bad} {kind}: {error}")
        shutil.rmtree(place / "ways")
    return wrong
