"""Work on several threads looks as if it had been done one by one."""

from __future__ import annotations

import threading

import pytest

from omnigraph.cores import usable_cores
from omnigraph.pipeline.local.parallel import in_order


@pytest.fixture(params=[1, 2, 5])
def threads(request):
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

    assert list(in_order([late, early, *[lambda: "later"] * 20], threads)) == [
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

    results = in_order(work(), threads)
    for taken in range(1, 101):
        next(results)
        assert made <= taken + threads
    results.close()


def fails():
    raise LookupError("in the work")


def test_a_failure_comes_when_its_turn_comes(threads):
    results = in_order([lambda: 1, lambda: 2, fails, lambda: 3], threads)
    assert [next(results), next(results)] == [1, 2]
    with pytest.raises(LookupError):
        next(results)


def test_work_that_cannot_be_made_fails_after_all_that_was_made(threads):
    def work():
        yield lambda: 1
        yield lambda: 2
        raise LookupError("in the making")

    results = in_order(work(), threads)
    assert [next(results), next(results)] == [1, 2]
    with pytest.raises(LookupError, match="making"):
        next(results)


def test_an_earlier_failure_of_work_comes_before_one_of_making(threads):
    def work():
        yield fails
        raise OSError("in the making")

    with pytest.raises(LookupError):
        list(in_order(work(), threads))


def test_no_thread_is_left_behind(threads):
    before = threading.active_count()
    results = in_order([lambda: 1] * 50, threads)
    next(results)
    results.close()
    assert threading.active_count() == before


def test_there_is_at_least_one_core():
    assert usable_cores() >= 1


def test_running_functions_are_told_to_stop_before_they_are_waited_for(threads):
    stopped = threading.Event()

    def fails():
        raise ValueError("no")

    def waits():
        assert stopped.wait(600)

    with pytest.raises(ValueError, match="no"):
        list(in_order([fails, waits], threads, stop=stopped.set))
    assert threads == 1 or stopped.is_set()
