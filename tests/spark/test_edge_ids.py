"""Edges that are loaded again on Spark: both engines and the data source give them the same ids."""

from __future__ import annotations

import random
from functools import partial

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.pipeline import load as loading
from omnigraph.pipeline.edge_ids import EdgeIds
from omnigraph.pipeline.local.local_engine import LocalEngine
from omnigraph.pipeline.rows.row_rules import RowRules
from omnigraph.pipeline.sources.splits import plan_splits
from omnigraph.spark import register
from tests.commit.synthetic import drifted
from tests.sampling import runs_all
from tests.spark.sizes import ON_EXECUTORS
from tests.stored import read_back

SCHEMA = """
node A { k: I64 @key }
edge E: A -> A {
  big: U64?
  day: Date?
  at: DateTime?
  f: F64?
  n: I32?
  note: String?
  @unique(src, dst, big, day, at, f)
}
edge F: A -> A { n: I32? note: String? @unique(src, dst) }
"""


@pytest.fixture(params=["few", "many"])
def sizes(request, monkeypatch, load_with):
    """Few rows are fetched; many are asked where they are, and whole tables are scanned."""
    if request.param == "many":
        load_with(ON_EXECUTORS)
        monkeypatch.setattr("omnigraph.validate.committed.KEY_LIMIT", -1)
        monkeypatch.setattr(LocalEngine, "few_rows", -1)
    return request.param


@pytest.fixture
def graph(tmp_path):
    with og.init(tmp_path / "g", SCHEMA) as graph:
        graph.load([{"type": "A", "data": {"k": k}} for k in range(6)])
        yield graph
        assert drifted(graph, "main") == []


def edge(src, dst, kind="F", **data):
    return {"edge": kind, "from": str(src), "to": str(dst), "data": data}


def stored(graph, kind="F"):
    """By ends: id and `n` of every edge."""
    rows = read_back(graph).edges[kind]
    found = {(src, dst): (row_id, row["n"]) for row_id, src, dst, row in rows}
    assert len(found) == len(rows)
    return found


def random_edges(rnd, count, kinds):
    """Edges of few ends and few values, so that most of them meet another; some have an id."""
    records = []
    for _ in range(count):
        kind = rnd.choice(kinds)
        data = {"n": rnd.randrange(1000)}
        if rnd.random() < 0.15:
            data["id"] = f"{kind}{rnd.randrange(8)}"
        if kind == "E":
            values = {
                "big": [2**64 - 1, 2**64 - 2],
                "day": ["2024-02-29", "1969-12-31"],
                "at": ["2024-02-29T12:00:00.001Z", 0],
                "f": [0.0, -0.0, 0.5],
            }
            for name, choices in values.items():
                if rnd.random() < 0.95:
                    data[name] = rnd.choice([*choices, *choices, None])
        records.append(edge(rnd.randrange(2), rnd.randrange(2), kind, **data))
    return records


@pytest.mark.sampled(1, every=())
def test_both_engines_give_the_same_ids(tmp_path, spark, monkeypatch, sizes):
    """A query on executors takes long, so of many there is one load, after one in this process."""
    monkeypatch.setattr(
        "omnigraph.pipeline.load_input.plan_splits", partial(plan_splits, size=1500)
    )
    loads = []
    monkeypatch.setattr(
        loading,
        "RowRules",
        lambda catalog, _, __, *given, **flags: RowRules(
            catalog, f"load-{len(loads)}", 10**12, *given, **flags
        ),
    )
    rnd = random.Random(14)
    outcomes = []
    with og.init(tmp_path / "l", SCHEMA) as here, og.init(tmp_path / "s", SCHEMA) as there:
        for number in range(4 if sizes == "few" else 2):
            loads.append(number)
            records = [{"type": "A", "data": {"k": k}} for k in range(3)]
            records += random_edges(
                rnd, rnd.choice([8, 25]), ["E", "F"] if sizes == "few" else ["E"]
            )
            told = []
            away = {"spark": spark} if sizes == "few" or number else {"engine": "local"}
            for target, options in ((here, {"engine": "local"}), (there, away)):
                try:
                    told.append(target.load(records, **options).tables)
                except og.errors.ConstraintError as error:
                    told.append((str(error), error.details))
            assert told[0] == told[1], records
            outcomes.append(isinstance(told[0], list))
            contents = [
                {kind: sorted(rows, key=repr) for kind, rows in read_back(one).edges.items()}
                for one in (here, there)
            ]
            assert contents[0] == contents[1], records
    assert outcomes.count(True) > 1, "an accepted load met the edges of another"


@pytest.mark.sampled(1, every=())
@pytest.mark.usefixtures("sizes")
def test_a_frame_of_spark_loaded_twice(graph, spark):
    """A frame of several partitions, which is evaluated more than once."""

    def load(numbers):
        rows = [(str(a), str(b), n) for n, (a, b) in zip(numbers, PAIRS, strict=True)]
        frame = spark.createDataFrame(rows, "a string, b string, n int").repartition(3, "b")
        return graph.load_edges("F", frame, "a", "b")

    assert load(range(12)).total_rows == 12
    first = stored(graph)
    assert load(range(100, 112)).total_rows == 12
    now = stored(graph)
    assert {ends: row_id for ends, (row_id, _) in now.items()} == {
        ends: row_id for ends, (row_id, _) in first.items()
    }
    assert sorted(n for _, n in now.values()) == list(range(100, 112))


PAIRS = [(a, b) for a in range(3) for b in range(4)]


def test_records_that_mean_one_edge_in_several_tasks(graph, spark, monkeypatch):
    monkeypatch.setattr("omnigraph.pipeline.load_input.plan_splits", partial(plan_splits, size=300))
    graph.load([edge(0, 1, id="old", n=1)])
    records = [edge(a, b, n=n) for n in range(3) for a in range(2) for b in range(2)]
    result = graph.load(records, spark=spark)
    assert result.tables == [{"table_key": "edge:F", "rows_loaded": 4}]
    found = stored(graph)
    assert found["0", "1"] == ("old", 2)
    assert {n for _, n in found.values()} == {2}
    assert found.keys() == {(a, b) for a in "01" for b in "01"}


@pytest.mark.parametrize(
    ("sizes", "comes"),
    # Everything on executors, twice, takes minutes.
    [("few", True), ("few", False), *([("many", True)] if runs_all() else [])],
    indirect=["sizes"],
)
@pytest.mark.usefixtures("sizes")
def test_a_load_that_lost_a_race_takes_other_ids(graph, spark, monkeypatch, comes):
    """Another id for one edge, or none any more; the rest of the ids stays. Every record has its task."""
    monkeypatch.setattr("omnigraph.pipeline.load_input.plan_splits", partial(plan_splits, size=60))
    graph.load([edge(0, 1, id="a"), edge(0, 2, id="stays")])

    def overtake(_):
        graph.mutate('query q() { delete F where to = "1" }')
        if comes:
            graph.load([edge(0, 1, id="late", n=0)])

    taken = []

    def assign(*args):
        taken.append(assigned(*args))
        return taken[-1]

    assigned = EdgeIds.assign
    # The first record loses to the second as long as both mean `a`.
    records = [edge(0, 1, n=5), edge(1, 1, id="a", n=6), edge(0, 2, n=7)]
    with failpoints.arm("load.before_locks", overtake, times=1):
        monkeypatch.setattr(EdgeIds, "assign", assign)
        result = graph.load(records, spark=spark)
    assert result.total_rows == 3
    assert taken[0] == taken[-1] == {"edge:F"}
    found = stored(graph)
    assert {ends: n for ends, (_, n) in found.items()} == {
        ("0", "1"): 5,
        ("1", "1"): 6,
        ("0", "2"): 7,
    }
    assert found["1", "1"][0] == "a"
    assert found["0", "2"][0] == "stays"
    assert (found["0", "1"][0] == "late") is comes


def test_a_merge_through_the_data_source(graph, spark):
    register(spark)

    def write(numbers, pairs):
        rows = [(str(a), str(b), n) for n, (a, b) in zip(numbers, pairs, strict=True)]
        frame = spark.createDataFrame(rows, "from string, to string, n int").repartition(3, "to")
        options = {"graph": graph.uri, "type": "F", "merge": "true"}
        frame.write.format("omnigraph").options(**options).mode("append").save()

    write(range(12), PAIRS)
    first = stored(graph)
    assert len(first) == 12
    write(range(50, 63), [*PAIRS[2:], (4, 4), (5, 5), (5, 5)])
    now = stored(graph)
    assert len(now) == 14
    assert {ends: now[ends][0] for ends in first} == {ends: row[0] for ends, row in first.items()}
    expected = {(str(a), str(b)): n for n, (a, b) in enumerate(PAIRS)}
    expected |= {(str(a), str(b)): n for n, (a, b) in zip(range(50, 61), [*PAIRS[2:], (4, 4)], strict=True)}  # fmt: skip
    assert {ends: n for ends, (_, n) in now.items() if ends != ("5", "5")} == expected
    assert now["5", "5"][1] in {61, 62}


def test_a_frame_of_this_process(graph, spark):
    table = pa.table({"a": ["0", "0"], "b": ["1", "2"], "n": pa.array([1, 2], pa.int32())})
    for _ in range(2):
        graph.load_edges("F", table, "a", "b", engine="spark", spark=spark)
    assert {ends: n for ends, (_, n) in stored(graph).items()} == {("0", "1"): 1, ("0", "2"): 2}


@pytest.mark.sampled(2, every=())
@pytest.mark.parametrize("mode", ["append", "overwrite", "merge", "patch"])
def test_ids_made_from_tuples_are_those_of_a_load_here(tmp_path, graph, spark, sizes, mode):
    """Also where the first rows of a table are written while they are read."""
    pairs = [(a, b) for a in range(6) for b in range(6)]
    with og.init(tmp_path / "here", SCHEMA) as here:
        here.load([{"type": "A", "data": {"k": k}} for k in range(6)])
        here.load([edge(*pair) for pair in pairs], mode=mode)
        graph.load([edge(*pair) for pair in pairs], mode=mode, engine="spark", spark=spark)
        assert stored(graph) == stored(here)
        assert {len(row_id) for row_id, _ in stored(graph).values()} == {28}


@pytest.mark.sampled(2, every=())
@pytest.mark.parametrize("mode", ["append", "merge", "patch"])
@pytest.mark.parametrize("way", ["load", "frame", "write"])
def test_an_id_whose_edge_has_moved_is_not_given_again(graph, spark, sizes, mode, way):
    if way == "write" and sizes == "many":
        pytest.skip("df.write has no sizes")
    graph.load([edge(0, 1), edge(2, 3)])
    old = stored(graph)
    graph.load([edge(5, 5, id=old["0", "1"][0])])
    pairs = [("0", "1"), ("4", "4")]
    frame = spark.createDataFrame(
        [(a, b, 7) for a, b in pairs], "`from` string, `to` string, n int"
    )
    if way == "load":
        records = [edge(*pair, n=7) for pair in pairs]
        graph.load(records, mode=mode, engine="spark", spark=spark)
    elif way == "frame":
        graph.load_edges("F", frame, mode=mode, engine="spark", spark=spark)
    else:
        register(spark)
        writer = frame.write.format("omnigraph").option("graph", graph.uri).option("type", "F")
        if mode != "append":
            writer = writer.option(mode, "true")
        writer.mode("append").save()
    now = stored(graph)
    assert (now["5", "5"][0], now["2", "3"]) == (old["0", "1"][0], old["2", "3"])
    assert len(now["0", "1"][0]) == 26
    assert now["4", "4"][0].startswith("e_")
    assert (now["0", "1"][1], now["4", "4"][1], len(now)) == (7, 7, 4)
