"""SIGKILL of workers and of their parent while clients write: nothing acknowledged is lost, nobody stays behind.

Two kills here; `./dev faults --server MINUTES` goes on for so long, with a kill every second or so.
"""

from __future__ import annotations

import http.client
import os
import random
import signal
import threading
import time

from omnigraph.clock import new_ulid
from tests.sampling import seed
from tests.server.running import LONG, OF_A_PROCESS
from tests.server.test_workers import ADD, NAMES, is_refused, pids_of, wait_for_end
from tests.server.test_workers import send as send_to

CLIENTS = 3
MINUTES = float(os.environ.get("FAULTS_SERVER") or 0)
MUTATE = "/graphs/default/mutate"


class Served:
    """The server of the moment, for clients that do not care which one it is."""

    def __init__(self, start, root):
        self.start, self.root = start, root
        self.server = self._started()
        self.killed = set()
        """Those workers of this server that were killed."""

    def _started(self):
        self.killed = set()
        return self.start("--store", self.root, "--unauthenticated", "--workers", "2", fresh=True)

    def kill_worker(self, chance):
        """Kill one of the two, and wait for the next."""
        ready = pids_of(self.server)
        # Not the last two: whoever was killed may have been ready after the one that lives.
        doomed = chance.choice([pid for pid in ready if pid not in self.killed])
        os.kill(doomed, signal.SIGKILL)
        self.killed.add(doomed)
        until = time.monotonic() + OF_A_PROCESS
        while len(pids_of(self.server)) < len(ready) + 1:
            assert time.monotonic() < until, self.server.log.read_text()
            time.sleep(0.02)

    def kill_parent(self):
        """Kill the parent; its workers end by themselves, and so does the port. Then start another."""
        pids = pids_of(self.server)
        self.server.send(signal.SIGKILL)
        self.server.wait()
        for pid in pids:
            wait_for_end(pid)
        assert is_refused(self.server)
        self.server = self._started()


class Writer:
    """A client that adds people under operation ids, each over a connection of its own."""

    def __init__(self, served, number):
        self.served, self.number = served, number
        self.acknowledged, self.lost, self.strange = [], [], []
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        at = 0
        while not self.is_over.is_set():
            name, operation = f"w{self.number}-{at}", new_ulid()
            at += 1
            try:
                status, document = add(self.served.server, name, operation)
            except ConnectionRefusedError:
                time.sleep(0.1)  # nobody is there, and nothing was sent
                continue
            except (OSError, http.client.HTTPException, ValueError):
                # Its worker was killed, or cut in the middle of its answer.
                self.lost.append((name, operation))
                continue
            if status == 200:
                self.acknowledged.append(name)
            elif status not in {409, 429, 503}:
                self.strange.append((status, document))


def add(server, name, operation):
    body = {"query": ADD, "params": {"name": name}}
    return send_to(server, "POST", MUTATE, body, operation_id=operation)


def kills():
    """Which of them is killed next: both kinds here, by chance for as long as is wanted."""
    chance = random.Random(seed())
    until = time.monotonic() + 60 * MINUTES
    yield from ("worker", "parent")
    while time.monotonic() < until:
        yield chance.choice(["worker"] * 4 + ["parent"])


def test_acknowledged_writes_stay_and_nobody_is_left_behind(own_people, start):
    served = Served(start, own_people)
    chance = random.Random(seed())
    writers = [Writer(served, number) for number in range(CLIENTS)]
    for kind in kills():
        wait_for_writes(writers, 5)
        if kind == "parent":
            served.kill_parent()
        elif len(served.killed) < 4:  # afterwards the pauses are longer than a test wants
            served.kill_worker(chance)
        else:
            assert served.server.stop() == 0
            served.server = served._started()
    wait_for_writes(writers, 5)
    for writer in writers:
        writer.is_over.set()
    for writer in writers:
        writer.thread.join(LONG)
        assert not writer.thread.is_alive()
        assert writer.strange == []
    lost = [each for writer in writers for each in writer.lost]
    for name, operation in lost:
        settle(served.server, name, operation)
    names = [row["name"] for row in rows_of(served.server)]
    expected = {"ada", "bob", "eve"} | {name for name, _ in lost}
    expected |= {name for writer in writers for name in writer.acknowledged}
    assert sorted(names) == sorted(expected)
    pids = pids_of(served.server)
    assert served.server.stop() == 0
    for pid in pids:
        wait_for_end(pid)
    assert is_refused(served.server)


def wait_for_writes(writers, more):
    """Wait until so many further writes are acknowledged."""
    count = lambda: sum(len(writer.acknowledged) for writer in writers)  # noqa: E731
    wanted, until = count() + more, time.monotonic() + LONG
    while count() < wanted:
        assert time.monotonic() < until, [writer.strange for writer in writers]
        time.sleep(0.02)


def settle(server, name, operation):
    """Repeat a write whose answer was lost: it has an effect once, and the id tells whether it had one."""
    path = f"/graphs/default/commits?operation_id={operation}"
    before = send_to(server, "GET", path)[1]["commits"]
    status, document = add(server, name, operation)
    assert status == 200, document
    assert document.get("replayed", False) is bool(before)
    assert len(send_to(server, "GET", path)[1]["commits"]) == 1


def rows_of(server):
    status, document = send_to(server, "POST", "/graphs/default/query", {"query": NAMES})
    assert status == 200, document
    return document["rows"]
