"""Stopping: whatever a handle is reading ends at the next look, and the handle goes on working."""

import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.cancel import Cancelled, watching
from omnigraph.clock import now_us
from omnigraph.errors import QueryCancelled, ResourceLimit
from omnigraph.read.kernels.csr import csr_of
from omnigraph.read.thresholds import (
    MatchThresholds,
    OutputThresholds,
    SearchThresholds,
    Thresholds,
    ViewThresholds,
)
from omnigraph.storage.locks.read_leases import live_leases
from tests.graphs import exported
from tests.opened import read_with, workspace_of
from tests.stopping import StopAt

SCHEMA = """
node Person { name: String @key  age: I64  bio: String  place: Vector(4)? }
node Tag { name: String @key  size: I64 }
edge Knows: Person -> Person { since: I64 }
"""
PEOPLE, EDGES, TAGS = 400, 4_000, 5_000
# Small pieces, so that little data is much work.
PIECES = Thresholds(
    view=ViewThresholds(threaded_rows=1000, batch_rows=256, chunk_rows=1000),
    match=MatchThresholds(batch_rows=2000, small_seconds=10.0),
    search=SearchThresholds(texts_at_once=100, vectors_at_once=64, unindexed_rows=50),
    output=OutputThresholds(grouped_rows=500, fetched_rows=100),
)


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    random = np.random.default_rng(7)
    people = [
        {
            "type": "Person",
            "data": {
                "name": f"p{at:04}",
                "age": at % 70,
                "bio": f"word{at % 13} term{at % 7} end",
                "place": [float(value) for value in random.random(4)],
            },
        }
        for at in range(PEOPLE)
    ]
    ends = random.integers(0, PEOPLE, (EDGES, 2))
    knows = [
        {"edge": "Knows", "from": f"p{a:04}", "to": f"p{b:04}", "data": {"since": at}}
        for at, (a, b) in enumerate(ends.tolist())
    ]
    tags = [{"type": "Tag", "data": {"name": f"t{at}", "size": at}} for at in range(TAGS)]
    place = tmp_path_factory.mktemp("stopping") / "graph"
    with og.init(place, SCHEMA, upkeep="off") as opened:
        opened.load(people, mode="merge")
        opened.load(tags, mode="merge")
        opened.load(knows, mode="merge")
        opened.mutate(
            "query older() { update Person set { age: 99 } where age > 60 }", branch="main"
        )
        yield opened


def cold(graph: og.Graph) -> og.Graph:
    """The handle without anything in memory, working in small pieces."""
    read_with(graph, PIECES)
    return graph


def asked(match: str, returned: str) -> str:
    return f"query q() {{ match {{ {match} }} {returned} }}"


# What no machine finishes while a test waits: it ends because it looks, or not at all.
ENDLESS = {
    "cross product": asked(
        "$a: Tag $b: Tag $c: Tag $a.size < $b.size $b.size != $c.size $c.size > $a.size",
        "return { count($a) as n }",
    ),
    "listed cross product": asked(
        "$a: Tag $b: Tag $c: Tag", "return { $a.name, $b.name, $c.name }"
    ),
    "ordered cross product": asked(
        "$a: Tag $b: Tag $c: Tag", "return { $a.name, $b.size } order { $b.size } limit 5"
    ),
    "hops": asked(
        "$a: Person $b: Person $c: Person $d: Person $e: Person $a knows{1,300} $b $b knows{1,300} $c "
        "$c knows{1,300} $d $d knows{1,300} $e $a.age < $e.age $b.age < $d.age $c.age != $a.age",
        "return { count($a) as n }",
    ),
    "aggregate": asked(
        "$a: Person $b: Person $c: Person $d: Person $e: Person $a knows $b $b knows $c $c knows $d "
        "$d knows $e $e knows $a",
        "return { $a.name, $c.name, count($b) as n, sum($d.age) as s }",
    ),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_endless_work_ends_at_a_look(graph, name):
    token = StopAt(60)
    with pytest.raises(QueryCancelled):
        cold(graph).query(ENDLESS[name], cancel=token)
    assert token.looks >= 60
    assert graph.query(asked("$t: Tag", "return { count($t) as n }")).scalar() == TAGS


def test_a_deadline_ends_endless_work(graph):
    with pytest.raises(ResourceLimit) as stopped:
        cold(graph).query(ENDLESS["cross product"], timeout=0.2)
    details = stopped.value.details
    assert (details["resource"], details["limit"]) == ("query_milliseconds", 200)
    assert details["actual"] >= 200


def polled(graph: og.Graph, **options: Any) -> Any:
    return graph.changes.poll(start="beginning", **options).to_json()["blocks"]


def compared(graph: og.Graph, **options: Any) -> Any:
    first = graph.commits.list()[-1].graph_commit_id
    return list(graph.diff(og.at(snapshot=first), "main", **options))


def of_query(match: str, returned: str) -> Callable[..., Any]:
    return lambda graph, **options: graph.query(asked(match, returned), **options).rows


WORK: dict[str, Callable[..., Any]] = {
    "listed": of_query("$a: Person $a knows $b", "return { $a.name, $b.bio }"),
    "ordered": of_query(
        "$a: Person $a knows $b", "return { $a.name, $b.age } order { $b.age, $a.name } limit 9"
    ),
    "grouped": of_query("$a: Person $a knows $b", "return { $a.age, count($b) as n }"),
    "hops": of_query("$a: Person $a knows{2,4} $b", "return { $a.name, count($b) as n }"),
    "text": of_query('$a: Person search($a.bio, "word3")', "return { $a.name }"),
    "fuzzy": of_query('$a: Person fuzzy($a.bio, "wrd3", 1)', "return { $a.name }"),
    "nearest": of_query(
        "$a: Person", "return { $a.name } order { nearest($a.place, [0.1, 0.2, 0.3, 0.4]) } limit 3"
    ),
    "bm25": of_query(
        "$a: Person", 'return { $a.name } order { bm25($a.bio, "term2 word1") } limit 9'
    ),
    "diff": compared,
    "export": exported,
    "poll": polled,
    "entity": lambda graph, **options: graph.entity("node", "Person", "p0007", **options),
    "explain": lambda graph, **options: (
        graph.explain(asked("$a: Person $a knows $b", "return { $b.name }"), **options).path
    ),
}


@pytest.mark.parametrize("name", WORK)
def test_work_stops_at_any_look_and_leaves_a_working_handle(graph, name):
    work = WORK[name]
    expected = work(cold(graph))
    counting = StopAt()
    assert work(cold(graph), cancel=counting) == expected
    assert counting.looks >= 2
    stopped = 0
    for nth in sorted({1, 2, *np.linspace(3, counting.looks, 4, dtype=int).tolist()}):
        token = StopAt(nth)
        try:
            answer = work(cold(graph), cancel=token)
        except QueryCancelled:
            stopped += 1
        else:
            # A thread that waits for another looks as often as it has to wait.
            assert token.looks < nth
            assert answer == expected
        # Nothing half made is kept: the same handle, warm with what it had, answers the same.
        assert work(graph) == expected
    assert stopped >= 2
    assert live_leases(workspace_of(graph).store, now_us()) == []


def test_a_stopped_export_leaves_no_file(graph, tmp_path):
    out = tmp_path / "all.jsonl"
    counting = StopAt()
    graph.export(out, cancel=counting)
    nth = counting.looks
    while out.exists():
        out.unlink()
        # Behind the first of three types: something was written. Who has to wait looks more often, though.
        nth //= 2
        with suppress(QueryCancelled):
            graph.export(out, cancel=StopAt(nth))
    assert list(tmp_path.iterdir()) == []


def test_a_waiter_does_not_wait_for_what_another_builds(graph):
    """A reader that needs what another one is building stops by itself, and the other goes on."""
    cache = cold(graph)._state.reader.cache
    may_end, is_building = threading.Event(), threading.Event()

    def build() -> int:
        is_building.set()
        may_end.wait()
        return 5

    builder = threading.Thread(target=cache.get, args=("key", build, lambda _: 8))
    builder.start()
    is_building.wait()
    with watching(StopAt(4)), pytest.raises(Cancelled):
        cache.get("key", lambda: 6, lambda _: 8)
    may_end.set()
    builder.join()
    assert cache.peek("key") == 5


@pytest.mark.parametrize("name", ["cross product", "hops", "aggregate"])
def test_ctrl_c_ends_a_query(graph, name):
    """Without a token: the signal becomes an exception in the main thread while the engine works."""
    ended = threading.Event()
    main = threading.main_thread().ident
    assert main == threading.get_ident()

    def press() -> None:
        while not ended.wait(0.01):
            frame = sys._current_frames().get(main)
            while frame is not None and "omnigraph/read/match" not in frame.f_code.co_filename:
                frame = frame.f_back
            if frame is not None:
                signal.pthread_kill(main, signal.SIGINT)
                return

    cold(graph)
    pressing = threading.Thread(target=press)
    pressing.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            graph.query(ENDLESS[name])
    finally:
        ended.set()
        pressing.join()
    assert graph.query(asked("$t: Tag", "return { count($t) as n }")).scalar() == TAGS


WRITES: dict[str, Callable[[og.Graph, str], object]] = {
    "mutate": lambda graph, key: graph.mutate(
        f'query add() {{ insert Tag {{ name: "{key}", size: 1 }} }}'
    ),
    "load": lambda graph, key: graph.load(
        [{"type": "Tag", "data": {"name": key, "size": 1}}], mode="merge"
    ),
}


class TestCompiledLoops:
    """Loops over adjacency run in calls that do not take long."""

    @pytest.fixture
    def in_pieces(self):
        return pytest.importorskip("omnigraph.read.kernels.numba_loops").in_pieces

    def test_every_item_is_done_once(self, in_pieces):
        effort = np.concatenate([[0], np.cumsum(np.arange(1000) % 17)])
        done = np.zeros(1000, np.int64)
        calls = []

        def loop(first: int, last: int) -> int | None:
            calls.append((first, last))
            # Some calls take longer than was said, and stop early.
            last = min(last, first + 5) if first % 2 else last
            done[first:last] += 1
            return last

        in_pieces(loop, effort, call=300)
        assert done.tolist() == [1] * 1000
        assert len(calls) >= effort[-1] / 300

    def test_they_stop_between_calls(self, in_pieces):
        effort = np.arange(0, 100_001, 100)
        calls = []
        token = StopAt(5)
        with watching(token), pytest.raises(Cancelled):
            in_pieces(lambda *ends: calls.append(ends), effort, call=100)
        assert len(calls) < 20

    def test_long_searches_go_on_where_they_stopped(self):
        """More edges than one call follows: everybody knows everybody, and one more is out of reach."""
        hops_numba = pytest.importorskip("omnigraph.read.kernels.hops_numba")
        size = 2000
        row = np.repeat(np.arange(size, dtype=np.int32), size)
        column = np.tile(np.arange(size, dtype=np.int32), size)
        other = row != column
        csr = csr_of(row[other], column[other], (size + 1, size + 1))
        starts = np.arange(16, dtype=np.int32)
        none = np.zeros(size + 1, np.bool_)
        assert len(starts) * len(csr.indices) > hops_numba.CALL_STEPS
        counts = hops_numba.counted(csr, starts, 1, 2, none, False, None)
        assert counts.tolist() == [size - 1] * len(starts)
        emitted, nodes = hops_numba.emitted(csr, starts, 1, 2, none, False, 10**6)
        assert 0 < len(emitted) < len(starts)
        assert (emitted == size - 1).all()
        assert len(nodes) == len(emitted) * (size - 1)


class TestWrites:
    """A write is stopped before it changes anything that others see, or not at all."""

    @pytest.fixture
    def small(self, tmp_path):
        with og.init(tmp_path / "graph", SCHEMA) as graph:
            graph.load([{"type": "Tag", "data": {"name": "t", "size": 1}}], mode="merge")
            yield graph

    @pytest.mark.parametrize("name", WRITES)
    def test_all_or_nothing(self, small, name):
        write = WRITES[name]
        counting = StopAt()
        with watching(counting):
            write(small, "counted")
        assert counting.looks > 1
        stopped = 0
        for nth in range(1, counting.looks + 3):
            head = small.snapshot().graph_commit_id
            token = StopAt(nth)
            try:
                with watching(token):
                    write(small, f"k{nth}")
            except Cancelled:
                stopped += 1
                assert small.snapshot().graph_commit_id == head
                assert small.entity("node", "Tag", f"k{nth}") is None
            else:
                assert small.snapshot().graph_commit_id != head
                assert small.entity("node", "Tag", f"k{nth}") is not None
        assert stopped >= 1
        assert small.status().pending_recoveries == 0

    def test_nothing_stops_a_write_that_has_begun(self, small):
        """The token fires in the middle of the commit, and the commit is made."""
        token = og.Cancel()
        point = "mutation.after_phase_b_before_phase_c"
        with failpoints.arm(point, lambda _: token.cancel()) as armed, watching(token):
            result = WRITES["mutate"](small, "late")
        assert armed.fired == 1
        assert result.commit is not None
        assert small.entity("node", "Tag", "late") is not None
