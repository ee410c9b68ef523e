"""How long one waits for a lock, and for those who stand before it: with a clock that the test moves."""

from __future__ import annotations

import pytest

from omnigraph.storage import flock
from omnigraph.storage.locks import waiting
from omnigraph.storage.locks.locks import LockManager
from omnigraph.storage.locks.waiting import (
    FREE_SECONDS,
    FileTicket,
    ObjectTicket,
    Patience,
    Purpose,
    has_tickets,
)
from omnigraph.storage.objects.object_store import ObjectStore
from omnigraph.storage.uris import Root

FAST, SLOW = Purpose("mutation"), Purpose("load", slow=True)


def wait_for(patience: Patience, holder: Purpose) -> float:
    """Wait until there is no patience for the holder; how long that was."""
    waited = 0.0
    while patience.is_left_for(holder):
        step = patience.left()
        patience.spend(step)
        waited += step
        assert waited < 1000
        if step < 1e-6:
            break
    return waited


def test_patience_ends_after_its_time():
    patience = Patience(10_000)
    assert patience.is_left_for(FAST)
    assert wait_for(patience, FAST) == pytest.approx(10)
    assert not patience.is_left_for(FAST)


def test_for_a_slow_holder_one_waits_ten_times_as_long():
    assert wait_for(Patience(10_000), SLOW) == pytest.approx(100, rel=0.01)


def test_time_spent_on_a_slow_holder_leaves_patience_for_the_next():
    patience = Patience(10_000)
    patience.spend(10)
    assert patience.is_left_for(SLOW)
    assert patience.left() == pytest.approx(9)
    patience.spend(5)
    assert patience.is_left_for(FAST)
    assert wait_for(patience, FAST) == pytest.approx(4)


def test_without_patience_nobody_is_waited_for():
    assert not Patience(0).is_left_for(SLOW)
    assert not Patience(0).is_left_for(FAST)


# ------------------------------------------------------------------ the queue

PERIOD = 6.0
LOCK = "__locks/a.lock"


class Clock:
    """Stands in for the module ``time``."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def monotonic_ns(self) -> int:
        self.now += 0.001
        return round(self.now * 1e9)

    time_ns = monotonic_ns


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(waiting, "time", clock)
    return clock


def looks_until_next(ticket, clock: Clock, step: float = 0.1, limit: float = 60.0) -> float:
    """How long somebody who looks now and then is kept from its turn."""
    since = clock.now
    while not ticket.is_next():
        clock.now += step
        if clock.now - since > limit:
            return limit
    return clock.now - since


def test_a_free_lock_is_not_left_to_waiters_that_are_gone(clock):
    store = ObjectStore.in_memory()
    for _ in range(4):
        ObjectTicket(store, LOCK, PERIOD, lambda: True)
    last = ObjectTicket(store, LOCK, PERIOD, lambda: True)
    assert looks_until_next(last, clock) < PERIOD
    assert len(store.list("__locks/waiting")) == 1


def test_waiters_keep_their_order_while_the_lock_is_taken(clock):
    store = ObjectStore.in_memory()
    first = ObjectTicket(store, LOCK, PERIOD, lambda: False)
    second = ObjectTicket(store, LOCK, PERIOD, lambda: False)
    assert looks_until_next(second, clock) >= PERIOD
    assert first.is_next()


def test_a_waiter_that_is_stopped_does_not_stop_the_others(tmp_path, clock):
    """It lives, so its ticket stays locked; the lock is free and it does not come."""
    (tmp_path / "__locks").mkdir()
    stopped = FileTicket(tmp_path, LOCK)
    other = FileTicket(tmp_path, LOCK)
    assert FREE_SECONDS < looks_until_next(other, clock) < PERIOD
    other.leave()
    assert stopped.is_next()
    stopped.leave()
    assert not has_tickets(tmp_path, LOCK)


def test_a_waiter_on_a_disk_keeps_its_place_while_the_lock_is_taken(tmp_path, clock):
    (tmp_path / "__locks").mkdir()
    held = flock.try_lock(str(tmp_path / LOCK))
    assert held is not None
    first, second = FileTicket(tmp_path, LOCK), FileTicket(tmp_path, LOCK)
    assert looks_until_next(second, clock) == 60.0
    assert first.is_next()
    held.unlock()
    first.leave()
    assert second.is_next()
    second.leave()


def test_nobody_gives_up_before_a_free_lock(tmp_path):
    locks = LockManager(Root.parse(tmp_path))
    with locks.acquire("a"):
        (file,) = (tmp_path / "__locks").glob("a-*.lock")
    stopped = FileTicket(tmp_path, f"__locks/{file.name}")
    with locks.acquire("a", Patience(20)) as held:
        held.check()
    stopped.leave()


def test_tickets_of_the_dead_go_also_when_they_seem_to_have_come_later(tmp_path):
    """The clock that numbers them starts anew when the machine does."""
    lock = "__locks/a.lock"
    dead = tmp_path / waiting.WAITING_DIR / f"a.{10**19:020d}.dead"
    dead.parent.mkdir(parents=True)
    dead.write_text("")
    other = dead.with_name(f"b.{10**19:020d}.dead")
    other.write_text("")
    assert has_tickets(tmp_path, lock)
    first, second = FileTicket(tmp_path, lock), FileTicket(tmp_path, lock)
    assert not dead.exists()
    assert other.exists()
    assert (first.is_next(), second.is_next()) == (True, False)
    first.leave()
    assert second.is_next()
    second.leave()
    assert not has_tickets(tmp_path, lock)
