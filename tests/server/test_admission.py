"""Who may begin, who waits, and in which order."""

from __future__ import annotations

import asyncio

import pytest

from omnigraph.cancel import Cancel
from omnigraph.errors import Busy
from omnigraph.server.handling.admission import HeldAnswers, Streams, Writers
from omnigraph.server.handling.lanes import ClientGone, Watch


def run(work):
    return asyncio.run(asyncio.wait_for(work, 120))


def test_an_actor_has_a_number_of_writes_and_others_have_their_own():
    writers = Writers(2, 1_000)
    slots = [writers.enter("ada"), writers.enter("ada")]
    with pytest.raises(Busy):
        writers.enter("ada")
    assert writers.running == 2
    writers.enter("bob")
    writers.enter(None)
    slots[0].leave()
    slots[0].leave()
    writers.enter("ada")
    with pytest.raises(Busy):
        writers.enter("ada")


def test_bytes_are_charged_at_once_or_as_they_come_and_given_back():
    writers = Writers(10, 100)
    declared = writers.enter("ada", 60)
    with pytest.raises(Busy):
        writers.enter("ada", 41)
    assert writers.running == 1, "a refusal leaves nothing behind"
    coming = writers.enter("ada")
    coming.charge(40)
    with pytest.raises(Busy):
        coming.charge(1)
    assert writers.enter("bob", 100)
    declared.leave()
    coming.charge(60)
    coming.leave()
    assert writers.enter("ada", 100)


def test_nothing_is_kept_of_actors_that_are_done():
    writers = Writers(10, 100)
    writers.enter("ada", 5).leave()
    assert (writers._counts, writers._bytes) == ({}, {})


async def _settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_streams_do_not_wait():
    streams = Streams(2)
    streams.enter()
    streams.enter()
    with pytest.raises(Busy):
        streams.enter()
    streams.leave()
    streams.enter()


def test_answers_wait_for_room():
    async def work():
        answers = HeldAnswers(100, 1, patience=600)
        await answers.hold(60)
        waiting = asyncio.create_task(answers.hold(60))
        await _settled()
        assert not waiting.done()
        with pytest.raises(Busy):
            await answers.hold(60)
        await answers.hold(40)
        answers.free(60)
        await waiting
        return answers.held

    assert run(work()) == 100


def test_an_answer_gets_no_room_in_time():
    async def work():
        answers = HeldAnswers(100, 5, patience=0.01)
        await answers.hold(60)
        with pytest.raises(Busy):
            await answers.hold(60)
        assert answers.held == 60
        answers.free(60)
        await answers.hold(1_000)  # larger than all room, and alone
        return answers.held

    assert run(work()) == 1_000


def test_room_that_came_too_late_is_given_back():
    """A request that is dropped while it waits holds nothing, at whichever moment that happens."""

    async def receive():
        await asyncio.sleep(600)
        return {"type": "http.disconnect"}

    async def work(let_in: bool):
        answers, watch = HeldAnswers(100, 1, patience=600), Watch(receive, Cancel())
        await answers.hold(60)
        waiting = asyncio.create_task(watch.unless_gone(answers.hold(60), lambda: answers.free(60)))
        await _settled()
        if let_in:
            answers.free(60)
            await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        watch.end()
        return answers.held, answers._waiting

    assert run(work(let_in=False)) == (60, 0)
    assert run(work(let_in=True)) == (0, 0)


def test_whoever_has_gone_waits_no_longer():
    async def receive():
        return {"type": "http.disconnect"}

    async def work():
        answers, watch = HeldAnswers(100, 1, patience=600), Watch(receive, Cancel())
        await answers.hold(60)
        with pytest.raises(ClientGone):
            await watch.unless_gone(answers.hold(60), lambda: answers.free(60))
        assert watch.gone
        return answers.held, answers._waiting

    assert run(work()) == (60, 0)
