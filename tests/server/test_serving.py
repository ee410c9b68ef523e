"""How a server ends: the first signal drains it, the second ends it at once."""

from __future__ import annotations

import re
import signal
import sys
import threading
import time
from dataclasses import dataclass

import httpx2
import pytest

import omnigraph as og
from omnigraph.failpoints import FilePause
from omnigraph.server.process.serving import DrainTimes, take_turns_often
from tests.server.running import LONG, UNENCRYPTED, NoWork, in_thread
from tests.server.test_protocol import App, Client, get, post

INSERT = 'query add() { insert Person { name: "zoe", age: 7 } }'
ENDLESS = """
query cross() {
  match { $a: Person $b: Person $c: Person $a.age < $b.age $b.age != $c.age $c.age > $a.age }
  return { count($a) as n }
}
"""
"""What no machine finishes while a test waits, with some thousand people."""


@dataclass
class Busy(NoWork):
    """Work that goes on for so many looks after it was stopped."""

    is_busy: bool = True
    looks: int = 3

    def cancel_all(self) -> None:
        """Come nearer to the end."""
        super().cancel_all()
        self.is_busy = self.stopped < self.looks


@pytest.fixture
def app():
    made = App()
    yield made
    made.go_on.set()


class TestDraining:
    def test_requests_under_way_are_answered_and_their_connections_closed(self, app):
        with (
            in_thread(app, ending=DrainTimes(timeout=LONG)) as served,
            served.connect() as connection,
        ):
            client = Client(connection)
            client.send(get("/held"))
            app.begun.acquire()
            served.server.drain()
            while not served.state.draining:
                time.sleep(0.01)
            app.go_on.set()
            reply = client.reply()
            assert (reply.body, reply.headers["connection"]) == (b"held", "close")
            assert client.is_closed()
            assert served.wait()
            assert served.work.stopped == 0

    def test_a_connection_without_a_request_is_closed_while_others_are_answered(self, app):
        with (
            in_thread(app, ending=DrainTimes(timeout=LONG)) as served,
            served.connect() as busy,
            served.connect() as connection,
        ):
            client = Client(connection)
            client.send(get("/echo"))
            assert "connection" not in client.reply().headers
            app.begun.acquire()
            busy.sendall(get("/held"))
            app.begun.acquire()
            served.server.drain()
            assert client.is_closed()
            assert served.thread.is_alive()
            app.go_on.set()
            assert Client(busy).reply().body == b"held"
            assert served.wait()

    def test_in_the_delay_connections_are_served_and_afterwards_refused(self, app):
        with in_thread(app, ending=DrainTimes(delay=LONG, timeout=LONG)) as served:
            with served.connect() as idle:
                served.server.drain()
                while not served.state.draining:
                    time.sleep(0.01)
                served.pass_time(LONG / 2, steps=10)
                for connection in (idle, served.connect()):
                    with connection:
                        client = Client(connection)
                        client.send(get("/echo"))
                        reply = client.reply()
                        assert (reply.status, reply.headers["connection"]) == (200, "close")
                        assert client.is_closed()
            assert served.thread.is_alive()
            served.pass_time(LONG)
            assert served.wait()
            with pytest.raises(ConnectionRefusedError):
                served.connect()

    def test_without_a_delay_nobody_is_let_in(self, app):
        with (
            in_thread(app, ending=DrainTimes(timeout=LONG)) as served,
            served.connect() as connection,
        ):
            connection.sendall(get("/held"))
            app.begun.acquire()
            served.server.drain()
            refused = False
            while not refused:
                try:
                    served.connect().close()
                except ConnectionError:
                    refused = True
            app.go_on.set()
            assert served.wait()

    def test_a_request_that_takes_too_long_is_stopped(self, app):
        with in_thread(app, ending=DrainTimes(timeout=0.2, publishing=0.2)) as served:
            with served.connect() as connection:
                client = Client(connection)
                client.send(get("/held"))
                app.begun.acquire()
                served.server.drain()
                assert client.rest() == b""
            app.go_on.set()
            assert served.wait()
            assert served.work.stopped > 0

    def test_a_write_that_publishes_is_waited_for(self, app):
        work = Busy()
        with in_thread(app, work=work, ending=DrainTimes(timeout=0, publishing=LONG)) as served:
            served.server.drain()
            assert served.wait()
        assert work.stopped == 3

    def test_but_not_for_ever(self, app):
        work = Busy(looks=sys.maxsize)
        with in_thread(app, work=work, ending=DrainTimes(timeout=0, publishing=0.2)) as served:
            served.server.drain()
            assert not served.wait()

    def test_an_answer_that_is_written_is_sent(self, app):
        with in_thread(app, ending=DrainTimes(timeout=LONG, publishing=LONG)) as served:
            with served.connect() as connection:
                client = Client(connection)
                client.send(get("/megabyte"))
                app.begun.acquire()
                served.server.drain()
                time.sleep(0.3)
                assert len(client.reply().body) == 16 << 20
            assert served.wait()

    def test_a_body_that_is_not_read_takes_no_answer_away(self, app):
        """Every answer closes its connection now, this one with most of its body still to come."""
        with in_thread(app, ending=DrainTimes(delay=600, timeout=LONG)) as served:
            served.server.drain()
            while not served.state.draining:
                time.sleep(0.01)
            with served.connect() as connection:
                client = Client(connection)
                client.send(post("/early", b"z" * (4 << 20)))
                reply = client.reply()
            assert (reply.status, reply.headers["connection"]) == (413, "close")
            served.pass_time(600)


def test_threads_take_turns_every_half_millisecond():
    before = sys.getswitchinterval()
    try:
        take_turns_often()
        assert sys.getswitchinterval() == pytest.approx(0.0005)
    finally:
        sys.setswitchinterval(before)


def plain_client():
    """A client that waits as long as a test does."""
    return httpx2.Client(verify=UNENCRYPTED, trust_env=False, timeout=LONG)


def health_of(server):
    with plain_client() as client:
        return client.get(f"{server.base}/healthz")


def ask(server, path, body=None):
    """Send a request in a thread; its answer, or the failure of the connection, comes into a list."""
    got = []

    def send():
        try:
            with plain_client() as client:
                got.append(
                    client.get(server.base + path)
                    if body is None
                    else client.post(server.base + path, json=body)
                )
        except httpx2.TransportError as error:
            got.append(error)

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    return thread, got


@pytest.fixture
def paused(own_people, start, tmp_path):
    """A server whose first mutation waits for the test at a moment of its commit."""

    def starting(moment, *flags):
        pause = FilePause(tmp_path / "pause")
        server = start(
            "--store",
            own_people,
            "--unauthenticated",
            *flags,
            environ={
                "OMNIGRAPH_FAILPOINTS": f"mutation.{moment}=pause:{tmp_path / 'pause'}",
                "TMPDIR": str(tmp_path),
            },
            fresh=True,
        )
        thread, got = ask(server, "/graphs/default/mutate", {"query": INSERT})
        pause.wait_until_reached()
        return server, pause, thread, got

    return starting


def names(root):
    with og.open(root) as graph:
        return sorted(
            row["p.name"]
            for row in graph.query("query q() { match { $p: Person } return { $p.name } }")
        )


class TestSignals:
    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_the_first_drains_and_ends_with_0(self, paused, own_people, number):
        delay = 5
        server, pause, thread, got = paused(
            "before_phase_b", "--drain-delay", str(delay), "--drain-timeout", "600"
        )
        signalled = time.monotonic()
        server.send(number)
        try:
            while (health := health_of(server)).status_code != 503:
                pass
            assert health.json() == {"status": "draining"}
            assert health.headers["connection"] == "close"
        except httpx2.TransportError:
            # Nobody is let in after the delay; a machine that stands still may come so late.
            assert time.monotonic() - signalled > delay
        assert thread.is_alive()
        pause.resume()
        thread.join(LONG)
        assert (got[0].status_code, got[0].headers["connection"]) == (200, "close")
        assert server.wait() == 0
        assert names(own_people) == ["ada", "bob", "eve", "zoe"]

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_the_second_ends_at_once(self, paused, own_people, tmp_path, number):
        server, pause, thread, _ = paused("after_phase_b_before_phase_c", "--drain-timeout", "600")
        server.send(number)
        while "draining" not in server.log.read_text():
            time.sleep(0.01)
        assert list(tmp_path.glob("omnigraph-spool-*"))
        assert server.stop(number) == 128 + number
        pause.resume()
        thread.join(LONG)
        assert not list(tmp_path.glob("omnigraph-spool-*"))
        # The table was written: the next who opens the graph finishes the write.
        assert names(own_people) == ["ada", "bob", "eve", "zoe"]

    def test_a_write_that_publishes_is_waited_for(self, paused, own_people):
        server, pause, thread, got = paused("after_phase_b_before_phase_c", "--drain-timeout", "0")
        signalled = time.monotonic()
        server.send(signal.SIGTERM)
        while "stopping what did not end" not in server.log.read_text():
            time.sleep(0.01)
        pause.resume()
        thread.join(LONG)
        # One that comes too late, on a machine that stands still, is left to recovery.
        is_late = time.monotonic() - signalled > DrainTimes().publishing
        assert is_late or got[0].status_code == 200
        assert server.wait() == 0
        assert names(own_people) == ["ada", "bob", "eve", "zoe"]

    def test_one_that_does_not_end_is_left_to_recovery(self, paused, own_people):
        server, pause, thread, got = paused("after_phase_b_before_phase_c", "--drain-timeout", "0")
        server.send(signal.SIGTERM)
        assert server.wait() == 0
        pause.resume()
        thread.join(LONG)
        assert isinstance(got[0], httpx2.TransportError)
        assert "Traceback" not in server.log.read_text()
        assert names(own_people) == ["ada", "bob", "eve", "zoe"]

    def test_a_read_that_does_not_end_is_stopped(self, own_people, start):
        many = [{"type": "Person", "data": {"name": f"p{n}", "age": n}} for n in range(5_000)]
        with og.open(own_people) as graph:
            graph.load(many)
        server = start(
            *("--store", own_people, "--unauthenticated", "--drain-timeout", "0"),
            *("--metrics-bind", "127.0.0.1:0"),
        )
        thread, got = ask(server, "/graphs/default/query", {"query": ENDLESS})
        while server.gauges("queries_running") != [1]:
            assert thread.is_alive(), got
            time.sleep(0.01)
        assert server.stop() == 0
        thread.join(LONG)
        assert isinstance(got[0], httpx2.TransportError) or got[0].status_code >= 400
        log = server.log.read_text()
        assert "stopping what did not end" in log
        assert "Traceback" not in log

    def test_before_anything_is_served_the_first_ends(self, own_people, tmp_path, start):
        pause = FilePause(tmp_path / "pause")
        codes = []

        def boot():
            with pytest.raises(AssertionError, match="did not start"):
                start(
                    "--store",
                    own_people,
                    "--unauthenticated",
                    environ={
                        "OMNIGRAPH_FAILPOINTS": f"recovery.sidecar_list=pause:{tmp_path / 'pause'}"
                    },
                    started=codes.append,
                    fresh=True,
                )

        thread = threading.Thread(target=boot)
        thread.start()
        pause.wait_until_reached()
        (server,) = codes
        assert server.stop() == 143
        pause.resume()
        thread.join(LONG)

    def test_answers_under_way_are_in_the_log(self, people, start):
        server = start("--store", people, "--unauthenticated")
        health_of(server)
        assert server.stop() == 0
        events = [record["event"] for record in server.records]
        assert events[-3:] == ["request", "draining", "ended"]
        assert re.fullmatch(r"listening on 127\.0\.0\.1:\d+", events[-4])
