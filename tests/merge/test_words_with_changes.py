"""Resolutions that take a side and set single properties; the vectors that follow, or wait."""

from __future__ import annotations

import pytest

import omnigraph as og
from omnigraph.errors import BadRequest, InputError, ProviderError
from omnigraph.write.merge.decided import MergeConflict
from omnigraph.write.merge.resolutions import resolve_from_json

SCHEMA = """
node Doc {
  slug: String @key
  title: String?
  body: String?
  vec: Vector(4)? @embed("body")
  scan: Blob?
}
node Pair { a: String  b: I32  note: String?  @key(a, b) }
edge Cites: Doc -> Doc { weight: F64? }
"""
DOC, PAIR, CITES = "node:Doc", "node:Pair", "edge:Cites"


class Spy:
    """An embedder that counts what it is asked for."""

    model = "spy"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def embed(self, texts, dimension):
        assert dimension == 4
        self.asked += texts
        return [[float(len(text)), 0.0, 0.0, 1.0] for text in texts]


@pytest.fixture
def spy():
    return Spy()


@pytest.fixture
def graph(tmp_path, spy):
    with og.init(tmp_path / "g", SCHEMA, embedder=spy) as graph:
        docs = [
            {"slug": slug, "title": "t", "body": "base", "scan": "base64:AAEC"}
            for slug in ("x", "y", "z")
        ]
        graph.load(
            [
                *({"type": "Doc", "data": doc} for doc in docs),
                {"type": "Pair", "data": {"a": "p", "b": 1, "note": "n"}},
                {"edge": "Cites", "from": "x", "to": "y", "data": {"id": "c", "weight": 1.0}},
            ]
        )
        graph.branches.create("side")
        for branch, word in (("side", "theirs"), ("main", "ours")):
            graph.load(
                [
                    {
                        "type": "Doc",
                        "data": {"slug": "x", "title": word, "body": f"text of {word}"},
                    },
                    {"type": "Pair", "data": {"a": "p", "b": 1, "note": word}},
                    {
                        "edge": "Cites",
                        "from": "x",
                        "to": "y",
                        "data": {"id": "c", "weight": len(word)},
                    },
                ],
                mode="patch",
                branch=branch,
            )
        spy.asked.clear()
        yield graph


def merged(graph, change, key=DOC, id_="x", **more):
    """Merge with that decision about one entity, and the target's state for the others."""
    decisions = {(DOC, "x"): "ours", (PAIR, '["p","1"]'): "ours", (CITES, "c"): "ours"}
    return graph.branches.merge("side", resolve={**decisions, (key, id_): change}, **more)


def doc(graph, slug="x"):
    return graph.entity("node", "Doc", slug)["properties"]


def test_what_is_not_set_stays_blobs_and_vectors_included(graph):
    vector = doc(graph)["vec"]
    result = merged(graph, ("ours", {"title": "both"}))
    found = doc(graph)
    assert (found["title"], found["body"], found["vec"]) == ("both", "text of ours", vector)
    assert graph.blobs.read("node", "Doc", "x", "scan") == b"\x00\x01\x02"
    assert (result.stats.resolved, result.stats.embeddings_pending) == (3, 0)


def test_a_value_of_the_other_side_brings_its_vector(graph, spy):
    theirs = graph.entity("node", "Doc", "x", branch="side")["properties"]
    merged(graph, ("ours", {"body": {"$take": "theirs"}}))
    found = doc(graph)
    assert (found["title"], found["body"], found["vec"]) == ("ours", theirs["body"], theirs["vec"])
    assert spy.asked == []


def test_a_text_that_is_set_gets_its_vector(graph, spy):
    merged(graph, {"take": "theirs", "set": {"body": "new"}})
    found = doc(graph)
    assert (found["title"], found["body"], found["vec"]) == ("theirs", "new", [3.0, 0.0, 0.0, 1.0])
    assert spy.asked == ["new"]


def test_a_text_that_is_set_to_what_it_was_keeps_its_vector(graph, spy):
    vector = doc(graph)["vec"]
    merged(graph, ("ours", {"body": "text of ours", "title": "new"}))
    assert doc(graph)["vec"] == vector
    assert spy.asked == []


def test_a_dry_run_asks_no_provider(graph, spy):
    plan = merged(graph, ("ours", {"body": "new"}), dry_run=True)
    assert (plan.conflicts, plan.stats.embeddings_pending, spy.asked) == ((), 0, [])


def test_vectors_wait_without_a_provider_and_the_result_says_so(graph, monkeypatch):
    for name in ("OPENROUTER_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with og.open(graph.uri) as plain:
        result = merged(plain, ("ours", {"body": "new"}))
        assert doc(plain)["vec"] is None
    assert result.stats.embeddings_pending == 1
    assert result.to_json()["stats"]["embeddings_pending"] == 1
    assert "vectors pending" in repr(result)


def test_a_required_vector_needs_a_provider(tmp_path, spy, monkeypatch):
    for name in ("OPENROUTER_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    schema = 'node Doc { slug: String @key  body: String  vec: Vector(4) @embed("body") }'
    with og.init(tmp_path / "g", schema, embedder=spy) as graph:
        graph.load([{"type": "Doc", "data": {"slug": "x", "body": "base"}}])
        graph.branches.create("side")
        for branch in ("side", "main"):
            row = {"type": "Doc", "data": {"slug": "x", "body": branch}}
            graph.load([row], mode="patch", branch=branch)
    with og.open(tmp_path / "g") as graph:
        before = graph.snapshot().graph_commit_id
        with pytest.raises(ProviderError, match=r"Doc\.vec"):
            graph.branches.merge("side", resolve={(DOC, "x"): ("ours", {"body": "new"})})
        assert graph.snapshot().graph_commit_id == before


def test_the_ends_of_an_edge_are_set(graph):
    change = ("ours", {"weight": {"$take": "theirs"}}, {"to": "z"})
    merged(graph, change, CITES, "c")
    found = graph.entity("edge", "Cites", "c")
    assert found["endpoints"] == {"from": "x", "to": "z"}
    assert found["properties"]["weight"] == len("theirs")


def test_nothing_is_written_for_changes_that_the_target_has(graph):
    result = merged(graph, ("theirs", {"title": "ours", "body": {"$take": "ours"}}))
    assert (result.stats.updates, result.stats.resolved) == (0, 3)


def test_units_in_conflict_are_decided_and_the_rest_is_combined(tmp_path):
    """By property: the title conflicts, the body was changed on the source alone."""
    with og.init(tmp_path / "g", "node D { k: String @key  a: I32?  b: I32?  c: I32? }") as graph:
        graph.load([{"type": "D", "data": {"k": "x", "a": 0, "b": 0, "c": 0}}])
        graph.branches.create("side")
        for branch, data in (("side", {"a": 1, "b": 1}), ("main", {"a": 2, "c": 2})):
            row = {"type": "D", "data": {"k": "x", **data}}
            graph.load([row], mode="patch", branch=branch)
        resolve = {("node:D", "x"): ("ours", {"c": 9})}
        graph.branches.merge("side", granularity="property", resolve=resolve)
        found = graph.entity("node", "D", "x")["properties"]
        assert (found["a"], found["b"], found["c"]) == (2, 1, 9)


@pytest.mark.parametrize(
    ("change", "key", "id_", "error", "words"),
    [
        (("mine", {}), DOC, "x", BadRequest, "mine"),
        (("ours", {}, {}, {}), DOC, "x", BadRequest, "word, properties"),
        ((), DOC, "x", BadRequest, "word, properties"),
        (("ours", ["title"]), DOC, "x", BadRequest, "mapping"),
        ({"take": "ours", "sets": {}}, DOC, "x", BadRequest, "sets"),
        (("ours", {"title": {"$take": "mine"}}), DOC, "x", BadRequest, "mine"),
        (("ours", {"titel": "x"}), DOC, "x", InputError, "title"),
        (("ours", {"title": 5}), DOC, "x", InputError, "title"),
        (("ours", {"title": {"$take": "ours", "x": 1}}), DOC, "x", InputError, "alone"),
        (("ours", {"slug": "other"}), DOC, "x", InputError, "slug"),
        (("ours", {"b": 2}), PAIR, '["p","1"]', InputError, "an id cannot change"),
        (("ours", {}, {"from": "y"}), DOC, "x", InputError, "no ends"),
        (("ours", {}, {"form": "y"}), CITES, "c", InputError, "form"),
        (("ours", {"title": "t"}), DOC, "y", BadRequest, "not in conflict"),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_changes(graph, change, key, id_, error, words):
    before = graph.snapshot().graph_commit_id
    with pytest.raises(error, match=words):
        merged(graph, change, key, id_)
    assert graph.snapshot().graph_commit_id == before


def test_a_key_member_may_be_given_as_it_is(graph):
    merged(graph, ("ours", {"b": 1, "note": "n2"}), PAIR, '["p","1"]')
    assert graph.entity("node", "Pair", '["p","1"]')["properties"]["note"] == "n2"


@pytest.mark.parametrize("word", ["ours", "theirs"])
def test_a_side_without_the_entity_cannot_be_changed(graph, word):
    branch = {"ours": "main", "theirs": "side"}[word]
    graph.mutate('query d() { delete Doc where slug = "x" }', branch=branch)
    other = {"ours": "theirs", "theirs": "ours"}[word]
    for change in ((word, {"title": "t"}), (other, {"title": {"$take": word}})):
        with pytest.raises(BadRequest, match="was deleted"):
            graph.branches.merge("side", resolve={(DOC, "x"): change, (PAIR, '["p","1"]'): "ours"})


def test_the_form_in_json():
    listed = {
        "table_key": CITES,
        "row_id": "c",
        "take": "theirs",
        "set": {"weight": 2},
        "ends": {"to": "z"},
    }
    change = {"take": "theirs", "set": {"weight": 2}, "ends": {"to": "z"}}
    assert resolve_from_json([listed]) == {(CITES, "c"): change}
    for wrong in ("set", "ends"):
        item = {"table_key": DOC, "row_id": "x", "image": None, wrong: {}}
        with pytest.raises(BadRequest, match='"take"'):
            resolve_from_json([item])


def test_a_conflict_fits_on_a_line_whatever_its_images_hold():
    image = {"properties": {"vec": [0.25] * 1536}}
    conflict = MergeConflict("divergent_update", DOC, "x", "Doc 'x' was changed", {"base": image})
    assert len(repr(conflict)) < 200
    assert "Doc 'x' was changed" in repr(conflict)
