"""Engine work in threads: what it raises, when its place is free, and what stops it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from omnigraph.cancel import Cancel, Cancelled, look
from omnigraph.errors import QueryCancelled, ResourceLimit
from omnigraph.server.handling.lanes import WRITE_THREADS, Lanes
from omnigraph.server.handling.read_lane import ReadJob


@pytest.fixture
def lanes() -> Iterator[Lanes]:
    lanes = Lanes(2)
    yield lanes
    lanes.close()


def looking(until: threading.Event | None = None) -> None:
    """Work that ends only because it looks."""
    while until is None or not until.is_set():
        look()


def test_what_work_returns_and_raises(lanes):
    async def run():
        left = []
        assert await lanes.run(lanes.writes, lambda: 5, Cancel(), lambda: left.append(1)) == 5
        with pytest.raises(ZeroDivisionError):
            await lanes.run(lanes.writes, lambda: 1 / 0, Cancel(), lambda: left.append(2))
        return left

    assert asyncio.run(run()) == [1, 2]
    assert not lanes.is_busy


@pytest.mark.parametrize("ending", [KeyboardInterrupt, SystemExit, Cancelled])
def test_nothing_that_ends_programs_leaves_a_thread(lanes, ending):
    """In a task of its own such an exception would end the event loop."""

    def work() -> None:
        raise ending

    async def run():
        task = asyncio.create_task(lanes.run(lanes.writes, work, Cancel(), lambda: None))
        with pytest.raises(Exception) as raised:  # noqa: PT011 - any but those
            await task
        return raised.value

    assert isinstance(asyncio.run(run()), RuntimeError | QueryCancelled)


def test_a_token_stops_work_and_so_does_the_time(lanes):
    async def run():
        token, loop = Cancel(), asyncio.get_running_loop()
        loop.call_later(0.05, token.cancel)
        with pytest.raises(QueryCancelled):
            await lanes.run(lanes.writes, looking, token, lambda: None)
        with pytest.raises(ResourceLimit):
            await lanes.reads.run(ReadJob("ada", looking, Cancel(), 0.05))

    asyncio.run(run())


def test_the_place_of_work_is_free_when_it_has_ended_and_not_before(lanes):
    goes_on = threading.Event()

    async def run():
        loop, begun, left = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()

        def work() -> None:
            loop.call_soon_threadsafe(begun.set)
            goes_on.wait(120)

        task = asyncio.create_task(lanes.run(lanes.writes, work, Cancel(), left.set))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert lanes.is_busy
        assert not left.is_set()
        goes_on.set()
        await left.wait()

    asyncio.run(asyncio.wait_for(run(), 120))
    assert not lanes.is_busy


def test_all_work_is_stopped_at_the_end(lanes):
    async def run():
        tasks = [
            asyncio.create_task(lanes.run(pool, looking, Cancel(), lambda: None))
            for pool in (lanes.writes, lanes.streams)
        ]
        tasks.append(asyncio.create_task(lanes.reads.run(ReadJob("ada", looking, Cancel()))))
        await asyncio.sleep(0.05)
        lanes.cancel_all()
        return await asyncio.gather(*tasks, return_exceptions=True)

    assert [type(one) for one in asyncio.run(run())] == [QueryCancelled] * 3


def test_writes_that_wait_for_a_thread_are_counted(lanes):
    begun, go_on = threading.Semaphore(0), threading.Event()

    def work() -> None:
        begun.release()
        go_on.wait()

    async def run():
        loop = asyncio.get_running_loop()
        tasks = [
            loop.create_task(lanes.run(lanes.writes, work, Cancel(), lambda: None))
            for _ in range(WRITE_THREADS + 3)
        ]
        for _ in range(WRITE_THREADS):
            await asyncio.to_thread(begun.acquire)
        waiting = lanes.waiting_writes
        go_on.set()
        await asyncio.gather(*tasks)
        return waiting, lanes.waiting_writes

    assert asyncio.run(run()) == (3, 0)
