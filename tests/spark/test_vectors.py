"""Vectors of loads on Spark: the same as in process, and no text sent twice, whatever tasks do."""

from __future__ import annotations

import json

import pytest

import omnigraph as og
from omnigraph.errors import OmniGraphError, ProviderError
from omnigraph.pipeline.spark.spark_engine import SparkEngine
from tests.oracle.analysis import mock_embedding
from tests.pipeline.embedders import Recording
from tests.spark.sizes import ON_EXECUTORS
from tests.write.writing import nodes

SCHEMA = """
node Note { slug: String @key  body: String? @unique  vec: Vector(4)? @embed(body) }
node Must { slug: String @key  body: String  other: String?
  vec: Vector(4) @embed(body)  small: Vector(2)? @embed(other) }
"""


@pytest.fixture
def place(tmp_path):
    """A graph with a few rows, and files: texts come again in other records, files and types."""
    with og.init(tmp_path / "g", SCHEMA, embedder=Recording()) as graph:
        graph.load([must(1, body="text 1"), must(2, body="old")])
    with og.open(tmp_path / "g") as graph:
        graph.load([{"type": "Note", "data": {"slug": "n7", "body": "note 7"}}])
    for part in range(3):
        records = [must(n) for n in range(part, 300, 3)]
        records += [
            {"type": "Note", "data": {"slug": f"n{n}", "body": f"note {n}"}}
            for n in range(part, 60, 3)
        ]
        if part == 2:
            records += [must(5, body="the last one", vec=None), must(6, vec=[1, 0, 0, 0])]
        (tmp_path / f"{part}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    return tmp_path


def must(number, **data):
    given = {"slug": f"m{number}", "body": f"text {number % 100}", "other": f"note {number % 10}"}
    return {"type": "Must", "data": {**given, **data}}


def check(graph):
    rows = nodes(graph, "Must")
    assert len(rows) == 300
    for slug, row in rows.items():
        wanted = [1, 0, 0, 0] if slug == "m6" else mock_embedding(row["body"], 4)
        assert row["vec"] == pytest.approx(wanted, abs=1e-6), slug
        assert row["small"] == pytest.approx(mock_embedding(row["other"], 2), abs=1e-6), slug
    notes = nodes(graph, "Note")
    assert len(notes) == 60
    assert all(
        row["vec"] == pytest.approx(mock_embedding(row["body"], 4)) for row in notes.values()
    )


# m1 keeps its vector, m5's first text is replaced, m6's vector is given; `small` has another dimension.
TEXTS = {
    4: {f"text {n}" for n in range(100)} | {f"note {n}" for n in range(60)} | {"the last one"},
    2: {f"note {n}" for n in range(10)},
}


@pytest.mark.parametrize("engine", ["spark", "local"])
def test_vectors_are_filled_and_kept_with_few_calls(spark, place, engine):
    asked = {4: [], 2: []}

    class Counting(Recording):
        def embed(self, texts, dimension):
            asked[dimension] += texts
            return super().embed(texts, dimension)

    embedder = Counting()
    files = [str(place / f"{part}.jsonl") for part in range(3)]
    options = {"spark": spark} if engine == "spark" else {"engine": "local"}
    with og.open(place / "g", embedder=embedder) as graph:
        result = graph.load(files, **options)
        assert (result.engine, result.embeddings_pending) == (engine, 0)
        check(graph)
        assert {dimension: sorted(texts) for dimension, texts in asked.items()} == {
            dimension: sorted(texts) for dimension, texts in TEXTS.items()
        }
        assert len(embedder.calls) == 3 + 1
        graph.load(files, **options)
        assert len(embedder.calls) == 4, "a merge of the same texts calls nobody"
        check(graph)


def test_without_a_provider_and_with_a_dead_one(spark, place):
    def pending(graph):
        return {slug for slug, row in nodes(graph, "Note").items() if "vec" not in row}

    notes = [{"type": "Note", "data": {"slug": f"x{n}", "body": f"x{n}"}} for n in range(100)]
    twice = [*notes, {"type": "Note", "data": {"slug": "x0", "body": "x-last"}}]
    with og.open(place / "g") as graph:
        head = graph.snapshot().graph_commit_id
        with pytest.raises(ProviderError, match=r"Must\.vec"):
            graph.load([must(900)], spark=spark)
        assert graph.snapshot().graph_commit_id == head
        assert graph.load([must(1)], spark=spark).total_rows == 1, "this text is there already"
        assert graph.load(twice, spark=spark).embeddings_pending == 100
        assert pending(graph) == {"n7", *(f"x{n}" for n in range(100))}
    embedder = Recording(lambda number: number > 1)
    with og.open(place / "g", embedder=embedder) as graph:
        result = graph.load(twice, spark=spark)
        assert result.embeddings_pending == 36
        assert "out of order" in result.note
        assert len(pending(graph)) == 37
        assert len(embedder.calls) == 2
        head = graph.snapshot().graph_commit_id
        with pytest.raises(ProviderError, match="out of order"):
            graph.load([must(number) for number in range(900, 1100)], mode="append", spark=spark)
        assert graph.snapshot().graph_commit_id == head


def test_rows_that_are_read_again_have_the_same_numbers(spark, place):
    """What executors kept may be lost. A task of a later stage then reads its part of the frame again."""
    frame = spark.createDataFrame(
        [(f"f{n}", f"found {n}") for n in range(40)], "slug string, body string"
    ).repartition(4)

    def forget(progress):
        if progress.phase == "writing":
            for kept in spark.sparkContext._jsc.getPersistentRDDs().values():
                kept.unpersist(True)

    with og.open(place / "g", embedder=Recording()) as graph:
        graph.load_nodes("Note", frame, spark=spark, progress=forget)
        rows = nodes(graph, "Note")
    assert len(rows) == 41
    missing = [slug for slug, row in rows.items() if "vec" not in row]
    assert missing == ["n7"]  # was there before, without an embedder
    for slug in set(rows) - {"n7"}:
        wanted = mock_embedding(rows[slug]["body"], 4)
        assert rows[slug]["vec"] == pytest.approx(wanted, abs=1e-6), slug


BESIDE = """
node Note { slug: String @key  body: String? @unique  vec: Vector(4)? @embed(body) }
node Person { name: String @key  mail: String? @unique }
edge Wrote: Person -> Note
"""


def beside(count, **more):
    """Records of a type with vectors among those of others."""
    for n in range(count):
        yield {"type": "Person", "data": {"name": f"p{n}", "mail": f"m{n}"}}
        yield {"type": "Note", "data": {"slug": f"n{n}", "body": f"note {n}"}}
        yield {"edge": "Wrote", "from": f"p{n}", "to": f"n{count - 1 - n}"}
    if more:
        yield {"type": "Note", "data": more}


WRONG = {
    "id twice": {"slug": "n3"},
    "text twice": {"slug": "x", "body": "note 3"},
    "id taken": {"slug": "old"},
}


def test_only_the_type_with_vectors_waits_for_them(spark, tmp_path, monkeypatch, load_with):
    """All others are written by the tasks that read them, and rules are proved by tasks."""
    load_with(ON_EXECUTORS)
    kinds = []

    def proved(self, runner, incoming, mode, committed):
        holds = original(self, runner, incoming, mode, committed)
        kinds.append({key: rows.destination.form for key, rows in incoming.items()} | {"": holds})
        return holds

    original = SparkEngine.proves_rules
    monkeypatch.setattr(SparkEngine, "proves_rules", proved)
    file = tmp_path / "records.jsonl"
    told = {}
    for engine in ("spark", "local"):
        options = {"spark": spark} if engine == "spark" else {"engine": "local"}
        embedder = Recording()
        with og.init(tmp_path / engine, BESIDE, embedder=embedder) as graph:
            graph.load([{"type": "Note", "data": {"slug": "old", "vec": [0, 0, 0, 1]}}])
            said = []
            for wrong in WRONG.values():
                file.write_text("".join(json.dumps(r) + "\n" for r in beside(50, **wrong)))
                with pytest.raises(OmniGraphError) as refused:
                    graph.load(str(file), mode="append", **options)
                said.append((type(refused.value).__name__, str(refused.value)))
            assert embedder.calls == []
            file.write_text("".join(json.dumps(r) + "\n" for r in beside(50)))
            for mode in ("append", "overwrite"):
                result = graph.load(str(file), mode=mode, **options)
                assert (result.engine, result.embeddings_pending) == (engine, 0)
            notes = nodes(graph, "Note")
            assert all(
                row["vec"] == pytest.approx(mock_embedding(row["body"], 4))
                for row in notes.values()
            )
            told[engine] = said, result.tables, sorted(notes), sorted(nodes(graph, "Person"))
            assert sorted(embedder.texts) == sorted(2 * [f"note {n}" for n in range(50)])
    assert told["spark"] == told["local"]
    written = {"node:Person": "fragments", "edge:Wrote": "fragments", "node:Note": "rows"}
    assert kinds == [{**written, "": False}] * len(WRONG) + [{**written, "": True}] * 2
