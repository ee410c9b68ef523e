"""Connections: heads, hosts, framing, slow clients, requests behind requests, and how connections end.

Everything runs over real sockets against the web server that ships, with an application of a few lines.
"""

from __future__ import annotations

import asyncio
import json
import re
import select
import socket
import threading
import time
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from omnigraph.server.handling.sending import AT_ONCE
from omnigraph.server.process.transport import ConnectionLimits, CountedTransport
from tests.server.running import LONG, Served, in_thread

QUICK = ConnectionLimits(
    head_seconds=0.4, pace_seconds=0.6, bytes_per_second=500, idle_seconds=0.4, linger_seconds=0.4
)
"""So little that a test need not wait: for clients who are closed, however late they are."""
PACED = ConnectionLimits(
    head_seconds=100 * LONG,
    pace_seconds=LONG,
    bytes_per_second=6,
    idle_seconds=100 * LONG,
    linger_seconds=0.4,
)
"""More than any machine loses: here time passes when the test says so (`Served.pass_time`)."""

PIECE = b"x" * 65_536


@dataclass
class App:
    """An application that does what the path says, and notes what it saw."""

    scopes: list[dict[str, Any]] = field(default_factory=list)
    gone: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    begun: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    go_on: threading.Event = field(default_factory=threading.Event)
    sent: int = 0
    at_once: bool = False

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Answer as the path says."""
        self.scopes.append(scope)
        self.begun.release()
        does: Callable[..., Any] = getattr(self, scope["path"].strip("/") or "echo")
        await does(scope, receive, send)

    async def echo(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Read the whole body, and say how long it is."""
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.gone.release()
                return
            size += len(message["body"])
            if not message["more_body"]:
                break
        await self.answer(scope, send, 200, f"{size}".encode())

    async def early(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Answer without a look at the body."""
        await self.answer(scope, send, 413, b"too much")

    async def held(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Wait until the test says so, looking whether the client is there; then answer."""
        watching = asyncio.create_task(self._watch(receive))
        allowed = asyncio.create_task(asyncio.to_thread(self.go_on.wait))
        await asyncio.wait({watching, allowed}, return_when=asyncio.FIRST_COMPLETED)
        if watching.done():
            self.gone.release()
            return
        watching.cancel()
        await self.answer(scope, send, 200, b"held")

    async def _watch(self, receive: Any) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    async def later(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Wait until the test says so before looking at the body."""
        await asyncio.to_thread(self.go_on.wait)
        await self.echo(scope, receive, send)

    async def stream(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Send pieces until the client has gone."""
        await send({"type": "http.response.start", "status": 200, "headers": []})
        watching = asyncio.create_task(self._watch(receive))
        while not watching.done():
            sending = asyncio.create_task(
                send({"type": "http.response.body", "body": PIECE, "more_body": True})
            )
            await asyncio.wait({sending, watching}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                self.sent += len(PIECE)
        self.gone.release()

    async def megabyte(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Answer with many bytes at once."""
        await self.answer(scope, send, 200, b"y" * (16 << 20))

    async def broken(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Begin to answer, and fail."""
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})

    async def answer(self, scope: dict[str, Any], send: Any, status: int, body: bytes) -> None:
        """Send a whole answer, in one of the two ways there are."""
        headers = [(b"content-length", str(len(body)).encode())]
        if self.at_once and scope["extensions"][AT_ONCE](status, headers, body):
            return
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


@dataclass
class Reply:
    """One answer as it stood on the wire."""

    status: int
    headers: dict[str, str]
    body: bytes


class Client:
    """A connection, and what came back over it."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.buffer = b""

    def send(self, *parts: bytes) -> None:
        """Send bytes."""
        self.socket.sendall(b"".join(parts))

    def dribble(self) -> None:
        """Send a byte now and then until the connection is closed; fail if it never is."""
        for _ in range(20 * LONG):
            if select.select([self.socket], [], [], 0.05)[0] and self.is_closed():
                return
            self.send(b"a")
        pytest.fail("the connection was not closed")

    def flood(self, request: bytes) -> None:
        """Send a request again and again; fail when nobody takes it for a second."""
        self.socket.settimeout(1)
        try:
            while True:
                self.send(request)
        finally:
            self.socket.settimeout(LONG)

    def reply(self) -> Reply:
        """Read one answer with a length."""
        while b"\r\n\r\n" not in self.buffer:
            self._more()
        head, _, self.buffer = self.buffer.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {
            name.lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)
        }
        status = int(first.split()[1])
        if status == 100:
            return Reply(status, headers, b"")
        length = int(headers["content-length"])
        while len(self.buffer) < length:
            self._more()
        body, self.buffer = self.buffer[:length], self.buffer[length:]
        return Reply(status, headers, body)

    def is_closed(self) -> bool:
        """Wait for the end of the connection; whatever else comes first is no end."""
        try:
            return not self.buffer and self.socket.recv(1) == b""
        except ConnectionError:
            return True

    def is_open(self) -> bool:
        """Whether nothing has come and nothing has ended."""
        return not self.buffer and not select.select([self.socket], [], [], 0)[0]

    def rest(self) -> bytes:
        """Everything until the end of the connection."""
        try:
            while piece := self.socket.recv(1 << 20):
                self.buffer += piece
        except ConnectionError:
            pass
        return self.buffer

    def _more(self) -> None:
        piece = self.socket.recv(65_536)
        assert piece, f"the connection ended after {self.buffer!r}"
        self.buffer += piece


@pytest.fixture(params=[False, True], ids=["in messages", "at once"])
def app(request: pytest.FixtureRequest):
    made = App(at_once=request.param)
    yield made
    made.go_on.set()


@pytest.fixture
def served(app):
    with in_thread(app) as server:
        yield server
        app.go_on.set()


@pytest.fixture
def quick(app):
    with in_thread(app, patience=QUICK) as server:
        yield server
        app.go_on.set()


@pytest.fixture
def patient(app):
    """A server that looks at the pace of bytes alone."""
    with in_thread(app, patience=PACED) as server:
        yield server
        app.go_on.set()


@pytest.fixture
def slow(patient):
    """A client of such a server."""
    with patient.connect() as connection:
        yield Client(connection)


@pytest.fixture
def client(served):
    with served.connect() as connection:
        yield Client(connection)


@pytest.fixture
def hasty(quick):
    """A client of a server with little patience."""
    with quick.connect() as connection:
        yield Client(connection)


def get(path: str = "/echo", *fields: str) -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: localhost", *fields, "", ""]).encode()


def post(path: str, body: bytes, *fields: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}", *fields]
    return "\r\n".join([*lines, "", ""]).encode() + body


def chunked(path: str, *after: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", "Transfer-Encoding: chunked", "", ""]
    return "\r\n".join(lines).encode() + "\r\n".join(["3", "abc", "0", *after, "", ""]).encode()


def head_of(size: int) -> bytes:
    """A head of so many bytes."""
    empty = get("/echo", "X-Long: ")
    return get("/echo", "X-Long: " + "a" * (size - len(empty)))


def pass_time_until(served: Served, happens: Callable[[], bool]) -> None:
    """Let time pass until something happens; fail if it does not."""
    for _ in range(1000):
        if happens():
            return
        served.pass_time(PACED.pace_seconds / 20)
        time.sleep(0.002)  # for what the system does with the bytes
    pytest.fail("it did not happen")


class TestHeads:
    def test_the_largest_head_is_taken(self, client):
        client.send(head_of(32_768))
        assert client.reply().status == 200
        client.send(head_of(32_768))
        assert client.reply().status == 200

    def test_one_byte_more_is_too_large(self, client, app):
        client.send(head_of(32_769))
        reply = client.reply()
        assert reply.status == 431
        body = json.loads(reply.body)
        assert (body["kind"], body["code"]) == ("head_too_large", "bad_request")
        assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", reply.headers["x-request-id"])
        assert reply.headers["connection"] == "close"
        assert client.is_closed()
        assert app.scopes == []

    @pytest.mark.parametrize("where", ["path", "field", "name", "fields"])
    def test_wherever_it_is_large(self, client, app, where):
        long = "a" * 40_000
        requests = {
            "path": get("/" + long),
            "field": get("/echo", f"X: {long}"),
            "name": get("/echo", f"{long}: x"),
            "fields": get("/echo", *[f"X-{number}: x" for number in range(5_000)]),
        }
        client.send(requests[where])
        assert client.reply().status == 431
        assert app.scopes == []

    def test_a_large_head_behind_another_request(self, client, app):
        """It comes in the same piece, so the parser has it before it was counted."""
        client.send(get("/echo"), head_of(60_000))
        assert [client.reply().status, client.reply().status] == [200, 431]
        assert len(app.scopes) == 1
        assert client.is_closed()

    def test_twenty_megabytes_take_no_memory(self, served, app):
        piece = b"a" * 65_536
        tracemalloc.start()
        try:
            with served.connect() as connection:
                client = Client(connection)
                client.send(b"GET /echo HTTP/1.1\r\nHost: x\r\nX-Long: ")
                for _ in range(320):
                    client.send(piece)
                assert client.reply().status == 431
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 4 << 20
        assert app.scopes == []

    @pytest.mark.parametrize("begun", [b"G", b"GET / HTTP/1.1\r\nHost: x\r\n", b"\r\n\r\n"])
    def test_one_that_never_ends_is_closed(self, hasty, begun, app):
        hasty.send(begun)
        assert hasty.is_closed()
        assert app.scopes == []

    def test_also_if_a_byte_comes_now_and_then(self, hasty, app):
        hasty.send(b"GET / HTTP/1.1\r\nHost: x\r\nX: ")
        with suppress(ConnectionError):
            hasty.dribble()
        assert app.scopes == []

    def test_a_second_one_that_never_ends(self, app):
        """Its bytes come with the first, and would else have the time of an idle connection."""
        patience = replace(QUICK, idle_seconds=LONG)
        with in_thread(app, patience=patience) as served, served.connect() as connection:
            client = Client(connection)
            client.send(get("/echo"), b"GET /ec")
            assert client.reply().status == 200
            connection.settimeout(LONG / 4)
            assert client.is_closed()

    def test_while_another_request_is_answered_it_may_wait(self, app):
        """Its time begins with that answer: here the answer comes when most of a turn is over."""
        patience = replace(PACED, head_seconds=LONG)
        with in_thread(app, patience=patience) as served, served.connect() as connection:
            client = Client(connection)
            client.send(get("/held"), b"GET /ec")
            app.begun.acquire()
            served.pass_time(patience.head_seconds)
            served.pass_time(patience.head_seconds * 0.8)
            app.go_on.set()
            assert client.reply().body == b"held"
            served.pass_time(patience.head_seconds * 0.4)
            client.send(b"ho HTTP/1.1\r\nHost: x\r\n\r\n")
            assert client.reply().status == 200
            client.send(b"GET /ec")
            served.pass_time(patience.head_seconds * 0.4)
            assert client.is_open()
            served.pass_time(patience.head_seconds * 0.7)
            assert client.is_closed()


FAULTY = {
    "no host": b"GET /echo HTTP/1.1\r\n\r\n",
    "no host, version 1.0": b"GET /echo HTTP/1.0\r\n\r\n",
    "two hosts": get("/echo", "Host: evil.example"),
    "the same host twice": get("/echo", "host: localhost"),
    "a preface of version 2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "version 2": b"GET /echo HTTP/2.0\r\nHost: x\r\n\r\n",
    "version 0.9": b"GET /echo\r\n\r\n",
    "version 1.2": b"GET /echo HTTP/1.2\r\nHost: x\r\n\r\n",
    "length beside encoding": chunked("/echo").replace(b"Host", b"Content-Length: 3\r\nHost"),
    "two lengths": post("/echo", b"abc", "Content-Length: 3"),
    "two other lengths": post("/echo", b"abc", "Content-Length: 4"),
    "a length that is none": b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    "a signed length": b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: +3\r\n\r\nabc",
    "encoding not last": b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, gzip\r\n\r\n",
    "bare line feeds": b"GET /echo HTTP/1.1\nHost: x\n\n",
    "a folded field": get("/echo", "X: a", " b"),
    "a blank before the colon": get("/echo", "X : a"),
    "a NUL in a field": get("/echo", "X: a\0b"),
    "a whole address": b"GET http://evil.example/echo HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a star": b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a tunnel": b"CONNECT evil.example:443 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a path of bytes": b"GET /\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "no HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"a" * 500,
    "an unknown method": b"FROBNICATE /echo HTTP/1.1\r\nHost: localhost\r\n\r\n",
}


class TestFaults:
    @pytest.mark.parametrize("request_bytes", FAULTY.values(), ids=FAULTY)
    def test_are_answered_in_plain_words_and_closed(self, client, app, request_bytes):
        client.send(request_bytes)
        reply = client.reply()
        assert (reply.status, reply.headers["content-type"]) == (400, "text/plain; charset=utf-8")
        assert "server" not in reply.headers
        assert client.is_closed()
        assert app.scopes == []

    @pytest.mark.parametrize(
        "body",
        [b"zz\r\n", b"3\r\nabcd\r\n", b"ffffffffffffffffff\r\n", b"3 x\r\nabc\r\n"],
        ids=["no size", "too long", "size without end", "words after the size"],
    )
    def test_a_fault_in_the_body_ends_its_request(self, client, app, body):
        begin = b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        client.send(begin)
        app.begun.acquire()
        client.send(body)
        assert client.reply().status == 400
        assert client.is_closed()
        assert app.gone.acquire(timeout=LONG)

    def test_a_fault_while_the_answer_is_sent_breaks_it_off(self, client, app):
        begin = b"POST /stream HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        client.send(begin)
        client._more()
        client.send(b"zz\r\n")
        assert app.gone.acquire(timeout=LONG)
        assert not client.rest().endswith(b"0\r\n\r\n")
        assert b"HTTP/1.1 400" not in client.buffer

    def test_behind_a_request_it_is_told_after_the_answer(self, client, app):
        client.send(get("/held"), b"GARBAGE\r\n\r\n")
        app.begun.acquire()
        assert client.is_open()
        app.go_on.set()
        assert [client.reply().body, client.reply().status] == [b"held", 400]
        assert client.is_closed()


class TestFieldsAfterTheBody:
    def test_are_dropped(self, client, app):
        client.send(chunked("/echo", "Authorization: Bearer stolen", "Host: evil.example"))
        assert client.reply().body == b"3"
        client.send(get("/echo"))
        assert client.reply().status == 200
        for scope in app.scopes:
            names = [name for name, _ in scope["headers"]]
            assert b"authorization" not in names
            assert names.count(b"host") == 1

    @pytest.mark.parametrize("begin", [b"0\r\nX: ", b"3;x="], ids=["field", "chunk extension"])
    def test_without_end_they_are_refused(self, client, begin):
        client.send(b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", begin)
        for _ in range(64):
            client.send(b"a" * 16_384)
        assert client.reply().status == 400
        assert client.is_closed()


class TestSlowClients:
    def test_one_who_says_nothing_is_closed(self, hasty):
        assert hasty.is_closed()

    def test_also_after_an_answer(self, app):
        patience = replace(PACED, idle_seconds=LONG)
        with in_thread(app, patience=patience) as served, served.connect() as connection:
            client = Client(connection)
            for _ in range(2):
                served.pass_time(patience.idle_seconds * 0.7)
                client.send(get("/echo"))
                assert client.reply().status == 200
            served.pass_time(patience.idle_seconds * 0.7)
            assert client.is_open()
            served.pass_time(patience.idle_seconds * 0.4)
            assert client.is_closed()

    def test_by_default_they_wait_longer_than_balancers(self):
        assert ConnectionLimits() == ConnectionLimits(
            head_bytes=32_768,
            head_seconds=10,
            pace_seconds=30,
            bytes_per_second=1024,
            idle_seconds=75,
        )

    def test_a_body_that_hardly_comes_is_cut_and_the_request_told(self, patient, slow, app):
        slow.send(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n")
        with suppress(ConnectionError):
            for _ in range(60):
                slow.send(b"a")
                patient.pass_time(PACED.pace_seconds / 20)
        assert slow.is_closed()
        assert app.gone.acquire(timeout=LONG)

    def test_a_body_that_stops_is_cut(self, patient, slow, app):
        slow.send(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n", PIECE)
        app.begun.acquire()
        patient.pass_time(PACED.pace_seconds * 3, steps=30)
        assert slow.is_closed()
        assert app.gone.acquire(timeout=LONG)

    def test_a_body_that_comes_slowly_is_taken(self, patient, slow):
        """For several times the time that counts, and ten times the speed that must be."""
        pieces = 60
        slow.send(
            f"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: {pieces * 400}\r\n\r\n".encode()
        )
        for _ in range(pieces):
            slow.send(b"a" * 400)
            patient.pass_time(PACED.pace_seconds / 20)
        assert slow.reply().body == str(pieces * 400).encode()

    def test_an_answer_that_nobody_takes_is_cut_and_its_producer_told(self, patient, slow, app):
        slow.send(get("/stream"))
        pass_time_until(patient, lambda: app.gone.acquire(timeout=0.01))
        assert app.sent < 64 << 20
        assert not slow.rest().endswith(b"0\r\n\r\n")

    def test_a_whole_answer_that_nobody_takes(self, patient, app):
        with patient.connect() as connection:
            connection.sendall(get("/megabyte"))
            app.begun.acquire()
            pass_time_until(patient, lambda: not patient.server.server_state.connections)

    def test_an_answer_that_is_taken_slowly_is_sent(self, patient):
        with patient.connect() as connection:
            connection.sendall(get("/megabyte"))
            size = 0
            while size < 16 << 20:
                size += len(connection.recv(200_000))
                patient.pass_time(PACED.pace_seconds / 40)
        assert size >= 16 << 20

    def test_a_request_that_computes_is_not_slow(self, patient, slow, app):
        slow.send(get("/held"))
        app.begun.acquire()
        patient.pass_time(PACED.pace_seconds * 3, steps=30)
        app.go_on.set()
        assert slow.reply().body == b"held"

    def test_a_body_that_we_do_not_take_is_not_slow(self, patient, slow, app):
        sender = threading.Thread(target=slow.send, args=[post("/later", b"z" * (8 << 20))])
        sender.start()
        app.begun.acquire()
        (protocol,) = patient.server.server_state.connections
        while not protocol.flow.read_paused:
            time.sleep(0.001)
        patient.pass_time(PACED.pace_seconds * 3, steps=30)
        app.go_on.set()
        assert slow.reply().body == str(8 << 20).encode()
        sender.join()

    def test_a_body_that_we_did_not_ask_for_yet_is_not_slow(self, patient, slow, app):
        whole = post("/later", b"abc", "Expect: 100-continue")
        slow.send(whole[:-3])
        app.begun.acquire()
        patient.pass_time(PACED.pace_seconds * 3, steps=30)
        assert slow.is_open()
        app.go_on.set()
        assert slow.reply().status == 100
        slow.send(b"abc")
        assert slow.reply().body == b"3"


class TestRequestsBehindRequests:
    def test_are_answered_in_their_order(self, client, app):
        client.send(post("/echo", b"a"), get("/held"), post("/echo", b"abc"))
        assert client.reply().body == b"1"
        app.go_on.set()
        assert [client.reply().body, client.reply().body] == [b"held", b"3"]

    @pytest.mark.parametrize("together", [True, False])
    def test_a_client_that_goes_away_is_noticed_by_the_first(self, served, app, together):
        with served.connect() as connection:
            connection.sendall(get("/held") + (get("/echo") if together else b""))
            app.begun.acquire()
            if not together:
                connection.sendall(get("/echo"))
                (protocol,) = served.server.server_state.connections
                while not protocol.pipeline:
                    time.sleep(0.01)
        assert app.gone.acquire(timeout=LONG)
        assert [scope["path"] for scope in app.scopes] == ["/held"]

    def test_without_end_they_are_not_read(self, served, app):
        with served.connect() as connection:
            connection.sendall(get("/held"))
            app.begun.acquire()
            client = Client(connection)
            with pytest.raises(TimeoutError):
                client.flood(post("/echo", b"b" * 500) * 100)
            (protocol,) = served.server.server_state.connections
            assert len(protocol.pipeline) < 2_000
            app.go_on.set()
            assert client.reply().body == b"held"
            assert [client.reply().body for _ in range(100)] == [b"500"] * 100


class TestAnswersBeforeTheBody:
    def test_the_rest_is_dropped_and_the_connection_used_again(self, client):
        client.send(post("/early", b"z" * (2 << 20)))
        assert client.reply().status == 413
        client.send(get("/echo"))
        assert client.reply().status == 200

    @pytest.mark.parametrize("version", ["1.0", "1.1"])
    def test_who_closes_still_gets_the_answer(self, client, version):
        """Closed at once, the rest of the body would reset the connection under the answer."""
        body = post("/early", b"z" * (8 << 20), "Connection: close")
        client.send(body.replace(b"HTTP/1.1", f"HTTP/{version}".encode(), 1))
        reply = client.reply()
        assert (reply.status, reply.headers["connection"]) == (413, "close")

    def test_a_body_that_never_comes_is_awaited_a_little(self, slow):
        slow.send(b"POST /early HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\nabc")
        assert slow.reply().status == 413
        with suppress(ConnectionError):
            slow.dribble()

    def test_who_was_not_told_to_go_on_begins_anew(self, client):
        client.send(post("/early", b"abc", "Expect: 100-continue")[:-3])
        reply = client.reply()
        assert (reply.status, reply.headers["connection"]) == (413, "close")
        assert client.is_closed()

    def test_who_was_told_may_stay(self, client):
        client.send(post("/echo", b"abc", "Expect: 100-continue")[:-3])
        assert client.reply().status == 100
        client.send(b"abc")
        assert client.reply().body == b"3"
        client.send(get("/echo"))
        assert client.reply().status == 200


class TestAnswers:
    def test_a_whole_one_is_one_write(self, client, app, monkeypatch):
        written = []
        write = CountedTransport.write

        def noted(self: CountedTransport, data: bytes) -> None:
            written.append(data)
            write(self, data)

        monkeypatch.setattr(CountedTransport, "write", noted)
        client.send(post("/echo", b"abc"))
        assert client.reply().body == b"3"
        assert len(written) == (1 if app.at_once else 2)

    def test_no_header_breaks_out_of_its_line(self):
        async def hostile(scope: dict[str, Any], receive: Any, send: Any) -> None:
            headers = [(b"x-mine", b"a\r\nx-foreign: b"), (b"content-length", b"0")]
            assert not scope["extensions"][AT_ONCE](200, headers, b"")
            await send({"type": "http.response.start", "status": 200, "headers": headers})

        with in_thread(hostile) as server, server.connect() as connection:
            client = Client(connection)
            client.send(get())
            assert client.rest() == b""

    def test_say_nothing_of_the_web_server(self, client):
        client.send(get("/echo"))
        headers = client.reply().headers
        assert "server" not in headers
        assert "date" in headers

    @pytest.mark.parametrize("protocol", ["websocket", "h2c"])
    def test_another_protocol_is_not_spoken(self, client, app, protocol):
        client.send(
            get(
                "/echo",
                "Connection: Upgrade",
                f"Upgrade: {protocol}",
                "Sec-WebSocket-Version: 13",
                "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
            )
        )
        reply = client.reply()
        assert (reply.status, reply.headers["connection"]) == (200, "close")
        assert client.is_closed()
        assert [scope["type"] for scope in app.scopes] == ["http"]

    def test_an_old_client_gets_one_answer(self, client):
        client.send(b"GET /echo HTTP/1.0\r\nHost: x\r\n\r\n")
        assert client.reply().status == 200
        assert client.is_closed()

    def test_one_that_fails_has_no_end(self, client):
        client.send(get("/broken"))
        assert client.rest().endswith(b"4\r\nhalf\r\n")

    def test_a_proxy_changes_nothing_of_the_scope(self, client, app):
        client.send(get("/echo", "X-Forwarded-For: 10.9.9.9", "X-Forwarded-Proto: https"))
        client.reply()
        (scope,) = app.scopes
        assert (scope["client"][0], scope["scheme"]) == ("127.0.0.1", "http")
