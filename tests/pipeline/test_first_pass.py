"""What tasks of the one-pass load do, without Spark: rows into fragments, answers about columns."""

from __future__ import annotations

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.lang.schema.compile import compile_schema
from omnigraph.pipeline.load_input import LoadInput
from omnigraph.pipeline.rows.row_rules import RowRules
from omnigraph.pipeline.spark.one_pass import questions
from omnigraph.pipeline.spark.one_pass.fingerprints import are_comparable, fingerprints
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


def test_a_task_writes_its_rows_and_tells_where_they_are(run):
    knows = [{"edge": "Knows", "from": "p1", "to": f"p{n % 3}"} for n in range(6)]
    first_pass, told = run([*people(5), *knows])
    summaries = {s.key: s for s in (summary_of(row["data"]) for row in rows_of(told, SUMMARY))}
    assert {key: one.records for key, one in summaries.items()} == {
        "node:Person": 5,
        "edge:Knows": 6,
    }
    fragments = files_of(summaries["node:Person"].wide).fragments
    assert data_files(fragments) == files(first_pass, "node:Person")
    places = pa.RecordBatch.from_pylist(
        [row for row in rows_of(told, PLACES) if row["one"] == first_pass.number("node:Person")]
    )
    summary = summaries["node:Person"]
    (again,) = read_again(
        iter([places]),
        ref=first_pass.places["node:Person"],
        columns=["id", "0rec"],
        by_task={summary.task: summary.wide},
    )
    assert again.column(0).to_pylist() == [f"p{n}" for n in range(5)]
    offsets = again.column(1).to_pylist()
    assert offsets == sorted(offsets)
    assert offsets[0] == 0


def test_a_task_that_runs_again_writes_other_files(run):
    records = [*people(3), {"edge": "Knows", "from": "p1", "to": "p2"}]
    first_pass, _ = run(records)
    run(records)
    assert len(files(first_pass, "node:Person")) == 2


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
    kinds = {
        name: [catalog.nodes[name].arrow_schema().field(column).type for column in columns]
        for name, columns in (("Person", ["mail", "age"]), ("Town", ["size"]))
    }
    assert are_comparable(kinds["Person"])
    assert not are_comparable(kinds["Town"])


# ------------------------------------------------------------------ questions about columns


class Rows(questions.Piece):
    """Rows of this process in place of a file."""

    __slots__ = ("table",)

    def __init__(self, **columns):
        object.__setattr__(self, "table", pa.table(columns))
        super().__init__(None, self.table.num_rows)

    def batches(self, columns):
        return iter(self.table.select(columns).to_batches(max_chunksize=3))


def values(*columns):
    """Pieces with these columns each."""
    names = [f"c{at}" for at in range(len(columns[0]))]
    pieces = [Rows(**dict(zip(names, some, strict=True))) for some in columns]
    return tuple(questions.Values(piece, tuple(names)) for piece in pieces)


def asked(kind, mine, others=((),), **more):
    """Ask, undivided and divided among tasks; both must answer the same."""
    question = questions.Question(kind, values(*mine), values(*others) if others[0] else (), **more)
    answers = {
        any(questions.answer(part) for part in question.divided(cores)) for cores in (1, 2, 5)
    }
    assert len(answers) == 1
    return answers.pop()


def test_values_that_repeat_are_found_wherever_they_are():
    texts = [f"v{n}" for n in range(10)]
    assert not asked("repeated", [[texts[:5]], [texts[5:]]])
    assert asked("repeated", [[texts], [["v3"]]])
    assert asked("repeated", [[["a", "b", "a"]]])
    # Tuples are compared as a whole, and a null exempts.
    assert not asked("repeated", [[["a", "a", "a", "a"], ["x", "y", None, None]]])
    assert asked("repeated", [[["a", "b", "a"], ["x", "x", "x"]]])
    assert not asked("repeated", [[pa.array([None, None], pa.utf8())]])
    # Equal though they are spelled unlike.
    assert asked("repeated", [[pa.array([0.0, 1.0, -0.0])]])
    assert not asked("repeated", [[pa.array([0.0, 1.0, -1.0])]])


@pytest.mark.parametrize("most", [0, 1, 2, 3])
def test_values_may_come_as_often_as_is_said(most):
    for times in range(1, 5):
        found = asked("repeated", [[["x", "a", *["b"] * times]], [["y"]]], most=most)
        assert found == (max(times, 1) > most)


def test_values_are_divided_by_their_hashes(monkeypatch):
    monkeypatch.setattr(questions, "PART_ROWS", 2)
    texts = [f"v{n}" for n in range(10)]
    assert not asked("repeated", [[texts]])
    assert asked("repeated", [[[*texts, "v7"]]])


def test_values_among_others_and_values_that_are_missing():
    mine, others = [[["a", "b"]], [["c"]]], [[["c", "d"]], [["e"]]]
    assert asked("shared", mine, others)
    assert asked("shared", others, mine)
    assert not asked("shared", mine, [[["d", "e"]]])
    assert not asked("missing", mine, [[["a", "b"]], [["c", "d"]]])
    assert asked("missing", mine, [[["a", "b"]], [["d"]]])
    # As tuples, and a null is neither among others nor missing.
    assert not asked("shared", [[["a", "b", None], ["x", "y", "z"]]], [[["a", None], ["y", "z"]]])
    assert not asked("missing", [[["a", None]]], [[["a"]]])
    assert asked("missing", mine, [[pa.array([], pa.utf8())]])
    assert not asked("shared", mine, [[pa.array([], pa.utf8())]])
