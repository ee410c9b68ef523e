"""What a task of a load on Spark does, without Spark: rows into files, and how they are read again."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.pipeline.load_input import LoadInput
from omnigraph.pipeline.rows.row_rules import RowRules, narrow_columns
from omnigraph.pipeline.rows.stored_rows import Spellings
from omnigraph.pipeline.spark.read_plan import written_share
from omnigraph.pipeline.written.task_files import Destination, form_of
from omnigraph.pipeline.written.task_rows import TaskPlan
from omnigraph.pipeline.written.written_reader import WrittenReader
from omnigraph.runner.spark_errors import error_of
from omnigraph.storage.tables.loose_files import data_files
from omnigraph.validate.change_set import MADE, ORDER
from tests.graphs import graph_of
from tests.opened import workspace_of

SCHEMA = """
node Person {
  name: String @key
  mail: String? @unique
  age: I32?
  @range(age, 0..150)
}
node Photo { name: String @key  data: Blob? }
edge Knows: Person -> Person { since: Date? }
edge Likes: Person -> Person { n: I32?  @unique(src, dst) }
"""
FORMS = ["fragments", "images", "rows"]


graph = graph_of(SCHEMA)


@pytest.fixture
def run(graph):
    """Run one task over records, as an executor would; the plan and what the task told."""
    workspace, catalog = workspace_of(graph), graph.schema.catalog

    def told(records, form="fragments", **rules):
        plan = TaskPlan(
            RowRules(catalog, "op", 1_700_000_000_000, **rules),
            {
                key: Destination(catalog.entity(key), workspace.pinned(pin), form)
                for key, pin in graph.snapshot().tables.items()
            },
        )
        with LoadInput() as inputs:
            inputs.json(records)
            return plan, written_share(list(enumerate(inputs.tasks(catalog))), plan, None)

    return told


def files(plan, key):
    directory = Path(plan.destinations[key].ref.dataset_uri) / "data"
    return sorted(path.name for path in directory.glob("*.lance")) if directory.exists() else []


def people(count):
    return [{"type": "Person", "data": {"name": f"p{n}", "age": n}} for n in range(count)]


def read(plan, result, key, columns=None, **known):
    """The rows of a table, in the order of the input."""
    reading = WrittenReader(plan.destinations[key], **known)
    rows = pa.Table.from_batches(reading.batches(result.tables[key], columns))
    return rows.sort_by(ORDER).to_pylist()


@pytest.mark.parametrize("form", FORMS)
def test_a_task_writes_its_rows_and_they_are_read_again_in_every_form(run, form):
    """Lines follow each other by bytes, so that the order of their rows is in a file."""
    knows = [{"edge": "Knows", "from": "p1", "to": f"p{n % 3}"} for n in range(6)]
    plan, result = run([*people(5), *knows], form)
    assert {key: one.rows for key, one in result.tables.items()} == {
        "node:Person": 5,
        "edge:Knows": 6,
    }
    for columns in (None, narrow_columns(plan.destinations["node:Person"].entity)):
        rows = read(plan, result, "node:Person", columns)
        assert [row["id"] for row in rows] == [f"p{n}" for n in range(5)]
        assert rows[0][ORDER] == 0
    assert [row["age"] for row in read(plan, result, "node:Person")] == list(range(5))
    ends = [
        (row["src"], row["dst"]) for row in read(plan, result, "edge:Knows", ["id", "src", "dst"])
    ]
    assert ends == [("p1", f"p{n % 3}") for n in range(6)]


@pytest.mark.parametrize("form", FORMS)
def test_it_is_known_which_ids_were_made_and_ends_can_be_redirected(run, form):
    likes = [
        {"edge": "Likes", "from": "p1", "to": "p2", "data": {"n": 1}},
        {"edge": "Likes", "from": "p2", "to": "p1", "data": {"n": 2, "id": "own"}},
    ]
    plan, result = run([*people(3), *likes], form)
    narrow = ["id", "src", "dst", MADE]
    first, second = read(plan, result, "edge:Likes", narrow)
    assert [(row["src"], row["dst"], row[MADE]) for row in (first, second)] == [
        ("p1", "p2", True),
        ("p2", "p1", False),
    ]
    entity = plan.destinations["edge:Likes"].entity
    spelled = Spellings(entity, {"src": {"p1": "p0"}})
    for columns in (None, narrow):
        moved, same = read(plan, result, "edge:Likes", columns, spellings=spelled)
        assert (moved["src"], moved["dst"], same["src"], same["id"]) == ("p0", "p2", "p2", "own")
        # It was made from the tuple, and is made again from the one that it has now.
        ends = {name: pa.array([moved[name]]) for name in ("src", "dst")}
        assert moved["id"] == entity.tuple_ids(ends.__getitem__)[0].as_py()
        assert moved["id"] != first["id"]
    (left,) = (
        row
        for batch in WrittenReader(
            plan.destinations["edge:Likes"], losers=pa.array([second[ORDER]])
        ).records([result.tables["edge:Likes"]])
        for row in batch.to_pylist()
    )
    assert left["id"] == first["id"]


def test_rows_that_follow_each_other_need_no_file_for_their_order(graph, tmp_path):
    from pyarrow import parquet

    workspace, catalog = workspace_of(graph), graph.schema.catalog
    parquet.write_table(pa.table({"name": [f"p{n}" for n in range(7)]}), tmp_path / "p.parquet")
    ref = workspace.pinned(graph.snapshot().tables["node:Person"])
    to = Destination(catalog.entity("node:Person"), ref, "fragments")
    plan = TaskPlan(RowRules(catalog, "op", 1), {"node:Person": to})
    with LoadInput() as inputs:
        inputs.nodes("Person", str(tmp_path / "p.parquet"))
        result = written_share(list(enumerate(inputs.tasks(catalog))), plan, None)
    written = result.tables["node:Person"]
    assert written.loose is None
    orders = [row[ORDER] for row in read(plan, result, "node:Person")]
    assert orders == list(range(written.first_order, written.first_order + 7))


def test_a_task_that_runs_again_writes_other_files(run):
    records = [*people(3), {"edge": "Knows", "from": "p1", "to": "p2"}]
    plan, first = run(records)
    _, again = run(records)
    assert not set(data_files(first.fragments)) & set(data_files(again.fragments))
    assert len(files(plan, "node:Person")) == 4  # two of rows, two of their order


@pytest.mark.parametrize("form", FORMS)
def test_a_bad_record_leaves_no_file_unless_it_is_skipped(run, form):
    bad = {"type": "Person", "data": {"name": "x", "age": 200}}
    records = [*people(3), bad, *people(2)]
    plan, result = run(records, form)
    assert files(plan, "node:Person") == []
    assert (result.tables, result.bad_total, len(result.bad)) == ({}, 1, 1)
    _, result = run(records, "rows", skip=True)
    assert (result.rows, result.bad_total) == (5, 1)


def test_an_error_that_ends_the_load_is_told_and_leaves_no_file(run, monkeypatch):
    def fail(*_, **__):
        raise og.errors.StorageError("the disk is full")

    monkeypatch.setattr("omnigraph.pipeline.written.task_rows.TaskFiles.close", fail)
    plan, result = run(people(3))
    assert "the disk is full" in str(error_of(result.failure))
    assert files(plan, "node:Person") == []


def test_the_form_is_the_most_direct_one_that_can_become_the_right_rows(graph):
    catalog = graph.schema.catalog

    def forms(mode, **known):
        return {name: form_of(catalog.entity(key), mode, **known) for name, key in KEYS.items()}

    assert forms("append", is_final=True) == dict.fromkeys(KEYS, "fragments")
    assert forms("merge", is_final=True) == {**dict.fromkeys(KEYS, "images"), "Photo": "rows"}
    assert forms("merge", is_final=True, named=False) == dict.fromkeys(KEYS, "fragments")
    assert forms("append", is_final=False) == dict.fromkeys(KEYS, "rows")


KEYS = {"Person": "node:Person", "Photo": "node:Photo", "Likes": "edge:Likes"}
