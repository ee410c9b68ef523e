"""What locks promise on every root; a test class inherits it and says where the locks are kept.

It provides the fixtures ``place``, ``environment`` and ``lease_period``, which is so long that no process of a
busy machine stands still for it. Where a lease must run out, its holder has the ``short_period``.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from omnigraph.errors import Contention, StorageError
from omnigraph.storage.locks.locks import LockManager, OwnerProcess
from omnigraph.storage.locks.waiting import Patience
from omnigraph.storage.objects.store_errors import LockLost
from omnigraph.storage.uris import Root
from tests.storage import lock_workers
from tests.storage.object_workers import in_forked_child
from tests.storage.processes import run_processes, talk_to


class LocksContract:
    @pytest.fixture
    def locks(self, place, environment, lease_period):
        return LockManager(Root.parse(place), lease_period=lease_period)

    @pytest.fixture
    def holder(self, place, environment, lease_period):
        """Starts a process that holds locks and obeys; what is still alive at the end is killed."""
        with contextlib.ExitStack() as stack:

            def start(names, period=lease_period):
                arguments = (place, environment, period, names)
                process, pipe = stack.enter_context(talk_to(lock_workers.hold, arguments))
                assert pipe.poll(600)
                state, owner = pipe.recv()
                assert state == "held"
                return process, pipe, owner

            yield start

    def test_a_lock_can_be_taken_again_after_it_was_given_back(self, locks):
        for _ in range(3):
            with locks.acquire(["a", "b"]) as held:
                held.check()
                assert held.names == ("a", "b")

    def test_names_are_sorted_and_taken_once(self, locks):
        with locks.acquire(["b", "a", "b"]) as held:
            assert held.names == ("a", "b")
            assert held.name == "a, b"

    def test_further_locks_are_taken_if_they_are_free(self, locks):
        with locks.acquire(["b", "d"]) as held:
            assert locks.extend(held, ["a", "b", "c"])
            assert held.names == ("b", "d", "a", "c")
            assert all(locks.is_mine(name) for name in "abcd")
        assert not any(locks.is_mine(name) for name in "abcd")
        with locks.acquire(["a", "b", "c", "d"]):
            pass

    def test_further_locks_are_not_waited_for(self, locks):
        taken, go_on = threading.Event(), threading.Event()

        def hold():
            with locks.acquire("c"):
                taken.set()
                assert go_on.wait(600)

        other = threading.Thread(target=hold)
        other.start()
        assert taken.wait(600)
        try:
            with locks.acquire("b") as held:
                assert not locks.extend(held, ["b", "c"])
                held.check()
        finally:
            go_on.set()
            other.join(600)
        locks.acquire(["b", "c"]).release()

    def test_the_handle_says_who_holds_it(self, locks):
        with locks.acquire("a") as held:
            assert held.owner == OwnerProcess.current()
            assert held.owner.pid == os.getpid()
            assert set(held.owner.as_json()) == {"host", "pid", "process_start"}

    def test_a_table_lock_is_one_table_on_one_branch(self, locks):
        names = {
            locks.table_lock("nodes/1f", None),
            locks.table_lock("nodes/1f", "feature"),
            locks.table_lock("nodes/2f", None),
            locks.graph_lock(),
        }
        assert len(names) == 4
        assert locks.table_lock("nodes/1f", "main") == locks.table_lock("nodes/1f", None)
        with contextlib.ExitStack() as stack:
            for name in sorted(names):
                stack.enter_context(locks.acquire(name))

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("node Aa", "node aA"),
            ("a/b", "a-b"),
            ("a b", "a  b"),
            ("x" * 400, "x" * 401),
            ("../../up", "up"),
            ("ünïcödé", "unicode"),
            ("😀", "😁"),
        ],
    )
    def test_any_text_is_a_name_and_two_names_are_two_locks(self, locks, one, other):
        with locks.acquire(one, Patience(0)), locks.acquire(other, Patience(0)):
            pass

    def test_a_second_taker_waits_its_time_and_gets_contention(self, locks, holder):
        holder(["a"])
        with pytest.raises(Contention) as caught:
            locks.acquire(["a"], Patience(200))
        assert caught.value.details["attempts"] >= 2
        assert caught.value.code == "contention"
        with pytest.raises(Contention) as caught:
            locks.acquire(["a"], Patience(0))
        assert caught.value.details["attempts"] == 1

    def test_the_wait_is_a_setting(self, locks, holder, monkeypatch):
        holder(["a"])
        monkeypatch.setenv("OMNIGRAPH_LOCK_WAIT_MS", "0")
        with pytest.raises(Contention) as caught:
            locks.acquire(["a"])
        assert caught.value.details["attempts"] == 1

    def test_a_failed_set_gives_back_what_it_had(self, locks, holder):
        holder(["b"])
        with pytest.raises(Contention):
            locks.acquire(["a", "b", "c"], Patience(0))
        with locks.acquire(["a", "c"], Patience(0)):
            pass

    def test_asking_without_waiting(self, locks, holder):
        _, pipe, _ = holder(["a"])
        assert locks.try_acquire(["a"]) is None
        assert locks.is_locked_by_other("a")
        assert not locks.is_locked_by_other("free")
        pipe.send("release")
        assert pipe.recv() == "released"
        assert not locks.is_locked_by_other("a")
        mine = locks.try_acquire("a")
        assert mine is not None
        assert not locks.is_locked_by_other("a")
        mine.release()

    def test_a_waiter_gets_the_lock_when_it_is_given_back(self, locks, holder):
        _, pipe, _ = holder(["a"])
        threading.Timer(0.2, pipe.send, ["release"]).start()
        with locks.acquire("a", Patience(600_000)) as held:
            held.check()

    def test_threads_exclude_each_other(self, place, environment, lease_period):
        """Each thread has its own manager, as two handles on one graph in a server do."""
        value = [0]

        def count():
            locks = LockManager(Root.parse(place), lease_period=lease_period)
            for _ in range(5):
                with locks.acquire("a", Patience(600_000)):
                    seen = value[0]
                    time.sleep(0.001)
                    value[0] = seen + 1

        threads = [threading.Thread(target=count) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert value == [20]

    def test_a_thread_that_waits_for_another_gets_contention(self, locks):
        caught = []

        def take():
            try:
                locks.acquire("a", Patience(50))
            except Contention as error:
                caught.append(error)

        with locks.acquire("a"):
            thread = threading.Thread(target=take)
            thread.start()
            thread.join()
            assert len(caught) == 1
            assert locks.is_locked_by_other("a") is False

    def test_taking_a_held_lock_again_is_refused_and_not_waited_for(self, locks):
        with locks.acquire(["a", "b"]) as held:
            with pytest.raises(StorageError, match="already") as caught:
                locks.acquire(["b"])
            assert not isinstance(caught.value, Contention)
            held.check()

    def test_a_released_handle_is_of_no_use(self, locks):
        held = locks.acquire("a")
        held.release()
        held.release()
        with pytest.raises(LockLost):
            held.check()
        with locks.acquire("a", Patience(0)):
            held.release()

    def test_an_error_inside_gives_the_lock_back(self, locks):
        with pytest.raises(ValueError, match="inside"), locks.acquire("a"):
            raise ValueError("inside")
        with locks.acquire("a", Patience(0)):
            pass

    def test_processes_lose_no_count(self, place, environment, lease_period, tmp_path):
        counter = tmp_path / "counter"
        counter.write_text("0")
        times = self.counts
        arguments = (place, environment, lease_period, str(counter), times)
        run_processes(lock_workers.count_under_lock, [arguments] * 8)
        assert counter.read_text() == str(8 * times)

    def test_opposite_orders_do_not_deadlock(self, place, environment, lease_period):
        results = run_processes(
            lock_workers.take_both,
            [
                (place, environment, lease_period, ["a", "b"], self.counts),
                (place, environment, lease_period, ["b", "a"], self.counts),
            ],
        )
        assert results == [self.counts, self.counts]

    def test_the_lock_of_a_killed_process_is_freed(self, locks, holder, short_period):
        process, _, _ = holder(["a", "b", "c"], short_period)
        assert locks.try_acquire("a") is None
        process.kill()
        process.join()
        with locks.acquire(["a", "b", "c"], Patience(self.recovery_ms)) as held:
            held.check()

    def test_a_live_holder_keeps_its_lock(self, locks, holder, short_period):
        """Longer than a lease: renewals keep it, unless a busy machine lets it stand still for so long."""

        def is_kept(name):
            _, pipe, _ = holder([name], short_period)
            try:
                locks.acquire(name, Patience(int(short_period * 1500))).release()
            except Contention:
                pipe.send("check")
                return pipe.recv() == "still held"
            return False

        assert any(is_kept(name) for name in "abc")

    def test_a_forked_child_holds_nothing(self, locks):
        with locks.acquire("a") as held:
            assert in_forked_child(held.check) == ("LockLost", True)
            assert in_forked_child(lambda: (held.release(), 1 / 0)) == ("ZeroDivisionError", False)
            held.check()
            assert self.try_elsewhere(locks, "a") is None

    def try_elsewhere(self, locks, name):
        """What another thread gets that asks now."""
        answers = []
        thread = threading.Thread(target=lambda: answers.append(locks.try_acquire(name)))
        thread.start()
        thread.join()
        return answers[0]


def pause(process):
    """Stop a process, and wait until each of its threads stands still."""
    os.kill(process.pid, signal.SIGSTOP)
    tasks = Path(f"/proc/{process.pid}/task")
    while any(state(task) not in "TZ" for task in tasks.iterdir()):  # or it has ended
        time.sleep(0.01)


def state(task):
    return (task / "stat").read_text().rpartition(")")[2].split()[0]


def resume(process):
    os.kill(process.pid, signal.SIGCONT)
