"""Three ways for the same rows: a load here, a load on Spark, and `df.write`.

They must store the same, leave out the same, and refuse the same in the same words, in every mode.
Only ids that a load makes up differ, and how a row is called: a frame that is written has partitions.
"""

from __future__ import annotations

import json
import random
import re
import secrets
import shutil
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph.errors import OmniGraphError
from omnigraph.pipeline.load_options import MODES, ON_BAD
from omnigraph.spark import register
from tests.commit.synthetic import drifted
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
  @range(n, 0..9)
}
node Q { t: String  n: I32? }
edge K: P -> P @card(0..3) { n: I32?  day: Date?  @unique(src, dst) }
"""
START = [
    *({"type": "P", "data": {"name": f"p{n}", "kind": "x", "mail": f"m{n}"}} for n in range(4)),
    {"type": "Q", "data": {"id": "q1", "t": "first", "n": 1}},
    {"edge": "K", "from": "p0", "to": "p1", "data": {"id": "k1", "n": 1}},
    {"edge": "K", "from": "p0", "to": "p2", "data": {"id": "k2"}},
]
TYPES = {
    "name": pa.string(), "kind": pa.string(), "mail": pa.string(), "n": pa.int64(),
    "big": pa.decimal128(20, 0), "ok": pa.bool_(), "day": pa.date32(), "f": pa.float64(),
    "t": pa.string(), "id": pa.string(), "a": pa.string(), "b": pa.string(),
}  # fmt: skip
MADE = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")
# Another one in each process that collects; all give the test the same name. A failure shows it.
SEED = secrets.randbelow(2**32)


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
    }
    if mode == "patch" and messy:
        del columns["kind"]  # those who are there have one
    return {
        name: columns[name]
        for name in columns
        if name == "kind" or rnd.random() < 0.8 or name == "name"
    }


def _links(rnd, count, *, messy):
    pairs = [(f"p{a}", f"p{b}") for a in range(4) for b in range(4)]
    chosen = [rnd.choice(pairs) for _ in range(count)] if messy else rnd.sample(pairs[4:], count)
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


class Ways:
    """One graph for each way, alike at first."""

    def __init__(self, place, started, spark):
        self.place, self.spark = place, spark
        for name in ("here", "there", "written"):
            shutil.copytree(started, place / name)
        self.here, self.there, self.written = (
            og.open(place / name) for name in ("here", "there", "written")
        )

    def close(self):
        for graph in (self.here, self.there, self.written):
            assert drifted(graph, "main") == []
            graph.close()

    def load(self, kind, columns, mode, on_bad, about):
        """Go all three ways and compare; return what became of it here."""
        path = self.place / "rows.parquet"
        pq.write_table(pa.table(columns), path, row_group_size=3)
        options = {"mode": mode, "on_bad": on_bad}
        here = self._loaded(self.here, kind, path, engine="local", **options)
        there = self._loaded(self.there, kind, path, engine="spark", spark=self.spark, **options)
        assert there == here, about
        assert contents(self.there) == contents(self.here), about
        self._compare_written(kind, columns, options, here, about)
        return here

    def _loaded(self, graph, kind, path, **options):
        """What became of it, with the lines of the rejects."""
        rejects = self.place / "rejects.jsonl"
        rejects.unlink(missing_ok=True)
        head = graph.snapshot().graph_commit_id
        load = (
            partial(graph.load_edges, kind, path, "a", "b")
            if kind == "K"
            else partial(graph.load_nodes, kind, path)
        )
        try:
            result = load(rejects=rejects, **options)
        except OmniGraphError as error:
            assert graph.snapshot().graph_commit_id == head
            outcome = ("refused", type(error), str(error), error.details)
        else:
            assert result.engine == options["engine"]
            outcome = ("loaded", result.tables, result.bad_records)
        told = rejects.read_text().splitlines() if rejects.exists() else []
        return unmade((*outcome, [json.loads(line) for line in told]))

    def _compare_written(self, kind, columns, options, here, about):
        numbered = {**columns, "at": pa.array(range(len(next(iter(columns.values())))))}
        path = self.place / "numbered.parquet"
        pq.write_table(pa.table(numbered), path)
        # Two partitions whose rows are in the order of the file.
        frame = self.spark.read.parquet(str(path)).repartitionByRange(2, "at")
        frame = frame.sortWithinPartitions("at").drop("at")
        given = {"graph": self.written.uri, "type": kind, "on_bad": options["on_bad"]}
        if kind == "K":
            given |= {"from_col": "a", "to_col": "b"}
        if options["mode"] in {"merge", "patch"}:
            given[options["mode"]] = "true"
        overwrite = options["mode"] == "overwrite"
        writer = frame.write.format("omnigraph").options(**given)
        try:
            writer.mode("overwrite" if overwrite else "append").save()
        except Exception as error:  # noqa: BLE001 - Spark's classes differ by what it was doing
            assert here[0] == "refused", (about, str(error))
            assert unplaced(here[2]) in unplaced(unmade(str(error))), about
        else:
            assert here[0] == "loaded", about
        assert contents(self.written) == contents(self.here), about


def unmade(value):
    """A value without the ids that were made up in it."""
    if isinstance(value, str):
        return MADE.sub("<made>", value)
    if isinstance(value, dict):
        return {name: unmade(one) for name, one in value.items()}
    return [unmade(one) for one in value] if isinstance(value, list | tuple) else value


def unplaced(message):
    """A message without the place of a row, which each way names after itself."""
    return re.sub(r"(\S+rows\.parquet|partition \d+), row \d+", "<row>", message)


def contents(graph):
    """Every row, without made ids."""
    plain = read_back(graph)
    nodes = {
        name: sorted(unmade(list(rows.items())), key=repr) for name, rows in plain.nodes.items()
    }
    edges = {name: sorted(unmade(list(rows)), key=repr) for name, rows in plain.edges.items()}
    return nodes, edges


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    place = tmp_path_factory.mktemp("started") / "g"
    with og.init(place, SCHEMA) as graph:
        graph.load(START)
    return place


@pytest.fixture
def ways(tmp_path, started, spark):
    register(spark)
    made = Ways(tmp_path, started, spark)
    yield made
    made.close()


@pytest.mark.sampled(8)
@pytest.mark.parametrize("kind", ["P", "Q", "K"])
@pytest.mark.parametrize("on_bad", ON_BAD)
@pytest.mark.parametrize("mode", MODES)
def test_the_same_is_stored_left_out_and_refused(ways, mode, on_bad, kind):
    rnd = random.Random(f"{SEED} {mode} {on_bad} {kind}")
    columns = rows_of(rnd, kind, mode, messy=True)
    about = f"seed {SEED}: { {name: values.to_pylist() for name, values in columns.items()} }"
    found = ways.load(kind, columns, mode, on_bad, about)
    assert on_bad == "fail" or found[0] == "loaded", about
    print(mode, on_bad, kind, found[0], len(found[-1]))
    if on_bad == "fail":
        columns = rows_of(rnd, kind, mode, messy=False)
        found = ways.load(kind, columns, mode, on_bad, about)
        print(found)
