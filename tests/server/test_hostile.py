"""Requests of people who mean no good, over real sockets: each has its answer, and the server goes on."""

from __future__ import annotations

import gzip
import json
import select
import socket
from collections.abc import Iterator

import pytest

import omnigraph as og
from omnigraph.policy import Decision, Question
from omnigraph.server.process.transport import ConnectionLimits
from omnigraph.server.tokens import TokenTable
from tests.memory import needs_proc, peak_of
from tests.server.http import Following, Threaded, server_state, threaded
from tests.server.running import LONG, pass_time
from tests.server.small import ALL, TOKENS, make_graph

TOKEN = f"Authorization: Bearer {TOKENS['ada']}\r\n"
BRANCHES = "/graphs/default/branches"
QUERY = "/graphs/default/query"
PATIENT = ConnectionLimits(head_seconds=10 * LONG, pace_seconds=10 * LONG, linger_seconds=10 * LONG)
"""More than any machine loses: here time passes when the test says so."""
LINES = "/graphs/default/load/ndjson"


class Mains:
    """A policy that lets Ada do all on `main` but nothing on `side`, and Bob nothing."""

    def check(self, question: Question) -> Decision:
        """Decide by actor and branch."""
        named = {question.branch, question.target} - {None}
        return Decision(question.actor == "ada" and named <= {"main"}, "r", "only main")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Threaded]:
    place = tmp_path_factory.mktemp("hostile")
    with make_graph(place / "g.omni", policy=Mains()) as graph:
        owner = og.open(graph.uri)
        owner.mutate('query q() { insert Person { name: "aside" } }', branch="side")
        owner.tags.create("hidden", at="side")
        state = server_state(
            {"default": graph}, place / "spool", verifier=TokenTable(TOKENS), load_body_max_mb=4
        )
        with threaded(state, TOKENS["ada"], PATIENT) as server:
            yield server
            assert server.spooled == []
            assert server.app.engine.writers.running == 0
            assert server.app.engine.reads.running == 0


def head(method: str, target: str, *lines: str, token: bool = True) -> bytes:
    """The head of a request."""
    first = f"{method} {target} HTTP/1.1\r\nHost: localhost\r\n{TOKEN if token else ''}"
    return (first + "".join(f"{line}\r\n" for line in lines) + "\r\n").encode("latin-1")


def posted(target: str, body: bytes, *lines: str, kind: str = "application/json") -> bytes:
    """A request with a body."""
    return (
        head("POST", target, f"Content-Type: {kind}", f"Content-Length: {len(body)}", *lines) + body
    )


def asked(body: bytes) -> bytes:
    return posted(QUERY, body)


def chunked(
    target: str, *parts: bytes, kind: str = "application/json", end: bytes = b"0\r\n\r\n"
) -> bytes:
    """A request whose body comes without a length."""
    body = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)
    return head("POST", target, f"Content-Type: {kind}", "Transfer-Encoding: chunked") + body + end


def query(**more: object) -> bytes:
    return asked(json.dumps({"query": ALL, **more}).encode())


CASES: dict[str, tuple[bytes, int, str | None]] = {
    # who asks
    "no token": (head("GET", BRANCHES, token=False), 401, "unauthenticated"),
    "a wrong token": (
        head("GET", BRANCHES, "Authorization: Bearer x", token=False),
        401,
        "unauthenticated",
    ),
    "two tokens": (head("GET", BRANCHES, TOKEN.strip()), 401, "unauthenticated"),
    "bearer without one": (
        head("GET", BRANCHES, "Authorization: Bearer", token=False),
        401,
        "unauthenticated",
    ),
    "a token in the query": (
        head("GET", f"{BRANCHES}?token=x", token=False),
        401,
        "unauthenticated",
    ),
    "a token of broken bytes": (
        head("GET", BRANCHES, "Authorization: Bearer \xff\xfe", token=False),
        401,
        "unauthenticated",
    ),
    "a token of another actor": (
        head("GET", BRANCHES, f"Authorization: Bearer {TOKENS['bob']}", token=False),
        403,
        "policy_denied",
    ),
    # names
    "a space in an id": (head("GET", "/graphs/de%20fault/branches"), 400, "bad_request"),
    "a NUL in an id": (head("GET", "/graphs/default%00/branches"), 400, "bad_request"),
    "a slash in an id": (head("GET", "/graphs/a%2Fb/branches"), 400, "bad_request"),
    "dots for an id": (head("GET", "/graphs/../branches"), 400, "bad_request"),
    "packed dots for an id": (head("GET", "/graphs/%2e%2e/branches"), 400, "bad_request"),
    "a long id": (head("GET", f"/graphs/{'a' * 20_000}/branches"), 400, "bad_request"),
    "broken UTF-8 in an id": (head("GET", "/graphs/%ff/branches"), 400, "bad_request"),
    "an unknown id": (head("GET", "/graphs/other/branches"), 404, "graph_not_found"),
    "broken UTF-8 in a branch": (head("DELETE", f"{BRANCHES}/%c3"), 400, "bad_request"),
    "a NUL in a branch": (head("DELETE", f"{BRANCHES}/a%00b"), 403, "policy_denied"),
    "dots in a branch": (head("DELETE", f"{BRANCHES}/..%2F..%2Fetc"), 403, "policy_denied"),
    "a branch in two segments": (head("DELETE", f"{BRANCHES}/etl/run"), 404, "route_not_found"),
    "a branch with blanks around": (head("DELETE", f"{BRANCHES}/%20side%20"), 403, "policy_denied"),
    "a commit of dots": (head("GET", "/graphs/default/commits/.."), 404, "commit_not_found"),
    # what may not be seen
    "a foreign branch": (query(branch="side"), 403, "policy_denied"),
    "a foreign branch with blanks": (query(branch="  side "), 403, "policy_denied"),
    "a tag of a foreign branch": (query(tag="hidden"), 403, "policy_denied"),
    "a diff with a foreign branch": (
        posted("/graphs/default/diff", b'{"from": "main", "to": "side"}'),
        403,
        "policy_denied",
    ),
    # parameters
    "an unknown parameter": (head("GET", "/graphs/default/commits?brnach=x"), 400, "bad_request"),
    "a repeated parameter": (
        head("GET", "/graphs/default/commits?branch=main&branch=main"),
        400,
        "bad_request",
    ),
    "a parameter of broken UTF-8": (
        head("GET", "/graphs/default/commits?branch=%ff"),
        400,
        "bad_request",
    ),
    "two states of the graph": (
        head("GET", "/graphs/default/snapshot?branch=main&tag=v"),
        400,
        "bad_request",
    ),
    "parameters on a route with a body": (
        head("POST", f"{QUERY}?branch=main", "Content-Type: application/json", "Content-Length: 2")
        + b"{}",
        400,
        "bad_request",
    ),
    # JSON
    "an empty body": (asked(b""), 400, "bad_request"),
    "no JSON": (asked(b"query"), 400, "bad_request"),
    "an array": (asked(b"[]"), 400, "bad_request"),
    "a list too deep": (
        asked(b'{"params": {"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}}"),
        400,
        "bad_request",
    ),
    "objects too deep": (
        asked(b'{"params": ' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}"),
        400,
        "bad_request",
    ),
    "a number too large": (asked(b'{"query": "", "params": {"a": 1e400}}'), 400, "bad_request"),
    "a lone surrogate": (asked(b'{"query": "\\ud800"}'), 400, "bad_request"),
    "a byte order mark": (asked(b'\xef\xbb\xbf{"query": ""}'), 400, "bad_request"),
    "broken UTF-8": (asked(b'{"query": "\xff\xfe"}'), 400, "bad_request"),
    "a mistyped field": (asked(b'{"quary": ""}'), 400, "bad_request"),
    "a field of another type": (asked(b'{"query": 7}'), 400, "bad_request"),
    "an actor in the body": (query(actor="bob"), 400, "bad_request"),
    "a whole number of 30 digits": (query(params={"x": 10**30}), 400, "param"),
    "a NUL in a query": (query(query="query q() \0 {}"), 400, "parse"),
    # media types
    "a text": (posted(QUERY, b"{}", kind="text/plain"), 415, "media_type"),
    "a form": (posted(QUERY, b"a=b", kind="application/x-www-form-urlencoded"), 415, "media_type"),
    "no media type": (head("POST", QUERY, "Content-Length: 2") + b"{}", 415, "media_type"),
    "brotli": (
        posted(LINES, b"x", "Content-Encoding: br", kind="application/x-ndjson"),
        415,
        "media_type",
    ),
    "gzip for JSON": (
        posted(QUERY, gzip.compress(b"{}"), "Content-Encoding: gzip"),
        415,
        "media_type",
    ),
    "two packings": (
        posted(LINES, b"x", "Content-Encoding: gzip, zstd", kind="application/x-ndjson"),
        415,
        "media_type",
    ),
    # sizes
    "a body of 1 MiB and a byte": (asked(b" " * (2**20 + 1)), 413, "resource_limit"),
    "the same without a length": (
        chunked(QUERY, *[b" " * 2**16] * 16, b" "),
        413,
        "resource_limit",
    ),
    "a length that is a lie": (
        head("POST", QUERY, "Content-Type: application/json", "Content-Length: 99999999999")
        + b"{}",
        413,
        "resource_limit",
    ),
    "damaged gzip": (
        posted(
            LINES,
            gzip.compress(b"x" * 999)[:20],
            "Content-Encoding: gzip",
            kind="application/x-ndjson",
        ),
        400,
        "bad_request",
    ),
    # HTTP itself
    "a head too large": (head("GET", BRANCHES, "X-Long: " + "a" * 32_768), 431, "head_too_large"),
    "a target too long": (head("GET", "/" + "a" * 32_768), 431, "head_too_large"),
    "two hosts": (head("GET", BRANCHES, "Host: other"), 400, None),
    "no host": (f"GET {BRANCHES} HTTP/1.1\r\n{TOKEN}\r\n".encode(), 400, None),
    "a length beside chunks": (
        head("POST", QUERY, "Content-Length: 2", "Transfer-Encoding: chunked") + b"0\r\n\r\n",
        400,
        None,
    ),
    "two lengths": (
        head("POST", QUERY, "Content-Length: 2", "Content-Length: 3") + b"{}}",
        400,
        None,
    ),
    "a version 2 preface": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, None),
    "a chunk size that is none": (
        head("POST", QUERY, "Content-Type: application/json", "Transfer-Encoding: chunked")
        + b"zz\r\n",
        400,
        None,
    ),
    "a method of one's own": (head("BREW", BRANCHES), 400, None),
    "a method that is not taken": (head("PUT", BRANCHES), 405, "method_not_allowed"),
    "a trace": (head("TRACE", BRANCHES), 405, "method_not_allowed"),
    "a whole address": (head("GET", f"http://localhost{BRANCHES}"), 400, None),
    "a tunnel": (head("CONNECT", "localhost:80"), 400, None),
    "fields after the body that name an actor": (
        head(
            "POST",
            QUERY,
            "Content-Type: application/json",
            "Transfer-Encoding: chunked",
            token=False,
        )
        + b"2\r\n{}\r\n0\r\n"
        + TOKEN.encode()
        + b"\r\n",
        401,
        "unauthenticated",
    ),
    "an offer of another protocol": (
        head(
            "GET",
            BRANCHES,
            "Connection: Upgrade, HTTP2-Settings",
            "Upgrade: h2c",
            "HTTP2-Settings: AAA",
        ),
        200,
        None,
    ),
    "ranges beyond every number": (
        head(
            "GET",
            "/graphs/default/blob?kind=node&type=Person&id=ada&property=photo",
            "Range: bytes=99999999999999999999999999-",
        ),
        416,
        "blob_range",
    ),
    # blobs and loads
    "a file of the server as a blob": (
        posted(
            LINES,
            b'{"type": "Person", "data": {"name": "e", "photo": {"$file": "/etc/passwd"}}}',
            kind="application/x-ndjson",
        ),
        400,
        None,
    ),
    "a path as data": (posted("/graphs/default/load", b'{"data": "/etc/passwd"}'), 400, None),
}


@pytest.mark.parametrize("case", CASES)
def test_hostile_requests(server, case):
    request, status, kind = CASES[case]
    answer = server.http.raw(request)
    assert answer.status == status, answer.text
    if kind is not None:
        assert answer.json()["kind"] == kind
    assert "passwd" not in answer.text or "root:" not in answer.text
    assert server.http.get("/healthz").status == 200


@pytest.mark.parametrize("case", ["objects too deep", "a head too large", "two hosts"])
def test_a_hostile_request_behind_a_good_one(server, case):
    """Pipelining: each is answered for itself, in order."""
    request, status, _ = CASES[case]
    with server.http.connected() as connection:
        connection.sendall(head("GET", BRANCHES) + request)
        answers = Following(connection)
        assert server.http.read(answers).status == 200
        assert server.http.read(answers).status == status


def test_answers_come_in_the_order_of_their_requests(server):
    with server.http.connected() as connection:
        ids = [f"pipelined-{at}" for at in range(20)]
        connection.sendall(b"".join(head("GET", BRANCHES, f"X-Request-Id: {each}") for each in ids))
        answers = Following(connection)
        answered = [server.http.read(answers).headers["x-request-id"] for _ in ids]
    assert answered == ids


def test_a_client_that_asks_before_it_sends(server):
    body = json.dumps({"query": ALL}).encode()
    with server.http.connected() as connection:
        connection.sendall(
            head(
                "POST",
                QUERY,
                "Content-Type: application/json",
                f"Content-Length: {len(body)}",
                "Expect: 100-continue",
            )
        )
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(body)
        assert server.http.read(connection).status == 200


def test_a_head_that_never_ends_is_given_up(server):
    with server.http.connected() as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: ")
        assert given_up(server, connection)


def test_a_body_that_hardly_comes_is_given_up(server):
    with server.http.connected() as connection:
        connection.sendall(
            head("POST", LINES, "Content-Type: application/x-ndjson", "Content-Length: 1000")
        )
        connection.sendall(b"{")
        assert given_up(server, connection)
        # Its place is free when the server has seen to that.
        while server.app.engine.writers.running:
            pass_time(server.server, 0)


def given_up(server: Threaded, connection: socket.socket) -> bool:
    """Let time pass until something comes of a connection; return whether that is its end."""
    while not select.select([connection], [], [], 0.01)[0]:
        pass_time(server.server, PATIENT.head_seconds / 4)
    try:
        return connection.recv(100) == b""
    except ConnectionResetError:
        return True


@needs_proc
def test_twenty_megabytes_of_head_take_no_memory(server):
    def send() -> None:
        with server.http.connected() as connection:
            try:
                connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: ")
                for _ in range(320):
                    connection.sendall(b"a" * 65_536)
            except OSError:
                pass

    send()
    assert any(peak_of(send)[1] < 16 << 20 for _ in range(3))


@needs_proc
@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_bombs_take_no_memory(server, encoding):
    from tests.server.test_bodies import bomb

    body = bomb(encoding, 128)
    request = posted(LINES, body, f"Content-Encoding: {encoding}", kind="application/x-ndjson")

    def send() -> None:
        assert server.http.raw(request).status == 413

    send()
    # What else the process does meanwhile may take some, once.
    assert any(peak_of(send)[1] < 32 << 20 for _ in range(3))
