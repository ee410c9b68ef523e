"""Tokens: what makes work stop, where it counts, and what becomes of the threads beside it."""

import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest

from omnigraph import cancel
from omnigraph.cancel import Beside, Cancel, Cancelled, aside, look, watched, watching
from omnigraph.errors import BadRequest, QueryCancelled, ResourceLimit
from tests.stopping import StopAt

LONG = 10_000.0


def passed() -> Cancel:
    """A token whose time is up."""
    return Cancel(timeout=1e-9)


def test_nothing_stops_without_a_token() -> None:
    look()
    with watching(None):
        look()
    assert cancel.current() is None


def test_a_deadline_is_a_resource_limit() -> None:
    token = Cancel(timeout=timedelta(microseconds=1))
    with pytest.raises(ResourceLimit) as stopped, watching(token):
        pytest.fail("the time was up before")
    assert stopped.value.details["resource"] == "query_milliseconds"
    assert stopped.value.details["limit"] == 1
    assert stopped.value.details["actual"] >= 1
    assert cancel.current() is None


def test_a_cancelled_token_ends_the_work_like_ctrl_c() -> None:
    token = Cancel(timeout=LONG)
    with watching(token):
        look()
        token.cancel()
        with pytest.raises(KeyboardInterrupt):
            look()
    look()


@pytest.mark.parametrize("timeout", [0, -1, True, "5", float("nan"), timedelta(0)])
def test_a_timeout_that_is_none_is_refused(timeout: object) -> None:
    with pytest.raises(BadRequest, match="seconds above 0"):
        Cancel(timeout=timeout)  # type: ignore[arg-type]


def test_no_deadline_is_infinite() -> None:
    assert Cancel(timeout=float("inf")).timeout is None
    assert Cancel(timeout=10**400).timeout is None


def test_a_token_fires_with_its_parent() -> None:
    parent = Cancel()
    child = Cancel(timeout=LONG, parent=parent)
    child.check()
    parent.cancel()
    with pytest.raises(QueryCancelled):
        child.check()
    with pytest.raises(Cancelled):
        cancel.look_at(child)


def test_the_earlier_of_two_deadlines_counts() -> None:
    with watching(Cancel(timeout=LONG)):
        inner = cancel.token_of(1e-9, None)
        assert inner is not None
        with pytest.raises(ResourceLimit):
            inner.check()
    outer = passed()
    both = cancel.token_of(LONG, outer)
    assert both is not None
    with pytest.raises(ResourceLimit):
        both.check()


def test_only_a_token_is_a_token() -> None:
    with pytest.raises(BadRequest, match="give an omnigraph"):
        cancel.token_of(None, "soon")  # type: ignore[arg-type]


def test_the_token_counts_while_an_item_is_made_and_not_for_its_taker() -> None:
    token = Cancel()

    def items() -> Iterator[int]:
        for number in range(3):
            assert cancel.current() is token
            yield number

    for number in watched(token, items()):
        assert cancel.current() is None
        if number == 1:
            token.cancel()
            break
    with pytest.raises(QueryCancelled):
        next(watched(token, items()))


def test_a_write_that_has_begun_looks_no_more() -> None:
    token = Cancel()
    with watching(token):
        with cancel.shielded():
            assert cancel.current() is None
        assert cancel.current() is token
        cancel.stop_looking()
        token.cancel()
        look()
    late = Cancel()
    with watching(late):
        late.cancel()
        with pytest.raises(Cancelled):
            cancel.stop_looking()


def test_a_call_aside_gives_its_result_or_its_error() -> None:
    def fail() -> None:
        raise BadRequest("no")

    with watching(Cancel(timeout=LONG)):
        assert aside(lambda: threading.current_thread().name) == "omnigraph-beside"
        with pytest.raises(BadRequest):
            aside(fail)
        # A few items are not worth a thread.
        assert aside(threading.current_thread, items=10) is threading.current_thread()
    # Ctrl-C comes to the main thread, unless the call sees it by itself.
    assert aside(threading.current_thread) is not threading.current_thread()
    assert aside(threading.current_thread, minds_signals=True) is threading.current_thread()


def test_a_call_aside_is_left_alone_and_stops_at_its_next_look() -> None:
    may_go_on, has_ended = threading.Event(), threading.Event()
    looked: list[BaseException] = []

    def work() -> None:
        may_go_on.wait()
        try:
            look()
        except BaseException as error:
            looked.append(error)
            raise
        finally:
            has_ended.set()

    with watching(StopAt(3)), pytest.raises(Cancelled):
        aside(work)
    may_go_on.set()
    has_ended.wait()
    assert [type(error) for error in looked] == [Cancelled]


def test_work_beside_ends_when_its_starter_fails() -> None:
    failed, has_ended = threading.Event(), threading.Event()

    def work() -> None:
        try:
            failed.wait()
            look()
        finally:
            has_ended.set()

    with pytest.raises(ValueError, match="broken"), Beside(work):
        raise ValueError("broken")
    failed.set()
    has_ended.wait()


def test_a_lock_and_an_event_are_waited_for_with_looks() -> None:
    lock, never = threading.Lock(), threading.Event()
    with lock:
        token = StopAt(4)
        with watching(token), pytest.raises(Cancelled), cancel.holding(lock):
            pytest.fail("another thread has it")
        assert token.looks == 4
    with cancel.holding(lock):
        assert lock.locked()
    with watching(StopAt(4)), pytest.raises(Cancelled):
        cancel.wait_for(never)


def test_a_library_is_interrupted_and_its_error_replaced() -> None:
    interrupted, has_ended = threading.Event(), threading.Event()

    def library_call() -> None:
        interrupted.wait()
        has_ended.set()
        raise RuntimeError("interrupted, says the library")

    with watching(StopAt(3)), pytest.raises(Cancelled):
        cancel.interruptible(library_call, interrupted.set)
    # Whoever goes on may use what the call used.
    assert has_ended.is_set()


def test_an_interruptible_call_gives_its_result_or_its_error() -> None:
    def fail() -> None:
        raise ValueError("its own")

    def interrupt() -> None:
        pytest.fail("nothing to interrupt")

    with watching(Cancel()):
        assert cancel.interruptible(lambda: 5, interrupt) == 5
        with pytest.raises(ValueError, match="own"):
            cancel.interruptible(fail, interrupt)


def test_a_signal_while_a_call_is_interrupted_waits_for_its_end() -> None:
    class Pressed(BaseException):
        pass

    may_end, has_ended = threading.Event(), threading.Event()
    asked: list[int] = []

    def library_call() -> None:
        may_end.wait()
        has_ended.set()

    def interrupt() -> None:
        asked.append(len(asked))
        if len(asked) == 1:
            raise Pressed
        may_end.set()

    with watching(StopAt(3)), pytest.raises(Pressed):
        cancel.interruptible(library_call, interrupt)
    assert has_ended.is_set()
