import contextlib
import threading
import time

import pytest

from omnigraph.errors import Contention
from omnigraph.storage.locks import leases
from omnigraph.storage.locks.locks import LockManager
from omnigraph.storage.locks.waiting import Patience
from omnigraph.storage.objects.object_store import ObjectStore
from omnigraph.storage.objects.store_errors import LockLost
from omnigraph.storage.objects.stores import open_store
from omnigraph.storage.store_kinds.store_kind import Limits
from tests.storage import lock_workers
from tests.storage.locks_contract import LocksContract, pause, resume
from tests.storage.processes import talk_to

PERIOD = 60.0
"""Longer than a process stands still on a busy machine. Where a lease runs out, a test puts the clock on."""
SHORT = 8.0
"""Of holders in other processes whose leases run out by themselves."""


class TestContract(LocksContract):
    counts = 4
    recovery_ms = 120_000  # a dead process's lease is seen to stand still for its period

    @pytest.fixture
    def place(self, s3_root):
        return s3_root.canonical

    @pytest.fixture
    def environment(self, s3):
        return s3.environment()

    @pytest.fixture
    def lease_period(self):
        return PERIOD

    @pytest.fixture
    def short_period(self):
        return SHORT


@pytest.fixture
def locks(s3_root):
    return LockManager(s3_root, lease_period=PERIOD)


@pytest.fixture
def other(s3_root):
    return LockManager(open_store(s3_root), lease_period=PERIOD)


@pytest.fixture
def pass_time(monkeypatch):
    """Puts the clock of this process on, by so many periods."""
    real, ahead = leases.clock, [0.0]
    monkeypatch.setattr(leases, "clock", lambda: real() + ahead[0])

    def put_on(periods):
        ahead[0] += periods * PERIOD

    return put_on


def until(condition):
    """Wait for something that must come."""
    for _ in range(30_000):
        if condition():
            return
        time.sleep(0.02)
    pytest.fail("it did not come")


def lease_object(root):
    store = open_store(root)
    (name,) = store.list("__locks")
    return store, name


def test_a_paused_holder_stops_before_its_next_effect(s3, s3_root, locks, tmp_path):
    """SIGSTOP past the lease, somebody else takes over, and the sleeper wakes up."""
    effects = tmp_path / "effects"
    arguments = (s3_root.canonical, s3.environment(), SHORT, str(effects))
    with talk_to(lock_workers.check_at_once, arguments) as (process, pipe):
        assert pipe.recv() == "held"
        until(effects.exists)
        until(lambda: effects.read_text().count("\n") >= 3)
        pause(process)
        with locks.acquire("table", Patience(120_000)) as held:
            before = effects.read_text()
            resume(process)
            assert pipe.poll(600)
            state, message = pipe.recv()
            assert state == "lost"
            assert "run it again" in message
            # At most the write it was in the middle of when it was stopped.
            assert effects.read_text().count("\n") <= before.count("\n") + 1
            held.check()


def test_a_paused_holder_that_nobody_took_over_stops_too(s3, s3_root, tmp_path):
    effects = tmp_path / "effects"
    period = 2.0  # it stops as well if its lease ran out before
    arguments = (s3_root.canonical, s3.environment(), period, str(effects))
    with talk_to(lock_workers.check_at_once, arguments) as (process, pipe):
        assert pipe.recv() == "held"
        pause(process)
        time.sleep(period * 1.5)
        resume(process)
        assert pipe.poll(600)
        assert pipe.recv()[0] == "lost"


def test_a_takeover_needs_a_whole_period_of_standing_still(s3, s3_root, other, pass_time):
    """Waiters judge by what they saw themselves, not by a time written in the lease."""
    with talk_to(lock_workers.hold, (s3_root.canonical, s3.environment(), PERIOD, ["table"])) as (
        process,
        pipe,
    ):
        assert pipe.recv()[0] == "held"
        process.kill()
        process.join()
        pass_time(1.5)
        assert other.try_acquire("table") is None  # first sight
        assert other.is_locked_by_other("table")
        pass_time(1.1)
        taken = other.try_acquire("table")
        assert taken is not None
        taken.release()


def test_the_period_of_the_lease_counts_and_not_the_waiters(s3_root, locks):
    long = LockManager(s3_root, lease_period=60)
    with long.acquire("table"):
        hasty = LockManager(open_store(s3_root), lease_period=0.05)
        with pytest.raises(Contention):
            hasty.acquire("table", Patience(400))


def test_a_holder_that_cannot_renew_stops_within_its_period(s3, locks, pass_time):
    with locks.acquire("table") as held:
        s3.before(lambda environ: ("503 Slow Down", b""))
        pass_time(0.6)
        held.check()
        pass_time(0.5)
        assert raises_lock_lost(held)
        s3.disarm()
        assert raises_lock_lost(held)


def test_a_short_outage_is_bridged(s3, locks, pass_time):
    with locks.acquire("table") as held:
        s3.before(lambda environ: ("503 Slow Down", b""))
        pass_time(0.6)
        held.check()
        s3.disarm()
        for _ in range(3):
            held.check()
            pass_time(0.6)
        held.check()


def test_a_lease_that_is_gone_is_found_out(s3_root, locks, pass_time):
    with locks.acquire("table") as held:
        store, name = lease_object(s3_root)
        store.delete(name)
        pass_time(0.6)
        assert raises_lock_lost(held)


def test_a_lease_somebody_else_wrote_is_found_out_and_left_alone(s3_root, locks, pass_time):
    held = locks.acquire("table")
    store, name = lease_object(s3_root)
    store.write_text(name, '{"holder": "x", "owner": "someone", "period_ms": 60000, "mark": "m"}')
    pass_time(0.6)
    assert raises_lock_lost(held)
    held.release()
    assert '"x"' in store.read_text(name)


def test_renewals_whose_answers_are_lost_do_not_lose_the_lease(s3, locks, pass_time):
    with locks.acquire("table") as held:
        count = [0]

        def drop_every_other_answer(environ):
            if environ["REQUEST_METHOD"] != "PUT":
                return None
            count[0] += 1
            return ("500 Internal Server Error", b"") if count[0] % 2 else None

        s3.after(drop_every_other_answer)
        for _ in range(4):
            pass_time(0.6)
            held.check()
        assert count[0] >= 4


def test_a_renewal_that_landed_unheard_is_recognised_as_ours(s3, s3_root, pass_time):
    """Nothing is sent again here: the next renewal meets a version it never heard of."""
    locks = LockManager(open_store(s3_root, Limits(retries=0)), lease_period=PERIOD)
    with locks.acquire("table") as held:
        unheard = s3.lose_replies(lambda environ: environ["REQUEST_METHOD"] in {"PUT", "HEAD"}, 2)
        pass_time(0.6)
        held.check()
        assert len(unheard) == 2
        for _ in range(3):
            pass_time(0.3)
            held.check()


def test_an_unreadable_lease_expires_like_any_other(s3_root, locks, pass_time):
    with locks.acquire("table"):
        pass
    store, name = lease_object(s3_root)
    store.write_text(name, "not a lease")
    with pytest.raises(Contention):
        locks.acquire("table", Patience(0))
    pass_time(1.01)
    with locks.acquire("table", Patience(0)) as held:
        held.check()


def test_giving_back_reuses_the_object(s3_root, locks):
    for _ in range(3):
        with locks.acquire("table"):
            pass
    store, name = lease_object(s3_root)
    assert '"holder": null' in store.read_text(name)
    with locks.acquire("table", Patience(0)):
        assert '"holder": null' not in store.read_text(name)
    assert store.list("__locks") == [name]


def test_giving_back_on_a_dead_store_does_not_fail_the_work(s3, locks):
    with locks.acquire("table"):
        s3.before(lambda environ: ("503 Slow Down", b""))


def test_the_renewal_thread_ends_with_the_lock(locks):
    with locks.acquire("table"):
        assert any(thread.name == "lease renewal" for thread in threading.enumerate())
    until(lambda: all(thread.name != "lease renewal" for thread in threading.enumerate()))


def test_two_managers_over_one_store_in_memory():
    store = ObjectStore.in_memory()
    one, two = LockManager(store), LockManager(store)
    with one.acquire("table"):
        assert LocksContract().try_elsewhere(two, "table") is None
    with two.acquire("table", Patience(0)) as held:
        held.check()


def raises_lock_lost(held):
    with contextlib.suppress(LockLost):
        held.check()
        return False
    return True
