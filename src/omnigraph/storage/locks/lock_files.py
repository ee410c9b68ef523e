"""Locks on a local root: advisory locks on files that the kernel frees when a process dies."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from pathlib import Path

from omnigraph.errors import NotAGraph
from omnigraph.storage import flock
from omnigraph.storage.layout import MANIFEST
from omnigraph.storage.locks.waiting import WRITE, FileTicket, Holder, Purpose, has_tickets
from omnigraph.storage.objects.local_objects import make_directory
from omnigraph.storage.objects.store_errors import lock_lost, translate
from omnigraph.storage.owner import OwnerProcess


class LockFile:
    """A lock file held by this process."""

    def __init__(self, name: str, lock: flock.FileLock) -> None:
        self.name = name
        self._lock = lock

    def renew(self) -> None:
        """Do nothing: the kernel keeps the lock."""

    def check(self) -> None:
        """Raise ``LockLost`` when the file was removed or this is a forked child."""
        if not self._lock.is_current():
            raise lock_lost(self.name, "its file was removed, or this process was forked off")

    def release(self) -> None:
        """Release the lock; the file stays."""
        self._lock.unlock()


class LockFiles:
    """Takes locks under one directory.

    ``of_graph``: where there is no graph any more, none is taken, so that a graph that was deleted stays
    deleted. Without it, as for a graph that is about to be made, the directory is made too.
    """

    def __init__(self, directory: str, *, of_graph: bool = False) -> None:
        self._directory = Path(directory)
        self._of_graph = of_graph

    def attempt(self, name: str, holder: str, purpose: Purpose = WRITE) -> LockFile | None:
        """Take a lock if nobody holds it; else None."""
        path = f"{self._directory}/{name}"
        try:
            try:
                lock = flock.try_lock(path)
            except FileNotFoundError:
                if self._of_graph:
                    ensure_graph(self._directory)
                make_directory(Path(path).parent)
                lock = flock.try_lock(path)
        except OSError as error:
            raise translate(error, "lock", name, str(self._directory)) from error
        if lock is None:
            return None
        with contextlib.suppress(OSError):  # a full disk must not keep a lock from being taken
            lock.note(f"{OwnerProcess.current()} ({holder}) {json.dumps(purpose)}\n")
        return LockFile(name, lock)

    def watch(self, names: Iterable[str]) -> None:
        """Do nothing: on a disk the kernel says at once whether a lock is free."""

    def holder_of(self, name: str) -> Holder:
        """Who holds a lock and why, as far as its file says."""
        try:
            owner, _, rest = (self._directory / name).read_text().partition(" (")
            operation, slow = json.loads(rest.partition(") ")[2])
            return Holder(owner or None, Purpose(str(operation), bool(slow)))
        except (OSError, ValueError, TypeError, RecursionError):
            return Holder(None, WRITE)

    def line_up(self, name: str) -> FileTicket:
        """Join the queue for a lock."""
        return FileTicket(self._directory, name)

    def is_waited_for(self, name: str) -> bool:
        """Whether anyone seems to wait for a lock: there is a ticket, perhaps of a dead process."""
        return has_tickets(self._directory, name)

    def is_held(self, name: str) -> bool:
        """Whether anyone holds a lock; True where that cannot be found out."""
        try:
            return flock.is_locked(str(self._directory / name))
        except OSError:
            return True


def ensure_graph(root: Path) -> None:
    """Refuse to make anything in a directory that holds no graph any more."""
    if not (root / MANIFEST).is_dir():
        raise NotAGraph(
            f"there is no graph at {root} any more; create one with init, or check the address",
            root=str(root),
        )
