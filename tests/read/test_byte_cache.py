"""The byte cache: one build per key, least recently used dropped first, growth noticed."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from omnigraph.read.view.byte_cache import ByteCache


def put(cache, key, size):
    return cache.get(key, lambda: bytearray(size), len)


def refuse():
    raise AssertionError("built again")


def test_a_value_is_built_once():
    cache = ByteCache(100)
    first = put(cache, "a", 10)
    assert cache.get("a", refuse, len) is first
    assert cache.nbytes == 10


def test_the_least_recently_used_goes_first():
    cache = ByteCache(30)
    for key in "abc":
        put(cache, key, 10)
    put(cache, "a", 10)
    put(cache, "d", 10)
    assert cache.kept() == ["c", "a", "d"]
    assert cache.nbytes == 30


def test_looking_builds_nothing_and_is_no_use():
    cache = ByteCache(20)
    assert cache.peek("a") is None
    value = put(cache, "a", 10)
    put(cache, "b", 10)
    assert cache.peek("a") is value
    put(cache, "c", 10)
    assert cache.kept() == ["b", "c"]


def test_one_large_value_drops_several_small_ones():
    cache = ByteCache(30)
    for key in "abc":
        put(cache, key, 10)
    put(cache, "d", 25)
    assert cache.kept() == ["d"]


def test_a_value_larger_than_the_budget_is_handed_out_and_others_stay():
    cache = ByteCache(30)
    put(cache, "a", 10)
    assert len(put(cache, "b", 31)) == 31
    assert cache.kept() == ["a"]
    assert len(put(ByteCache(0), "a", 1)) == 1


@pytest.mark.parametrize("notice", ["use", "new"])
def test_growth_is_noticed(notice):
    cache = ByteCache(40)
    put(cache, "a", 10)
    grown = put(cache, "b", 10)
    grown.extend(bytes(25))
    if notice == "use":
        put(cache, "b", 10)
    else:
        put(cache, "c", 5)
    assert "a" not in cache.kept()
    assert cache.peek("b") is grown
    assert cache.nbytes == sum(len(cache.peek(key)) for key in cache.kept())


def test_growth_of_what_was_used_often_is_noticed_some_uses_later():
    cache = ByteCache(40)
    put(cache, "a", 10)
    grown = put(cache, "b", 10)
    for _ in range(100):
        put(cache, "b", 10)
    grown.extend(bytes(25))
    for _ in range(16):
        put(cache, "b", 10)
    assert cache.kept() == ["b"]
    assert cache.nbytes == 35


def test_what_is_dropped_is_counted():
    cache = ByteCache(20)
    for key in "abc":
        put(cache, key, 10)
    assert cache.dropped == 1
    cache.drop("b")
    cache.drop("x")
    assert cache.dropped == 2
    cache.forget()
    assert cache.dropped == 3


def test_forget_drops_all_but_what_is_held_stays_usable():
    cache = ByteCache(100)
    held = put(cache, "a", 10)
    cache.forget()
    assert (cache.kept(), cache.nbytes, len(held)) == ([], 0, 10)
    assert put(cache, "a", 10) is not held


def test_a_failed_build_raises_and_the_next_one_is_tried():
    cache = ByteCache(100)
    with pytest.raises(ZeroDivisionError):
        cache.get("a", lambda: 1 // 0, int)
    assert len(put(cache, "a", 10)) == 10


def test_threads_wait_for_one_build():
    cache, builds, ready = ByteCache(100), [], threading.Barrier(8)

    def build():
        builds.append(1)
        # Nobody can be served before all have asked, or have been let in by mistake.
        threading.Event().wait(0.05)
        return bytearray(10)

    def ask():
        ready.wait()
        return cache.get("a", build, len)

    with ThreadPoolExecutor(8) as pool:
        values = [future.result() for future in [pool.submit(ask) for _ in range(8)]]
    assert len(builds) == 1
    assert all(value is values[0] for value in values)


def test_when_a_build_fails_one_of_those_who_waited_tries_again():
    cache, builds, ready = ByteCache(100), [], threading.Barrier(4)

    def build():
        builds.append(1)
        if len(builds) == 1:
            threading.Event().wait(0.05)
            raise ZeroDivisionError
        return bytearray(10)

    def ask():
        ready.wait()
        try:
            return cache.get("a", build, len)
        except ZeroDivisionError:
            return None

    with ThreadPoolExecutor(4) as pool:
        values = [future.result() for future in [pool.submit(ask) for _ in range(4)]]
    assert len(builds) == 2
    assert values.count(None) == 1


def test_builds_of_different_keys_do_not_wait_for_each_other():
    cache = ByteCache(100)
    inner = cache.get("a", lambda: put(cache, "b", 10), len)
    assert cache.peek("b") is inner


class _InterruptedLock:
    """A lock that is let go with Ctrl-C, once."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.is_due = True

    def __enter__(self) -> None:
        self.lock.acquire()

    def __exit__(self, *_: object) -> None:
        self.lock.release()
        if self.is_due:
            self.is_due = False
            raise KeyboardInterrupt


def test_an_interrupt_leaves_nobody_waiting():
    cache = ByteCache(100)
    cache._lock = _InterruptedLock()
    with pytest.raises(KeyboardInterrupt):
        cache.get("k", lambda: 1, lambda _: 1)
    found = []
    other = threading.Thread(
        target=lambda: found.append(cache.get("k", lambda: 2, lambda _: 1)), daemon=True
    )
    other.start()
    other.join(600)
    assert found == [2]
