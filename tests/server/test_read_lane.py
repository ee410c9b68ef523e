"""Reads: which run, which wait, in which order, and what becomes of those that nobody waits for any more."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from omnigraph.cancel import Cancel, Cancelled, look
from omnigraph.errors import Busy, QueryCancelled, ResourceLimit
from omnigraph.server.handling import read_lane
from omnigraph.server.handling.read_lane import ReadJob, ReadLane
from tests.server.running import LONG


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(work, LONG))


@contextmanager
def lane_of(together: int, **limits: Any) -> Iterator[ReadLane]:
    lane = ReadLane(together, **{"patience": 10 * LONG, **limits})
    yield lane
    lane.close()


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():  # noqa: ASYNC110 - threads make it so
        await asyncio.sleep(0.001)


class Held:
    """Reads that go on until they are let go, and the order in which reads began."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.gates: dict[str, threading.Event] = {}

    def read(self, lane: ReadLane, name: str, token: Cancel | None = None) -> asyncio.Task[Any]:
        """Ask for a read that is held; its actor is the first word of its name."""
        gate = self.gates[name] = threading.Event()

        def work() -> str:
            self.begun.append(name)
            while not gate.wait(0.001):
                look()
            return name

        job = ReadJob(name.split(maxsplit=1)[0], work, token or Cancel())
        return asyncio.create_task(lane.run(job))

    def quick(self, lane: ReadLane, name: str) -> asyncio.Task[Any]:
        """Ask for a read that takes no time."""
        job = ReadJob(name.split(maxsplit=1)[0], lambda: self.begun.append(name), Cancel())
        return asyncio.create_task(lane.run(job))

    def let_go(self, *names: str) -> None:
        for name in names or self.gates:
            self.gates[name].set()


async def waited(lane: ReadLane, count: int) -> None:
    await until(lambda: lane.waiting == count)


def test_what_a_read_returns_and_raises():
    async def work(lane: ReadLane):
        assert await lane.run(ReadJob("ada", lambda: 5, Cancel())) == 5
        with pytest.raises(ZeroDivisionError):
            await lane.run(ReadJob("ada", lambda: 1 / 0, Cancel()))
        return lane.running, lane.waiting

    with lane_of(2) as lane:
        assert run(work(lane)) == (0, 0)


@pytest.mark.parametrize("ending", [KeyboardInterrupt, SystemExit, Cancelled])
def test_nothing_that_ends_programs_leaves_a_thread(ending):
    def ends() -> None:
        raise ending

    async def work(lane: ReadLane):
        with pytest.raises(Exception) as raised:  # noqa: PT011 - any but those
            await asyncio.create_task(lane.run(ReadJob(None, ends, Cancel())))
        assert await lane.run(ReadJob(None, lambda: 7, Cancel())) == 7
        return raised.value

    with lane_of(1) as lane:
        assert isinstance(run(work(lane)), RuntimeError | QueryCancelled)


class Clock:
    """Time as the lane sees it, which passes when a test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(read_lane, "monotonic", clock)
    return clock


@pytest.mark.usefixtures("clock")
def test_readers_are_let_in_actor_by_actor():
    async def work(lane: ReadLane):
        held = Held()
        tasks = [held.read(lane, "ada")]
        await until(lambda: held.begun == ["ada"])
        names = [f"ada {at}" for at in range(5)] + ["bob 0", "cyd 0", "bob 1"]
        for at, name in enumerate(names):
            tasks.append(held.quick(lane, name))
            await waited(lane, at + 1)
        held.let_go()
        await asyncio.gather(*tasks)
        return held.begun[1:], (lane.running, lane.waiting, len(lane._arrivals))

    with lane_of(1) as lane:
        order, left = run(work(lane))
    # However long the queue of one, the first of another waits for one of each at most.
    assert order == ["ada 0", "bob 0", "cyd 0", "ada 1", "bob 1", "ada 2", "ada 3", "ada 4"]
    assert left == (0, 0, 0)


def test_who_has_had_long_reads_gives_way_until_others_had_as_much(clock):
    """With turns alone there would be one short read for every long one."""

    async def work(lane: ReadLane):
        held, tasks = Held(), []
        tasks.append(held.read(lane, "heavy"))
        await until(lambda: held.begun == ["heavy"])
        for at, name in enumerate(["heavy 1", *(f"light {at}" for at in range(5))]):
            tasks.append(held.read(lane, name))
            await waited(lane, at + 1)
        while lane.running:
            name = held.begun[-1]
            clock.now += 1 if name.startswith("heavy") else 0.3
            begun = len(held.begun)
            held.let_go(name)
            await until(lambda begun=begun: len(held.begun) > begun or not lane.running)
        await asyncio.gather(*tasks)
        return held.begun

    with lane_of(1) as lane:
        order = run(work(lane))
    # Four times 0.3 s are more than the second that the long read took.
    assert order == ["heavy", *(f"light {at}" for at in range(4)), "heavy 1", "light 4"]


def test_whoever_was_away_is_not_owed_the_time_of_others(clock):
    async def work(lane: ReadLane):
        held = Held()
        await held.quick(lane, "away")
        for at in range(3):
            task = held.read(lane, f"heavy {at}")
            await until(lambda at=at: f"heavy {at}" in held.begun)
            clock.now += 10
            held.let_go(f"heavy {at}")
            await task
        last = held.read(lane, "heavy 3")
        await until(lambda: "heavy 3" in held.begun)
        back = held.quick(lane, "away again")
        await waited(lane, 1)
        paid = lane._readers["away"].had
        held.let_go()
        await asyncio.gather(last, back)
        return paid

    with lane_of(1) as lane:
        assert run(work(lane)) == 30


def test_as_many_run_as_may_and_one_turn_is_left_for_others():
    async def work(lane: ReadLane):
        held = Held()
        tasks = [held.read(lane, f"ada {at}") for at in range(5)]
        await until(lambda: lane.running == 3)
        assert lane.waiting == 2
        # However long those run.
        await held.quick(lane, "bob")
        held.let_go("ada 0")
        await until(lambda: "ada 3" in held.begun)
        assert (lane.running, lane.waiting) == (3, 1)
        held.let_go()
        return [await task for task in tasks]

    with lane_of(4) as lane:
        assert run(work(lane)) == [f"ada {at}" for at in range(5)]


def test_without_tokens_all_turns_are_for_everybody():
    async def work(lane: ReadLane):
        gate = threading.Event()
        jobs = [ReadJob(None, gate.wait, Cancel()) for _ in range(4)]
        tasks = [asyncio.create_task(lane.run(job)) for job in jobs]
        await until(lambda: lane.running == 3)
        assert lane.waiting == 1
        gate.set()
        await asyncio.gather(*tasks)

    with lane_of(3) as lane:
        run(work(lane))


def test_a_further_thread_joins_only_beside_slow_reads(clock):
    async def work(lane: ReadLane):
        held = Held()
        first = held.read(lane, "ada 0")
        await until(lambda: lane.running == 1)
        second = held.read(lane, "ada 1")
        await asyncio.sleep(5 * read_lane.SLOW)
        assert (lane.running, lane.waiting) == (1, 1), "the first has only just begun"
        clock.now += 2 * read_lane.SLOW
        await until(lambda: lane.running == 2)
        clock.now += 2 * read_lane.SLOW
        third = held.read(lane, "ada 2")
        await asyncio.sleep(0)
        assert lane.running == 3, "beside slow ones nobody waits"
        held.let_go()
        await asyncio.gather(first, second, third)

    with lane_of(4) as lane:
        run(work(lane))


def test_short_reads_one_after_another_take_one_thread():
    async def work(lane: ReadLane):
        threads = set()
        for _ in range(50):
            job = ReadJob("ada", lambda: threads.add(threading.get_ident()), Cancel())
            await lane.run(job)
        return len(threads)

    with lane_of(4) as lane:
        assert run(work(lane)) == 1


def test_nobody_has_more_than_half_of_the_turns_while_others_are_about(clock):
    async def work(lane: ReadLane):
        held = Held()
        await held.quick(lane, "light")
        tasks = []
        for at in range(5):
            tasks.append(held.read(lane, f"heavy {at}"))
            await asyncio.sleep(0)
            clock.now += 2 * read_lane.SLOW
        await until(lambda: lane.running == 2)
        await asyncio.sleep(5 * read_lane.SLOW)
        assert (lane.running, lane.waiting) == (2, 3)
        await held.quick(lane, "light again")
        assert (lane.running, lane.waiting) == (2, 3)
        clock.now += 2 * read_lane.ABOUT
        await until(lambda: lane.running == 3)
        held.let_go()
        await asyncio.gather(*tasks)

    with lane_of(4) as lane:
        run(work(lane))


@pytest.mark.parametrize(("an_actor", "in_all", "actors"), [(2, 9, "aaa"), (9, 2, "abc")])
def test_no_more_wait_than_may(an_actor, in_all, actors):
    async def work(lane: ReadLane):
        held = Held()
        tasks = [held.read(lane, "x")]
        await until(lambda: held.begun == ["x"])
        for at, actor in enumerate(actors[:2]):
            tasks.append(held.quick(lane, actor))
            await waited(lane, at + 1)
        with pytest.raises(Busy):
            await held.quick(lane, actors[2])
        assert (lane.running, lane.waiting) == (1, 2)
        held.let_go()
        await asyncio.gather(*tasks)
        return lane.running, lane.waiting

    with lane_of(1, an_actor=an_actor, in_all=in_all) as lane:
        assert run(work(lane)) == (0, 0)


def test_nobody_waits_longer_than_may_be():
    async def work(lane: ReadLane):
        held = Held()
        first = held.read(lane, "ada")
        await until(lambda: held.begun == ["ada"])
        refused = [held.quick(lane, "bob"), held.quick(lane, "cyd")]
        for task in refused:
            with pytest.raises(Busy):
                await task
        assert (lane.running, lane.waiting, len(lane._arrivals)) == (1, 0, 0)
        held.let_go()
        await first
        return held.begun

    with lane_of(1, patience=0.01) as lane:
        assert run(work(lane)) == ["ada"]


def test_whoever_gives_up_while_waiting_leaves_the_queue():
    async def work(lane: ReadLane):
        held = Held()
        first = held.read(lane, "ada")
        await until(lambda: held.begun == ["ada"])
        gone, next_one = held.quick(lane, "bob gone"), held.quick(lane, "bob")
        await waited(lane, 2)
        gone.cancel()
        await waited(lane, 1)
        held.let_go()
        await asyncio.gather(first, next_one)
        return held.begun, lane.running, lane.waiting

    with lane_of(1) as lane:
        assert run(work(lane)) == (["ada", "bob"], 0, 0)


def test_a_read_that_is_forgotten_while_waiting_raises_what_is_said():
    async def work(lane: ReadLane):
        held = Held()
        first = held.read(lane, "ada")
        await until(lambda: held.begun == ["ada"])
        job = ReadJob("bob", lambda: held.begun.append("bob"), Cancel())
        task = asyncio.create_task(lane.run(job))
        await waited(lane, 1)
        lane.forget(job, ConnectionError())
        with pytest.raises(ConnectionError):
            await task
        held.let_go()
        await first
        lane.forget(job, ConnectionError())
        return held.begun, lane.running, lane.waiting

    with lane_of(1) as lane:
        assert run(work(lane)) == (["ada"], 0, 0)


def test_the_turn_of_a_read_is_free_when_it_has_ended_and_not_before():
    goes_on = threading.Event()

    async def work(lane: ReadLane):
        token, begun = Cancel(), threading.Event()

        def deaf() -> None:
            begun.set()
            goes_on.wait(LONG)

        task = asyncio.create_task(lane.run(ReadJob("ada", deaf, token)))
        await until(begun.is_set)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (lane.running, lane.tokens()) == (1, [token])
        with pytest.raises(QueryCancelled):
            token.check()
        goes_on.set()
        await until(lambda: not lane.running)

    with lane_of(1) as lane:
        run(work(lane))


def test_nothing_of_an_answer_stays_when_it_was_given():
    class Answer:
        pass

    async def work(lane: ReadLane):
        answer = await lane.run(ReadJob("ada", Answer, Cancel()))
        return weakref.ref(answer)

    with lane_of(1) as lane:
        seen = run(work(lane))
        # The thread may be a moment away from asking for the next read.
        for _ in range(1000):
            gc.collect()
            if seen() is None:
                break
            time.sleep(0.01)
        assert seen() is None


def test_a_read_without_a_thread_fails_and_leaves_its_turn(monkeypatch):
    def none_left(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def work(lane: ReadLane):
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", none_left)
            with pytest.raises(RuntimeError, match="thread"):
                await lane.run(ReadJob("ada", lambda: 5, Cancel()))
        assert lane.running == 0
        return await lane.run(ReadJob("ada", lambda: 5, Cancel()))

    with lane_of(1) as lane:
        assert run(work(lane)) == 5


def test_threads_end_with_the_lane():
    async def work(lane: ReadLane):
        held = Held()
        tasks = [held.read(lane, f"ada {at}") for at in range(2)]
        await until(lambda: lane.running == 2)
        held.let_go("ada 0")
        await tasks[0]
        mine = [each for each in threading.enumerate() if each.name == "omnigraph-read"]
        lane.close()
        held.let_go()
        await tasks[1]
        return mine

    before = {each for each in threading.enumerate() if each.name == "omnigraph-read"}
    for thread in set(run(work(ReadLane(3)))) - before:
        thread.join(LONG)
        assert not thread.is_alive()


def test_a_read_that_does_not_notice_its_time_is_answered_for(clock):
    async def work(lane: ReadLane):
        gate = threading.Event()
        stuck = ReadJob("ada", gate.wait, Cancel(), 2.0)
        task = asyncio.create_task(lane.run(stuck))
        await until(lambda: lane.running == 1)
        lane.end_by(stuck, 2.0)
        clock.now += 2.0 + read_lane.GRACE / 2
        lane.end_by(stuck, 2.0)
        await asyncio.sleep(0)
        assert not task.done()
        clock.now += read_lane.GRACE
        lane.end_by(stuck, 2.0)
        with pytest.raises(ResourceLimit) as raised:
            await task
        # Its thread is still there, and so is the turn that it has.
        assert lane.running == 1
        gate.set()
        await until(lambda: lane.running == 0)
        return raised.value.details

    with lane_of(1) as lane:
        details = run(work(lane))
    assert (details["resource"], details["limit"]) == ("query_milliseconds", 2000)
