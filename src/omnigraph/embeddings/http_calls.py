"""POST to a provider and read its answer, trying again what may pass.

Tried again are time-outs, lost connections, and the statuses 429 and 5xx. Anything else is final:
repeating a wrong key or a wrong model changes nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar
from urllib.parse import urlsplit

import msgspec

from omnigraph.embeddings.pacing import CallLimits, Clock, Rate, pause_before_retry, retry_after
from omnigraph.errors import ProviderError

if TYPE_CHECKING:
    import httpx2

Answer = TypeVar("Answer")

OK = 200
TOO_MANY_REQUESTS = 429
SERVER_ERRORS = range(500, 600)
SPARE_BYTES = 1 << 20
NUMBER_BYTES = 64
EXPLAINED_BYTES = 1 << 16
SHOWN_CHARACTERS = 200

LONGEST_ASKED = 3600.0
"""Seconds; a provider that asks for a longer pause is not waited for."""

ADVICE = {
    400: "check the model and the dimensions of the vector property",
    401: "check the API key",
    403: "check the API key and what it may use",
    404: "check the model and OMNIGRAPH_EMBED_BASE_URL",
    413: "lower OMNIGRAPH_EMBED_BATCH, or shorten the texts",
    429: "try again later, or set OMNIGRAPH_EMBED_RATE to what the provider allows",
}


@dataclass(frozen=True, slots=True)
class _Failure:
    """Why a try failed; ``status`` is None if no whole answer came."""

    reason: str
    status: int | None = None
    asked: float | None = None

    @property
    def may_pass(self) -> bool:
        return (
            self.status is None or self.status == TOO_MANY_REQUESTS or self.status in SERVER_ERRORS
        )


class HttpCalls:
    """The calls to one provider. Threads may share it; the connections are made on first need."""

    def __init__(
        self, url: str, secret: str, limits: CallLimits, clock: Clock | None = None
    ) -> None:
        self.url = url
        self.host = urlsplit(url).netloc
        self._secret = secret
        self._limits = limits
        self._clock = clock or Clock()
        self._rate = Rate(limits.rate, self._clock)
        self._client: httpx2.Client | None = None
        self._lock = threading.Lock()

    def decoded(
        self, headers: Mapping[str, str], body: object, form: type[Answer], numbers: int
    ) -> Answer:
        """Return the answer, which is JSON of that form and holds about that many numbers."""
        raw = self.post(headers, body, SPARE_BYTES + numbers * NUMBER_BYTES)
        try:
            return msgspec.json.decode(raw, type=form)
        except (ValueError, RecursionError) as error:  # DecodeError is the first of them
            self.refuse(
                f"gave an answer that is not the JSON of vectors ({error}); check "
                "OMNIGRAPH_EMBED_PROVIDER and OMNIGRAPH_EMBED_BASE_URL"
            )

    def post(self, headers: Mapping[str, str], body: object, most_bytes: int) -> bytes:
        """Return the answer to a JSON body; an answer of more than ``most_bytes`` is refused."""
        content = msgspec.json.encode(body)
        sent = {**headers, "content-type": "application/json"}
        self._rate.wait()
        ends = self._clock.now() + (self._limits.deadline or float("inf"))
        attempt = 0
        while True:
            attempt += 1
            timeout = min(self._limits.timeout, ends - self._clock.now())
            answer = self._try(sent, content, most_bytes, timeout)
            if isinstance(answer, bytes):
                return answer
            if not answer.may_pass or attempt == self._limits.attempts:
                self._give_up(answer, attempt)
            pause = pause_before_retry(attempt, self._limits.backoff, answer.asked, self._clock)
            if not self._has_waited(pause, ends):
                self._give_up(answer, attempt, late=True)

    def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def refuse(self, reason: str, **details: Any) -> NoReturn:
        """Raise that the provider's answer cannot be used."""
        raise ProviderError(
            f"the embedding provider at {self.host} {self._shown(reason)}", **details
        )

    def _has_waited(self, pause: float, ends: float) -> bool:
        """Wait for the next try; False if there is no time left for one."""
        if self._clock.now() + pause >= ends or pause > LONGEST_ASKED:
            return False
        self._clock.sleep(pause)
        self._rate.wait()
        return self._clock.now() < ends

    def _connected(self) -> httpx2.Client:
        import httpx2

        with self._lock:
            if self._client is None:
                self._client = httpx2.Client()
            return self._client

    def _try(
        self, headers: Mapping[str, str], content: bytes, most_bytes: int, timeout: float
    ) -> bytes | _Failure:
        import httpx2

        ends = self._clock.now() + timeout
        try:
            with self._connected().stream(
                "POST", self.url, headers=headers, content=content, timeout=timeout
            ) as response:
                most = most_bytes if response.status_code == OK else EXPLAINED_BYTES
                parts, size = [], 0
                for part in response.iter_bytes():
                    parts.append(part)
                    size += len(part)
                    # The time-out of the library starts again with every byte that comes.
                    if size > most or self._clock.now() > ends:
                        break
        except httpx2.TimeoutException:
            return _Failure(f"did not answer within {timeout:g} s")
        except httpx2.TransportError as error:
            return _Failure(f"could not be reached: {str(error) or type(error).__name__}")
        except httpx2.HTTPError as error:
            return _Failure(f"gave an answer that cannot be read: {error}", OK)
        if response.status_code != OK:
            return self._refusal(response, b"".join(parts))
        if size > most_bytes:
            return _Failure(f"gave an answer of more than {most_bytes} bytes", OK)
        if self._clock.now() > ends:
            return _Failure(f"did not answer within {timeout:g} s")
        return b"".join(parts)

    def _refusal(self, response: httpx2.Response, body: bytes) -> _Failure:
        status = response.status_code
        reason = f"answered with status {status}"
        if explained := self._shown(_explanation(body))[:SHOWN_CHARACTERS]:
            reason += f" ({explained})"
        asked = retry_after(response.headers.get("retry-after"), self._clock)
        if asked:
            reason += f" and asks for a pause of {asked:g} s"
        return _Failure(reason, status, asked)

    def _give_up(self, failure: _Failure, attempts: int, *, late: bool = False) -> NoReturn:
        reason = failure.reason
        if attempts > 1:
            reason += f", at the last of {attempts} tries"
        if late:
            reason += ", and the time for another is over (OMNIGRAPH_EMBED_DEADLINE_MS)"
        self.refuse(f"{reason}; {_advice(failure)}", status=failure.status, attempts=attempts)

    def _shown(self, text: str) -> str:
        """Return a text for a message: without the key, should the provider repeat it."""
        return text.replace(self._secret, "***") if self._secret else text


def _advice(failure: _Failure) -> str:
    """Return what to do next."""
    if failure.status in ADVICE:
        return ADVICE[failure.status]
    if failure.may_pass:
        return "try again later"
    return "check OMNIGRAPH_EMBED_PROVIDER, OMNIGRAPH_EMBED_BASE_URL and OMNIGRAPH_EMBED_MODEL"


class _Explained(msgspec.Struct):
    message: str


class _Explanation(msgspec.Struct):
    error: _Explained


def _explanation(body: bytes) -> str:
    """Return what a provider says about an error, in one line."""
    try:
        text = msgspec.json.decode(body, type=_Explanation).error.message
    except (ValueError, RecursionError):
        return ""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
