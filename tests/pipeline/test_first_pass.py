"""What one task of the one-pass load does, without Spark: rows into fragments, fingerprints out."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.lang.schema.compile import compile_schema
from omnigraph.pipeline.load_input import LoadInput
from omnigraph.pipeline.rows.row_rules import RowRules
from omnigraph.pipeline.spark.one_pass.fingerprints import (
    are_comparable,
    compared_values,
    fingerprints,
)
from omnigraph.pipeline.spark.one_pass.first_pass import (
    BAD_RECORDS,
    PLACES,
    SUMMARY,
    FirstPass,
    files_of,
    read_again,
    summary_of,
    write_tasks,
)
from omnigraph.storage.tables.loose_files import data_files
from tests.opened import workspace_of

SCHEMA = """
node Person {
  name: String @key
  mail: String? @unique
  age: I32?
  @range(age, 0..150)
}
node Town { name: String  size: F64?  @unique(size) }
edge Knows: Person -> Person { since: Date? }
"""


@pytest.fixture
def graph(tmp_path):
    with og.init(tmp_path / "g", SCHEMA) as graph:
        yield graph


@pytest.fixture
def run(graph):
    """Run one task over records, as an executor would."""
    workspace = workspace_of(graph)
    catalog = graph.schema.catalog
    tables = graph.snapshot().tables
    first_pass = FirstPass(
        RowRules(catalog, "op", 1_700_000_000_000),
        {key: workspace.pinned(pin) for key, pin in tables.items()},
        overwrite=False,
        compared=compared_values(catalog),
        salt="salt",
    )

    def told(records):
        with LoadInput() as inputs:
            inputs.json(records)
            share = list(enumerate(inputs.tasks(catalog)))
            return first_pass, list(write_tasks(share, first_pass=first_pass))

    return told


def files(first_pass, key):
    from pathlib import Path

    directory = Path(first_pass.places[key].dataset_uri) / "data"
    return sorted(path.name for path in directory.glob("*.lance")) if directory.exists() else []


def rows_of(told, what):
    return [row for batch in told for row in batch.to_pylist() if row["what"] == what]


def people(count):
    return [{"type": "Person", "data": {"name": f"p{n}", "age": n}} for n in range(count)]


def test_a_task_writes_its_rows_and_tells_fingerprints(run):
    knows = [{"edge": "Knows", "from": "p1", "to": f"p{n % 3}"} for n in range(6)]
    first_pass, told = run([*people(5), *knows])
    names = {(one.table_key, one.role): one.what for one in first_pass.compared}
    wanted = [hashlib.md5(f"saltp{n}".encode(), usedforsecurity=False).digest() for n in range(5)]
    halves = {tuple(np.frombuffer(digest, np.int64).tolist()) for digest in wanted}
    ids = rows_of(told, names["node:Person", "id"])
    assert {(row["h1"], row["h2"]) for row in ids} == halves
    # Made ids are like no other, so nobody compares them; ends are told once, with their number.
    assert rows_of(told, names["edge:Knows", "id"]) == []
    assert [row["n"] for row in rows_of(told, names["edge:Knows", "src"])] == [6]
    assert sorted(row["n"] for row in rows_of(told, names["edge:Knows", "dst"])) == [2, 2, 2]
    # A tuple with a null is exempt.
    assert rows_of(told, names["node:Person", "unique"]) == []

    summaries = {s.key: s for s in (summary_of(row["data"]) for row in rows_of(told, SUMMARY))}
    assert {key: one.records for key, one in summaries.items()} == {
        "node:Person": 5,
        "edge:Knows": 6,
    }
    fragments = files_of(summaries["node:Person"].wide).fragments
    assert data_files(fragments) == files(first_pass, "node:Person")
    places = pa.RecordBatch.from_pylist(
        [row for row in rows_of(told, PLACES) if row["h1"] == first_pass.number("node:Person")]
    )
    (again,) = read_again(
        iter([places]), ref=first_pass.places["node:Person"], columns=["id", "0rec"]
    )
    assert again.column(0).to_pylist() == [f"p{n}" for n in range(5)]
    offsets = again.column(1).to_pylist()
    assert offsets == sorted(offsets)
    assert offsets[0] == 0


def test_a_task_that_runs_again_tells_the_same_and_writes_other_files(run):
    records = [*people(3), {"edge": "Knows", "from": "p1", "to": "p2"}]
    compared = [
        [row for batch in told for row in batch.to_pylist() if row["what"] >= 0]
        for _, told in (run(records), run(records))
    ]
    assert compared[0] == compared[1]
    first_pass, _ = run(records)
    assert len(files(first_pass, "node:Person")) == 3


def test_a_bad_record_leaves_no_file(run):
    bad = {"type": "Person", "data": {"name": "x", "age": 200}}
    first_pass, told = run([*people(3), bad, *people(2)])
    assert files(first_pass, "node:Person") == []
    assert len(rows_of(told, BAD_RECORDS)) == 1
    assert [summary_of(row["data"]).kind for row in rows_of(told, SUMMARY)] == ["bad"]


def test_tuples_are_not_confused_by_where_one_value_ends():
    def of(*columns):
        first, second = fingerprints([pa.array(column) for column in columns], "s")
        return list(zip(first.tolist(), second.tolist(), strict=True))

    assert len(set(of(["a", "a:b", "", "1"], ["b:c", "c", "a1", "a"]))) == 4
    assert of(["a", None, "b"], ["c", "c", None]) == of(["a"], ["c"])
    assert of([True, False]) == of([1, 0])
    many = [f"v{n}" for n in range(5000)]
    assert len(set(of(many))) == 5000
    chunks = pa.chunked_array([pa.array(many[:7]), pa.array(many[7:])])
    assert [fingerprints([chunks], "s")[0].tolist()] == [
        fingerprints([pa.array(many)], "s")[0].tolist()
    ]


def test_types_with_values_that_are_equal_but_spelled_unlike_are_not_fingerprinted():
    catalog = compile_schema(SCHEMA).catalog
    assert are_comparable(catalog.nodes["Person"])
    assert not are_comparable(catalog.nodes["Town"])
