"""`load(check=True)` judges what the load would judge and leaves no trace; `embed=True` demands vectors."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import (
    BadRequest,
    BranchNotFound,
    ConstraintError,
    InputError,
    KeyConflict,
    PreconditionFailed,
    ProviderError,
)
from tests.graphs import graph_of, person

SCHEMA = """
node Person { name: String @key  mail: String? @unique(mail) }
node Note { slug: String @key  body: String  vec: Vector(4)? @embed("body") }
node Need { slug: String @key  body: String  vec: Vector(4) @embed("body") }
edge Knows: Person -> Person @card(0..1)
"""


def knows(source, target):
    return {"edge": "Knows", "from": source, "to": target, "data": {"id": source + target}}


def note(kind="Note"):
    return {"type": kind, "data": {"slug": "n", "body": "text"}}


graph = graph_of(SCHEMA, [person("a", mail="a@x"), person("b"), knows("a", "b")])


def files(graph):
    return {path: path.stat().st_mtime_ns for path in Path(graph.uri).rglob("*") if path.is_file()}


GOOD = [person("c"), knows("b", "c")]
BAD = {
    "record": ([person("c", mail=1)], InputError),
    "enum of the grammar": ([{"type": "Nobody", "data": {}}], InputError),
    "unique": ([person("c", mail="a@x")], ConstraintError),
    "endpoint": ([knows("b", "nobody")], ConstraintError),
    "cardinality": ([knows("a", "a")], ConstraintError),
}


@pytest.mark.parametrize("mode", ["r", "rw"])
def test_a_check_counts_and_leaves_no_trace(graph, mode):
    before, head = files(graph), graph.snapshot().graph_commit_id
    with og.open(graph.uri, mode=mode) as checking:
        done = checking.load(GOOD, check=True, branch="review", from_branch="main")
    assert (done.commit, done.total_rows, done.branch_created) == (None, 2, False)
    assert done.to_json()["commit"] is None
    assert {table["table_key"]: table["rows_loaded"] for table in done.tables} == {
        "node:Person": 1,
        "edge:Knows": 1,
    }
    assert graph.branches.list() == ["main"]
    assert graph.snapshot().graph_commit_id == head
    assert files(graph) == before


@pytest.mark.parametrize("name", BAD)
def test_a_check_refuses_what_the_load_refuses(graph, name):
    records, error = BAD[name]
    before = files(graph)
    with pytest.raises(error) as checked:
        graph.load(records, check=True)
    assert files(graph) == before
    with pytest.raises(error) as loaded:
        graph.load(records)
    assert str(checked.value) == str(loaded.value)


def test_a_check_knows_append_conditions_and_branches(graph):
    with pytest.raises(KeyConflict):
        graph.load([person("a")], mode="append", check=True)
    with pytest.raises(PreconditionFailed):
        graph.load(GOOD, check=True, if_commit="01ARZ3NDEKTSV4RRFFQ69G5FAV")
    with pytest.raises(BranchNotFound):
        graph.load(GOOD, check=True, branch="review")
    with pytest.raises(BadRequest, match="check is 1"):
        graph.load(GOOD, check=1)


def test_a_check_says_what_would_be_skipped(graph, tmp_path):
    done = graph.load([*GOOD, knows("b", "x")], check=True, on_bad="skip", rejects=tmp_path / "bad")
    assert (done.commit, done.skipped, done.total_rows) == (None, 1, 2)
    assert "not found" in (tmp_path / "bad").read_text()


class Counting:
    """An embedder that counts its calls, and fails if told to."""

    model = "counting"

    def __init__(self, *, fails=False):
        self.calls = 0
        self.fails = fails

    def embed(self, texts, dimension):
        self.calls += 1
        if self.fails:
            raise RuntimeError("out of order")
        return [[1.0] * dimension for _ in texts]


def test_a_check_asks_no_provider_for_vectors_but_wants_one_where_it_is_needed(graph):
    with og.open(graph.uri, embedder=(embedder := Counting())) as embedding:
        done = embedding.load([note(), note("Need")], check=True)
        assert (done.embeddings_pending, embedder.calls) == (2, 0)
    assert graph.load([note()], check=True).embeddings_pending == 1
    for records, options in (([note("Need")], {}), ([note()], {"embed": True})):
        with pytest.raises(ProviderError):
            graph.load(records, check=True, **options)


@pytest.mark.parametrize("embedder", [None, Counting(fails=True)])
def test_vectors_that_are_demanded_are_made_or_nothing_is_loaded(graph, embedder):
    with og.open(graph.uri, embedder=embedder) as failing:
        with pytest.raises(ProviderError):
            failing.load([note()], embed=True)
        assert graph.entity("node", "Note", "n") is None
        assert failing.load([note()]).embeddings_pending == 1
    with og.open(graph.uri, embedder=Counting()) as working:
        assert working.load([note()], embed=True).embeddings_pending == 0
