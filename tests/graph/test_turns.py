"""A short write goes before queries that begin meanwhile; a long one holds nobody up."""

import math
import threading
import time
from contextlib import contextmanager

import pytest

import omnigraph
from omnigraph.graph import reads, writes
from omnigraph.graph.turns import Turns

SCHEMA = "node N { key: String @key }"
COUNT = "query q() { match { $n: N } return { count($n) as n } }"
INSERT = 'query q() { insert N { key: "a" } }'


class Readers:
    """Threads that each take a turn and keep it until they are told to leave."""

    def __init__(self, turns):
        self.turns = turns
        self.inside = []
        self.leave = {}
        self.threads = []

    def start(self, name):
        self.leave[name] = threading.Event()
        thread = threading.Thread(target=self._read, args=[name])
        self.threads.append(thread)
        thread.start()

    def _read(self, name):
        with self.turns.reading():
            self.inside.append(name)
            self.leave[name].wait(600)

    def wait_for(self, *names):
        until = time.monotonic() + 120
        while self.inside != [*names] and time.monotonic() < until:
            time.sleep(0.001)
        assert self.inside == [*names]


@contextmanager
def readers(turns):
    made = Readers(turns)
    yield made
    for event in made.leave.values():
        event.set()
    for thread in made.threads:
        thread.join()


def test_without_a_write_all_read_at_once():
    with readers(Turns(longest=math.inf, together=1)) as those:
        those.start("one")
        those.wait_for("one")
        those.start("two")
        those.wait_for("one", "two")


def test_beside_a_write_one_reads_after_the_other():
    turns = Turns(longest=600, together=1)
    with readers(turns) as those, turns.writing():
        those.start("one")
        those.wait_for("one")
        those.start("two")
        time.sleep(0.2)  # enough for a reader that need not wait
        those.wait_for("one")
        those.leave["one"].set()
        those.wait_for("one", "two")


def test_with_more_cores_more_read_at_once():
    turns = Turns(longest=600, together=2)
    with readers(turns) as those, turns.writing():
        those.start("one")
        those.wait_for("one")
        those.start("two")
        those.wait_for("one", "two")
        those.start("three")
        time.sleep(0.2)  # enough for a reader that need not wait
        those.wait_for("one", "two")
        those.leave["two"].set()
        those.wait_for("one", "two", "three")


def test_who_waits_goes_on_when_the_write_ends():
    turns = Turns(longest=600, together=1)
    with readers(turns) as those:
        with turns.writing():
            those.start("one")
            those.wait_for("one")
            those.start("two")
            time.sleep(0.05)
        those.wait_for("one", "two")


def test_a_long_write_holds_nobody_up():
    turns = Turns(longest=0.01, together=1)
    with readers(turns) as those, turns.writing():
        those.start("one")
        those.wait_for("one")
        those.start("two")
        those.wait_for("one", "two")


def test_a_write_that_fails_ends_its_turn():
    turns = Turns(longest=600, together=1)
    with pytest.raises(ZeroDivisionError), turns.writing():
        raise ZeroDivisionError
    with readers(turns) as those:
        those.start("one")
        those.wait_for("one")
        those.start("two")
        those.wait_for("one", "two")


def test_one_write_after_the_other_holds_nobody_up():
    """A reader that waits is not put off again by each new write."""
    turns, stopped = Turns(longest=0.2, together=1), threading.Event()

    def write():
        while not stopped.is_set():
            with turns.writing(), turns.writing():
                time.sleep(0.001)

    writers = [threading.Thread(target=write) for _ in range(2)]
    with readers(turns) as those:
        for writer in writers:
            writer.start()
        those.start("one")
        those.wait_for("one")
        those.start("two")
        those.wait_for("one", "two")
        stopped.set()
    for writer in writers:
        writer.join()


def test_a_query_inside_a_write_gets_its_turn(tmp_path, monkeypatch):
    """As of an embedder that asks the graph: whoever writes must not wait for itself."""
    turns = Turns(longest=0.05, together=1)
    monkeypatch.setattr(reads, "TURNS", turns)
    monkeypatch.setattr(writes, "TURNS", turns)
    with omnigraph.init(tmp_path / "g", SCHEMA) as graph, turns.writing(), turns.reading():
        graph.mutate(INSERT)
        assert graph.query(COUNT).rows == [{"n": 1}]


def test_what_is_forgotten_after_a_fork_holds_nobody_up():
    turns = Turns(longest=math.inf, together=1)
    turns.writing().__enter__()  # by a thread that is not there in the child
    turns.forget()
    with readers(turns) as those:
        those.start("one")
        those.wait_for("one")
        those.start("two")
        those.wait_for("one", "two")
