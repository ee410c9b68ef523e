"""A server of two workers, as real processes: what they see of each other, and how they end and come back."""

from __future__ import annotations

import http.client
import json
import os
import re
import select
import signal
import socket
import threading
import time
from pathlib import Path

import httpx2
import pytest

import omnigraph as og
from omnigraph.failpoints import FilePause
from tests.server.running import LONG, OF_A_PROCESS
from tests.server.test_serving import ask, health_of, names

ADD = "query add($name: String) { insert Person { name: $name } }"
NAMES = "query names() { match { $p: Person } return { $p.name as name } }"
TWO = ("--workers", "2")
CLIENTS, EACH = 8, 25
HEADERS = {"authorization": "Bearer t-ada"}
POLICY = """
version: 1
groups: { writers: [ada] }
rules:
  - id: all
    allow: { actors: { group: writers }, actions: [read, change, invoke_query] }
"""


def pids_of(server):
    """The processes of the workers that were ready, in the order in which they were."""
    found = re.findall(r"worker \d+ is ready: process (\d+)", server.log.read_text())
    return [int(pid) for pid in found]


def wait_for_end(pid):
    """Wait until a process is gone; it may be nobody's child that is here."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([descriptor], [], [], OF_A_PROCESS)[0], f"process {pid} goes on"
    finally:
        os.close(descriptor)


def is_refused(server):
    try:
        socket.create_connection((server.host, server.port), timeout=LONG).close()
    except ConnectionRefusedError:
        return True
    return False


class Writer:
    """A client that adds people, each over a connection of its own, and sees each on another one."""

    def __init__(self, server, number):
        self.server, self.number = server, number
        self.acknowledged, self.lost, self.unseen, self.strange = [], [], [], []
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        for at in range(EACH):
            name = f"p{self.number}-{at}"
            body = {"query": ADD, "params": {"name": name}}
            try:
                status, document = send(self.server, "POST", "/graphs/default/mutate", body)
            except (OSError, http.client.HTTPException):
                self.lost.append(name)  # its worker was killed
                continue
            if status == 200:
                self.acknowledged.append(name)
            elif status not in {409, 429}:
                self.strange.append(document)
            if at % 10 == 0 and status == 200 and not self.sees(name):
                self.unseen.append(name)

    def sees(self, name):
        while True:
            try:
                path = f"/graphs/default/entity?kind=node&type=Person&id={name}"
                return send(self.server, "GET", path)[0] == 200
            except (OSError, http.client.HTTPException):
                continue


def send(server, method, path, body=None, timeout=LONG, operation_id=None):
    """Send a request over a connection of its own; return its status and what is in its JSON."""
    connection = http.client.HTTPConnection(server.host, server.port, timeout=timeout)
    try:
        headers = {**HEADERS, "content-type": "application/json"}
        if operation_id is not None:
            headers["omnigraph-operation-id"] = operation_id
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def test_writes_are_seen_everywhere_and_a_killed_worker_costs_its_requests_alone(
    own_people, start, tmp_path
):
    """Everything that the server read at boot is gone when a worker is started again."""
    tokens, policy, queries = tmp_path / "t.json", tmp_path / "p.yaml", tmp_path / "q"
    tokens.write_text(json.dumps({"ada": "t-ada"}))
    policy.write_text(POLICY)
    queries.mkdir()
    (queries / "names.gq").write_text(NAMES)
    server = start(
        *("--store", own_people, *TWO, "--policy", policy, "--queries", queries),
        environ={"OMNIGRAPH_SERVER_BEARER_TOKENS_FILE": str(tokens)},
    )
    for path in (tokens, policy, queries / "names.gq"):
        path.unlink()
    first, second = pids_of(server)
    writers = [Writer(server, number) for number in range(CLIENTS)]
    while sum(len(writer.acknowledged) for writer in writers) < 20:
        writers[0].thread.join(0.01)
    os.kill(first, signal.SIGKILL)
    # The other one answers meanwhile: its process is the only one there is.
    assert answer_of(server, "/healthz")[0] == 200
    while len(pids_of(server)) < 3:
        writers[0].thread.join(0.01)
    *_, third = pids_of(server)
    assert third not in {first, second}
    for writer in writers:
        writer.thread.join(OF_A_PROCESS)
        assert not writer.thread.is_alive()
        assert (writer.unseen, writer.strange) == ([], [])
    acknowledged = {name for writer in writers for name in writer.acknowledged}
    # One under way, and perhaps one more before the socket of the killed worker is closed.
    assert all(len(writer.lost) <= 2 for writer in writers)
    # The new worker alone, with the token, the policy and the query of the start.
    os.kill(second, signal.SIGSTOP)
    try:
        rows = invoked(server, LONG)
    finally:
        os.kill(second, signal.SIGCONT)
    assert acknowledged <= {row["name"] for row in rows}
    assert server.stop() == 0
    for pid in (second, third):
        wait_for_end(pid)
    assert is_refused(server)
    assert server.printed == [f"OMNIGRAPH_LISTEN_ADDR={server.host}:{server.port}\n"]
    restarts = [each["event"] for each in server.records if "another one" in each["event"]]
    assert len(restarts) == 1
    assert restarts[0].endswith("ended by signal SIGKILL; another one is started in 1 s")


def answer_of(server, path):
    """The answer of a worker that lives; a connection that a killed one had not accepted yet is reset."""
    while True:
        try:
            return send(server, "GET", path)
        except ConnectionError:
            continue


def invoked(server, seconds):
    """The rows of the stored query; a connection that meets a stopped worker is given up for another."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            status, document = send(server, "POST", "/graphs/default/queries/names", {}, 5)
        except TimeoutError:
            continue
        assert status == 200, document
        return document["rows"]
    raise AssertionError("no worker answers")


@pytest.fixture
def paused(own_people, start, tmp_path):
    """A server of two workers with a write that waits for the test at a moment of its commit."""

    def starting(moment, *flags):
        pause = FilePause(tmp_path / "pause")
        server = start(
            *("--store", own_people, "--unauthenticated", *TWO, *flags),
            environ={
                "OMNIGRAPH_FAILPOINTS": f"mutation.{moment}=pause:{tmp_path / 'pause'}",
                "TMPDIR": str(tmp_path),
            },
        )
        body = {"query": ADD, "params": {"name": "zoe"}}
        thread, got = ask(server, "/graphs/default/mutate", body)
        pause.wait_until_reached()
        return server, pause, thread, got

    return starting


def test_the_first_signal_drains_both_and_the_second_ends_at_once(paused, own_people, tmp_path):
    server, pause, thread, got = paused("after_phase_b_before_phase_c", "--drain-delay", "600")
    pids = pids_of(server)
    server.send(signal.SIGINT)
    while health_of(server).status_code != 503:
        pass
    assert thread.is_alive(), got
    assert list(tmp_path.glob("omnigraph-spool-*"))
    assert server.stop(signal.SIGINT) == 130
    for pid in pids:
        wait_for_end(pid)
    assert is_refused(server)
    assert not list(tmp_path.glob("omnigraph-spool-*"))
    pause.resume()
    thread.join(LONG)
    assert isinstance(got[0], httpx2.TransportError)
    # The table was written: the next who opens the graph finishes the write.
    assert names(own_people) == ["ada", "bob", "eve", "zoe"]


def test_without_their_parent_workers_finish_and_leave(paused, own_people, tmp_path):
    """A worker of which a terminal or a service manager asks the same drains once, and is not cut."""
    server, pause, thread, got = paused(
        "before_phase_b", "--drain-delay", "0", "--drain-timeout", "600"
    )
    pids = pids_of(server)
    server.send(signal.SIGSTOP)  # or it would start another one in place of the one that leaves
    for pid in pids:
        os.kill(pid, signal.SIGTERM)
        os.kill(pid, signal.SIGTERM)
    while server.log.read_text().count('"draining"') < 2:
        thread.join(0.01)
    server.send(signal.SIGKILL)
    while not is_refused(server):
        thread.join(0.01)
    assert thread.is_alive(), got
    pause.resume()
    thread.join(LONG)
    assert got[0].status_code == 200
    for pid in pids:
        wait_for_end(pid)
    assert not list(tmp_path.glob("omnigraph-spool-*"))
    assert names(own_people) == ["ada", "bob", "eve", "zoe"]


def test_before_anything_is_served_a_signal_ends_all(own_people, tmp_path, start):
    pause = FilePause(tmp_path / "pause")
    started = []

    def boot():
        with pytest.raises(AssertionError, match="did not start"):
            start(
                *("--store", own_people, "--unauthenticated", *TWO),
                fresh=True,
                environ={
                    "OMNIGRAPH_FAILPOINTS": f"recovery.sidecar_list=pause:{tmp_path / 'pause'}"
                },
                started=started.append,
            )

    thread = threading.Thread(target=boot)
    thread.start()
    pause.wait_until_reached()
    (server,) = started
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children")
    while len(pids := children.read_text().split()) < 2:  # the pause is that of either
        thread.join(0.01)
    assert server.stop() == 143
    for pid in map(int, pids):
        wait_for_end(pid)
    pause.resume()
    thread.join(LONG)
    with og.open(own_people) as graph:
        assert graph.branches.list() == ["main"]
