"""Who waits for a lock, and how long: a budget for the waiting, and a queue in order of arrival.

A waiter puts a ticket down and lets those go first who came before it. The queue only says whose turn
it is, about; that one holder excludes the others is the lock's business, never the queue's.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import Final, NamedTuple, Protocol
from uuid import uuid4

from omnigraph import settings
from omnigraph.errors import StorageError
from omnigraph.storage import flock
from omnigraph.storage.layout import LOCKS_DIR
from omnigraph.storage.local_objects import make_directory
from omnigraph.storage.objects import ObjectStore

WAITING_DIR: Final = f"{LOCKS_DIR}/waiting"

SLOW_FACTOR: Final = 10
"""So much longer one waits for a holder that writes its rows while it holds the lock."""


class Purpose(NamedTuple):
    """What a lock is held for, in the words of its waiters.

    ``slow``: rows are written under the lock, as the first write of a table on a branch does.
    """

    operation: str = "write"
    slow: bool = False


WRITE: Final = Purpose()


class Holder(NamedTuple):
    """Who holds a lock, for people, and what for."""

    owner: str | None
    purpose: Purpose


class Patience:
    """How long an operation may wait for locks, over all its attempts; its work does not count."""

    def __init__(self, wait_ms: int | None = None) -> None:
        self._limit = (settings.LOCK_WAIT_MS.get() if wait_ms is None else wait_ms) / 1000
        self._waited = 0.0
        self._spent = 0.0

    def left(self) -> float:
        """Seconds that may still be waited."""
        return self._limit - self._spent

    def spend(self, seconds: float) -> None:
        """Count what was waited."""
        self._waited += seconds
        self._spent += seconds

    def is_left_for(self, holder: Purpose) -> bool:
        """Whether to wait on for a holder: when it is slow, what was waited so far counts a tenth.

        So there is patience left when it is through, for those who come first then.
        """
        if holder.slow and self.left() <= 0:
            excess = self._waited - self._limit * (SLOW_FACTOR - 1)
            self._spent = max(self._spent / SLOW_FACTOR, excess)
        return self.left() > 0


class Ticket(Protocol):
    """A place in the queue for one lock."""

    def is_next(self) -> bool:
        """Whether nobody who came earlier still waits."""
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


class FileTicket:
    """A place in a queue on a local disk: a file that its waiter keeps locked while it lives."""

    def __init__(self, directory: Path, lock_file: str) -> None:
        self._directory = directory / WAITING_DIR
        self._queue = f"{Path(lock_file).stem}."
        # This clock is the same for all processes of the machine and never jumps.
        self._name = f"{self._queue}{time.monotonic_ns():020d}.{uuid4().hex}"
        self._held: flock.FileLock | None = None
        # A disk that is full, or that others may not write to: wait without a place.
        with contextlib.suppress(OSError):
            make_directory(self._directory)
            self._held = flock.try_lock(str(self._directory / self._name))

    def is_next(self) -> bool:
        """Whether nobody who came earlier still waits; tickets of the dead are removed."""
        if self._held is None:
            return True
        with contextlib.suppress(OSError):
            for name in sorted(os.listdir(self._directory)):  # noqa: PTH208 - names, as they are
                if not name.startswith(self._queue) or name >= self._name:
                    continue
                path = self._directory / name
                if flock.is_locked(str(path)):
                    return False
                path.unlink(missing_ok=True)
        return True

    def leave(self) -> None:
        """Give the place up."""
        if self._held is not None:
            with contextlib.suppress(OSError):
                (self._directory / self._name).unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                self._held.unlock()


class ObjectTicket:
    """A place in a queue on an object store.

    Nobody can tell there whether a waiter still lives, so the first of the queue is waited for no longer
    than ``period`` seconds; then its ticket is removed. A waiter without its ticket goes on waiting.
    """

    def __init__(self, store: ObjectStore, lock_file: str, period: float) -> None:
        self._store = store
        self._prefix = f"{WAITING_DIR}/{Path(lock_file).stem}/"
        self._name = f"{self._prefix}{time.time_ns() // 1000:020d}-{uuid4().hex}"
        self._period = period
        self._first: str | None = None
        self._since = 0.0
        self._has_place = False
        with contextlib.suppress(StorageError):
            store.write_text_if_absent(self._name, "")
            self._has_place = True

    def is_next(self) -> bool:
        """Whether nobody who came earlier still waits, as far as can be known."""
        if not self._has_place:
            return True
        try:
            names = sorted(self._store.list(self._prefix))
        except StorageError:
            return True
        if self._name not in names or names[0] == self._name:
            return True
        if names[0] != self._first:
            self._first, self._since = names[0], time.monotonic()
        elif time.monotonic() - self._since > self._period:
            with contextlib.suppress(StorageError):
                self._store.delete(names[0])
        return False

    def leave(self) -> None:
        """Give the place up."""
        if self._has_place:
            with contextlib.suppress(StorageError):
                self._store.delete(self._name)
