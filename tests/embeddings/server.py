"""An embedding provider on 127.0.0.1 that behaves and misbehaves by script.

It speaks OpenAI's protocol and Gemini's. Call number n gets the n-th reply of the script, and
``OK`` when that is used up; every call is kept in ``calls``::

    with EmbeddingServer(Status(500), OK) as server:
        …
    assert [call.count for call in server.calls] == [2, 2]

A function as the only reply chooses one by the number of the call, from 0: for a provider that
fails every third call, ``EmbeddingServer(lambda n: Status(503) if n % 3 == 2 else OK)``.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

from omnigraph.embeddings.offline import mock_embedding

LENGTH = 3.0


def raw_vector(text: str, dimension: int) -> list[float]:
    """What the server gives for a text: the mock's vector, three times as long."""
    return [LENGTH * number for number in mock_embedding(text, dimension)]


@dataclass(frozen=True)
class Call:
    """One call that came, whatever became of it."""

    path: str
    headers: dict[str, str]
    body: dict

    @property
    def texts(self) -> list[str]:
        if "input" in self.body:
            return self.body["input"]
        return [each["content"]["parts"][0]["text"] for each in self.body["requests"]]

    @property
    def count(self) -> int:
        return len(self.texts)

    @property
    def dimension(self) -> int:
        if "input" in self.body:
            return self.body["dimensions"]
        return self.body["requests"][0]["outputDimensionality"]


class Reply:
    """A whole answer with vectors, which kinds of reply spoil."""

    def send(self, handler: Handler, call: Call) -> None:
        vectors = self.spoil([raw_vector(text, call.dimension) for text in call.texts])
        if "input" in call.body:
            items = [
                {"object": "embedding", "index": index, "embedding": vector}
                for index, vector in enumerate(vectors)
            ]
            document = {"object": "list", "data": self.order(items), "model": call.body["model"]}
        else:
            document = {"embeddings": [{"values": vector} for vector in vectors]}
        handler.answer(200, json.dumps(document).encode())

    def spoil(self, vectors: list) -> list:
        return vectors

    def order(self, items: list) -> list:
        return items


class Reversed(Reply):
    def order(self, items):
        return items[::-1]


class Unnumbered(Reply):
    def order(self, items):
        return [{"embedding": item["embedding"]} for item in items]


@dataclass(frozen=True)
class Spoilt(Reply):
    """An answer whose vectors a function changes."""

    change: Callable[[list], list]

    def spoil(self, vectors):
        return self.change(vectors)


@dataclass(frozen=True)
class Status(Reply):
    """An error, explained as both protocols do."""

    status: int
    message: str = "so it goes"
    headers: dict[str, str] = field(default_factory=dict)

    def send(self, handler, call):
        document = {"error": {"message": self.message, "code": self.status}}
        handler.answer(self.status, json.dumps(document).encode(), self.headers)


@dataclass(frozen=True)
class Body(Reply):
    """These bytes, by default with status 200."""

    body: bytes
    status: int = 200

    def send(self, handler, call):
        handler.answer(self.status, self.body)


class Hang(Reply):
    """No answer until the server is closed."""

    def send(self, handler, call):
        handler.server.closing.wait()
        handler.close_connection = True


class Drip(Reply):
    """An answer of which one byte comes at a time, without end."""

    def send(self, handler, call):
        handler.send_response(200)
        handler.send_header("content-length", "1000000")
        handler.end_headers()
        while not handler.server.closing.wait(0.01):
            try:
                handler.wfile.write(b" ")
                handler.wfile.flush()
            except OSError:
                return


class Cut(Reply):
    """A connection that ends in the middle of the body."""

    def send(self, handler, call):
        handler.answer(200, b'{"data": [', {"content-length": "1000"})
        handler.close_connection = True


OK = Reply()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        call = Call(self.path, {k.lower(): v for k, v in self.headers.items()}, body)
        self.server.next_reply(call).send(self, call)

    def answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"content-length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """A client that hung up is what some tests want."""


class EmbeddingServer:
    """The server, from ``with`` to its end."""

    def __init__(self, *script: Reply | Callable[[int], Reply]) -> None:
        self.calls: list[Call] = []
        self._script = script
        self._lock = threading.Lock()
        self._http = _Server(("127.0.0.1", 0), Handler)
        self._http.closing = threading.Event()
        self._http.next_reply = self._next_reply
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,))

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}/v1"

    def environment(self, provider: str = "openai-compatible") -> dict[str, str]:
        """The variables that make this the provider of a process."""
        key = "GEMINI_API_KEY" if provider == "gemini" else "OPENAI_API_KEY"
        return {
            "OMNIGRAPH_EMBED_PROVIDER": provider,
            "OMNIGRAPH_EMBED_BASE_URL": self.base_url,
            "OMNIGRAPH_EMBED_RETRY_BACKOFF_MS": "1",
            key: "key-of-tests",
        }

    def _next_reply(self, call: Call) -> Reply:
        with self._lock:
            number = len(self.calls)
            self.calls.append(call)
        if len(self._script) == 1 and not isinstance(self._script[0], Reply):
            return self._script[0](number)
        return self._script[number] if number < len(self._script) else OK

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_) -> None:
        self._http.closing.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()
