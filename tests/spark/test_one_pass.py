"""Appends and overwrites on Spark in one pass: what is written, what is refused, what is left behind."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

import omnigraph as og
from omnigraph.errors import OmniGraphError
from omnigraph.pipeline.rows.row_rules import RowRules
from omnigraph.pipeline.spark.spark_rows import SparkRows
from tests.opened import workspace_of
from tests.pipeline.load_helpers import load_gathered
from tests.spark.sizes import ON_EXECUTORS
from tests.stored import read_back

SCHEMA = """
node Person {
  name: String @key
  mail: String? @unique
  age: I32?
  @range(age, 0..150)
}
node Day { date: Date @key  photo: Blob? }
edge Knows: Person -> Person { since: Date? }
edge Born: Person -> Day
edge Twin: Person -> Person @card(0..1)
"""

TOO_LARGE = replace(ON_EXECUTORS, shared_bytes=-1)


@pytest.fixture(params=[ON_EXECUTORS, TOO_LARGE], ids=["tasks", "rules"])
def graphs(tmp_path, spark, monkeypatch, request, load_with):
    """A graph for Spark, where nothing is fetched because it is little, and one for this process.

    Rules are proved by tasks that read whole columns, or evaluated, as if columns were too large for that.
    """
    load_with(request.param)
    # Errors name edges by their ids, which are made from the operation.
    monkeypatch.setattr(
        "omnigraph.pipeline.load.RowRules",
        lambda catalog, _, __, *given, **flags: RowRules(catalog, "op", 1, *given, **flags),
    )
    with og.init(tmp_path / "s", SCHEMA) as one, og.init(tmp_path / "l", SCHEMA) as two:
        yield Both(one, two, spark, request.param)


class Both:
    def __init__(self, spark, local, session, sizes):
        self.spark, self.local, self.session, self.sizes = spark, local, session, sizes

    def load(self, gather, **options):
        """Run a load on both; the answer, or the error, must be the same."""
        told = []
        for graph, engine in (
            (self.spark, {"engine": "spark", "spark": self.session}),
            (self.local, {"engine": "local"}),
        ):
            try:
                told.append(load_gathered(graph, gather, **engine, **options).tables)
            except OmniGraphError as error:
                told.append((type(error), str(error), error.details))
        assert told[0] == told[1]
        assert contents(self.spark) == contents(self.local)
        return told[0]


def contents(graph):
    plain = read_back(graph)
    edges = {name: sorted(row[1:] for row in rows) for name, rows in plain.edges.items()}
    return {name: dict(rows) for name, rows in plain.nodes.items()}, edges


def files(graph, key):
    """The data files of a table."""
    pin = graph.snapshot().tables[key]
    directory = Path(workspace_of(graph).pinned(pin).dataset_uri) / "data"
    return {path.name for path in directory.glob("*.lance")} if directory.exists() else set()


def all_files(graph):
    return {key: files(graph, key) for key in graph.snapshot().tables}


def people(*names, **columns):
    count = len(names)
    return pa.table({"name": names, "age": range(count), **columns})


def in_files(tmp_path, table, parts):
    """A table as Parquet files, each of which is a task of its own."""
    directory = tmp_path / f"parts-{len(list(tmp_path.iterdir()))}"
    directory.mkdir()
    for at in range(parts):
        parquet.write_table(table.slice(at * 5, 5), directory / f"{at}.parquet")
    return str(directory)


@pytest.mark.sampled(1, every=())
def test_rows_are_written_once_and_no_text_is_compared(graphs, tmp_path, spark, monkeypatch):
    seen = []

    def frame(self, runner, columns, **options):
        seen.append(self.entity.name)
        return original(self, runner, columns, **options)

    original = SparkRows.frame
    monkeypatch.setattr(SparkRows, "frame", frame)
    names = [f"p{n}" for n in range(20)]
    folk = people(*names, mail=[f"{name}@x" for name in names])
    graphs.load(lambda inputs: inputs.nodes("Person", in_files(tmp_path, folk, 4)), mode="append")
    more = in_files(tmp_path, people(*[f"q{n}" for n in range(5)]), 1)
    ends = spark.range(0, 20, 1, 4).selectExpr("concat('p', id) AS `from`", "'q1' AS `to`")

    def gather(inputs):
        inputs.nodes("Person", more)
        inputs.edges("Knows", ends, "from", "to")
        inputs.edges("Twin", ends, "from", "to")

    result = load_gathered(graphs.spark, gather, mode="append", engine="spark", spark=spark)
    assert {table["table_key"]: table["rows_loaded"] for table in result.tables} == {
        "edge:Knows": 20,
        "edge:Twin": 20,
        "node:Person": 5,
    }
    assert len(read_back(graphs.spark).edges["Knows"]) == 20
    # Nodes may be replaced by others as long as every edge keeps its ends.
    kept = people(*names, *[f"q{n}" for n in range(5)])
    again = in_files(tmp_path, kept, 5)
    options = {"mode": "overwrite", "engine": "spark", "spark": spark}
    load_gathered(graphs.spark, lambda inputs: inputs.nodes("Person", again), **options)
    # Columns that are too large for a task are asked by the rules themselves.
    assert (seen == []) == (graphs.sizes is ON_EXECUTORS)
    assert len(read_back(graphs.spark).nodes["Person"]) == 25
    # Every file there is belongs to the rows of some version.
    assert len(files(graphs.spark, "node:Person")) == 4 + 1 + 5


@pytest.mark.sampled(2, every=())
@pytest.mark.parametrize(
    ("gather", "options"),
    [
        ("twice", {"mode": "append"}),
        ("taken", {"mode": "append"}),
        ("mail twice", {"mode": "append"}),
        ("mail taken", {"mode": "append"}),
        ("no such end", {"mode": "append"}),
        ("bad", {"mode": "overwrite"}),
        ("ends lost", {"mode": "overwrite"}),
        ("emptied", {"mode": "overwrite"}),
        ("too many", {"mode": "append"}),
        ("one too many", {"mode": "append"}),
    ],
)
def test_what_breaks_a_rule_is_refused_as_in_this_process_and_leaves_no_file(
    graphs, tmp_path, gather, options
):
    graphs.load(
        lambda inputs: (
            inputs.nodes("Person", people("ann", "bob", mail=["a@x", None]))
            .edges("Knows", pa.table({"from": ["ann"], "to": ["bob"]}), "from", "to")
            .edges("Twin", pa.table({"from": ["bob"], "to": ["bob"]}), "from", "to")
            .nodes("Day", pa.table({"date": ["2020-01-01", "2020-01-02"]}))
        ),
        mode="append",
    )
    wide = [f"n{n}" for n in range(12)]
    mails = [f"{name}@x" for name in wide]
    given = {
        "twice": people(*wide[:11], "n3"),
        "taken": people(*wide, "bob"),
        "mail twice": people(*wide, mail=[*mails[:11], "n2@x"]),
        "mail taken": people(*wide, mail=["a@x", *mails[1:]]),
        "no such end": pa.table({"from": ["ann"] * 12, "to": ["bob"] * 7 + ["cid"] + ["ann"] * 4}),
        "bad": people(*wide).set_column(1, "age", pa.array([1] * 9 + [200, 1, 1])),
        "ends lost": people(*wide, "bob"),
        "emptied": people(),
        "too many": pa.table({"from": ["ann", "ann"], "to": ["bob", "ann"]}),
        "one too many": pa.table({"from": ["ann", "bob"], "to": ["bob", "ann"]}),
    }[gather]
    source = in_files(tmp_path, given, 3)
    kind = {"no such end": "Knows", "too many": "Twin", "one too many": "Twin"}.get(
        gather, "Person"
    )
    before = all_files(graphs.spark)

    def fill(inputs):
        if kind == "Person":
            return inputs.nodes("Person", source)
        return inputs.edges(kind, source, "from", "to")

    error, text, _ = graphs.load(fill, **options)
    assert issubclass(error, OmniGraphError), text
    assert all_files(graphs.spark) == before


@pytest.mark.sampled(1, every=())
def test_json_lines_of_all_tables_blobs_and_edges_that_spell_ids_in_another_way(graphs, spark):
    records = [
        {"type": "Day", "data": {"date": "2024-02-01", "photo": "base64:AAEC"}},
        *({"type": "Person", "data": {"name": f"p{n}"}} for n in range(6)),
        {"edge": "Knows", "from": "p1", "to": "p2"},
    ]
    data = "".join(json.dumps(record) + "\n" for record in records).encode()
    tables = graphs.load(lambda inputs: inputs.json(data), mode="append")
    assert {table["table_key"]: table["rows_loaded"] for table in tables} == {
        "node:Day": 1,
        "node:Person": 6,
        "edge:Knows": 1,
    }
    spelled = [
        {"type": "Day", "data": {"id": "2024-02-02", "date": "2024-02-02"}},
        {"type": "Person", "data": {"name": "late"}},
        {"edge": "Born", "from": "late", "to": "2024-02-02"},
    ]
    again = "".join(json.dumps(record) + "\n" for record in spelled).encode()
    graphs.load(lambda inputs: inputs.json(again), mode="append")
    ((_, born, day, *_),) = read_back(graphs.spark).edges["Born"]
    assert born == "late"
    assert day in read_back(graphs.spark).nodes["Day"]
    assert day != "2024-02-02"
