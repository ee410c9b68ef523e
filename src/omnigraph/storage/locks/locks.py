"""Table, head and operation locks and the graph lock: they keep the threads and processes of one graph apart.

On a local root a lock is an advisory lock of the operating system on a file, on an object store a
lease. Threads of one process queue here, and only the first of them asks the store.
Correctness never depends on a lock alone: every commit is still checked.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import random
import re
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, Protocol, Self
from uuid import uuid4

from omnigraph import settings
from omnigraph.cancel import look
from omnigraph.errors import Contention, SchemaApplyInProgress, StorageError
from omnigraph.storage.layout import LOCKS_DIR
from omnigraph.storage.locks.leases import Leases
from omnigraph.storage.locks.lock_files import LockFiles
from omnigraph.storage.locks.waiting import WRITE, Holder, Patience, Purpose, Ticket
from omnigraph.storage.objects.object_store import ObjectStore
from omnigraph.storage.objects.store_errors import LockLost, lock_lost
from omnigraph.storage.objects.stores import open_store
from omnigraph.storage.owner import OwnerProcess
from omnigraph.storage.store_kinds.store_kind import Limits
from omnigraph.storage.uris import Root

__all__ = ["HeldLocks", "LockLost", "LockManager", "OwnerProcess"]


class _Lock(Protocol):
    """One held lock."""

    def renew(self) -> None: ...
    def check(self) -> None: ...
    def release(self) -> None: ...


class _Place(Protocol):
    """Where locks are kept."""

    def attempt(self, name: str, holder: str, purpose: Purpose) -> _Lock | None: ...
    def watch(self, names: Iterable[str]) -> None: ...
    def holder_of(self, name: str) -> Holder: ...
    def line_up(self, name: str) -> Ticket: ...
    def is_waited_for(self, name: str) -> bool: ...
    def is_held(self, name: str) -> bool: ...


class LockManager:
    """Takes locks of one graph. Keep one per open graph: it remembers how long leases stay unchanged.

    ``lease_period``: the seconds without renewal after which a lease may be taken over, by default those
    of the settings. ``of_graph``: in a directory without a graph the locks are refused, and nothing is
    made there.
    """

    def __init__(
        self,
        place: Root | ObjectStore,
        *,
        lease_period: float | None = None,
        of_graph: bool = False,
    ) -> None:
        self._place: _Place
        self._renew_every: float | None = None
        self._pauses = (0.001, 0.02)
        if isinstance(place, Root) and place.is_local:
            self._realm = place.canonical
            self._place = LockFiles(place.path, of_graph=of_graph)
            return
        if lease_period is None:
            lease_period = settings.LOCK_LEASE_MS.get() / 1000
        if isinstance(place, Root):
            # A renewal that hangs for a whole period would be as bad as none.
            store = open_store(place, Limits(timeout=lease_period / 3, retries=1))
            self._realm = place.canonical
        else:
            store = place
            self._realm = f"{place.address}#{id(place)}"
        self._place = Leases(store, lease_period)
        self._renew_every = lease_period / 3
        self._pauses = (0.05, min(0.5, lease_period / 10))

    @staticmethod
    def table_lock(table: str, branch: str | None) -> str:
        """The name of the lock of a table (its location) on a branch; None is main."""
        return f"table {table} on {branch or 'main'}"

    @staticmethod
    def head_lock(branch: str) -> str:
        """The name of the lock for writers that need a branch's exact head, or move only the head."""
        return f"head {branch}"

    @staticmethod
    def operation_lock(branch: str, operation_id: str) -> str:
        """The name of the lock that keeps writes of one caller's id apart; other ids may share it.

        Lock files stay, so there are only as many as there are last characters of an id.
        """
        return f"operation {operation_id[-1]} on {branch}"

    @staticmethod
    def graph_lock() -> str:
        """The name of the lock for branch changes, schema apply and cleanup."""
        return "graph"

    def acquire(
        self,
        names: str | Iterable[str],
        patience: Patience | None = None,
        purpose: Purpose = WRITE,
    ) -> HeldLocks:
        """Take all the locks or none, in sorted order: graph, heads, operations, tables.

        ``Contention`` when the patience runs out (``SchemaApplyInProgress`` when a schema apply
        holds the lock). Waiters are served roughly in order of arrival. ``purpose`` tells other
        waiters what this caller holds the locks for.
        """
        patience = Patience() if patience is None else patience
        wanted = sorted({names} if isinstance(names, str) else set(names))
        held = HeldLocks(wanted, self._renew_every, purpose)
        try:
            for position, name in enumerate(wanted):
                self._take(held, name, wanted[position + 1 :], patience)
        except BaseException:
            held.release()
            raise
        return held

    def try_acquire(self, names: str | Iterable[str]) -> HeldLocks | None:
        """Take all the locks now, or none and return None.

        The lease of a dead process is not taken over until this manager has seen it unchanged for
        its whole period, so on an object store ask again later (or ``acquire`` with a wait).
        """
        try:
            return self.acquire(names, Patience(0))
        except (Contention, SchemaApplyInProgress):
            return None

    def extend(self, held: HeldLocks, names: Iterable[str]) -> bool:
        """Take those of the locks that are not held yet; False if one of them is not free.

        It never waits: two who wait while they hold locks may wait for each other.
        """
        try:
            for name in sorted(set(names).difference(held.names)):
                self._take(held, name, (), Patience(0))
                held.names = (*held.names, name)
        except (Contention, SchemaApplyInProgress):
            return False
        return True

    def is_mine(self, name: str) -> bool:
        """Whether the calling thread holds the lock, through any manager of this graph."""
        return _Turn.of(self._realm, name).is_mine()

    def is_locked_by_other(self, name: str) -> bool:
        """Whether anyone but the calling thread holds the lock, or may still hold it."""
        if self.is_mine(name):
            return False
        held = self.try_acquire(name)
        if held is None:
            return True
        held.release()
        return False

    def seems_held(self, name: str) -> bool:
        """Whether anyone holds the lock, as far as can be seen without taking it or writing anything."""
        return self._place.is_held(_object_name(name))

    def _take(self, held: HeldLocks, name: str, later: Sequence[str], patience: Patience) -> None:
        turn = _Turn.of(self._realm, name)
        if turn.is_mine():
            raise StorageError(
                f'this thread holds the lock "{name}" already; pass the held lock on instead of '
                "taking it again"
            )
        if not turn.take(patience, held.purpose):
            owner = f"another thread of {OwnerProcess.current()}"
            raise _contention(name, 1, Holder(owner, turn.purpose))
        try:
            file, lock = _object_name(name), None
            # A free lock may be due to a waiter that is about to look again.
            if patience.left() <= 0 or not self._place.is_waited_for(file):
                lock = self._place.attempt(file, held.holder, held.purpose)
            if lock is None:
                lock = self._wait_for(name, later, held, patience, turn)
        except BaseException:
            turn.end()
            raise
        held.add(lock, turn)

    def _wait_for(
        self,
        name: str,
        later: Sequence[str],
        held: HeldLocks,
        patience: Patience,
        turn: _Turn,
    ) -> _Lock:
        file = _object_name(name)
        holder = self._place.holder_of(file)
        if not patience.is_left_for(holder.purpose):
            raise _contention(name, 1, holder)
        # Threads queued behind this one wait for the same holder.
        turn.purpose = holder.purpose
        ticket = self._place.line_up(file)
        try:
            lock = self._in_line(name, later, held, patience, turn, ticket)
        finally:
            ticket.leave()
        turn.purpose = held.purpose
        return lock

    def _in_line(
        self,
        name: str,
        later: Sequence[str],
        held: HeldLocks,
        patience: Patience,
        turn: _Turn,
        ticket: Ticket,
    ) -> _Lock:
        shortest, longest = self._pauses
        pause = shortest
        file = _object_name(name)
        since = time.monotonic()
        for attempts in itertools.count(2):
            look()
            since, before = time.monotonic(), since
            patience.spend(since - before)
            # Do not give up while the lock is free.
            is_next = ticket.is_next() or patience.left() <= 0
            lock = self._place.attempt(file, held.holder, held.purpose) if is_next else None
            if lock is not None:
                return lock
            self._place.watch(_object_name(other) for other in later)
            if patience.left() <= 0:
                holder = self._place.holder_of(file)
                if not patience.is_left_for(holder.purpose):
                    raise _contention(name, attempts, holder)
                turn.purpose = holder.purpose
            # Jitter, so that waiters do not look all at once. The next in line looks more often.
            pause = min(pause * 1.5, longest / 4 if is_next else longest)
            left = max(shortest, patience.left())
            time.sleep(min(left, pause * random.uniform(0.5, 1.0)))
        raise AssertionError


class HeldLocks:
    """Locks held together. Call ``check`` before every effect they protect."""

    def __init__(self, names: Sequence[str], renew_every: float | None, purpose: Purpose) -> None:
        self.names = tuple(names)
        self.purpose = purpose
        self.owner = OwnerProcess.current()
        self.holder = uuid4().hex
        self._locks: list[tuple[_Lock, _Turn]] = []
        self._renew_every = renew_every
        self._released = threading.Event()
        self._afterwards: list[Callable[[], object]] = []
        self._pid = os.getpid()

    @property
    def name(self) -> str:
        """All names in one text, for the owner record of a sidecar."""
        return ", ".join(self.names)

    def check(self) -> None:
        """Raise ``LockLost`` unless every lock is still held by this process."""
        if self._released.is_set():
            raise lock_lost(self.name, "it was released before")
        for lock, _ in self._locks:
            lock.check()

    def afterwards(self, act: Callable[[], object]) -> None:
        """Have ``release`` call this once the locks are free, for work that takes locks of its own."""
        self._afterwards.append(act)

    def release(self) -> None:
        """Release all locks, in reverse order; a second call does nothing."""
        if self._released.is_set() or self._pid != os.getpid():
            return
        self._released.set()
        # All of them, even when Ctrl-C arrives while one is being released.
        with contextlib.ExitStack() as ends:
            for lock, turn in self._locks:
                ends.callback(turn.end)
                ends.callback(lock.release)
        for act in self._afterwards:
            act()

    def add(self, lock: _Lock, turn: _Turn) -> None:
        """Take charge of one more lock; the first one starts the renewals."""
        self._locks.append((lock, turn))
        if self._renew_every is not None and len(self._locks) == 1:
            threading.Thread(target=self._renew, name="lease renewal", daemon=True).start()

    def _renew(self) -> None:
        while not self._released.wait(self._renew_every):
            for lock, _ in list(self._locks):
                lock.renew()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class _Turn:
    """The queue for one lock inside this process."""

    _all: ClassVar[weakref.WeakValueDictionary[tuple[str, str], _Turn]] = (
        weakref.WeakValueDictionary()
    )
    _guard: ClassVar = threading.Lock()

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: int | None = None
        self.purpose = WRITE
        """Why the thread whose turn it is holds the lock."""

    @classmethod
    def of(cls, realm: str, name: str) -> _Turn:
        with cls._guard:
            return cls._all.setdefault((realm, name), _Turn())

    @classmethod
    def forget_all(cls) -> None:
        """Start afresh in a forked child: it holds no lock, and the guard may be locked for ever."""
        cls._guard = threading.Lock()
        cls._all = weakref.WeakValueDictionary()

    def is_mine(self) -> bool:
        return self._thread == threading.get_ident()

    def take(self, patience: Patience, purpose: Purpose) -> bool:
        taken = False
        while not taken:
            since = time.monotonic()
            taken = self._lock.acquire(timeout=max(0.0, patience.left()))
            patience.spend(time.monotonic() - since)
            if not taken and not patience.is_left_for(self.purpose):
                return False
        self._thread = threading.get_ident()
        self.purpose = purpose
        return True

    def end(self) -> None:
        self._thread = None
        self._lock.release()


os.register_at_fork(after_in_child=_Turn.forget_all)


def _object_name(name: str) -> str:
    """A file name for any lock name: readable, short enough, distinct where case is ignored."""
    readable = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:60]
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return f"{LOCKS_DIR}/{readable}-{digest}.lock"


def _contention(name: str, attempts: int, holder: Holder) -> Contention | SchemaApplyInProgress:
    error: Contention | SchemaApplyInProgress
    if holder.purpose.operation == "schema_apply":
        error = SchemaApplyInProgress(
            f'a schema apply holds the lock "{name}"; try again when it has ended'
        )
    else:
        error = Contention(
            f'the lock "{name}" stayed taken by another {holder.purpose.operation}; try again later',
            attempts=attempts,
            lock=name,
        )
    if holder.owner is not None:
        error.add_note(f"last taken by {holder.owner}")
    return error
