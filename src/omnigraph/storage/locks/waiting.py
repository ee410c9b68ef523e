"""Waiting for locks: a budget of time, and a queue in order of arrival.

A waiter leaves a ticket and lets earlier waiters go first. The queue decides only whose turn it is,
and only roughly; that one holder excludes the others is the lock's job, never the queue's.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple, Protocol
from uuid import uuid4

from omnigraph import settings
from omnigraph.errors import StorageError
from omnigraph.storage import flock
from omnigraph.storage.layout import LOCKS_DIR
from omnigraph.storage.objects.local_objects import make_directory
from omnigraph.storage.objects.object_store import ObjectStore

WAITING_DIR: Final = f"{LOCKS_DIR}/waiting"

SLOW_FACTOR: Final = 10
"""How many times longer to wait for a holder that writes rows while it holds the lock."""


FREE_SECONDS: Final = 0.5
"""How long the first in line may leave a free lock alone; a waiter that is running takes it much sooner."""


class Purpose(NamedTuple):
    """What a lock is held for, as messages to waiters say it.

    ``slow``: rows are written under the lock, as the first write of a table on a branch does.
    """

    operation: str = "write"
    slow: bool = False


WRITE: Final = Purpose()


class Holder(NamedTuple):
    """Who holds a lock, in words for people, and what for."""

    owner: str | None
    purpose: Purpose


class Patience:
    """How long an operation may wait for locks over all its attempts; its work is not counted."""

    def __init__(self, wait_ms: int | None = None) -> None:
        self._limit = (settings.LOCK_WAIT_MS.get() if wait_ms is None else wait_ms) / 1000
        self._waited = 0.0
        self._spent = 0.0

    def left(self) -> float:
        """How many seconds of waiting are left."""
        return self._limit - self._spent

    def spend(self, seconds: float) -> None:
        """Deduct seconds that were spent waiting."""
        self._waited += seconds
        self._spent += seconds

    def is_left_for(self, holder: Purpose) -> bool:
        """Whether to keep waiting for a holder; for a slow one the time waited counts a tenth.

        Some patience is then left for the waiters that are served before this one when it is done.
        """
        if holder.slow and self.left() <= 0:
            excess = self._waited - self._limit * (SLOW_FACTOR - 1)
            self._spent = max(self._spent / SLOW_FACTOR, excess)
        return self.left() > 0


class Ticket(Protocol):
    """A place in the queue for one lock."""

    def is_next(self) -> bool:
        """Whether every earlier waiter is gone."""
        ...

    def leave(self) -> None:
        """Give the place up."""
        ...


def has_tickets(directory: Path, lock_file: str) -> bool:
    """Whether there is a queue for a lock on a local disk."""
    queue = f"{Path(lock_file).stem}."
    try:
        return any(name.startswith(queue) for name in os.listdir(directory / WAITING_DIR))  # noqa: PTH208
    except OSError:
        return False


class _First:
    """Watches the first of a queue for a waiter behind it: will it ever take its turn?

    ``is_free`` says whether the lock could be taken; ``period`` is the longest time the first may
    keep its place, whether the lock is free or not.
    """

    def __init__(self, is_free: Callable[[], bool], period: float = math.inf) -> None:
        self._is_free = is_free
        self._period = period
        self._name: str | None = None
        self._since = 0.0
        self._free_since: float | None = None

    def had_its_turn(self, name: str) -> bool:
        """Whether the waiter that is first now had its time and did not use it."""
        now = time.monotonic()
        if name != self._name:
            self._name, self._since, self._free_since = name, now, None
        stood = now - self._since
        if stood <= FREE_SECONDS or not self._is_free():
            self._free_since = None
        elif self._free_since is None:
            self._free_since = now
        idle = 0.0 if self._free_since is None else now - self._free_since
        return stood > self._period or idle > FREE_SECONDS


class FileTicket:
    """A place in a queue on a local disk: a file that the waiter keeps locked while it lives.

    A living waiter that does not take its turn (it may be stopped) loses its place.
    """

    def __init__(self, directory: Path, lock_file: str) -> None:
        self._first = _First(lambda: not flock.is_locked(str(directory / lock_file)))
        self._directory = directory / WAITING_DIR
        self._queue = f"{Path(lock_file).stem}."
        # This clock is the same for all processes of the machine and never jumps.
        self._name = f"{self._queue}{time.monotonic_ns():020d}.{uuid4().hex}"
        self._held: flock.FileLock | None = None
        # The disk is full or read-only: wait without a ticket.
        with contextlib.suppress(OSError):
            make_directory(self._directory)
            self._held = flock.try_lock(str(self._directory / self._name))
            self._remove_dead()

    def is_next(self) -> bool:
        """Whether every earlier waiter is gone; tickets of dead processes are removed."""
        if self._held is None:
            return True
        with contextlib.suppress(OSError):
            for name in self._others():
                path = self._directory / name
                if name > self._name:
                    break
                if flock.is_locked(str(path)) and not self._first.had_its_turn(name):
                    return False
                path.unlink(missing_ok=True)
        return True

    def _others(self) -> list[str]:
        names = os.listdir(self._directory)  # noqa: PTH208 - names, as they are
        return sorted(n for n in names if n.startswith(self._queue) and n != self._name)

    def _remove_dead(self) -> None:
        """Remove dead tickets, also later ones: the clock starts at zero when the machine does."""
        for name in self._others():
            path = self._directory / name
            if not flock.is_locked(str(path)):
                path.unlink(missing_ok=True)

    def leave(self) -> None:
        """Give the place up."""
        if self._held is not None:
            with contextlib.suppress(OSError):
                (self._directory / self._name).unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                self._held.unlock()


class ObjectTicket:
    """A place in a queue on an object store.

    Nothing shows there whether a waiter is still alive. So the first of the queue keeps its place for
    ``period`` seconds at most, and only for a moment while the lock is free; then its ticket is
    removed. A waiter that lost its ticket keeps waiting.
    """

    def __init__(
        self, store: ObjectStore, lock_file: str, period: float, is_free: Callable[[], bool]
    ) -> None:
        self._store = store
        self._prefix = f"{WAITING_DIR}/{Path(lock_file).stem}/"
        self._name = f"{self._prefix}{time.time_ns() // 1000:020d}-{uuid4().hex}"
        self._first = _First(is_free, period)
        self._has_place = False
        with contextlib.suppress(StorageError):
            store.write_text_if_absent(self._name, "")
            self._has_place = True

    def is_next(self) -> bool:
        """Whether every earlier waiter is gone, as far as can be known."""
        if not self._has_place:
            return True
        try:
            names = sorted(self._store.list(self._prefix))
        except StorageError:
            return True
        if self._name not in names or names[0] == self._name:
            return True
        if self._first.had_its_turn(names[0]):
            with contextlib.suppress(StorageError):
                self._store.delete(names[0])
        return False

    def leave(self) -> None:
        """Give the place up."""
        if self._has_place:
            with contextlib.suppress(StorageError):
                self._store.delete(self._name)
