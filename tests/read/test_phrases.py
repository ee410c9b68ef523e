"""Phrases in searches against the oracle, in every state an index can be in."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.lang.query import ir
from omnigraph.read.search.phrases import search_text, texts_with_phrase
from omnigraph.read.search.ranking import rank
from omnigraph.read.thresholds import SearchThresholds, Thresholds
from tests.opened import read_with
from tests.oracle.analysis import bm25_scores, shares_term_or_phrase
from tests.read.texts import (
    SCHEMA,
    TEXT,
    body,
    document,
    found,
    maintain,
    text_predicate,
    texts_of,
    view_of,
)
from tests.sampling import examples
from tests.storage.table_places import compact

VOCABULARY = [
    "state",
    "of",
    "the",
    "art",
    "states",
    "arts",
    "x-ray",
    "it's",
    "layer",
    "é",
    "z" * 41,
]
QUERIES = [
    '"state of the art"', '"state art"', '"state the of art"', '"the art"', '"art of the"', '"x-ray layer"',
    '"arts states" layer', 'layer "state" "art layer"', '"of the"', '""', '"', 'state "art', '"state of" "the art',
    '"layer it\'s"', '"' + "z" * 41 + ' art"', '"art ' + "z" * 41 + ' layer"', "'state art'", '"art art"',
]  # fmt: skip


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_CACHE_DIR", str(tmp_path / "cache"))


def random_text(rng: random.Random) -> str | None:
    if rng.random() < 0.05:
        return rng.choice([None, ""])
    words = [rng.choice(VOCABULARY) for _ in range(rng.randint(1, 9))]
    return rng.choice([" ", "  ", "-", ", "]).join(words)


@pytest.fixture
def rng():
    return random.Random(21)


@pytest.fixture
def graph(tmp_path, rng):
    with og.init(tmp_path / "g", SCHEMA) as graph:
        graph.load([document(f"d{at:03d}", random_text(rng)) for at in range(200)])
        yield graph


def check(graph):
    view = view_of(graph)
    texts = texts_of(view)
    hits = 0
    for query in QUERIES:
        wanted = sorted(ref for ref, text in texts.items() if shares_term_or_phrase(text, query))
        hits += len(wanted)
        for function in ("search", "match_text"):
            assert found(view, text_predicate(function, query)) == wanted, query
        ranked = rank(
            view,
            view.catalog.nodes["Doc"],
            ir.Bm25(body(), ir.Const(query, TEXT)),
            {},
            None,
            None,
            None,
        )
        assert sorted(view.nodes("Doc").ids(ranked.codes).to_pylist()) == wanted, query
    assert hits


@pytest.mark.parametrize("way", ["read", "throw-away"])
def test_the_index_makes_no_difference(graph, rng, way):
    if way == "throw-away":
        read_with(graph, Thresholds(search=SearchThresholds(unindexed_rows=0)))
    check(graph)
    graph.ensure_indices()
    check(graph)
    graph.load([document(f"e{at:03d}", random_text(rng)) for at in range(40)])
    check(graph)
    graph.load([document(f"d{at:03d}", random_text(rng)) for at in range(0, 60, 3)])
    graph.mutate('query q() { delete Doc where ref = "d001" }')
    check(graph)
    maintain(graph, compact)
    graph.ensure_indices()
    check(graph)


def test_scores_are_those_of_all_terms_as_words(tmp_path):
    texts = {"a": "state of the art", "b": "art of the state", "c": "layer", "d": "art layer art"}
    query = '"state of the art" layer'
    with og.init(tmp_path / "g", SCHEMA) as graph:
        graph.load([document(ref, text) for ref, text in texts.items()])
        graph.ensure_indices()
        view = view_of(graph)
        ranking = ir.Bm25(body(), ir.Const(query, TEXT))
        ranked = rank(view, view.catalog.nodes["Doc"], ranking, {}, None, None, None)
        shown = dict(
            zip(view.nodes("Doc").ids(ranked.codes).to_pylist(), ranked.scores, strict=True)
        )
    plain = bm25_scores(texts, "state of the art layer")
    assert shown == pytest.approx({ref: plain[ref] for ref in "acd"}, rel=1e-4)


def test_a_phrase_of_a_search_follows_its_text(graph):
    """A cached answer belongs to the state of the rows it was found in."""
    graph.load([document("a", "boundary layer")])
    assert found(view_of(graph), text_predicate("search", '"boundary layer"')) == ["a"]
    graph.mutate('query q() { update Doc set { body: "layer boundary" } where ref = "a" }')
    assert found(view_of(graph), text_predicate("search", '"boundary layer"')) == []
    assert found(view_of(graph), text_predicate("search", '"layers boundary"')) == ["a"]


def test_fuzzy_has_no_phrases(graph):
    graph.load([document("a", "boundary layer"), document("b", "boundary of")])
    assert found(view_of(graph), text_predicate("fuzzy", '"boundary layr"', 1)) == sorted(
        {"a", "b"} | {ref for ref, text in texts_of(view_of(graph)).items() if "layer" in text}
    )


WORD = st.sampled_from([*VOCABULARY, "State", "ARTS", "tower-of", "--", "3.14"])
SEPARATED = st.lists(WORD, max_size=8).map(" ".join)


@settings(deadline=None, max_examples=examples(200))
@given(st.lists(SEPARATED, min_size=1, max_size=4), SEPARATED, st.integers(1, 3))
def test_a_phrase_occurs_where_the_oracle_finds_it(texts, phrase, at_once):
    query = f'"{phrase}"'
    wanted = [shares_term_or_phrase(text, query) for text in texts]
    searched = search_text(query)
    if not searched.phrases:
        assert wanted == [bool(searched.words.strip()) and w for w in wanted]
        return
    [one] = searched.phrases
    assert texts_with_phrase(pa.array(texts, pa.utf8()), one, at_once).tolist() == wanted
