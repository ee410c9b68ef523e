"""Work on several threads looks as if it had been done one by one."""

from __future__ import annotations

import signal
import sys
import threading
import time

import pytest

from omnigraph.cancel import Cancel, Cancelled, watching
from omnigraph.cores import usable_cores
from omnigraph.pipeline.local import parallel
from omnigraph.pipeline.local.parallel import in_order


@pytest.fixture(params=[1, 2, 5])
def threads(request, monkeypatch):
    monkeypatch.setattr(parallel, "usable_cores", lambda: request.param)
    return request.param


def test_results_come_in_the_order_of_the_work(threads):
    turn = threading.Event()

    def late():
        # With several threads the first function waits until the second has run.
        assert threads == 1 or turn.wait(600)
        return "first"

    def early():
        turn.set()
        return "second"

    assert list(in_order([late, early, *[lambda: "later"] * 20])) == [
        "first",
        "second",
        *["later"] * 20,
    ]


def test_only_a_few_functions_are_made_ahead(threads):
    made = 0

    def work():
        nonlocal made
        for _ in range(1000):
            made += 1
            yield lambda: None

    results = in_order(work())
    for taken in range(1, 101):
        next(results)
        assert made <= taken + (0 if threads == 1 else threads + parallel.AHEAD)
    results.close()


def fails():
    raise LookupError("in the work")


def test_a_failure_comes_when_its_turn_comes(threads):
    results = in_order([lambda: 1, lambda: 2, fails, lambda: 3])
    assert [next(results), next(results)] == [1, 2]
    with pytest.raises(LookupError):
        next(results)


def test_work_that_cannot_be_made_fails_after_all_that_was_made(threads):
    def work():
        yield lambda: 1
        yield lambda: 2
        raise LookupError("in the making")

    results = in_order(work())
    assert [next(results), next(results)] == [1, 2]
    with pytest.raises(LookupError, match="making"):
        next(results)


def test_an_earlier_failure_of_work_comes_before_one_of_making(threads):
    def work():
        yield fails
        raise OSError("in the making")

    with pytest.raises(LookupError):
        list(in_order(work()))


def test_no_thread_is_left_behind(threads):
    before = set(threading.enumerate())
    results = in_order([lambda: 1] * 50)
    next(results)
    results.close()
    assert set(threading.enumerate()) <= before


def test_there_is_at_least_one_core():
    assert usable_cores() >= 1


def test_running_functions_are_told_to_stop_before_they_are_waited_for(threads):
    stopped = threading.Event()

    def fails():
        raise ValueError("no")

    def waits():
        assert stopped.wait(600)

    with pytest.raises(ValueError, match="no"):
        list(in_order([fails, waits], stop=stopped.set))
    assert threads == 1 or stopped.is_set()


@pytest.fixture
def two_threads(monkeypatch):
    monkeypatch.setattr(parallel, "usable_cores", lambda: 2)


def main_thread_waits():
    """Whether it waits for the function, and not still for the thread to start."""
    frame = sys._current_frames()[threading.main_thread().ident]
    waits = frame.f_code is threading.Condition.wait.__code__
    while frame is not None and frame.f_code is not parallel.in_order.__code__:
        frame = frame.f_back
        waits &= frame is None or frame.f_code is not threading.Thread.start.__code__
    return waits and frame is not None


@pytest.mark.usefixtures("two_threads", "_ctrl_c_interrupts")
def test_ctrl_c_is_heard_while_a_function_runs():
    stopped = threading.Event()

    def waits():
        while not main_thread_waits():
            time.sleep(0.01)
        # To this thread, so that the wait of the main thread is not cut short.
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        assert stopped.wait(600)

    with pytest.raises(KeyboardInterrupt):
        list(in_order([waits], stop=stopped.set))
    assert stopped.is_set()


@pytest.mark.usefixtures("two_threads")
def test_a_token_is_looked_at_while_a_function_runs():
    token, stopped = Cancel(), threading.Event()

    def waits():
        token.cancel()
        assert stopped.wait(600)

    with pytest.raises(Cancelled), watching(token):
        list(in_order([waits], stop=stopped.set))
    assert stopped.is_set()


@pytest.mark.usefixtures("two_threads")
def test_all_who_work_at_the_same_time_share_the_threads():
    lock, together, most, all_began = threading.Lock(), 0, 0, threading.Barrier(4)

    def counts():
        nonlocal together, most
        with lock:
            together += 1
            most = max(most, together)
        time.sleep(0.001)
        with lock:
            together -= 1
        return threading.current_thread().name

    def one(found):
        results = in_order([counts] * 25)
        found.append(next(results))
        all_began.wait(600)
        found += results

    found = [[] for _ in range(4)]
    users = [threading.Thread(target=one, args=(names,)) for names in found]
    for user in users:
        user.start()
    for user in users:
        user.join(600)
    assert [len(names) for names in found] == [25] * 4
    assert most <= 2
    assert len({name for names in found for name in names}) <= 2
