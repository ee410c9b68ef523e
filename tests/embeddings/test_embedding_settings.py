"""Which provider the environment or the caller chooses, and what is told of its key."""

from __future__ import annotations

import logging
import pickle
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import omnigraph as og
from omnigraph.embeddings import pool
from omnigraph.embeddings import provider as provider_module
from omnigraph.embeddings.embedding_settings import EmbeddingSettings
from omnigraph.embeddings.offline import MockEmbedder, mock_embedding
from omnigraph.embeddings.provider import embed_texts, require_embedder, resolve_embedder
from omnigraph.errors import BadRequest, ProviderError
from tests.embeddings.server import OK, EmbeddingServer, Reply, Spoilt, Status

KEY = "sk-very-secret-0123456789"
OPENROUTER = ("openai-compatible", "openai/text-embedding-3-large", "https://openrouter.ai/api/v1")
OPENAI = ("openai", "text-embedding-3-large", "https://api.openai.com/v1")
GEMINI = ("gemini", "gemini-embedding-2", "https://generativelanguage.googleapis.com/v1beta")


@pytest.fixture
def environment(monkeypatch):
    def put(**variables):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return put


class TestEnvironment:
    @pytest.mark.parametrize(
        ("variables", "expected"),
        [
            ({"OPENROUTER_API_KEY": KEY}, OPENROUTER),
            ({"OPENAI_API_KEY": KEY}, OPENAI),
            ({"GEMINI_API_KEY": KEY}, GEMINI),
            ({"OPENROUTER_API_KEY": KEY, "OPENAI_API_KEY": "b", "GEMINI_API_KEY": "c"}, OPENROUTER),
            ({"OPENAI_API_KEY": KEY, "GEMINI_API_KEY": "c"}, OPENAI),
            ({"OMNIGRAPH_EMBED_PROVIDER": "openai-compatible", "OPENAI_API_KEY": KEY}, OPENROUTER),
            (
                {
                    "OMNIGRAPH_EMBED_PROVIDER": "openai-compatible",
                    "OPENROUTER_API_KEY": KEY,
                    "OPENAI_API_KEY": "b",
                },
                OPENROUTER,
            ),
            (
                {
                    "OMNIGRAPH_EMBED_PROVIDER": "openai",
                    "OPENROUTER_API_KEY": "a",
                    "OPENAI_API_KEY": KEY,
                },
                OPENAI,
            ),
            (
                {
                    "OMNIGRAPH_EMBED_PROVIDER": "gemini",
                    "OPENAI_API_KEY": "b",
                    "GEMINI_API_KEY": KEY,
                },
                GEMINI,
            ),
            (
                {
                    "OMNIGRAPH_EMBED_BASE_URL": "http://localhost:11434/v1/",
                    "OMNIGRAPH_EMBED_MODEL": "nomic",
                    "OPENAI_API_KEY": KEY,
                },
                ("openai-compatible", "nomic", "http://localhost:11434/v1"),
            ),
        ],
    )
    def test_provider_model_address_and_key(self, environment, variables, expected):
        environment(**variables)
        chosen = resolve_embedder(None)
        assert (chosen.provider, chosen.model, chosen.base_url) == expected
        assert chosen.api_key == KEY
        assert require_embedder(None, "Doc.vec") == chosen

    @pytest.mark.parametrize(
        ("provider", "words"),
        [
            ("openai-compatible", "OPENROUTER_API_KEY or OPENAI_API_KEY"),
            ("openai", "set OPENAI_API_KEY"),
            ("gemini", "GEMINI_API_KEY"),
            ("acme", 'no embedding provider "acme"'),
        ],
    )
    def test_what_is_missing_is_told_on_first_use(self, environment, tmp_path, provider, words):
        environment(OMNIGRAPH_EMBED_PROVIDER=provider)
        schema = "node Doc { text: String @key  vec: Vector(2)? @embed(text) }"
        with og.init(tmp_path / "g", schema) as graph:
            graph.load([{"type": "Doc", "data": {"text": "a", "vec": [1, 2]}}])
            ask = "query q($t: %s) { match { $d: Doc } return { $d.text } order { nearest($d.vec, $t) } limit 1 }"
            assert len(graph.query(ask % "Vector(2)", params={"t": [1.0, 2.0]}).rows) == 1
            with pytest.raises(ProviderError) as caught:
                graph.query(ask % "String", params={"t": "a"})
        for word in ("Doc.vec", words, "omnigraph.open(embedder=…)"):
            assert word in str(caught.value)
        assert caught.value.http_status == 400

    def test_a_wrong_provider_is_told_before_its_model_is_looked_at(self, environment):
        environment(OMNIGRAPH_EMBED_PROVIDER="acme")
        with pytest.raises(ProviderError, match=r"Doc\.vec: there is no embedding provider"):
            embed_texts(resolve_embedder(None), ["a"], 4, "Doc.vec", model="acme/a")

    @pytest.mark.parametrize(
        "address",
        ["localhost", "ftp://h/v1", "https://me:pw@h/v1", "https://h/v1?key=pw", "https://h:x/v1"],
    )
    def test_an_address_that_cannot_be_used_is_refused_and_not_repeated(self, environment, address):
        environment(OMNIGRAPH_EMBED_BASE_URL=address, OPENAI_API_KEY=KEY)
        with pytest.raises(ProviderError, match="OMNIGRAPH_EMBED_BASE_URL") as caught:
            require_embedder(None, "Doc.vec")
        assert "pw" not in str(caught.value)

    def test_a_key_that_is_none_is_refused_and_not_repeated(self, environment):
        environment(OPENAI_API_KEY="sk-ä-secret")
        with pytest.raises(ProviderError, match="check OPENAI_API_KEY") as caught:
            require_embedder(None, "Doc.vec")
        assert "secret" not in str(caught.value)

    def test_the_mock_may_be_named_as_the_provider(self, environment):
        environment(OMNIGRAPH_EMBED_PROVIDER="mock", OPENAI_API_KEY=KEY)
        assert isinstance(resolve_embedder(None), MockEmbedder)
        chosen = resolve_embedder(EmbeddingSettings("mock"))
        (vector,) = embed_texts(chosen, ["a"], 3, "Doc.vec", model="acme/a").tolist()
        assert vector == mock_embedding("a", 3)


class TestMockThatHides:
    @pytest.fixture(autouse=True)
    def _not_yet_warned(self):
        provider_module._warn_of_hiding.cache_clear()

    def test_one_warning_if_there_is_a_real_one(self, environment, caplog):
        environment(OMNIGRAPH_EMBEDDINGS_MOCK="1", OPENAI_API_KEY=KEY)
        with caplog.at_level(logging.WARNING):
            for _ in range(3):
                assert isinstance(resolve_embedder(None), MockEmbedder)
        (record,) = caplog.records
        assert "OMNIGRAPH_EMBEDDINGS_MOCK" in record.getMessage()
        assert KEY not in record.getMessage()

    def test_none_if_there_is_not(self, environment, caplog):
        environment(OMNIGRAPH_EMBEDDINGS_MOCK="1")
        for configured in (None, MockEmbedder(), EmbeddingSettings("mock")):
            assert isinstance(resolve_embedder(configured), MockEmbedder)
        assert caplog.records == []


class TestCallers:
    def test_settings_of_the_caller_come_before_the_environment(self, environment):
        environment(OPENAI_API_KEY=KEY)
        mine = EmbeddingSettings("gemini", api_key="mine")
        chosen = resolve_embedder(mine)
        assert (chosen.provider, chosen.api_key) == ("gemini", "mine")

    def test_the_key_is_not_shown_and_travels_with_the_limits(self, environment, monkeypatch):
        environment(OPENAI_API_KEY=KEY, OMNIGRAPH_EMBED_RATE="7")
        chosen = resolve_embedder(None)
        assert KEY not in repr(chosen)
        assert KEY not in str(chosen)
        sent = pickle.dumps(chosen)
        monkeypatch.delenv("OPENAI_API_KEY")
        monkeypatch.delenv("OMNIGRAPH_EMBED_RATE")
        arrived = resolve_embedder(pickle.loads(sent))
        assert arrived == chosen
        assert arrived.limits.rate == 7


class TestVectors:
    @pytest.mark.parametrize("provider", ["openai-compatible", "openai", "gemini"])
    def test_they_have_length_1_and_come_in_batches(self, environment, provider):
        texts = [f"text {n}" for n in range(7)]
        with EmbeddingServer(Status(500)) as server:
            environment(**server.environment(provider), OMNIGRAPH_EMBED_BATCH="3")
            chosen = require_embedder(None, "Doc.vec")
            made = embed_texts(chosen, texts, 5, "Doc.vec", model=chosen.model)
        expected = np.array([mock_embedding(text, 5) for text in texts])
        assert made.dtype == np.float32
        assert np.allclose(made, expected, atol=1e-6)
        assert np.allclose(np.linalg.norm(made.astype(np.float64), axis=1), 1.0, atol=1e-6)
        assert [call.count for call in server.calls] == [3, 3, 3, 1]

    def test_threads_share_one_client(self, environment, monkeypatch):
        monkeypatch.setattr(pool, "_pool", pool._Pool())
        texts = [f"text {n}" for n in range(40)]
        together = threading.Barrier(8)

        def embed(part):
            together.wait()
            return embed_texts(require_embedder(None, "Doc.vec"), part, 3, "Doc.vec").tolist()

        with EmbeddingServer(lambda n: Status(500) if n % 4 == 1 else OK) as server:
            environment(**server.environment(), OMNIGRAPH_EMBED_RETRY_ATTEMPTS="100")
            with ThreadPoolExecutor(8) as threads:
                parts = list(threads.map(embed, [texts[at::8] for at in range(8)]))
            (client,) = pool._pool._clients.values()
            client.close()
        for at, made in enumerate(parts):
            expected = [mock_embedding(text, 3) for text in texts[at::8]]
            assert np.allclose(made, expected, atol=1e-6)

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            (lambda vectors: [v[:-1] for v in vectors], r"Vector\(4\) is needed.*of 3 numbers"),
            (lambda vectors: [[*v, 1.0] for v in vectors], r"Vector\(4\) is needed.*of 5 numbers"),
            (lambda vectors: [[0.0] * 4 for _ in vectors], "zeros alone"),
            (lambda vectors: [[1e400] * 4 for _ in vectors], "not the JSON|not finite"),
        ],
        ids=["short", "long", "zero", "infinite"],
    )
    def test_bad_ones_are_refused(self, environment, change, words):
        with EmbeddingServer(Spoilt(change)) as server:
            environment(**server.environment())
            with pytest.raises(ProviderError, match=rf"Doc\.vec.*({words})"):
                embed_texts(require_embedder(None, "Doc.vec"), ["a", "b"], 4, "Doc.vec")
        assert len(server.calls) == 1

    def test_a_model_other_than_the_recorded_one_asks_nobody(self, environment):
        with EmbeddingServer() as server:
            environment(**server.environment(), OMNIGRAPH_EMBED_MODEL="acme/a")
            with pytest.raises(BadRequest, match=r"acme/b.*acme/a") as caught:
                embed_texts(require_embedder(None, "Doc.vec"), ["a"], 4, "Doc.vec", model="acme/b")
        assert caught.value.http_status == 400
        assert server.calls == []


SCHEMA = "node Doc { text: String @key  vec: Vector(4)? @embed(text) }"
NEAR = """
query near($text: String) {
  match { $d: Doc }
  return { $d.text as text }
  order { nearest($d.vec, $text) }
  limit 1
}
"""
EXACTLY = NEAR.replace("$text: String", "$text: Vector(4)")


class TestHandles:
    def test_a_search_by_text_asks_in_the_role_of_a_query(self, environment, tmp_path):
        texts = ["red", "green", "blue"]
        records = [
            {"type": "Doc", "data": {"text": text, "vec": mock_embedding(text, 4)}}
            for text in texts
        ]
        with EmbeddingServer(Status(503), OK) as server:
            environment(**server.environment("gemini"))
            with og.init(tmp_path / "g", SCHEMA) as graph:
                graph.load(records)
                vector = mock_embedding("green", 4)
                assert graph.query(EXACTLY, params={"text": vector}).rows == [{"text": "green"}]
                assert server.calls == []
                for text in texts:
                    assert graph.query(NEAR, params={"text": text}).rows == [{"text": text}]
        assert len(server.calls) == 4
        for call in server.calls:
            assert [each["taskType"] for each in call.body["requests"]] == ["RETRIEVAL_QUERY"]
            assert call.dimension == 4

    def test_settings_given_to_init_are_used_and_clients_end_with_the_last_handle(
        self, tmp_path, monkeypatch
    ):
        # Handles that other tests left open hold the pool of this process.
        monkeypatch.setattr(pool, "_pool", pool._Pool())
        with EmbeddingServer() as server:
            mine = og.EmbeddingSettings("openai", "acme-1", server.base_url, KEY)
            graph = og.init(tmp_path / "g", SCHEMA, embedder=mine)
            other = og.open(tmp_path / "g", embedder=mine)
            for handle in (graph, other, graph):
                assert handle.query(NEAR, params={"text": "red"}).rows == []
            (client,) = pool._pool._clients.values()
            graph.close()
            assert client._calls._client is not None
            other.close()
            assert client._calls._client is None
            assert pool._pool._clients == {}
            other.close()
            assert pool._pool._holders == 0, "closing twice releases once"
        assert {call.headers["authorization"] for call in server.calls} == {f"Bearer {KEY}"}
        assert {call.body["model"] for call in server.calls} == {"acme-1"}


class RefusesLongTexts(Reply):
    def send(self, handler, call):
        reply = Status(400, "too long") if any(len(text) > 9 for text in call.texts) else OK
        reply.send(handler, call)


class TestJob:
    @pytest.fixture
    def graph(self, tmp_path):
        texts = ["red", "green", "a text too long", *(f"text {n}" for n in range(7))]
        with og.init(tmp_path / "g", SCHEMA) as graph:
            result = graph.load([{"type": "Doc", "data": {"text": text}} for text in texts])
            assert result.embeddings_pending == 10
            yield graph

    @pytest.mark.parametrize("status", [401, 404, 503])
    def test_a_provider_that_does_not_work_is_not_asked_for_every_text(
        self, environment, graph, status
    ):
        with EmbeddingServer(lambda _: Status(status)) as server:
            environment(**server.environment())
            with pytest.raises(ProviderError, match=f"status {status}"):
                graph.embed()
        assert len(server.calls) == (4 if status == 503 else 1)
        assert {call.count for call in server.calls} == {10}

    def test_one_that_stops_working_is_told_and_what_was_made_is_kept(self, environment, graph):
        with EmbeddingServer(lambda n: OK if n == 0 else Status(503)) as server:
            environment(**server.environment(), OMNIGRAPH_EMBED_BATCH="4")
            done = graph.embed()
        assert (done.filled, done.pending, done.failed) == (4, 6, 4)
        assert [call.count for call in server.calls] == [4, 4, 4, 4, 4]

    def test_a_text_that_the_provider_refuses_is_left_and_the_others_are_filled(
        self, environment, graph
    ):
        with EmbeddingServer(lambda _: RefusesLongTexts()) as server:
            environment(**server.environment())
            done = graph.embed()
        assert (done.filled, done.pending, done.failed) == (9, 1, 1)


class TestLocal:
    def test_without_its_package_the_extra_is_named(self, environment, monkeypatch):
        monkeypatch.setitem(sys.modules, "wordllama", None)
        environment(OMNIGRAPH_EMBED_PROVIDER="local")
        with pytest.raises(ProviderError, match=r"omnigraph\[local-embeddings\]") as caught:
            embed_texts(require_embedder(None, "Doc.vec"), ["a"], 256, "Doc.vec")
        assert caught.value.http_status == 400

    def test_another_dimension_is_refused_naming_both(self, environment):
        environment(OMNIGRAPH_EMBED_PROVIDER="local")
        with pytest.raises(ProviderError, match=r"64, 128 or 256 .*Vector\(384\)"):
            embed_texts(require_embedder(None, "Doc.vec"), ["a"], 384, "Doc.vec")

    @pytest.mark.parametrize("dimension", [64, 128, 256])
    def test_texts_of_one_meaning_are_near(self, environment, dimension):
        pytest.importorskip("wordllama", reason="the extra local-embeddings is not installed")
        environment(OMNIGRAPH_EMBED_PROVIDER="local", OMNIGRAPH_EMBED_BATCH="2")
        chosen = require_embedder(None, "Doc.vec")
        texts = ["a cat sat on the mat", "the kitten is on the rug", "stock markets fell today"]
        made = embed_texts(chosen, texts, dimension, "Doc.vec", model="wordllama-l2-supercat")
        assert np.allclose(np.linalg.norm(made, axis=1), 1.0, atol=1e-6)
        assert made[0] @ made[1] > made[0] @ made[2]
        again = embed_texts(chosen, texts[1:], dimension, "Doc.vec", role="query")
        assert np.allclose(again, made[1:], atol=1e-6)
