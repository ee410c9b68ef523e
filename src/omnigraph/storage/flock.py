"""Exclusive advisory locks of the operating system on files.

`flock` belongs to an open file description, not to a process: every ``FileLock`` opens its own, so
two threads exclude each other like two processes do, and the kernel frees the lock when the process
dies. A forked child inherits the description, though, and would keep a dead parent's lock alive;
the fork hooks below close every lock file in the child.

Lock files are never removed: unlinking one while another process waits on it would let two
processes lock two different files of the same name.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import random
import threading
import time

_FIRST_PAUSE = 0.0005
_LONGEST_PAUSE = 0.02

_descriptors: set[int] = set()
# Held during a fork, so that the child never inherits a descriptor that is not in the set yet.
_registering = threading.Lock()


def _close_inherited() -> None:
    for descriptor in _descriptors:
        with contextlib.suppress(OSError):
            os.close(descriptor)
    _descriptors.clear()
    _registering.release()


os.register_at_fork(
    before=_registering.acquire,
    after_in_parent=_registering.release,
    after_in_child=_close_inherited,
)


class FileLock:
    """A held lock. Made by ``try_lock`` or ``lock``; raises ``OSError`` as the system does."""

    __slots__ = ("_descriptor", "_pid", "path")

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        self._pid = os.getpid()

    def is_current(self) -> bool:
        """Whether this process still holds it and the file is still the one others would open."""
        return self._pid == os.getpid() and _is_file_at(self._descriptor, self.path)

    def note(self, text: str) -> None:
        """Write into the file who holds it; information for people, nothing else."""
        data = text.encode()
        os.pwrite(self._descriptor, data, 0)
        # Only what is left of a longer text is cut off: to empty the file first would make the system write it to
        # the disk at once, and the next holder wait for that.
        if os.fstat(self._descriptor).st_size > len(data):
            os.ftruncate(self._descriptor, len(data))

    def unlock(self) -> None:
        """Release the lock; does nothing in a forked child or when it is released already."""
        if self._pid != os.getpid() or self._descriptor < 0:
            return
        descriptor, self._descriptor = self._descriptor, -1
        try:
            # Explicit, because a child forked by foreign code may still hold a copy open.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        finally:
            _close(descriptor)


def try_lock(path: str) -> FileLock | None:
    """Lock the file at ``path``, creating it if needed; None when someone else holds the lock."""
    while True:
        descriptor = _open(path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_file_at(descriptor, path):
                return FileLock(path, descriptor)
        except BlockingIOError:
            _close(descriptor)
            return None
        except BaseException:
            _close(descriptor)
            raise
        # The file was removed between open and lock, so this lock would exclude nobody.
        _close(descriptor)


def is_locked(path: str) -> bool:
    """Whether another process holds the lock of the file; False if there is no such file."""
    try:
        with _registering:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            _descriptors.add(descriptor)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        _close(descriptor)
    return False


def lock(path: str, timeout: float) -> FileLock:
    """Lock the file at ``path``, waiting up to ``timeout`` seconds; ``TimeoutError`` after that."""
    deadline = time.monotonic() + timeout
    pause = _FIRST_PAUSE
    while (held := try_lock(path)) is None:
        if time.monotonic() >= deadline:
            raise TimeoutError(errno.ETIMEDOUT, "another process holds the lock", path)
        time.sleep(pause * random.uniform(0.5, 1.0))
        pause = min(pause * 2, _LONGEST_PAUSE)
    return held


def _open(path: str) -> int:
    with _registering:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        _descriptors.add(descriptor)
    return descriptor


def _close(descriptor: int) -> None:
    with _registering:
        _descriptors.discard(descriptor)
        os.close(descriptor)


def _is_file_at(descriptor: int, path: str) -> bool:
    if descriptor < 0:
        return False
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))  # noqa: PTH116 - a Path takes longer
    except FileNotFoundError:
        return False
