"""The embed job: which vectors it fills, in which commits, and what a provider that fails does to it."""

from __future__ import annotations

import os

import pytest

import omnigraph as og
from omnigraph.errors import BadRequest, PreconditionFailed, ProviderError
from tests.oracle.analysis import mock_embedding
from tests.pipeline.embedders import Recording
from tests.storage.processes import context
from tests.write.writing import nodes, run

SCHEMA = """
node Note { slug: String @key  body: String?  vec: Vector(4)? @embed(body) @index }
node Memo { slug: String @key  body: String?  vec: Vector(4)? @embed(body) }
node Plain { slug: String @key }
"""


def notes(count: int, kind: str = "Note") -> list[dict[str, object]]:
    return [
        {"type": kind, "data": {"slug": f"{number:05}", "body": f"text {number % 1500}"}}
        for number in range(count)
    ]


@pytest.fixture
def pending(tmp_path):
    """1,200 notes and 50 memos without vectors, and one note that has one."""
    with og.init(tmp_path / "g", SCHEMA) as graph:
        given = {"type": "Note", "data": {"slug": "own", "body": "own", "vec": [1, 0, 0, 0]}}
        loaded = graph.load([*notes(1200), *notes(50, "Memo"), given, empty("none")])
        assert loaded.embeddings_pending == 1250
        yield graph.uri


def empty(slug: str) -> dict[str, object]:
    return {"type": "Note", "data": {"slug": slug}}


def is_filled(graph: og.Graph, kind: str = "Note") -> set[str]:
    """The ids with a vector, each checked to be that of its text."""
    found = {}
    for row_id, values in nodes(graph, kind).items():
        vector = values.get("vec")
        if vector is not None and row_id != "own":
            assert vector == pytest.approx(mock_embedding(values["body"], 4), abs=1e-6)
            found[row_id] = vector
    return set(found)


def test_every_thousand_rows_are_a_commit(pending):
    embedder = Recording()
    told = []
    with og.open(pending, embedder=embedder) as graph:
        before = len(graph.commits.list())
        done = graph.embed(actor="ada", progress=lambda *numbers: told.append(numbers))
        made = graph.commits.list()[: len(graph.commits.list()) - before]
        assert (done.filled, done.pending, done.failed) == (1250, 0, 0)
        assert done.commit == made[0]
        assert [(one.operation, one.actor_id) for one in made] == [("embed", "ada")] * 2
        assert told == [(1000, 0), (1250, 0)]
        assert len(is_filled(graph)) == 1200
        assert len(is_filled(graph, "Memo")) == 50
        assert nodes(graph, "Note")["own"]["vec"] == [1, 0, 0, 0]
        assert "vec" not in nodes(graph, "Note")["none"]
        calls = len(embedder.calls)
        again = graph.embed()
        assert (again.filled, again.commit, len(embedder.calls)) == (0, None, calls)
    assert max(map(len, embedder.calls)) <= 64


def test_a_limit_and_types_choose_what_is_filled(pending):
    with og.open(pending, embedder=Recording()) as graph:
        done = graph.embed(types=["Memo"], limit=20)
        assert (done.filled, done.pending) == (20, 30)
        assert (len(is_filled(graph, "Memo")), len(is_filled(graph))) == (20, 0)
        with pytest.raises(BadRequest, match="no node type `Nope`"):
            graph.embed(types=["Nope"])
        with pytest.raises(BadRequest, match="no @embed property"):
            graph.embed(types=["Plain"])
        with pytest.raises(BadRequest, match="limit"):
            graph.embed(limit=0)


def test_a_text_that_the_provider_refuses_fails_alone(pending):
    bad = {"text 7", "text 1007"}
    with og.open(pending, embedder=Recording(refuse=bad.__contains__)) as graph:
        done = graph.embed(types=["Note"])
        assert (done.filled, done.pending, done.failed) == (1198, 2, 2)
        assert {"00007", "01007"} & is_filled(graph) == set()


def test_a_dead_provider_stops_the_job(pending):
    # 16 calls are a thousand texts.
    with og.open(pending, embedder=Recording(lambda number: number > 17)) as graph:
        done = graph.embed(types=["Note"])
        assert (done.filled, done.pending) == (1000 + 64, 1200 - 1064)
        assert 0 < done.failed <= 64
    dead = Recording(refuse=lambda _text: True)
    with og.open(pending, embedder=dead) as graph:
        before = graph.commits.list()
        with pytest.raises(ProviderError, match="refused"):
            graph.embed()
        assert graph.commits.list() == before
        assert len(dead.calls) < 20, "the other texts were not tried"


def test_without_a_provider_nothing_is_filled(pending):
    with og.open(pending) as graph:
        with pytest.raises(ProviderError) as caught:
            graph.embed()
        assert caught.value.http_status == 400


def test_a_row_that_changes_meanwhile_is_left_to_the_next_run(tmp_path):
    class Meddling(Recording):
        def embed(self, texts, dimension):
            if not self.calls:
                with og.open(tmp_path / "g") as other:
                    run(other, 'update Note set { body: "new" } where slug = "00001"')
                    run(other, 'update Note set { vec: [0, 0, 0, 1] } where slug = "00002"')
                    run(other, 'delete Note where slug = "00003"')
            return super().embed(texts, dimension)

    with og.init(tmp_path / "g", SCHEMA, embedder=Meddling()) as graph:
        with og.open(tmp_path / "g") as without:
            without.load(notes(5))
        done = graph.embed()
        assert (done.filled, done.pending) == (2, 1)
        found = nodes(graph, "Note")
        assert found["00002"]["vec"] == [0, 0, 0, 1]
        assert "vec" not in found["00001"]
        assert "00003" not in found
        assert graph.embed().filled == 1


def die_after_one_commit(uri: str) -> None:
    with og.open(uri, embedder=Recording()) as graph:
        graph.embed(progress=lambda *_: os._exit(7))


def test_a_killed_job_goes_on_where_it_was(pending):
    child = context.Process(target=die_after_one_commit, args=(pending,))
    child.start()
    child.join()
    assert child.exitcode == 7
    embedder = Recording()
    with og.open(pending, embedder=embedder) as graph:
        assert len(is_filled(graph)) + len(is_filled(graph, "Memo")) == 1000
        done = graph.embed()
        assert (done.filled, done.pending) == (250, 0)
    assert sum(map(len, embedder.calls)) <= 250


def test_an_index_over_filled_vectors_answers_for_them(pending):
    query = """query q() { match { $n: Note } return { $n.slug as s }
                order { nearest($n.vec, "text 3") } limit 1 }"""
    with og.open(pending, embedder=Recording()) as graph:
        graph.embed(limit=1000)
        graph.ensure_indices()
        graph.embed()
        run(graph, 'update Note set { body: "moved" } where slug = "00003"')
        assert graph.query(query.replace("text 3", "text 1100")).rows == [{"s": "01100"}]
        assert graph.query(query.replace("text 3", "moved")).rows == [{"s": "00003"}]
        (closest,) = graph.query(query).rows
        assert closest["s"] != "00003", "no search answers for a text that is gone"


def test_a_job_begins_only_on_the_head_that_the_caller_knows(pending):
    with og.open(pending, embedder=Recording()) as graph:
        known = graph.snapshot().graph_commit_id
        graph.load([empty("another")])
        with pytest.raises(PreconditionFailed):
            graph.embed(if_commit=known)
        assert not is_filled(graph)
        # Two commits: the job's own first one does not count against it.
        assert graph.embed(if_commit=graph.snapshot().graph_commit_id).filled == 1250
