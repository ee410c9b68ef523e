"""Locks on an object store: one lease object per lock, claimed and renewed by conditional writes.

Time is never compared between machines. A waiter takes over a lease only after it has seen the same
version of the object for a whole lease period on its own clock. A holder stops by itself once a
period has passed since it *began* its last successful renewal, which is always earlier:

    holder   begins a renewal at 0 s, which the store takes at 1 s: it may go on until 0 s + period
    waiter   sees that version at 1 s or later: it takes over at 1 s + period, or later

A lease is released by a conditional write too, and the object stays: a plain delete could remove the lease of
a process that took over in the meantime.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import threading
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple
from uuid import uuid4

from omnigraph.errors import StorageError
from omnigraph.storage.locks.waiting import WRITE, Holder, ObjectTicket, Purpose
from omnigraph.storage.objects.object_store import ObjectStore
from omnigraph.storage.objects.store_errors import (
    AlreadyExists,
    InvalidText,
    ObjectChanged,
    ObjectNotFound,
    lock_lost,
)
from omnigraph.storage.owner import OwnerProcess


def _boot_clock() -> Callable[[], float]:
    # Unlike the monotonic clock of Linux, this one keeps running while the machine sleeps.
    boottime: int | None = getattr(time, "CLOCK_BOOTTIME", None)
    if boottime is None:
        return time.monotonic
    return lambda: time.clock_gettime(boottime)


clock = _boot_clock()


class _Record(NamedTuple):
    holder: str | None
    owner: str
    period: float
    purpose: Purpose = WRITE


class _Sighting(NamedTuple):
    version: str
    since: float


class Lease:
    """A lease held by this process."""

    def __init__(
        self,
        store: ObjectStore,
        name: str,
        holder: str,
        purpose: Purpose,
        period: float,
        version: str,
        sent: float,
    ) -> None:
        self.name = name
        self._purpose = purpose
        self._store = store
        self._holder = holder
        self._period = period
        self._version = version
        self._renewed = sent
        self._over = False
        self._pid = os.getpid()
        self._busy = threading.Lock()

    def renew(self) -> None:
        """Extend the lease, or notice that it is lost; after a failure the next renewal retries."""
        with self._busy:
            self._renew()

    def check(self) -> None:
        """Raise ``LockLost`` unless the lease is ours now; call before every effect it protects."""
        if self._pid != os.getpid():
            raise lock_lost(self.name, "it belongs to the process this one was forked from")
        # The clock first: after a long pause, what this object remembers may be out of date.
        if clock() - self._renewed > self._period / 2:
            self.renew()
        if self._over or clock() - self._renewed > self._period:
            self._over = True
            raise lock_lost(self.name, "it was not renewed in time or was taken over")

    def release(self) -> None:
        """Release the lease; one that is lost is left alone, one that cannot be reached expires."""
        if self._pid != os.getpid():
            return
        with self._busy:
            if not self._over:
                self._over = True
                with contextlib.suppress(StorageError):
                    self._replace(_text(None, WRITE, self._period))

    def _renew(self) -> None:
        sent = clock()
        if sent - self._renewed > self._period:
            self._over = True
        if self._over:
            return
        text = _text(self._holder, self._purpose, self._period)
        try:
            version = self._replace(text)
        except (ObjectChanged, ObjectNotFound, InvalidText):
            self._over = True
        except StorageError:
            return
        else:
            self._version, self._renewed = version, sent

    def _replace(self, text: str) -> str:
        """Replace our own record, also one whose write was never answered; never another's."""
        try:
            return self._store.write_text_if_match(self.name, text, self._version)
        except ObjectChanged:
            seen, found = self._store.read_versioned(self.name)
            if _parsed(seen, self._period).holder != self._holder:
                raise
            return self._store.write_text_if_match(self.name, text, found)


class Leases:
    """Takes leases in one store."""

    def __init__(self, store: ObjectStore, period: float) -> None:
        self._store = store
        self._period = period
        self._sightings: dict[str, _Sighting] = {}

    def attempt(self, name: str, holder: str, purpose: Purpose = WRITE) -> Lease | None:
        """Take a lease if it is free, expired or already ``holder``'s; else None."""
        sent = clock()
        found = self._look(name)
        if found is None:
            return self._write(name, holder, purpose, None)
        record, sighting = found
        if record.holder == holder or _may_be_taken(record, sighting, sent):
            return self._write(name, holder, purpose, sighting.version)
        return None

    def watch(self, names: Iterable[str]) -> None:
        """Look at leases that will be needed next, so that their periods run in parallel."""
        for name in names:
            with contextlib.suppress(StorageError):
                self._look(name)

    def holder_of(self, name: str) -> Holder:
        """Who holds a lease and why, as far as its object says."""
        try:
            record = _parsed(self._store.read_text(name), self._period)
        except StorageError:
            return Holder(None, WRITE)
        return Holder(record.owner, record.purpose)

    def line_up(self, name: str) -> ObjectTicket:
        """Join the queue for a lease."""
        return ObjectTicket(self._store, name, self._period, lambda: self._is_free(name))

    def _is_free(self, name: str) -> bool:
        """Whether ``attempt`` would take the lease; like it, records how long it stays unchanged."""
        try:
            found = self._look(name)
        except StorageError:
            return False
        return found is None or _may_be_taken(*found)

    def is_waited_for(self, name: str) -> bool:  # noqa: ARG002 - as on a disk
        """Always False: asking would cost every write a request, and waiters look often anyway."""
        return False

    def is_held(self, name: str) -> bool:
        """Whether anyone holds a lease, or may still hold it."""
        return not self._is_free(name)

    def _look(self, name: str) -> tuple[_Record, _Sighting] | None:
        try:
            text, version = self._store.read_versioned(name)
        except ObjectNotFound:
            self._sightings.pop(name, None)
            return None
        seen = self._sightings.get(name)
        if seen is None or seen.version != version:
            seen = self._sightings[name] = _Sighting(version, clock())
        return _parsed(text, self._period), seen

    def _write(self, name: str, holder: str, purpose: Purpose, version: str | None) -> Lease | None:
        sent = clock()
        text = _text(holder, purpose, self._period)
        try:
            if version is None:
                written = self._store.write_text_if_absent(name, text)
            else:
                written = self._store.write_text_if_match(name, text, version)
        except (AlreadyExists, ObjectChanged):
            return None
        return Lease(self._store, name, holder, purpose, self._period, written, sent)


def _may_be_taken(record: _Record, sighting: _Sighting, now: float | None = None) -> bool:
    """Whether a lease was released, or its holder let it expire."""
    seen_for = (clock() if now is None else now) - sighting.since
    return record.holder is None or seen_for >= record.period


def _text(holder: str | None, purpose: Purpose, period: float) -> str:
    record = {
        "holder": holder,
        "owner": str(OwnerProcess.current()),
        "operation": purpose.operation,
        "slow": purpose.slow,
        "period_ms": round(period * 1000),
        # An e-tag is often a hash of the content, so no two writes may have the same content.
        "mark": uuid4().hex,
    }
    return json.dumps(record, indent=1)


def _parsed(text: str, default_period: float) -> _Record:
    try:
        said = json.loads(text)
        purpose = Purpose(said.get("operation", "write"), bool(said.get("slow")))
        record = _Record(said["holder"], said["owner"], said["period_ms"] / 1000, purpose)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return _Record("", "unknown", default_period)
    texts = (record.holder or "", record.owner, purpose.operation)
    if all(isinstance(one, str) for one in texts) and 0 <= record.period < math.inf:
        return record
    # Not a lease this version can read; it expires like any other when nobody renews it.
    return _Record("", "unknown", default_period)
