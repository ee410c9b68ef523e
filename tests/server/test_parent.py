"""The parent of workers, with small processes in place of workers; and the port that they share."""

from __future__ import annotations

import os
import pickle
import select
import signal
import socket
import sys
import threading

import pytest

from omnigraph.errors import StorageError
from omnigraph.server.hosts import Authority
from omnigraph.server.process import parent as parents
from omnigraph.server.process.boot_data import BootData, read_boot_data
from omnigraph.server.process.channel import HandedDown, handed_down
from omnigraph.server.process.flags import parse_options
from omnigraph.server.process.parent import Parent
from omnigraph.server.process.ports import Port, bind
from omnigraph.server.process.serving import listen
from omnigraph.server.tokens import TokenTable
from tests.server.running import LONG

PROGRAM = """
import os, socket, sys
channel = socket.socket(fileno=int(sys.argv[1]))
starts = 0
while True:
    try:
        os.symlink(str(os.getpid()), f"start-{starts}")
        break
    except FileExistsError:
        starts += 1
"""
"""The beginning of a stand-in for a worker: its channel, and how many were started before it."""
SERVES = """
channel.sendall(b"R")
order = channel.recv(1)
sys.exit({b"D": 0, b"E": 3, b"": 4}[order])
"""


@pytest.fixture
def family(tmp_path, monkeypatch):
    """Run a parent whose workers are a program of the test, in a thread."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(parents, "GRACE_SECONDS", LONG)
    parents_made = []

    def running(program, *flags, spreads=True):
        monkeypatch.setattr(
            parents, "COMMAND", (sys.executable, "-I", "-S", "-c", PROGRAM + program)
        )
        options = parse_options(["--store", "g", "--unauthenticated", *flags])
        ready = threading.Event()
        port = Port(listen("127.0.0.1", 0), spreads=spreads)
        given = HandedDown(options, BootData(), Authority("127.0.0.1", 1))
        made = Parent(given, port, ready.set)
        codes = []
        thread = threading.Thread(target=lambda: codes.append(made.run()), daemon=True)
        thread.start()
        parents_made.append((made, thread, port))

        def wait():
            thread.join(LONG)
            assert not thread.is_alive()
            return codes[0]

        return made, ready, wait

    yield running
    for made, thread, port in parents_made:
        made.drain()
        thread.join(LONG)
        port.close()


def pids(place):
    """The processes that were started."""
    return [int(os.readlink(each)) for each in sorted(place.glob("start-*"))]


class TestLookingAfter:
    def test_ready_when_all_are_and_drained_when_asked(self, family, caplog):
        made, ready, wait = family(SERVES, "--workers", "3")
        assert ready.wait(LONG)
        caplog.set_level("INFO", "omnigraph")
        made.drain()
        assert wait() == 0
        assert [record.getMessage() for record in caplog.records] == ["draining", "ended"]
        assert made.restarts == 0

    @pytest.mark.parametrize(
        ("program", "said"),
        [
            ("channel.sendall('Fthe graph is gäne'.encode()); sys.exit(1)", "the graph is gäne"),
            ("os.kill(os.getpid(), 9)", "SIGKILL before it was ready"),
            ("sys.exit(5)", "exit code 5 before it was ready"),
        ],
    )
    def test_one_that_cannot_be_started_ends_the_server(self, family, caplog, program, said):
        _, ready, wait = family(program, "--workers", "2")
        assert wait() == 1
        assert not ready.is_set()
        (record,) = [record for record in caplog.records if record.levelname == "ERROR"]
        assert said in record.getMessage()

    def test_the_others_are_ended_with_it(self, family, tmp_path):
        _, _, wait = family(
            "if starts: channel.sendall(b'Fno'); sys.exit(1)\n" + SERVES, "--workers", "2"
        )
        assert wait() == 1
        for pid in pids(tmp_path):
            with pytest.raises(ProcessLookupError):
                os.kill(pid, 0)

    def test_one_that_dies_is_started_again_after_growing_pauses(self, family, caplog, monkeypatch):
        monkeypatch.setattr(parents, "LONGEST_PAUSE", 0.08)
        monkeypatch.setattr(parents.Place, "__init__", _pausing(parents.Place.__init__, 0.01))
        made, ready, wait = family(
            "channel.sendall(b'R')\nif starts < 6: os.kill(os.getpid(), 9)\nchannel.recv(1)",
            "--workers",
            "2",
        )
        while made.restarts < 6 or not _all_ready(made):
            ready.wait(0.01)
        made.drain()
        assert wait() == 0
        told = [r.getMessage() for r in caplog.records if "another one" in r.getMessage()]
        assert len(told) == 6
        pauses = {
            number: [
                float(each.split()[-2]) for each in told if each.startswith(f"worker {number}")
            ]
            for number in (1, 2)
        }
        for found in pauses.values():
            assert found == [0.01, 0.02, 0.04, 0.08, 0.08, 0.08][: len(found)]
        assert all("SIGKILL" in each for each in told)

    def test_the_pauses(self):
        assert (parents.FIRST_PAUSE, parents.LONGEST_PAUSE) == (1, 30)

    def test_one_that_cannot_be_started_later_is_tried_again(self, family, caplog, monkeypatch):
        monkeypatch.setattr(parents.Place, "__init__", _pausing(parents.Place.__init__, 0.01))
        made, ready, wait = family(
            "if starts == 2: channel.sendall(b'Fthe store is away'); sys.exit(1)\n"
            "channel.sendall(b'R')\n"
            "if starts == 1: sys.exit(7)\n"
            "channel.recv(1)",
            "--workers",
            "2",
        )
        while made.restarts < 2 or not _all_ready(made):
            ready.wait(0.01)
        made.drain()
        assert wait() == 0
        told = [r.getMessage() for r in caplog.records if "another one" in r.getMessage()]
        assert ["exit code 7" in told[0], "the store is away" in told[1]] == [True, True]

    def test_one_that_does_not_end_is_killed(self, family, caplog, monkeypatch):
        monkeypatch.setattr(parents, "GRACE_SECONDS", -15.0)
        made, ready, wait = family(
            "channel.sendall(b'R')\nwhile True: channel.recv(1)",
            "--workers",
            "2",
            "--drain-timeout",
            "0",
        )
        assert ready.wait(LONG)
        made.drain()
        assert wait() == 0
        assert sum("is killed" in record.getMessage() for record in caplog.records) == 2

    def test_at_once_a_stopped_one_is_killed_too(self, family, tmp_path, monkeypatch):
        monkeypatch.setattr(parents, "AT_ONCE_SECONDS", 0.05)
        # In a server nothing runs any more after that; here the thread of the parent goes on. It starts no
        # other worker, and does not wait for one that it did not see end.
        monkeypatch.setattr(parents.Place, "__init__", _pausing(parents.Place.__init__, LONG))
        monkeypatch.setattr(parents, "GRACE_SECONDS", -15.0)
        made, ready, wait = family(SERVES, "--workers", "2", "--drain-timeout", "0")
        assert ready.wait(LONG)
        os.kill(pids(tmp_path)[0], signal.SIGSTOP)
        made.end_at_once()
        for pid in pids(tmp_path):
            with pytest.raises(ProcessLookupError):
                os.kill(pid, 0)
        made.drain()
        assert wait() == 0

    def test_tokens_are_not_in_the_environment_of_workers(self, family, tmp_path, monkeypatch):
        monkeypatch.setenv("OMNIGRAPH_SERVER_BEARER_TOKEN", "t-alone")
        monkeypatch.setenv("OMNIGRAPH_SERVER_BEARER_TOKENS_JSON", '{"ada": "t-json"}')
        made, ready, wait = family(
            "open('env', 'w').write(repr(os.environ))\n" + SERVES, "--workers", "2"
        )
        assert ready.wait(LONG)
        made.drain()
        assert wait() == 0
        text = (tmp_path / "env").read_text()
        assert "PATH" in text
        assert "t-alone" not in text
        assert "t-json" not in text


def _pausing(make, pause):
    def made(self, number):
        make(self, number, pause=pause)

    return made


def _all_ready(made):
    return all(place.worker is not None and place.worker.is_ready for place in made._places)


class TestHandingDown:
    def test_what_is_read_is_handed_down_as_it_is(self, tmp_path):
        (tmp_path / "q").mkdir()
        query = "query all() { match { $p: Person } return { $p.name } }"
        (tmp_path / "q" / "all.gq").write_text(query)
        (tmp_path / "p.yaml").write_text(
            "version: 1\ngroups: { readers: [ada] }\nrules:\n"
            "  - id: r\n    allow: { actors: { group: readers }, actions: [read] }\n"
        )
        flags = ["--graph", "a=x", "--graph", "b=y", "--policy", f"{tmp_path / 'p.yaml'}"]
        options = parse_options([*flags, "--queries", f"a={tmp_path / 'q'}", "--workers", "2"])
        tokens = TokenTable({"ada": "t-s3cr3t"})
        given = HandedDown(options, read_boot_data(options, tokens), Authority("::1", 80))
        with given.store() as file:
            found = [handed_down(file.fileno()) for _ in range(2)]
            assert b"t-s3cr3t" not in os.pread(file.fileno(), 1 << 20, 0)
        for each in found:
            assert (each.options, each.bound) == (options, given.bound)
            assert each.data.bundles == given.data.bundles
            assert each.data.bundles["a"] is each.data.bundles["b"]
            assert [source.text for source in each.data.queries["a"]] == [query]
            assert each.data.tokens is not None
            assert each.data.tokens.verify("t-s3cr3t") == "ada"
            assert each.data.tokens.verify("t-other") is None
        assert pickle.loads(pickle.dumps(BootData())).is_open


class TestPorts:
    def test_a_socket_for_each_and_connections_for_those_that_listen(self):
        port = Port(listen("127.0.0.1", 0))
        with port.listener() as one, port.listener() as other:
            place = one.getsockname()
            assert other.getsockname() == place
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(place)
            one.listen()
            with socket.create_connection(place):
                _accepted(one).close()
            other.listen()
            one.close()
            with socket.create_connection(place):
                _accepted(other).close()
            # Nobody else gets the port meanwhile, not even one who would share it.
            with pytest.raises(StorageError, match="choose another --bind"):
                bind(*place, "--bind")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(place)
        with port.listener() as again:
            again.listen()
            socket.create_connection(place).close()
        port.close()

    def test_one_socket_for_all_where_the_system_spreads_nothing(self):
        port = Port(listen("127.0.0.1", 0), spreads=False)
        one, other = port.listener(), port.listener()
        place = one.getsockname()
        one.listen()
        one.close()
        with socket.create_connection(place):
            accepted = _accepted(other)
            accepted.close()
        port.close()
        other.close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(place)


def _accepted(listener):
    select.select([listener], [], [], LONG)
    return listener.accept()[0]
