import os
import shutil
import signal
import time
from pathlib import Path

import pytest

from omnigraph.errors import Contention, NotAGraph
from omnigraph.storage.locks.lock_files import LockFile
from omnigraph.storage.locks.locks import LockManager
from omnigraph.storage.locks.waiting import Patience
from omnigraph.storage.objects.store_errors import LockLost
from omnigraph.storage.uris import Root
from tests.storage.locks_contract import LocksContract
from tests.storage.processes import fork


class TestContract(LocksContract):
    counts = 25
    recovery_ms = 0  # the kernel frees a lock with its process

    @pytest.fixture
    def place(self, tmp_path):
        return str(tmp_path / "a graph é")

    @pytest.fixture
    def environment(self):
        return {}

    @pytest.fixture
    def lease_period(self):
        return 0.4  # of no meaning here

    @pytest.fixture
    def short_period(self, lease_period):
        return lease_period


@pytest.fixture
def locks(tmp_path):
    return LockManager(Root.parse(tmp_path / "graph"))


def test_aliases_of_a_root_share_their_locks(tmp_path, locks):
    (tmp_path / "graph").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "graph")
    alias = LockManager(Root.parse(tmp_path / "link"))
    with locks.acquire("a"):
        assert not alias.is_locked_by_other("a")  # this thread's own
        assert LocksContract().try_elsewhere(alias, "a") is None


def test_lock_files_stay_and_say_who_held_them(tmp_path, locks):
    with locks.acquire("Some Table"):
        pass
    (file,) = (tmp_path / "graph/__locks").iterdir()
    assert file.name.startswith("some-table-")
    assert f"process {os.getpid()} " in file.read_text()


def test_a_contention_notes_who_holds_the_lock(tmp_path, locks):
    child = fork_holder(locks)
    with pytest.raises(Contention) as caught:
        locks.acquire("a", Patience(0))
    assert f"process {child} " in caught.value.__notes__[0]
    end(child)


def test_a_lock_file_that_was_removed_protects_nobody(tmp_path, locks):
    held = locks.acquire("a")
    for file in (tmp_path / "graph/__locks").iterdir():
        file.unlink()
    with pytest.raises(LockLost):
        held.check()
    held.release()
    with locks.acquire("a", Patience(0)) as again:
        again.check()


def test_a_child_does_not_keep_a_dead_parents_lock_alive(tmp_path, locks):
    """The parent holds the lock, forks, and dies; the child lives on."""
    reader, writer = os.pipe()
    parent = fork()
    if parent == 0:
        held = locks.acquire("a")
        child = fork()
        if child == 0:
            time.sleep(600)
            os._exit(0)
        held.check()
        os.write(writer, str(child).encode())
        os._exit(0)
    os.waitpid(parent, 0)
    grandchild = int(os.read(reader, 100))
    os.close(reader)
    os.close(writer)
    try:
        os.kill(grandchild, 0)
        # As soon as the child has run at all, long before it ends.
        with locks.acquire("a", Patience(300_000)):
            pass
    finally:
        os.kill(grandchild, signal.SIGKILL)


def test_a_lock_is_not_inherited_by_programs_that_are_started(tmp_path, locks):
    held = locks.acquire("a")
    inheritable = [
        os.get_inheritable(int(entry.name))
        for entry in Path("/proc/self/fd").iterdir()
        if entry.is_symlink() and "__locks" in str(entry.readlink())
    ]
    assert inheritable == [False]
    held.release()


def test_a_forked_child_queues_like_any_other_process(locks):
    """What threads of the parent hold or wait for is not the child's."""
    reader, writer = os.pipe()
    held = locks.acquire("a")
    child = fork()
    if child == 0:
        refused = locks.try_acquire("a") is None
        os.write(writer, b"r" if refused else b"!")
        os.write(writer, b"t" if locks.acquire("a", Patience(600_000)) else b"!")
        os._exit(0)
    assert os.read(reader, 1) == b"r"
    held.release()
    assert os.read(reader, 1) == b"t"
    os.waitpid(child, 0)
    os.close(reader)
    os.close(writer)


def fork_holder(locks):
    """A child that takes lock `a` and sleeps."""
    reader, writer = os.pipe()
    child = fork()
    if child == 0:
        locks.acquire("a")
        os.write(writer, b".")
        time.sleep(600)
        os._exit(0)
    os.read(reader, 1)
    os.close(reader)
    os.close(writer)
    return child


def end(child):
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def test_an_interrupt_while_one_lock_is_given_back_keeps_none(locks, monkeypatch):
    held = locks.acquire(["a", "b", "c"])
    release = LockFile.release

    def interrupted(lock):
        release(lock)
        if "c-" in lock.name:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(LockFile, "release", interrupted)
        with pytest.raises(KeyboardInterrupt):
            held.release()
    with locks.acquire(["a", "b", "c"], Patience(0)) as again:
        again.check()


@pytest.mark.parametrize("gone", ["graph", "graph/__manifest"])
def test_a_lock_makes_no_directory_where_the_graph_was_deleted(tmp_path, gone):
    place = tmp_path / "graph"
    (place / "__manifest").mkdir(parents=True)
    locks = LockManager(Root.parse(place), of_graph=True)
    with locks.acquire("a"):
        assert (place / "__locks").is_dir()
    for name in (gone, "graph/__locks"):
        shutil.rmtree(tmp_path / name, ignore_errors=True)
    for take in (locks.acquire, locks.try_acquire):
        with pytest.raises(NotAGraph, match="init"):
            take("a")
    assert not (place / "__locks").exists()
    assert place.exists() == (gone != "graph")
    # Nobody holds it: a graph that is put there again is locked as any other.
    (place / "__manifest").mkdir(parents=True)
    with locks.acquire("a"):
        pass
