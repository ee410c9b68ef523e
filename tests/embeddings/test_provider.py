"""Which embedder is asked, and what is believed of its answers."""

from __future__ import annotations

import math

import pytest

from omnigraph.embeddings.mock import mock_embedding
from omnigraph.embeddings.provider import (
    MockEmbedder,
    embed_texts,
    require_embedder,
    resolve_embedder,
)
from omnigraph.errors import BadRequest, ProviderError


class Given:
    """An embedder that answers what it was told to."""

    model = "acme/a"

    def __init__(self, answer):
        self.answer = answer

    def embed(self, texts, dimension):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class TestMock:
    @pytest.mark.parametrize("dimension", [1, 2, 3, 1536])
    def test_vectors_are_of_unit_length_and_repeat(self, dimension):
        vector = mock_embedding("some text", dimension)
        assert len(vector) == dimension
        assert math.isclose(math.sqrt(sum(x * x for x in vector)), 1.0, rel_tol=1e-5)
        assert vector == mock_embedding("some text", dimension)

    def test_texts_differ(self):
        vectors = {tuple(mock_embedding(text, 8)) for text in ("", "a", "b", "ab", "ß", "日本")}
        assert len(vectors) == 6


class TestChoice:
    def test_the_callers_own_comes_first(self, monkeypatch):
        own = Given([])
        monkeypatch.setenv("OMNIGRAPH_EMBEDDINGS_MOCK", "1")
        assert resolve_embedder(own) is own
        assert isinstance(resolve_embedder(None), MockEmbedder)

    @pytest.mark.parametrize("value", [None, "0", "false", ""])
    def test_without_one_there_is_none(self, monkeypatch, value):
        if value is not None:
            monkeypatch.setenv("OMNIGRAPH_EMBEDDINGS_MOCK", value)
        assert resolve_embedder(None) is None
        with pytest.raises(ProviderError) as caught:
            require_embedder(None, "Doc.vec")
        for word in ("Doc.vec", "omnigraph.open(embedder=", "OMNIGRAPH_EMBEDDINGS_MOCK=1"):
            assert word in str(caught.value)
        assert "API_KEY" not in str(caught.value), "no code reads one"
        assert caught.value.http_status == 400


class TestAnswers:
    def test_vectors_come_as_the_table_stores_them(self):
        (vector,) = embed_texts(Given([[1, 0.1]]), ["t"], 2, "Doc.vec")
        assert vector == [1.0, 0.10000000149011612]

    @pytest.mark.parametrize(
        "answer",
        [
            [],
            [[1.0, 2.0], [1.0, 2.0]],
            [[1.0]],
            [[1.0, 2.0, 3.0]],
            [[1.0, float("nan")]],
            [[1.0, float("inf")]],
            [[1.0, 1e39]],
            [["x", "y"]],
            [None],
            None,
            KeyError("data"),
        ],
    )
    def test_a_bad_answer_is_the_providers_fault(self, answer):
        with pytest.raises(ProviderError, match=r"Doc\.vec"):
            embed_texts(Given(answer), ["t"], 2, "Doc.vec")

    def test_an_error_of_ours_stays_what_it_is(self):
        failure = ProviderError("no credit left")
        with pytest.raises(ProviderError) as caught:
            embed_texts(Given(failure), ["t"], 2, "Doc.vec")
        assert caught.value is failure

    def test_vectors_of_another_model_than_the_recorded_one_are_refused(self):
        with pytest.raises(BadRequest) as caught:
            embed_texts(Given([[1.0]]), ["t"], 1, "Doc.vec", model="acme/b")
        assert "acme/a" in str(caught.value)
        assert "acme/b" in str(caught.value)
        assert embed_texts(Given([[1.0]]), ["t"], 1, "Doc.vec", model="acme/a") == [[1.0]]
        assert embed_texts(MockEmbedder(), ["t"], 1, "Doc.vec", model="acme/a")
