"""Leases against a clock that the test moves."""

import time

import pytest

from omnigraph.storage.locks import leases
from omnigraph.storage.locks.leases import Leases
from omnigraph.storage.locks.waiting import WRITE
from omnigraph.storage.objects.object_store import ObjectStore
from omnigraph.storage.objects.store_errors import LockLost, Unavailable

PERIOD = 10.0
NAME = "__locks/table.lock"


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


class SlowStore:
    """A store over another one that takes its time to write, and can be out of reach."""

    def __init__(self, store, clock):
        self.store = store
        self.clock = clock
        self.delay = 0.0
        self.down = False

    def write_text_if_absent(self, name, text):
        return self._slowly(self.store.write_text_if_absent, name, text)

    def write_text_if_match(self, name, text, version):
        return self._slowly(self.store.write_text_if_match, name, text, version)

    def read_versioned(self, name):
        return self._slowly(self.store.read_versioned, name)

    def _slowly(self, call, *arguments):
        if self.down:
            raise Unavailable("out of reach")
        self.clock.now += self.delay
        return call(*arguments)


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(leases, "clock", clock)
    return clock


@pytest.fixture
def store():
    return ObjectStore.in_memory()


@pytest.fixture
def slow(store, clock):
    return SlowStore(store, clock)


def take(store, holder="me", period=PERIOD):
    lease = Leases(store, period).attempt(NAME, holder)
    assert lease is not None
    return lease


def test_a_fresh_lease_is_held_without_asking_the_store(slow, clock):
    lease = take(slow)
    slow.down = True
    clock.now += PERIOD / 2
    lease.check()


def test_in_doubt_the_store_is_asked_and_the_lease_renewed(store, clock):
    lease = take(store)
    before = store.read_versioned(NAME).version
    clock.now += PERIOD * 0.6
    lease.check()
    assert store.read_versioned(NAME).version != before
    clock.now += PERIOD * 0.6
    lease.check()


def test_in_doubt_a_lease_that_was_taken_over_is_lost(store, clock):
    lease = take(store)
    theirs = '{"holder": "them", "owner": "o", "period_ms": 1, "mark": "m"}'
    store.write_text(NAME, theirs)
    clock.now += PERIOD * 0.6
    with pytest.raises(LockLost):
        lease.check()
    lease.release()
    assert store.read_text(NAME) == theirs


def test_in_doubt_a_lease_that_is_gone_is_lost(store, clock):
    lease = take(store)
    store.delete(NAME)
    clock.now += PERIOD * 0.6
    with pytest.raises(LockLost):
        lease.check()
    assert not store.exists(NAME)


def test_after_its_period_a_lease_is_lost_even_if_nobody_wanted_it(store, clock):
    lease = take(store)
    before = store.read_versioned(NAME)
    clock.now += PERIOD * 1.01
    lease.renew()
    with pytest.raises(LockLost):
        lease.check()
    assert store.read_versioned(NAME) == before


def test_a_lost_lease_stays_lost(store, clock):
    lease = take(store)
    clock.now += PERIOD * 1.01
    with pytest.raises(LockLost):
        lease.check()
    clock.now -= PERIOD
    lease.renew()
    with pytest.raises(LockLost):
        lease.check()


def test_out_of_reach_a_lease_lasts_for_its_period_and_no_longer(slow, clock):
    lease = take(slow)
    slow.down = True
    clock.now += PERIOD * 0.9
    lease.check()
    clock.now += PERIOD * 0.2
    with pytest.raises(LockLost):
        lease.check()
    slow.down = False
    with pytest.raises(LockLost):
        lease.check()


def test_the_period_runs_from_before_the_request_was_sent(slow, clock):
    slow.delay = PERIOD * 0.7
    lease = take(slow)
    slow.down = True
    clock.now += PERIOD * 0.4
    with pytest.raises(LockLost):
        lease.check()


def test_a_renewal_too_runs_from_before_it_was_sent(slow, clock):
    lease = take(slow)
    slow.delay = PERIOD * 0.7
    lease.renew()
    slow.down = True
    lease.check()
    clock.now += PERIOD * 0.4
    with pytest.raises(LockLost):
        lease.check()


def test_a_check_that_itself_took_a_period_does_not_pass(slow, clock):
    lease = take(slow)
    clock.now += PERIOD * 0.6
    slow.delay = PERIOD * 1.1
    with pytest.raises(LockLost):
        lease.check()


def test_a_waiter_takes_over_after_a_whole_period_and_not_before(store, clock):
    take(store)
    clock.now += PERIOD * 5
    waiter = Leases(store, PERIOD)
    assert waiter.attempt(NAME, "them") is None
    clock.now += PERIOD * 0.99
    assert waiter.attempt(NAME, "them") is None
    clock.now += PERIOD * 0.02
    lease = waiter.attempt(NAME, "them")
    assert lease is not None
    lease.check()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "7",
        "[" * 2000,
        '{"holder": "x", "owner": "o", "period_ms": Infinity}',
        '{"holder": "x", "owner": "o", "period_ms": NaN}',
        '{"holder": "x", "owner": "o", "period_ms": -5}',
        '{"holder": "x", "owner": "o", "period_ms": 1' + "0" * 400 + "}",
        '{"holder": ["x"], "owner": "o", "period_ms": 1}',
        '{"holder": "x", "owner": 7, "period_ms": 1}',
        '{"holder": "x", "owner": "o", "operation": {}, "period_ms": 1}',
    ],
)
def test_what_is_no_lease_is_told_as_nobodys_and_expires_like_one(store, clock, text):
    store.write_text(NAME, text)
    waiter = Leases(store, PERIOD)
    assert waiter.holder_of(NAME) == ("unknown", WRITE)
    assert waiter.attempt(NAME, "them") is None
    clock.now += PERIOD * 1.01
    assert waiter.attempt(NAME, "them") is not None


def test_a_renewal_starts_the_waiters_period_again(store, clock):
    lease = take(store)
    waiter = Leases(store, PERIOD)
    for _ in range(5):
        assert waiter.attempt(NAME, "them") is None
        clock.now += PERIOD * 0.6
        lease.renew()
    lease.check()


def test_what_a_waiter_saw_counts_from_when_it_had_seen_it(slow, store, clock):
    take(store)
    waiter = Leases(slow, PERIOD)
    slow.delay = PERIOD * 0.5
    assert waiter.attempt(NAME, "them") is None
    slow.delay = 0
    clock.now += PERIOD * 0.8
    assert waiter.attempt(NAME, "them") is None


def test_watched_leases_run_out_side_by_side(store, clock):
    names = [f"__locks/{n}.lock" for n in range(3)]
    dead = Leases(store, PERIOD)
    for name in names:
        assert dead.attempt(name, "dead") is not None
    waiter = Leases(store, PERIOD)
    assert waiter.attempt(names[0], "them") is None
    waiter.watch(names[1:])
    clock.now += PERIOD
    assert all(waiter.attempt(name, "them") is not None for name in names)


def test_a_lease_given_back_is_free_at_once(store, clock):
    take(store).release()
    take(store, "them").check()


def test_an_answer_that_never_came_does_not_lock_out_its_own_asker(store, clock):
    take(store, "me")
    take(store, "me").check()


def test_of_two_who_saw_it_run_out_one_wins(store, clock):
    take(store)
    one, two = Leases(store, PERIOD), Leases(store, PERIOD)
    assert one.attempt(NAME, "one") is None
    assert two.attempt(NAME, "two") is None
    clock.now += PERIOD
    first = one.attempt(NAME, "one")
    assert first is not None
    assert two.attempt(NAME, "two") is None
    first.check()


def test_the_clock_goes_on_while_the_machine_sleeps():
    if hasattr(time, "CLOCK_BOOTTIME"):
        before = time.clock_gettime(time.CLOCK_BOOTTIME)
        assert before <= leases.clock() <= time.clock_gettime(time.CLOCK_BOOTTIME)
    else:
        assert leases.clock is time.monotonic
