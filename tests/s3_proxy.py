"""An HTTP proxy on 127.0.0.1 that passes requests on to the S3 server, and fails as networks do.

A fault is chosen for each request by its number and what it asks for::

    with FaultProxy(server.endpoint) as proxy:
        proxy.choose = lambda request: Fault.RESET_AFTER if request.writes else None
"""

from __future__ import annotations

import enum
import http.client
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import urlsplit

# A reply is sent in this many pieces, this many seconds apart.
SLOW_PIECES, SLOW_PAUSE = 4, 0.05
HANG_SECONDS = 60.0
"""How long an unanswered request is kept at most, should a test forget to end its proxy."""


class Fault(enum.StrEnum):
    """What becomes of a request."""

    ERROR_500 = "500"
    """Refused by a failing server; not done."""
    ERROR_503 = "503"
    """Refused by a busy server; not done."""
    RESET_BEFORE = "reset before"
    """The connection is reset before the request is passed on; not done."""
    RESET_AFTER = "reset after"
    """Done, and then the connection is reset instead of an answer."""
    ERROR_AFTER = "500 after"
    """Done, and answered with an error all the same."""
    SLOW = "slow"
    """Done, and answered a little at a time."""
    HANG = "hang"
    """Done, and never answered."""

    @property
    def is_done(self) -> bool:
        """Whether the store does what the request asks for."""
        return self in {Fault.RESET_AFTER, Fault.ERROR_AFTER, Fault.SLOW, Fault.HANG}


@dataclass(frozen=True)
class Request:
    """One request, as a fault is chosen for it."""

    number: int
    """How many of its kind (writing or reading) came before it since the proxy was asked to count."""
    method: str
    target: str

    @property
    def writes(self) -> bool:
        return self.method not in {"GET", "HEAD"}

    def __str__(self) -> str:
        return f"{self.method} {self.target}"


Choose = Callable[[Request], Fault | None]


class FaultProxy:
    """A proxy before one server. ``choose`` decides what becomes of a request; None passes it on."""

    def __init__(self, upstream: str) -> None:
        self.choose: Choose | None = None
        self.seen: list[Request] = []
        self.failed: list[tuple[Request, Fault]] = []
        self.ended = threading.Event()
        self._numbers = {True: 0, False: 0}
        self._guard = threading.Lock()
        address = urlsplit(upstream)
        assert address.hostname is not None
        assert address.port is not None
        self._upstream = (address.hostname, address.port)
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.proxy = self
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def count_from_here(self, choose: Choose | None = None) -> None:
        """Forget the requests so far, and fail the next ones as ``choose`` says."""
        with self._guard:
            self.seen, self.failed = [], []
            self._numbers = {True: 0, False: 0}
            self.choose = choose

    def decide(self, method: str, target: str) -> Fault | None:
        """Count a request and say what becomes of it."""
        writes = method not in {"GET", "HEAD"}
        with self._guard:
            request = Request(self._numbers[writes], method, target)
            self._numbers[writes] += 1
            self.seen.append(request)
            fault = None if self.choose is None else self.choose(request)
            if fault is not None:
                self.failed.append((request, fault))
        return fault

    def pass_on(self, method: str, target: str, headers: Any, body: bytes) -> _Reply:
        """Ask the server; return its whole answer."""
        connection = http.client.HTTPConnection(*self._upstream)
        try:
            connection.request(method, target, body, headers)
            answer = connection.getresponse()
            return _Reply(answer.status, answer.getheaders(), answer.read())
        finally:
            connection.close()


@dataclass(frozen=True)
class _Reply:
    status: int
    headers: list[tuple[str, str]]
    body: bytes


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    proxy: FaultProxy

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hung up is no news here."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # A reply is sent in two parts; the second would wait for the client to acknowledge the first.
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, *_: Any) -> None:
        """Nothing is printed."""

    def _handle(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = self.server.proxy.decide(self.command, self.path)
        if fault is Fault.RESET_BEFORE:
            self._reset()
        elif fault in {Fault.ERROR_500, Fault.ERROR_503}:
            self._send(_Reply(int(fault), [], b""))
        else:
            reply = self.server.proxy.pass_on(self.command, self.path, dict(self.headers), body)
            self._answer(reply, fault)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _handle  # noqa: N815

    def _answer(self, reply: _Reply, fault: Fault | None) -> None:
        if fault is Fault.HANG:
            self.server.proxy.ended.wait(HANG_SECONDS)
            self._reset()
        elif fault is Fault.RESET_AFTER:
            self._reset()
        elif fault is Fault.ERROR_AFTER:
            self._send(_Reply(500, [], b""))
        else:
            self._send(reply, SLOW_PIECES if fault is Fault.SLOW else 1)

    def _send(self, reply: _Reply, pieces: int = 1) -> None:
        self.send_response_only(reply.status)
        length = str(len(reply.body))
        for name, value in reply.headers:
            if name.lower() == "content-length":
                length = value  # of what a HEAD request asks about, which has no body
            elif name.lower() not in {"connection", "transfer-encoding"}:
                self.send_header(name, value)
        self.send_header("Content-Length", length)
        self.end_headers()
        size = max(1, -(-len(reply.body) // pieces))
        for start in range(0, len(reply.body), size):
            if pieces > 1:
                time.sleep(SLOW_PAUSE)
            self.wfile.write(reply.body[start : start + size])

    def _reset(self) -> None:
        """Close the connection so that the client sees it broken, and not ended in good order."""
        self.close_connection = True
        linger = struct.pack("ii", 1, 0)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.connection.close()
