"""The lock of a cluster, `__cluster/lock.json`: one command at a time, and only its owner removes it.

It does not expire. A command that was killed leaves its lock behind; `omnigraph cluster force-unlock` takes it
away, and until then every other command says who holds it.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from omnigraph import failpoints
from omnigraph.clock import new_ulid
from omnigraph.cluster.declared.diagnostics import Code, Diagnostics, Refused
from omnigraph.cluster.stored.times import age_seconds, now_text
from omnigraph.errors import OmniGraphError
from omnigraph.storage.objects.object_store import ObjectStore
from omnigraph.storage.objects.store_errors import AlreadyExists, ObjectNotFound

LOCK_PATH: Final = "__cluster/lock.json"
VERSION: Final = 1

AFTER_LOCK = failpoints.declare("cluster.after_lock")
BEFORE_UNLOCK = failpoints.declare("cluster.before_unlock")


@dataclass(frozen=True, slots=True)
class LockHolder:
    """A lock file: who holds it, or what is wrong with the file."""

    facts: dict[str, Any]
    flaw: Code | None = None

    @property
    def lock_id(self) -> str | None:
        """The id that removes it."""
        found = self.facts.get("lock_id")
        return found if isinstance(found, str) else None

    @property
    def is_gone(self) -> bool:
        """Whether a process of this machine took it that no longer runs."""
        pid, host = self.facts.get("pid"), self.facts.get("host")
        if host != socket.gethostname() or not isinstance(pid, int) or pid <= 0:
            return False
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        except OSError:
            return False
        return False

    def __str__(self) -> str:
        if self.flaw is not None:
            return f"a lock file that cannot be read ({self.flaw}); look at {LOCK_PATH}, and remove it by hand"
        facts = self.facts
        host = f" on {facts['host']}" if facts.get("host") else ""
        actor = f" by {facts['actor']}" if facts.get("actor") else ""
        who = (
            f"lock {facts['lock_id']}: {facts['operation']}{actor}, process {facts['pid']}{host}, since "
            f"{facts['created_at']}"
        )
        if self.is_gone:
            return f"{who}; that process is gone, so run `omnigraph cluster force-unlock {self.lock_id}`"
        return f"{who}; wait for it, or run `omnigraph cluster force-unlock {self.lock_id}` if it is dead"

    def observed(self) -> dict[str, Any]:
        """Return what `state_observations` say of the lock."""
        shown: dict[str, Any] = {"locked": True}
        for key, name in (
            ("lock_id", "lock_id"),
            ("operation", "lock_operation"),
            ("created_at", "lock_created_at"),
            ("pid", "lock_pid"),
        ):
            if self.facts.get(key) is not None:
                shown[name] = self.facts[key]
        age = age_seconds(self.facts.get("created_at"))
        return shown if age is None else {**shown, "lock_age_seconds": age}


def read_lock(store: ObjectStore) -> LockHolder | None:
    """Return who holds the lock; None if nobody does."""
    try:
        text = store.read_bytes(LOCK_PATH).decode("utf-8", "replace")
    except ObjectNotFound:
        return None
    try:
        facts = json.loads(text)
    except (ValueError, RecursionError):
        return LockHolder({}, Code.INVALID_STATE_LOCK)
    if not isinstance(facts, dict) or type(facts.get("version")) is not int:
        return LockHolder({}, Code.INVALID_STATE_LOCK)
    if facts["version"] > VERSION:
        return LockHolder({}, Code.UNSUPPORTED_STATE_LOCK_VERSION)
    texts = ("lock_id", "operation", "created_at")
    if (
        not all(isinstance(facts.get(key), str) for key in texts)
        or type(facts.get("pid")) is not int
    ):
        return LockHolder({}, Code.INVALID_STATE_LOCK)
    return LockHolder(facts)


@contextmanager
def locked(
    store: ObjectStore, operation: str, actor: str | None, diagnostics: Diagnostics
) -> Iterator[str]:
    """Hold the lock while the block runs, and give its id; ``Refused`` if somebody else holds it."""
    lock_id = new_ulid()
    facts = {
        "version": VERSION,
        "lock_id": lock_id,
        "operation": operation,
        "created_at": now_text(),
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "actor": actor,
    }
    try:
        store.write_text_if_absent(LOCK_PATH, json.dumps(facts))
    except AlreadyExists:
        holder = read_lock(store)
        told = "another command held the lock until now; run this one again"
        diagnostics.error(
            Code.STATE_LOCK_HELD, LOCK_PATH, told if holder is None else f"held: {holder}"
        )
        raise Refused from None
    except OmniGraphError as error:
        diagnostics.error(Code.STATE_LOCK_ERROR, LOCK_PATH, error.message)
        raise Refused from None
    try:
        AFTER_LOCK.hit()
        yield lock_id
    finally:
        _unlock(store, lock_id, diagnostics)


def _unlock(store: ObjectStore, lock_id: str, diagnostics: Diagnostics) -> None:
    try:
        BEFORE_UNLOCK.hit()
        holder = read_lock(store)
        if holder is not None and holder.lock_id == lock_id:
            store.delete(LOCK_PATH)
    except OmniGraphError as error:
        diagnostics.warn(
            Code.STATE_LOCK_ERROR,
            LOCK_PATH,
            f"the lock {lock_id} was not removed: {error.message}",
        )


def force_unlock(store: ObjectStore, lock_id: str, diagnostics: Diagnostics) -> bool:
    """Remove a lock by its exact id; return whether that was done."""
    try:
        holder = read_lock(store)
        if holder is None:
            diagnostics.error(Code.STATE_LOCK_MISSING, LOCK_PATH, "nobody holds the lock")
        elif holder.flaw is not None:
            diagnostics.error(holder.flaw, LOCK_PATH, f"this is {holder}")
        elif holder.lock_id != lock_id:
            diagnostics.error(
                Code.STATE_LOCK_ID_MISMATCH,
                LOCK_PATH,
                f"the lock has the id {holder.lock_id}, not {lock_id}; it stays",
            )
        else:
            store.delete(LOCK_PATH)
            return True
    except OmniGraphError as error:
        diagnostics.error(Code.STATE_LOCK_ERROR, LOCK_PATH, error.message)
    return False
