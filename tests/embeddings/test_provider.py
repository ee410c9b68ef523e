"""Which embedder is asked, and what is believed of its answers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from omnigraph.embeddings.embedder import is_embedder
from omnigraph.embeddings.offline import MockEmbedder, mock_embedding
from omnigraph.embeddings.provider import embed_texts, require_embedder, resolve_embedder
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
    def test_the_callers_own_is_taken_unless_the_mock_is_forced(self, monkeypatch):
        own = Given([])
        assert resolve_embedder(own) is own
        monkeypatch.setenv("OMNIGRAPH_EMBEDDINGS_MOCK", "1")
        assert isinstance(resolve_embedder(own), MockEmbedder)
        assert isinstance(resolve_embedder(None), MockEmbedder)

    @pytest.mark.parametrize("value", [None, "0", "false", ""])
    def test_without_one_there_is_none(self, monkeypatch, value):
        if value is not None:
            monkeypatch.setenv("OMNIGRAPH_EMBEDDINGS_MOCK", value)
        assert resolve_embedder(None) is None
        with pytest.raises(ProviderError) as caught:
            require_embedder(None, "Doc.vec")
        for word in (
            "Doc.vec",
            "OPENROUTER_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY",
            "omnigraph.open(embedder=",
            "OMNIGRAPH_EMBED_PROVIDER=local",
        ):
            assert word in str(caught.value)
        assert caught.value.http_status == 400


class TestAnswers:
    @pytest.mark.parametrize(
        "answer",
        [
            [[1, 0.1]],
            ((1, 0.1),),
            np.array([[1, 0.1]]),
            np.array([[1, 0.1]], np.float32),
            [iter([1, 0.1])],
        ],
        ids=["lists", "tuples", "float64", "float32", "iterators"],
    )
    def test_vectors_come_as_the_table_stores_them(self, answer):
        made = embed_texts(Given(answer), ["t"], 2, "Doc.vec")
        assert made.dtype == np.float32
        assert made.tolist() == [[1.0, 0.10000000149011612]]

    def test_no_text_gives_no_vector_and_asks_nobody(self):
        assert embed_texts(Given(KeyError("asked")), [], 3, "Doc.vec").shape == (0, 3)

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
            [[0.0, 0.0]],
            [[0.0, 1e-60]],
            [["x", "y"]],
            [None],
            [3.0],
            None,
            KeyError("data"),
        ],
    )
    def test_a_bad_answer_is_the_providers_fault(self, answer):
        with pytest.raises(ProviderError, match=r"Doc\.vec") as caught:
            embed_texts(Given(answer), ["t"], 2, "Doc.vec")
        assert caught.value.http_status == 500

    def test_one_bad_vector_among_good_ones_is_seen(self):
        answer = [[1.0, 2.0], [0.0, 0.0], [1.0, 2.0]]
        with pytest.raises(ProviderError, match=r"Doc\.vec"):
            embed_texts(Given(answer), ["a", "b", "c"], 2, "Doc.vec")

    def test_an_error_of_ours_gets_the_place_and_keeps_its_facts(self):
        failure = ProviderError("there is no key", missing=True, variable="KEY")
        with pytest.raises(ProviderError, match=r"Doc\.vec: there is no key") as caught:
            embed_texts(Given(failure), ["t"], 2, "Doc.vec")
        assert caught.value.details == {"missing": True, "variable": "KEY"}
        assert caught.value.http_status == 400

    def test_another_error_of_ours_is_the_providers_fault_too(self):
        with pytest.raises(ProviderError, match=r"Doc\.vec.*elsewhere"):
            embed_texts(Given(BadRequest("elsewhere")), ["t"], 2, "Doc.vec")

    def test_vectors_of_another_model_than_the_recorded_one_are_refused(self):
        with pytest.raises(BadRequest) as caught:
            embed_texts(Given([[1.0]]), ["t"], 1, "Doc.vec", model="acme/b")
        for word in ("acme/a", "acme/b", "OMNIGRAPH_EMBED_MODEL"):
            assert word in str(caught.value)
        with pytest.raises(BadRequest, match=r"^runtime error: Doc\.vec"):
            embed_texts(Given([[1.0]]), ["t"], 1, "Doc.vec", model="acme/b", role="query")
        assert embed_texts(Given([[1.0]]), ["t"], 1, "Doc.vec", model="acme/a").tolist() == [[1.0]]
        assert len(embed_texts(MockEmbedder(), ["t"], 1, "Doc.vec", model="acme/a")) == 1


class Recording:
    model = "recording"

    def __init__(self):
        self.calls = []


class WithRole(Recording):
    def embed(self, texts, dimension, role):
        self.calls.append((texts, role))
        return [[len(text) + 1] * dimension for text in texts]


class WithoutRole(Recording):
    def embed(self, texts, dimension, batch_size=32):
        self.calls.append((texts, batch_size))
        return [[len(text) + 1] * dimension for text in texts]


class TestCalls:
    def test_the_role_is_told_to_who_asks_for_it(self):
        embedder = WithRole()
        embed_texts(embedder, ["a"], 2, "Doc.vec")
        embed_texts(embedder, ["a"], 2, "Doc.vec", role="query")
        assert [role for _, role in embedder.calls] == ["document", "query"]

    def test_an_option_of_another_name_is_left_alone(self):
        embedder = WithoutRole()
        embed_texts(embedder, ["a"], 2, "Doc.vec", role="query")
        assert embedder.calls == [(["a"], 32)]

    def test_texts_go_in_batches_and_come_back_in_order(self, monkeypatch):
        monkeypatch.setenv("OMNIGRAPH_EMBED_BATCH", "3")
        embedder = WithRole()
        made = embed_texts(embedder, tuple("abcdefgh"[:n] for n in range(8)), 1, "Doc.vec")
        assert made.tolist() == [[n + 1.0] for n in range(8)]
        assert [len(texts) for texts, _ in embedder.calls] == [3, 3, 2]
        assert all(isinstance(texts, list) for texts, _ in embedder.calls)


class NoModel:
    def embed(self, texts, dimension):
        return []


class TooFew:
    model = "m"

    def embed(self, texts):
        return []


class TooMany:
    model = "m"

    def embed(self, texts, dimension, role, temperature):
        return []


def test_what_has_model_and_embed_is_an_embedder():
    assert all(map(is_embedder, (WithRole(), WithoutRole(), MockEmbedder())))
    assert not any(map(is_embedder, (NoModel(), TooFew(), TooMany(), "m", None, WithRole.embed)))
