"""The analyser against terms and values worked out by hand."""

import math

import pytest

from tests.oracle.analysis import (
    analyse,
    bm25_scores,
    mock_embedding,
    round_f32,
    within_edits,
)


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("Solar-powered ROOFS", ["solar", "power", "roof"]),
        ("foo_bar 3.14", ["foo", "bar", "3", "14"]),
        ("The cat is on the mat", ["cat", "mat"]),
        ("not now", ["not"]),
        # Stemming comes before the stop words, folding after both.
        ("ares yourselves", ["yourselv"]),
        ("Café thé", ["cafe", "the"]),
        ("straße Łódź", ["strasse", "lodz"]),
        ("x" * 40 + " " + "y" * 41, ["x" * 40]),
        ("", []),
    ],
)
def test_terms(text, terms):
    assert analyse(text) == terms


@pytest.mark.parametrize(
    ("left", "right", "distance"),
    [("", "", 0), ("", "ab", 2), ("kitten", "sitting", 3), ("ab", "ba", 2), ("flaw", "lawn", 2)],
)
def test_edit_distance(left, right, distance):
    assert within_edits(left, right, distance)
    assert distance == 0 or not within_edits(left, right, distance - 1)


def test_bm25_leaves_out_texts_without_terms():
    scores = bm25_scores({"a": "solar", "b": "wind", "c": "the", "d": ""}, "solar")
    # Two documents of one term each, one of which holds the word once.
    assert scores == pytest.approx({"a": math.log(1 + 1.5 / 1.5) * 2.2 / (1 + 1.2)})


def test_bm25_counts_a_repeated_query_term_twice():
    texts = {"a": "solar", "b": "wind"}
    once, twice = bm25_scores(texts, "solar")["a"], bm25_scores(texts, "solar solar")["a"]
    assert twice == pytest.approx(2 * once)


@pytest.mark.parametrize(
    ("text", "vector"),
    [
        ("alpha", [-0.542049, -0.471799, 0.160905, 0.676534]),
        ("gamma", [0.504249, 0.252774, 0.448962, -0.693016]),
    ],
)
def test_mock_embedding(text, vector):
    assert mock_embedding(text, 4) == pytest.approx(vector, abs=1e-6)


def test_round_f32():
    assert round_f32(0.1) == 0.10000000149011612
    assert round_f32(-1e300) == -math.inf
