"""What goes to providers over HTTP, what comes back, and what is tried again."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from omnigraph.embeddings.http_clients import GeminiClient, OpenAiClient
from omnigraph.embeddings.pacing import Rate, pause_before_retry, retry_after
from omnigraph.errors import ProviderError
from tests.embeddings.server import (
    OK,
    Body,
    Cut,
    Drip,
    EmbeddingServer,
    Hang,
    Reversed,
    Spoilt,
    Status,
    Unnumbered,
    raw_vector,
)

KEY = "sk-very-secret-0123456789"
TEXTS = ["one", "two", "three"]
VECTORS = [raw_vector(text, 4) for text in TEXTS]


def numbered(*indexes):
    items = [b'{"index": %d, "embedding": [1, 2, 3, 4]}' % index for index in indexes]
    return Body(b'{"data": [' + b",".join(items) + b"]}")


@pytest.fixture
def ask(limits, clock):
    """Embed the texts with a client of the server, and close it."""

    def run(server, make=OpenAiClient, role="document", **changed):
        client = make(server.base_url, "acme-1", KEY, replace(limits, **changed), clock)
        try:
            return client.embed(TEXTS, 4, role)
        finally:
            client.close()

    return run


class TestOpenAi:
    def test_the_request(self, ask):
        with EmbeddingServer() as server:
            assert ask(server) == VECTORS
        (call,) = server.calls
        assert call.path == "/v1/embeddings"
        assert call.headers["authorization"] == f"Bearer {KEY}"
        assert call.headers["content-type"] == "application/json"
        assert call.body == {
            "model": "acme-1",
            "input": TEXTS,
            "dimensions": 4,
            "encoding_format": "float",
        }

    @pytest.mark.parametrize("reply", [Reversed(), Unnumbered()], ids=["reversed", "unnumbered"])
    def test_vectors_come_in_the_order_of_the_texts(self, ask, reply):
        with EmbeddingServer(reply) as server:
            assert ask(server) == VECTORS

    @pytest.mark.parametrize(
        "reply",
        [
            Spoilt(lambda vectors: vectors[1:]),
            Spoilt(lambda vectors: [*vectors, vectors[0]]),
            Spoilt(lambda _: []),
            numbered(1, 1, 1),
            numbered(0, 1, 2, 2),
            numbered(1, 2, 3),
        ],
        ids=["one-less", "one-more", "none", "one-place", "a-place-twice", "from-1"],
    )
    def test_another_number_of_vectors_is_refused(self, ask, reply):
        with (
            EmbeddingServer(reply) as server,
            pytest.raises(ProviderError, match="one vector for each of 3 texts"),
        ):
            ask(server)
        assert len(server.calls) == 1


class TestGemini:
    @pytest.mark.parametrize(
        ("role", "task"), [("document", "RETRIEVAL_DOCUMENT"), ("query", "RETRIEVAL_QUERY")]
    )
    def test_the_request(self, ask, role, task):
        with EmbeddingServer() as server:
            assert ask(server, GeminiClient, role) == VECTORS
        (call,) = server.calls
        assert call.path == "/v1/models/acme-1:batchEmbedContents"
        assert call.headers["x-goog-api-key"] == KEY
        assert "authorization" not in call.headers
        assert call.body == {
            "requests": [
                {
                    "model": "models/acme-1",
                    "content": {"parts": [{"text": text}]},
                    "taskType": task,
                    "outputDimensionality": 4,
                }
                for text in TEXTS
            ]
        }

    def test_another_number_of_vectors_is_refused(self, ask):
        with (
            EmbeddingServer(Spoilt(lambda vectors: vectors[1:])) as server,
            pytest.raises(ProviderError, match="one vector for each of 3 texts"),
        ):
            ask(server, GeminiClient)


class TestTriedAgain:
    @pytest.mark.parametrize("make", [OpenAiClient, GeminiClient])
    @pytest.mark.parametrize(
        "reply", [Status(429), Status(500), Status(503), Cut()], ids=["429", "500", "503", "cut"]
    )
    def test_what_may_pass(self, ask, make, reply):
        with EmbeddingServer(reply, OK) as server:
            assert ask(server, make) == VECTORS
        assert len(server.calls) == 2
        assert server.calls[0].body == server.calls[1].body

    @pytest.mark.parametrize("reply", [Hang(), Drip()], ids=["hangs", "drips"])
    def test_an_answer_that_does_not_come_in_time(self, limits, reply):
        limits = replace(limits, timeout=0.2, attempts=1, deadline=None)
        with EmbeddingServer(reply) as server:
            client = OpenAiClient(server.base_url, "acme-1", KEY, limits)
            with pytest.raises(ProviderError, match=r"did not answer within 0\.2 s"):
                client.embed(TEXTS, 4, "document")
            client.close()

    def test_a_hanging_call_is_made_once_more(self, limits, clock):
        # A busy machine may need more than one more try for half a second's work.
        limits = replace(limits, timeout=0.5, attempts=50, backoff=0.0)
        with EmbeddingServer(Hang()) as server:
            client = OpenAiClient(server.base_url, "acme-1", KEY, limits, clock)
            assert client.embed(TEXTS, 4, "document") == VECTORS
            client.close()
        assert len(server.calls) >= 2

    def test_a_provider_that_is_not_there(self, limits, clock):
        with EmbeddingServer() as server:
            pass
        client = OpenAiClient(server.base_url, "acme-1", KEY, limits, clock)
        with pytest.raises(ProviderError, match="could not be reached") as caught:
            client.embed(TEXTS, 4, "document")
        client.close()
        assert caught.value.details["attempts"] == 4
        assert "127.0.0.1" in str(caught.value)

    def test_pauses_double_and_the_last_failure_is_told(self, ask, clock):
        with (
            EmbeddingServer(*[Status(500, f"failure {n}") for n in range(9)]) as server,
            pytest.raises(ProviderError, match=r"status 500 \(failure 3\).* 4 tries") as caught,
        ):
            ask(server)
        assert clock.slept == [0.2, 0.4, 0.8]
        assert len(server.calls) == 4
        assert caught.value.http_status == 500
        assert caught.value.details == {"missing": False, "status": 500, "attempts": 4}

    def test_a_pause_that_the_provider_asks_for_is_kept(self, ask, clock):
        with EmbeddingServer(Status(429, headers={"retry-after": "7"}), OK) as server:
            assert ask(server) == VECTORS
        assert clock.slept == [7.0]

    def test_a_pause_beyond_the_deadline_is_not_waited_for(self, ask, clock):
        reply = Status(429, headers={"retry-after": "61"})
        with (
            EmbeddingServer(reply, OK) as server,
            pytest.raises(ProviderError, match=r"pause of 61 s.*OMNIGRAPH_EMBED_DEADLINE_MS"),
        ):
            ask(server)
        assert clock.slept == []
        assert len(server.calls) == 1

    def test_without_a_deadline_an_hour_is_waited_for_and_no_more(self, ask, clock):
        replies = [Status(429, headers={"retry-after": str(n)}) for n in (3600, 3601)]
        with (
            EmbeddingServer(*replies) as server,
            pytest.raises(ProviderError, match="pause of 3601 s"),
        ):
            ask(server, deadline=None)
        assert clock.slept == [3600.0]

    def test_the_deadline_holds_for_all_tries_together(self, ask, clock):
        with (
            EmbeddingServer(lambda _: Status(503)) as server,
            pytest.raises(ProviderError, match="OMNIGRAPH_EMBED_DEADLINE_MS"),
        ):
            ask(server, deadline=10.0, attempts=100, backoff=1.0)
        assert clock.slept == [1.0, 2.0, 4.0]


class TestFinal:
    @pytest.mark.parametrize(
        ("reply", "message"),
        [
            (Status(400), r"status 400 \(so it goes\)"),
            (Status(401), r"status 401.*check the API key"),
            (Status(403), r"status 403.*API key"),
            (Status(404), r"status 404.*OMNIGRAPH_EMBED_BASE_URL"),
            (Status(301, headers={"location": "http://127.0.0.1:1/"}), r"status 301.*BASE_URL"),
            (Body(b'{"data": ['), "not the JSON of vectors"),
            (Body(b""), "not the JSON of vectors"),
            (Body(b"\xff\xfe"), "not the JSON of vectors"),
            (Body(b"<html>welcome</html>"), "not the JSON of vectors"),
            (Body(b'{"data": [{"embedding": ["a"]}]}'), "not the JSON of vectors"),
            (Body(b'{"data": [{"embedding": [NaN]}]}'), "not the JSON of vectors"),
            (Body(b'{"data": "' + b"x" * (2 << 20) + b'"}'), "more than .* bytes"),
            (Body(b'{"x": ' + b"[" * 100_000), "not the JSON of vectors"),
            (Body(b'{"error": {"message": "\xff"}}', 400), r"status 400; "),
            (Body(b'{"x": ' + b"[" * 100_000, 400), r"status 400; "),
        ],
        ids=lambda value: None if isinstance(value, str) else "",
    )
    def test_one_call_and_an_error_that_says_what_to_do(self, ask, clock, reply, message):
        with (
            EmbeddingServer(reply) as server,
            pytest.raises(ProviderError, match=message) as caught,
        ):
            ask(server)
        assert len(server.calls) == 1
        assert clock.slept == []
        assert "127.0.0.1" in str(caught.value)

    @pytest.mark.parametrize("make", [OpenAiClient, GeminiClient])
    def test_a_key_that_the_provider_repeats_is_not_shown(self, ask, make):
        # Where the message is cut off there must not stand half a key.
        for ahead in (0, 190):
            reply = Status(401, f"{'x' * ahead} wrong key {KEY}\x1b[31m, sorry")
            with EmbeddingServer(reply) as server, pytest.raises(ProviderError) as caught:
                ask(server, make)
            for shown in (str(caught.value), repr(caught.value), str(caught.value.body())):
                assert "sk-very" not in shown
                assert "\x1b" not in shown
            assert caught.value.__cause__ is None


class TestPacing:
    def test_calls_are_spaced_evenly_over_threads(self, clock):
        rate = Rate(4, clock)
        clock.sleep = clock.slept.append  # the time stands still
        threads = [threading.Thread(target=rate.wait) for _ in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(clock.slept) == [0.25, 0.5, 0.75, 1.0]

    def test_the_rate_counts_every_try(self, ask, clock):
        with EmbeddingServer(Status(500), OK) as server:
            ask(server, rate=1, backoff=0.0)
        assert clock.slept == [0.0, 1.0]

    def test_an_unlimited_rate_never_waits(self, clock):
        rate = Rate(0, clock)
        for _ in range(3):
            rate.wait()
        assert clock.slept == []

    def test_a_pause_is_at_most_a_minute_unless_asked_for(self, clock):
        assert pause_before_retry(1, 0.5, None, clock) == 0.5
        assert pause_before_retry(3, 0.5, None, clock) == 2.0
        assert pause_before_retry(50, 0.5, None, clock) == 60.0
        assert pause_before_retry(1, 0.5, 90.0, clock) == 90.0
        assert pause_before_retry(1, 0.5, 0.1, clock) == 0.5

    def test_a_pause_is_random_from_nothing_on(self, clock):
        clock.between = lambda low, high: low
        assert pause_before_retry(5, 0.5, None, clock) == 0.0

    @pytest.mark.parametrize(
        ("header", "seconds"),
        [
            ("0", 0.0),
            (" 12 ", 12.0),
            ("Mon, 16 Nov 2026 00:00:30 GMT", 30.0),
            ("Sun, 15 Nov 2026 00:00:30 GMT", 0.0),
            ("soon", None),
            ("-1", None),
            ("1.5", None),
            ("", None),
            (None, None),
        ],
    )
    def test_retry_after(self, clock, header, seconds):
        clock.today = lambda: datetime(2026, 11, 16, tzinfo=UTC)
        assert retry_after(header, clock) == seconds
