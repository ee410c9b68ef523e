"""A server in bad company: what others do keeps nobody from an answer, and leaves nothing behind.

The crowds are small here; `./dev faults --all` lets in those that a server in the open meets.
"""

from __future__ import annotations

import http.client
import json
import os
import resource
import signal
import socket
import struct
import threading
import time
from contextlib import ExitStack, suppress

import pytest

from omnigraph.failpoints import FilePause
from tests.faults.small_disks import fill, small_disk
from tests.sampling import runs_all
from tests.server.running import LONG
from tests.server.small import ADD, CROSS, ONE, make_graph
from tests.server.small import LONG as LONG_ANSWER
from tests.server.test_workers import pids_of

SILENT, HEADS, DEAF, FICKLE = (2000, 500, 200, 32) if runs_all() else (300, 100, 16, 8)
POLICY = """
version: 1
groups: { all: [rude, kind] }
rules:
  - id: all
    allow: { actors: { group: all }, actions: [read, change, export] }
"""


@pytest.fixture
def root(tmp_path):
    """A graph of its own for each test."""
    make_graph(tmp_path / "g.omni").close()
    return tmp_path / "g.omni"


@pytest.fixture
def flags(root, tmp_path):
    """How a server is started on it, with two tokens."""
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    return "--store", root, "--policy", policy


@pytest.fixture
def environ(tmp_path):
    (tmp_path / "tmp").mkdir()
    tokens = json.dumps({"rude": "t-rude", "kind": "t-kind"})
    return {
        "OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": tokens,
        "TMPDIR": str(tmp_path / "tmp"),
        "OMNIGRAPH_LOG": "warning",
    }


class Kind:
    """A client that asks for little, each time over a connection of its own, and counts on an answer."""

    def __init__(self, server):
        self.server = server
        self.added = []

    def ask(self, method, path, body=None, timeout=LONG, **headers):
        connection = http.client.HTTPConnection(self.server.host, self.server.port, timeout=timeout)
        try:
            return self.ask_over(connection, method, path, body, **headers)
        finally:
            connection.close()

    def ask_over(self, connection, method, path, body=None, **headers):
        data = body if body is None or isinstance(body, bytes) else json.dumps(body)
        given = {
            "authorization": "Bearer t-kind",
            "content-type": "application/json",
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        connection.request(method, path, data, given)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())

    def check(self):
        """Everything is answered: the health, a read, and a write that the next read sees."""
        assert self.ask("GET", "/healthz")[0] == 200
        name = f"n{len(self.added)}"
        body = {"query": ADD, "params": {"name": name}}
        status, document = self.ask("POST", "/graphs/default/mutate", body)
        assert status == 200, document
        self.added.append(name)
        body = {"query": ONE, "params": {"name": name}}
        status, document = self.ask("POST", "/graphs/default/query", body)
        assert (status, document.get("row_count")) == (200, 1), document

    def load(self, size):
        """Load so many bytes; return the answer."""
        lines = b'{"type": "Person", "data": {"name": "ada", "age": 37}}\n'
        body = lines + b"\n" * (size - len(lines))
        return self.ask(
            "POST", "/graphs/default/load/ndjson", body, content_type="application/x-ndjson"
        )


def request(path, body):
    """The bytes of a request of the rude one."""
    data = json.dumps(body).encode()
    fields = [
        f"POST /graphs/default/{path} HTTP/1.1",
        "Host: localhost",
        "Authorization: Bearer t-rude",
        "Content-Type: application/json",
        f"Content-Length: {len(data)}",
    ]
    return "\r\n".join([*fields, "", ""]).encode() + data


def connected(server, said=b"", receive_buffer=None):
    connection = socket.socket()
    if receive_buffer is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    connection.settimeout(LONG)
    connection.connect((server.host, server.port))
    if said:
        connection.sendall(said)
    return connection


def silent(server):
    return [connected(server) for _ in range(SILENT)]


def unfinished(server):
    return [connected(server, b"GET /healthz HTTP/1.1\r\nHost: x\r\n") for _ in range(HEADS)]


def deaf(server):
    asked = request("query", {"query": LONG_ANSWER})
    return [connected(server, asked, 4096) for _ in range(DEAF)]


def files_of(server):
    """How many files, sockets among them, a process has open."""
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


def eventually(is_so, what):
    until = time.monotonic() + LONG
    while not is_so():
        assert time.monotonic() < until, f"{what} did not happen"
        time.sleep(0.02)


@pytest.mark.parametrize("crowd", [silent, unfinished, deaf])
def test_a_crowd_keeps_nobody_from_an_answer(flags, environ, start, crowd):
    server = start(*flags, environ=environ)
    kind = Kind(server)
    kind.check()
    before = files_of(server)
    with ExitStack() as leaving:
        for connection in crowd(server):
            leaving.enter_context(connection)
        for _ in range(5):
            kind.check()
    # Files of tables that were read since are not the crowd's.
    eventually(lambda: files_of(server) < before + 32, "the end of their connections")
    kind.check()
    assert server.stop() == 0


def test_clients_that_cancel_everything_leave_nothing_running(flags, environ, start):
    server = start(*flags, "--metrics-bind", "127.0.0.1:0", environ=environ)
    kind = Kind(server)
    kind.check()
    asked = request("query", {"query": CROSS})

    def cancel():
        for at in range(4):
            with connected(server, asked) as connection:
                time.sleep(0.01 * at)  # waiting for its turn, or under way
                linger = struct.pack("ii", 1, at % 2)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)

    threads = [threading.Thread(target=cancel, daemon=True) for _ in range(FICKLE)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        kind.check()
    eventually(
        lambda: server.gauges("queries_running", "queries_waiting") == [0, 0], "the end of reads"
    )
    kind.check()
    assert server.stop() == 0


def test_a_flood_of_reads_takes_no_turn_from_another_actor(flags, environ, start):
    server = start(*flags, environ={**environ, "OMNIGRAPH_READ_CONCURRENCY": "2"})
    kind = Kind(server)
    asked = request("query", {"query": CROSS})
    with ExitStack() as leaving:
        for _ in range(64):
            leaving.enter_context(connected(server, asked))
        # None of these ends: without turns of its own the next read would be refused after 5 s.
        for _ in range(3):
            kind.check()
    kind.check()
    assert server.stop() == 0


def test_with_few_files_the_quietest_connections_are_closed(flags, environ, start):
    """Of 240 files half are for connections: the others are left for graphs."""

    def allow(server):
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (240, 240))

    server = start(*flags, environ=environ, fresh=True, started=allow)
    kind = Kind(server)
    with ExitStack() as leaving:
        asking = leaving.enter_context(connected(server, request("query", {"query": CROSS})))
        kind.check()
        crowd = [leaving.enter_context(connected(server)) for _ in range(400)]
        for _ in range(3):
            kind.check()
        # The oldest are gone, and whoever is at work is not: it still waits, or has its answer.
        assert crowd[0].recv(1) == b""
        asking.setblocking(False)
        with suppress(BlockingIOError):
            assert asking.recv(8) == b"HTTP/1.1"
    kind.check()
    assert server.stop() == 0
    assert "more than 120 connections" in server.log.read_text()


def test_without_a_file_left_those_who_are_there_are_answered(flags, environ, start):
    server = start(*flags, environ=environ)
    kind = Kind(server)
    kind.check()
    stays = http.client.HTTPConnection(server.host, server.port, timeout=LONG)
    assert kind.ask_over(stays, "GET", "/healthz")[0] == 200
    limit = files_of(server) + 64
    _, most = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (limit, most))
    with ExitStack() as leaving:
        for _ in range(160):
            leaving.enter_context(connected(server))
        eventually(lambda: files_of(server) == limit, "the last file")
        assert kind.ask_over(stays, "GET", "/healthz")[0] == 200
    kind.check()
    stays.close()
    assert server.stop() == 0


def test_a_full_spool_disk_fails_the_load_alone(flags, environ, start, tmp_path):
    with small_disk(tmp_path / "spool", "4m") as disk:
        server = start(*flags, environ={**environ, "TMPDIR": str(disk)})
        kind = Kind(server)
        kind.check()
        assert kind.load(1 << 16)[0] == 200
        filler = fill(disk, 1 << 14)
        for _ in range(2):
            status, document = kind.load(1 << 20)
            assert (status, document["kind"]) == (500, "storage"), document
            assert "spool" not in json.dumps(document)
        assert list(disk.rglob("body-*")) == []
        kind.check()
        filler.unlink()
        assert kind.load(1 << 20)[0] == 200
        assert server.stop() == 0
        assert "no room for the body of a request" in server.log.read_text()


def test_a_stopped_worker_costs_its_connections_alone(flags, environ, start, tmp_path):
    """It stands still in the middle of a commit, with its locks; the other one answers."""
    pause = FilePause(tmp_path / "pause")
    server = start(
        *flags,
        *("--workers", "2"),
        environ={
            **environ,
            "OMNIGRAPH_LOG": "info",
            "OMNIGRAPH_LOCK_WAIT_MS": "300",
            "OMNIGRAPH_FAILPOINTS": f"mutation.before_phase_b=pause:{tmp_path / 'pause'}",
        },
    )
    kind, got = Kind(server), []
    body = {"query": ADD, "params": {"name": "zoe"}}
    thread = threading.Thread(
        target=lambda: got.append(kind.ask("POST", "/graphs/default/mutate", body)), daemon=True
    )
    thread.start()
    pause.wait_until_reached()
    stopped = one_with(pids_of(server), server)
    os.kill(stopped, signal.SIGSTOP)
    try:
        answers = [patiently(kind, "GET", "/healthz") for _ in range(3)]
        answers.append(
            patiently(
                kind, "POST", "/graphs/default/query", {"query": ONE, "params": {"name": "ada"}}
            )
        )
        assert [status for status, _ in answers] == [200] * 4
        status, document = patiently(
            kind,
            *("POST", "/graphs/default/mutate"),
            {"query": ADD, "params": {"name": "yan"}},
        )
        assert (status, document["kind"]) == (409, "contention"), document
    finally:
        os.kill(stopped, signal.SIGCONT)
    pause.resume()
    thread.join(LONG)
    assert got[0][0] == 200, got
    kind.check()
    assert server.stop() == 0


def one_with(pids, server):
    """The worker that has taken the connection of a client."""
    for pid in pids:
        if str(server.port) in sockets_of(pid):
            return pid
    raise AssertionError("no worker has a connection")


def sockets_of(pid):
    """The local ports of the established connections of a process."""
    ports = set()
    inodes = set()
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            target = os.readlink(f"/proc/{pid}/fd/{name}")
        except OSError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    with open(f"/proc/{pid}/net/tcp") as table:
        for line in list(table)[1:]:
            fields = line.split()
            if fields[9] in inodes and fields[3] == "01":
                ports.add(str(int(fields[1].rpartition(":")[2], 16)))
    return ports


def patiently(kind, *asked):
    """An answer of the worker that goes on: a connection that meets the other one is given up."""
    until = time.monotonic() + LONG
    while time.monotonic() < until:
        try:
            return kind.ask(*asked, timeout=3)
        except TimeoutError:
            continue
    raise AssertionError("no worker answers")
