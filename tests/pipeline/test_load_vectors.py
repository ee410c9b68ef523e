"""Vectors of loads: which are made, kept and cleared, and how often the provider is called."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.errors import InputError, ProviderError
from omnigraph.pipeline.rows import filled_rows
from tests.embeddings.server import EmbeddingServer, Reply, Status
from tests.oracle.analysis import mock_embedding
from tests.pipeline.embedders import Recording
from tests.write.writing import nodes, run

SCHEMA = """
node Note { slug: String @key  body: String?  vec: Vector(4)? @embed(body) }
node Must { slug: String @key  body: String?  vec: Vector(4) @embed(body) }
node Two {
  slug: String @key
  a: String?
  b: String?
  va: Vector(4)? @embed(a)
  vb: Vector(2)? @embed("b", model="recording")
}
"""


def note(slug: str, kind: str = "Note", **data: object) -> dict[str, object]:
    return {"type": kind, "data": {"slug": slug, **data}}


@pytest.fixture
def open_with(tmp_path):
    """Open the one graph with another embedder."""
    og.init(tmp_path / "g", SCHEMA).close()
    opened = []

    def open_(embedder=None):
        opened.append(og.open(tmp_path / "g", embedder=embedder))
        return opened[-1]

    yield open_
    for graph in opened:
        graph.close()


def vector(graph, slug, kind="Note"):
    return nodes(graph, kind)[slug].get("vec")


def made(text, dimension=4):
    return pytest.approx(mock_embedding(text, dimension), abs=1e-6)


def test_each_distinct_text_is_sent_once_over_all_tables_and_records(open_with):
    embedder = Recording()
    graph = open_with(embedder)
    records = [
        note(f"{kind}{number}", kind, body=f"text {number % 150}")
        for number in range(600)
        for kind in ("Note", "Must")
    ]
    result = graph.load([*records, note("own", body="never", vec=[1, 0, 0, 0])])
    assert result.embeddings_pending == 0
    assert sorted(embedder.texts) == sorted({f"text {number}" for number in range(150)})
    assert embedder.is_within_bound(150)
    for kind in ("Note", "Must"):
        rows = nodes(graph, kind)
        assert all(rows[f"{kind}{n}"]["vec"] == made(f"text {n % 150}") for n in range(600))
    assert vector(graph, "own") == [1, 0, 0, 0]


class Slow(Reply):
    """The right answer, a moment late."""

    def send(self, handler, call):
        handler.server.closing.wait(0.002)
        super().send(handler, call)


def test_ten_thousand_texts_through_a_slow_and_flaky_provider(open_with, monkeypatch):
    failing = {1, 2, 5}  # of every seven calls
    with EmbeddingServer(lambda n: Status(503) if n % 7 in failing else Slow()) as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        texts = [f"text {n % 2500}" for n in range(10_000)]
        frame = pa.table({"slug": [f"{n}" for n in range(10_000)], "body": texts})
        graph = open_with()
        graph.load_nodes("Must", frame)
        failures = sum(n % 7 in failing for n in range(len(server.calls)))
        assert failures >= 10
        assert len(server.calls) == math.ceil(2500 / 64) + failures
        rows = nodes(graph, "Must")
        found = np.array([rows[slug]["vec"] for slug in frame["slug"].to_pylist()])
        wanted = np.array([mock_embedding(text, 4) for text in texts])
        np.testing.assert_allclose(found, wanted, atol=1e-6)
        calls = len(server.calls)
        graph.load_nodes("Must", frame)
        assert len(server.calls) == calls


def test_a_merge_keeps_the_vectors_of_texts_that_did_not_change(open_with):
    graph = open_with(Recording())
    graph.load([note("same", body="a"), note("other", body="b"), note("given", body="c")])
    open_with().load([note("null", body="d")])
    embedder = Recording()
    graph = open_with(embedder)
    graph.load([
        note("same", body="a"), note("other", body="new"), note("null", body="d"),
        note("given", body="c", vec=[0, 0, 0, 1]), note("gone"),
    ])  # fmt: skip
    assert sorted(embedder.texts) == ["d", "new"]
    assert vector(graph, "same") == made("a")
    assert vector(graph, "other") == made("new")
    assert vector(graph, "null") == made("d")
    assert vector(graph, "given") == [0, 0, 0, 1]
    before = len(embedder.calls)
    graph.load([note("same"), note("other", body="new")])
    assert (vector(graph, "same"), vector(graph, "other")) == (None, made("new"))
    assert len(embedder.calls) == before, "what is unchanged calls nobody"


@pytest.mark.parametrize("rows", [50, 12_000], ids=["by id", "by scan"])
def test_a_frame_that_is_merged_again_calls_nobody(open_with, rows, monkeypatch):
    """More rows than Lance's own upsert takes are written as images, in files of their own."""
    monkeypatch.setattr(filled_rows, "FILLED_BYTES", 16 * 777)  # several slices of a batch
    embedder = Recording()
    graph = open_with(embedder)
    frame = pa.table(
        {"slug": [f"{n}" for n in range(rows)], "body": [f"t{n % 40}" for n in range(rows)]}
    )
    graph.load_nodes("Must", frame)
    assert sorted(embedder.texts) == sorted({f"t{n}" for n in range(40)})
    calls = len(embedder.calls)
    graph.load_nodes("Must", frame)
    assert len(embedder.calls) == calls
    changed = frame.set_column(1, "body", pa.array(["t1"] * rows))
    graph.load_nodes("Must", changed)
    assert embedder.texts[40:] == ["t1"]
    assert {tuple(row["vec"]) for row in nodes(graph, "Must").values()} == {
        tuple(nodes(graph, "Must")["1"]["vec"])
    }


def test_only_the_last_record_of_an_id_is_embedded(open_with):
    embedder = Recording()
    graph = open_with(embedder)
    graph.load([note("a", body="first"), note("a", body="last")])
    assert embedder.texts == ["last"]
    assert vector(graph, "a") == made("last")


def test_two_vectors_of_a_row_come_from_their_own_texts(open_with):
    embedder = Recording()
    graph = open_with(embedder)
    graph.load([note("x", "Two", a="one", b="one"), note("y", "Two", b="two")])
    rows = nodes(graph, "Two")
    assert rows["x"]["va"] == made("one")
    assert rows["x"]["vb"] == made("one", 2)
    assert (rows["y"].get("va"), rows["y"]["vb"]) == (None, made("two", 2))
    assert sorted(embedder.texts) == ["one", "one", "two"]


def test_without_a_provider(open_with):
    graph = open_with(Recording())
    graph.load([note("n", body="a"), note("m", "Must", body="a")])
    graph = open_with()
    head = graph.snapshot().graph_commit_id
    with pytest.raises(ProviderError, match=r"Must\.vec") as caught:
        graph.load([note("n", body="b"), note("m", "Must", body="b")])
    assert caught.value.details["missing"]
    with pytest.raises(InputError, match=r"Must\.vec"):
        graph.load([note("m", "Must")])
    assert graph.snapshot().graph_commit_id == head
    result = graph.load([note("n", body="b"), note("m", "Must", body="a"), note("n2", body="a")])
    assert result.embeddings_pending == 2
    assert result.note is None
    assert (vector(graph, "n"), vector(graph, "m", "Must")) == (None, made("a"))


def test_a_provider_that_dies_in_the_middle(open_with):
    graph = open_with(Recording(lambda number: number > 1))
    head = graph.snapshot().graph_commit_id
    with pytest.raises(ProviderError, match=r"Must\.vec.*out of order"):
        graph.load([note(f"{n}", "Must", body=f"t{n}") for n in range(100)])
    assert graph.snapshot().graph_commit_id == head
    embedder = Recording(lambda number: number > 1)
    graph = open_with(embedder)
    result = graph.load([note(f"{n}", body=f"t{n}") for n in range(300)])
    assert result.embeddings_pending == 300 - 64
    assert "out of order" in result.note
    assert len(embedder.calls) == 2, "a dead provider is not asked again and again"
    filled = {slug: row["vec"] for slug, row in nodes(graph, "Note").items() if "vec" in row}
    assert len(filled) == 64
    assert all(found == made(f"t{slug}") for slug, found in filled.items())
    with og.open(graph.uri, embedder=Recording()) as alive:
        assert alive.embed().filled == 300 - 64


def test_a_vector_that_may_be_null_does_not_hide_the_failure_of_a_required_one(tmp_path):
    """Their dimensions differ, so that they are sent in calls of their own."""
    schema = """
    node May { slug: String @key  body: String?  vec: Vector(2)? @embed(body) }
    node Must { slug: String @key  body: String?  vec: Vector(4) @embed(body) }
    """
    may = [note(f"{n}", "May", body=f"t{n}") for n in range(64)]
    og.init(tmp_path / "g", schema).close()
    for records in (may[:1], may):
        with og.open(tmp_path / "g", embedder=Recording(lambda _number: True)) as graph:
            head = graph.snapshot().graph_commit_id
            for ordered in (
                [*records, note("m", "Must", body="a")],
                [note("m", "Must", body="a"), *records],
            ):
                with pytest.raises(ProviderError, match="out of order"):
                    graph.load(ordered)
            assert graph.snapshot().graph_commit_id == head
    with og.open(tmp_path / "g", embedder=Recording(lambda number: number > 1)) as graph:
        assert graph.load([*may[:1], note("m", "Must", body="a")]).embeddings_pending == 1
        assert vector(graph, "m", "Must") == made("a")


@pytest.mark.parametrize("provider", ["nobody", "openai"])
def test_a_provider_that_is_named_but_not_set_up_is_an_error(open_with, monkeypatch, provider):
    monkeypatch.setenv("OMNIGRAPH_EMBED_PROVIDER", provider)
    with pytest.raises(ProviderError, match=f"Note.vec: .*{provider}") as caught:
        open_with().load([note("n", body="b")])
    assert caught.value.http_status == 400
    monkeypatch.delenv("OMNIGRAPH_EMBED_PROVIDER")
    assert open_with().load([note("n", body="b")]).embeddings_pending == 1


def test_a_bad_record_costs_no_call(open_with):
    embedder = Recording()
    graph = open_with(embedder)
    with pytest.raises(InputError):
        graph.load([note("a", body="t"), note("b", body=5)])
    with pytest.raises(og.errors.ConstraintError):
        graph.load([note("a", body="t"), note("a", body="u")], mode="append")
    assert embedder.calls == []


def test_a_load_that_lost_its_race_sends_no_text_twice(open_with):
    """The other writer changes a text: what is kept of the table is decided anew."""
    graph = open_with(Recording())
    graph.load([note("a", body="a"), note("b", body="b")])
    embedder = Recording()
    graph, other = open_with(embedder), open_with(Recording())
    raced = []

    def race(_point):
        if not raced:
            raced.append(1)
            run(other, 'update Note set { body: "moved" } where slug = "a"')

    with failpoints.arm("load.before_locks", race):
        graph.load([note("a", body="a"), note("b", body="b"), note("c", body="c")])
    assert raced
    assert sorted(embedder.texts) == ["a", "c"]
    assert vector(graph, "a") == made("a")


def test_an_embedder_may_take_the_role(open_with):
    roles = []

    class WithRole(Recording):
        def embed(self, texts, dimension, role):
            roles.append(role)
            return super().embed(texts, dimension)

    graph = open_with(WithRole())
    graph.load([note("a", body="a")])
    run(graph, 'insert Note { slug: "b", body: "b" }')
    open_with().load([note("c", body="c")])
    graph.embed()
    assert roles == ["document"] * 3


def test_a_patch_makes_the_vectors_of_texts_that_it_changes(open_with):
    open_with(Recording()).load([note(slug, body=slug) for slug in "abc"])
    embedder = Recording()
    graph = open_with(embedder)
    graph.load(
        [
            note("a", body="first"), note("a", body="new"), note("b", body="b"),
            note("c", body=None), note("d", body="b"), note("e", body="e", vec=[1, 0, 0, 0]),
        ],
        mode="patch",
    )  # fmt: skip
    assert sorted(embedder.texts) == ["b", "new"], "b is there already, and d is new"
    assert vector(graph, "a") == made("new")
    assert [vector(graph, slug) for slug in "bcd"] == [made("b"), None, made("b")]
    assert vector(graph, "e") == [1, 0, 0, 0]


def test_a_patch_that_leaves_a_required_vector_without_a_text_is_refused(open_with):
    graph = open_with(Recording())
    graph.load([note("a", "Must", body="a")])
    for bad in (note("a", "Must", body=None), note("new", "Must")):
        with pytest.raises(InputError, match=r"line 1: Must\.vec .* or the text of body") as caught:
            graph.load([bad, note("b", "Must", body="b")], mode="patch")
        assert caught.value.details["bad_records"]["total"] == 1
    assert vector(graph, "a", "Must") == made("a")


def test_a_record_that_is_skipped_is_not_embedded(open_with):
    embedder = Recording()
    graph = open_with(embedder)
    records = [note("a", body="a"), note("b", body=5), note("c", body="c", vec=[1]), note("d")]
    result = graph.load(records, on_bad="skip")
    assert (result.skipped, embedder.texts) == (2, ["a"])
