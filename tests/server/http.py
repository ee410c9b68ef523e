"""A client of a server under test, which looks into every answer for what no answer may hold."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast

import httpx2

from omnigraph.server.asgi import ServerApp, create_app
from omnigraph.server.hosts import HostRules, authority_of
from omnigraph.server.limits import ServerLimits
from omnigraph.server.process.serving import DrainTimes, GraphServer, listen
from omnigraph.server.process.transport import ORDINARY_PATIENCE, ConnectionLimits
from omnigraph.server.state import ServedGraph, ServerState
from tests.answers import check_http_answer
from tests.server.running import LONG, UNENCRYPTED

INTERNAL = (b"Traceback (most recent", b'File "/')
"""What only a program that failed says."""


@dataclass
class Answer:
    """The answer to one request."""

    status: int
    headers: dict[str, str]
    content: bytes

    @property
    def text(self) -> str:
        """The body as text."""
        return self.content.decode()

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.content)

    @property
    def error(self) -> tuple[int, str, str | None]:
        """The status, kind and code of an error."""
        body = self.json()
        return self.status, body["kind"], body.get("code")


class Readable(Protocol):
    """What answers are read from."""

    def makefile(self, mode: str) -> Any:
        """Open it for reading."""


class Following:
    """Several answers on one connection; reading one leaves the next."""

    def __init__(self, connection: socket.socket) -> None:
        self._file = connection.makefile("rb")

    def makefile(self, _: str) -> Following:
        """Return this: the file is opened once."""
        return self

    def close(self) -> None:
        """Stay open, for the next answer."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


@dataclass
class Http:
    """Sends requests to a server, and checks every answer for what lies behind it.

    ``hidden`` are texts that no answer may have: the storage address and the spool directory.
    """

    host: str
    port: int
    hidden: list[str] = field(default_factory=list)
    token: str | None = None
    timeout: float = LONG

    @property
    def base(self) -> str:
        """The address of the server."""
        return f"http://{self.host}:{self.port}"

    def as_(self, token: str | None) -> Http:
        """The same server, with another token."""
        return Http(self.host, self.port, self.hidden, token, self.timeout)

    def request(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        content: Any = None,
        headers: dict[str, str] | None = None,
        params: Any = None,
    ) -> Answer:
        """Send one request and return its checked answer."""
        sent = {"authorization": f"Bearer {self.token}"} if self.token else {}
        sent |= headers or {}
        with httpx2.Client(verify=UNENCRYPTED, timeout=self.timeout, trust_env=False) as client:
            answer = client.request(
                method, self.base + path, json=json, content=content, headers=sent, params=params
            )
            found = Answer(answer.status_code, dict(answer.headers.items()), answer.content)
            kind = found.headers.get("content-type")
            check_http_answer(method, path, found.status, kind, found.content)
            return self.checked(found)

    def get(self, path: str, **more: Any) -> Answer:
        """Send a GET."""
        return self.request("GET", path, **more)

    def post(self, path: str, json: Any = None, **more: Any) -> Answer:
        """Send a POST."""
        return self.request("POST", path, json=json, **more)

    @contextmanager
    def stream(self, method: str, path: str, **more: Any) -> Iterator[httpx2.Response]:
        """Send a request and read its answer as it comes; pieces are for the caller to check."""
        sent = {"authorization": f"Bearer {self.token}"} if self.token else {}
        sent |= more.pop("headers", {})
        with (
            httpx2.Client(verify=UNENCRYPTED, timeout=self.timeout, trust_env=False) as client,
            client.stream(method, self.base + path, headers=sent, **more) as answer,
        ):
            yield answer

    @contextmanager
    def connected(self) -> Iterator[socket.socket]:
        """A connection, for requests that no library would send."""
        with socket.create_connection((self.host, self.port), timeout=self.timeout) as connection:
            yield connection

    def raw(self, request: bytes) -> Answer:
        """Send bytes, and read one answer until the connection is closed or its length is there."""
        with self.connected() as connection:
            connection.sendall(request)
            return self.read(connection, method=request.split(b" ", 1)[0].decode("latin-1"))

    def read(self, connection: Readable, method: str = "GET") -> Answer:
        """Read one answer from a connection."""
        import http.client

        answer = http.client.HTTPResponse(cast("socket.socket", connection), method=method)
        answer.begin()
        headers = {name.lower(): value for name, value in answer.getheaders()}
        return self.checked(Answer(answer.status, headers, answer.read()))

    def checked(self, answer: Answer) -> Answer:
        """Look for what no answer may hold."""
        told = answer.content + "\n".join(answer.headers.values()).encode("latin-1", "replace")
        for text in self.hidden:
            assert text.encode() not in told, f"an answer tells of {text}: {told[:2000]!r}"
        for mark in INTERNAL:
            assert mark not in told, f"an answer tells of the inside: {told[:2000]!r}"
        assert "x-request-id" in answer.headers or answer.headers.get(
            "content-type", ""
        ).startswith("text/plain"), answer.headers
        assert "server" not in answer.headers
        assert not [name for name in answer.headers if name.startswith("access-control")]
        if answer.status >= 500 and answer.headers.get("content-type") == "application/json":
            body = answer.json()
            assert body.get("status") == "draining" or body["error"].startswith(
                ("internal error; request ", "the server is ending")
            ), body
        return answer


def server_state(
    graphs: dict[str, Any],
    spool: Path,
    *,
    verifier: Any = None,
    policy: Any = None,
    hosts: HostRules | None = None,
    **limits: int,
) -> ServerState:
    """The state of a server of open graphs, with the rules of a loopback address."""
    from omnigraph.graph.session import access_of

    served = {
        name: ServedGraph(name, graph, access_of(graph).state.gate.mode)
        for name, graph in graphs.items()
    }
    spool.mkdir(exist_ok=True)
    return ServerState(
        graphs=served,
        limits=ServerLimits(**limits),
        hosts=hosts or HostRules(authority_of("127.0.0.1", 0)),
        spool_directory=spool,
        verifier=verifier,
        policy=policy,
    )


@dataclass
class Threaded:
    """A server in a thread of the test, so that the test can look inside."""

    app: ServerApp
    state: ServerState
    http: Http
    server: GraphServer

    @property
    def spooled(self) -> list[Path]:
        """The files of bodies that are there."""
        return sorted(self.state.spool_directory.iterdir())


@contextmanager
def threaded(
    state: ServerState, token: str | None = None, patience: ConnectionLimits = ORDINARY_PATIENCE
) -> Iterator[Threaded]:
    """Serve a state on a free port, in a thread, with the web server that ships."""
    app = create_app(state)
    server = GraphServer(app, state, app.engine.lanes, DrainTimes(timeout=0), patience)
    started = threading.Event()
    listening = listen("127.0.0.1", 0)
    address = listening.getsockname()
    thread = threading.Thread(target=server.run_on, args=(listening, started.set), daemon=True)
    thread.start()
    hidden = [str(state.spool_directory), *(served.graph.uri for served in state.graphs.values())]
    try:
        assert started.wait(LONG)
        yield Threaded(app, state, Http("127.0.0.1", address[1], hidden, token), server)
    finally:
        server.drain()
        thread.join(LONG)
        assert not thread.is_alive(), "the server does not end"
