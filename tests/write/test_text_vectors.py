"""Vectors of mutations: they follow their texts, and nobody is called for a text that stays."""

from __future__ import annotations

import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.errors import InputError, ProviderError
from tests.oracle.analysis import mock_embedding
from tests.pipeline.embedders import Recording
from tests.write.writing import nodes, run, state

SCHEMA = """
node Must { slug: String @key  body: String?  rank: I32?  vec: Vector(4) @embed(body) }
node Note { slug: String @key  body: String?  rank: I32?  vec: Vector(4)? @embed(body) }
node Free { body: String?  vec: Vector(4)? @embed(body) }
"""
OWN = [1.0, 0.0, 0.0, 0.0]


@pytest.fixture
def open_with(tmp_path):
    """Open a graph of two rows, each with a vector of its own, with an embedder."""
    with og.init(tmp_path / "g", SCHEMA) as graph:
        for kind in ("Must", "Note"):
            run(graph, f'insert {kind} {{ slug: "a", body: "text", vec: [1, 0, 0, 0] }}')
    opened = []

    def open_(embedder=None):
        opened.append(og.open(tmp_path / "g", embedder=embedder))
        return opened[-1]

    yield open_
    for graph in opened:
        graph.close()


def vector(graph, kind="Note", slug="a"):
    return nodes(graph, kind)[slug].get("vec")


def made(text):
    return pytest.approx(mock_embedding(text, 4), abs=1e-6)


@pytest.mark.parametrize("kind", ["Must", "Note"])
@pytest.mark.parametrize(
    ("statement", "asked"),
    [
        ('update {0} set {{ body: "text" }} where slug = "a"', []),
        ('update {0} set {{ rank: 3 }} where slug = "a"', []),
        ('update {0} set {{ body: "new", vec: [1, 0, 0, 0] }} where slug = "a"', []),
        ('insert {0} {{ slug: "a", body: "text", rank: 2 }}', []),
        (('update {0} set {{ body: "b" }} where slug = "a" '
         'update {0} set {{ body: "text" }} where slug = "a"'), []),
        ('update {0} set {{ body: "new" }} where slug = "a"', ["new"]),
        ('insert {0} {{ slug: "a", body: "new" }}', ["new"]),
        (('insert {0} {{ slug: "x", body: "new" }} insert {0} {{ slug: "y", body: "new" }} '
         'update {0} set {{ body: "new" }} where slug = "a"'), ["new"]),
    ],
)  # fmt: skip
def test_a_vector_is_made_where_its_text_changes_and_kept_elsewhere(
    open_with, kind, statement, asked
):
    embedder = Recording()
    graph = open_with(embedder)
    run(graph, statement.format(kind))
    assert embedder.texts == asked
    for slug in nodes(graph, kind):
        assert vector(graph, kind, slug) == (made("new") if asked else OWN)


def test_a_text_that_becomes_null_clears_its_vector(open_with):
    embedder = Recording()
    graph = open_with(embedder)
    set_null = 'update {} set {{ body: $b }} where slug = "a"'
    run(graph, set_null.format("Note"), "$b: String?")
    assert vector(graph) is None
    before = state(graph)
    for statement in (set_null.format("Must"), 'insert Must { slug: "a", body: $b }'):
        with pytest.raises(InputError, match=r"Must\.vec is required"):
            run(graph, statement, "$b: String?")
    assert (state(graph), embedder.calls) == (before, [])


def test_a_vector_that_is_null_is_filled_when_its_text_is_given_again(open_with):
    graph = open_with()
    run(graph, 'insert Note { slug: "n", body: "old" } insert Free { body: "free" }')
    embedder = Recording()
    graph = open_with(embedder)
    run(graph, 'update Note set { rank: 1 } where slug = "n"')
    assert vector(graph, slug="n") is None
    run(graph, 'update Note set { body: "old" } where slug = "n"')
    assert (vector(graph, slug="n"), embedder.texts) == (made("old"), ["old"])


def test_without_a_provider_a_changed_text_leaves_no_vector_of_the_old_one(open_with):
    graph = open_with()
    run(graph, 'update Note set { body: "new" } where slug = "a"')
    assert vector(graph) is None
    before = state(graph)
    with pytest.raises(ProviderError, match=r"Must\.vec"):
        run(graph, 'update Must set { body: "new" } where slug = "a"')
    assert state(graph) == before
    run(graph, 'update Must set { body: "text", rank: 1 } where slug = "a"')
    assert vector(graph, "Must") == OWN


def test_a_provider_that_fails_changes_nothing(open_with):
    graph = open_with(Recording(lambda _number: True))
    before = state(graph)
    with pytest.raises(ProviderError, match="out of order"):
        run(graph, 'update Note set { body: "new" } where slug = "a"')
    assert state(graph) == before


def test_a_lost_race_sends_no_text_again(open_with):
    embedder = Recording()
    graph, other = open_with(embedder), open_with(Recording())
    raced = []

    def race(_point):
        if not raced:
            raced.append(1)
            run(other, 'update Note set { rank: 7 } where slug = "a"')

    with failpoints.arm("mutation.before_locks", race):
        run(graph, 'update Note set { body: "new" } where slug = "a"')
    assert (raced, embedder.texts) == ([1], ["new"])
    assert nodes(graph, "Note")["a"] == {"slug": "a", "body": "new", "rank": 7, "vec": made("new")}


def test_upserts_of_a_list_make_each_text_once_and_keep_what_stays(open_with):
    embedder = Recording()
    graph = open_with(embedder)
    rows = [
        {"slug": "a", "body": "text"},
        {"slug": "x", "body": "new"},
        {"slug": "y", "body": "new"},
        {"slug": "z", "body": None},
        {"slug": "x", "body": "last"},
    ]
    text = (
        "for $r in $rows upsert Note { slug: $r.slug, body: $r.body, rank: coalesce(rank, 0) + 1 }"
    )
    run(graph, text, "$rows: [{ slug: String, body: String? }]", {"rows": rows})
    assert sorted(one for call in embedder.calls for one in call) == ["last", "new"]
    assert vector(graph) == OWN
    assert (vector(graph, slug="x"), vector(graph, slug="y")) == (made("last"), made("new"))
    assert vector(graph, slug="z") is None
    assert nodes(graph, "Note")["x"]["rank"] == 2


def test_an_update_by_match_follows_the_texts_that_change(open_with):
    embedder = Recording()
    graph = open_with(embedder)
    run(graph, 'insert Note { slug: "b", body: "other" }')
    run(
        graph,
        'match { $n: Note } update $n set { body: if($n.slug = "b", upper($n.body), $n.body) }',
    )
    assert [one for call in embedder.calls for one in call] == ["other", "OTHER"]
    assert (vector(graph), vector(graph, slug="b")) == (OWN, made("OTHER"))
