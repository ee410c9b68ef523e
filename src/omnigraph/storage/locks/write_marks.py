"""Write marks: which writes are under way, so that a cleanup knows which files nobody will commit any more.

A write makes files before a version of a table names them. Files that no version names belong to a write that is
under way, or to one that failed or was killed. To tell them apart every write puts an object into `__staging` before
its first file, and removes it at its end:

    {ulid}.json               a write of a living process; on a disk it holds a lock on the file, on an object store
                              it writes the object again every minute, and is dead after 15 minutes without
    {ulid}.job                a job of Spark's, between its first task and its commit; dead after a week
    {ulid}.{start}.{end}.dead a write that ended and may have left files, made between these moments

A file that no version names may go if it was made while a dead write ran, and before every write began that may
be alive. Of all other files nothing is known (another program may have made them), so they wait for ``JOB_DEAD_AFTER``.
All moments are those at which the store says an object was written, in nanoseconds: no clock of a client counts.
"""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from omnigraph.clock import new_ulid
from omnigraph.errors import Contention, StorageError
from omnigraph.storage import flock
from omnigraph.storage.layout import STAGING_DIR
from omnigraph.storage.locks.lock_files import ensure_graph
from omnigraph.storage.objects.local_objects import make_directory
from omnigraph.storage.objects.object_store import ObjectStore
from omnigraph.storage.objects.store_errors import AlreadyExists, ObjectNotFound, translate
from omnigraph.storage.owner import OwnerProcess
from omnigraph.storage.uris import Root

RENEW_SECONDS: Final = 60.0
DEAD_AFTER: Final = 15 * 60 * 10**9
JOB_DEAD_AFTER: Final = 7 * 24 * 3600 * 10**9
"""A job has no process that could renew its mark. This is also the age at which Lance takes files for left."""
MOST_DEAD: Final = 256
"""So many ends are remembered at most; files of others wait for their age."""

logger = logging.getLogger(__name__)


class WriteMark:
    """The mark of a write of this process. ``end`` removes it; ``left_files`` says that files may stay behind."""

    def __init__(self, root: Root, store: ObjectStore, operation: str) -> None:
        self.name = f"{STAGING_DIR}/{new_ulid()}.json"
        self.left_files = False
        self._root = root
        self._store = store
        self._lock = _locked(root, self.name) if root.is_local else None
        self._ended = threading.Event()
        self._renewed = time.time()
        if self._lock is None:
            said = {"operation": operation, "owner": OwnerProcess.current().as_json()}
            store.write_text(self.name, json.dumps(said))
            threading.Thread(target=self._renew, name="write mark", daemon=True).start()

    def start(self) -> int:
        """When the mark was put, by the store's clock."""
        return _start_of(self._store, self.name, self._store.modified(STAGING_DIR)[self.name])

    def check(self) -> None:
        """Raise unless this write still counts as alive; its files may be gone otherwise.

        An object store is asked only if the last renewal is long ago: the process was stopped, or the store
        could not be reached.
        """
        if self._lock is not None:
            alive = self._lock.is_current()
        else:
            recent = abs(time.time() - self._renewed) < 5 * RENEW_SECONDS
            alive = recent or self._store.exists(self.name)
        if not alive:
            raise Contention(
                "this write stood still for so long that a cleanup took it for dead, and its files may be "
                "gone; run it again",
                attempts=1,
            )

    def end(self) -> None:
        """Remove the mark, or leave a note where files may have stayed. Never fails."""
        self._ended.set()
        try:
            if self.left_files:
                _note_dead(self._store, self.name)
            elif self._lock is not None:
                # Not by the store, which would wait for the disk.
                Path(self._root.path, self.name).unlink(missing_ok=True)
            else:
                self._store.delete(self.name)
        except (StorageError, OSError, KeyError) as error:
            logger.warning("the mark %s of a write stays until a cleanup: %s", self.name, error)
        finally:
            if self._lock is not None:
                self._lock.unlock()

    def _renew(self) -> None:
        started = None
        while not self._ended.wait(RENEW_SECONDS):
            try:
                started = started or self.start()
                self._store.write_text(self.name, json.dumps({"started": started}))
                self._renewed = time.time()
            except (StorageError, KeyError) as error:
                logger.warning("the mark %s of a write could not be renewed: %s", self.name, error)
        if started is not None and not self.left_files:
            # A renewal that was under way may have put it back.
            with contextlib.suppress(StorageError):
                self._store.delete(self.name)


def _locked(root: Root, name: str) -> flock.FileLock:
    """Make the file of a mark and lock it. Its content is of no use on a disk: the lock says all."""
    path = f"{root.path}/{name}"
    try:
        try:
            lock = flock.try_lock(path)
        except FileNotFoundError:
            ensure_graph(Path(root.path))
            make_directory(Path(path).parent)
            lock = flock.try_lock(path)
    except OSError as error:
        raise translate(error, "mark", name, root.path) from error
    assert lock is not None  # nobody else knows the name yet
    return lock


# ------------------------------------------------------------------ jobs, which outlive processes


def mark_job(store: ObjectStore, job: str) -> None:
    """Say that tasks of a job write files from now on; any of its tasks may be the first."""
    name = f"{STAGING_DIR}/{job}.job"
    if not store.exists(name):
        with contextlib.suppress(AlreadyExists):
            store.write_text_if_absent(name, "{}")


def end_job(store: ObjectStore, job: str, *, left_files: bool = False) -> None:
    """Say that a job is committed, or given up. Never fails."""
    name = f"{STAGING_DIR}/{job}.job"
    try:
        if left_files:
            _note_dead(store, name)
        else:
            store.delete(name)
    except KeyError:
        pass  # ended before, or too old
    except StorageError as error:
        logger.warning("the mark %s of a job stays: %s", name, error)


# ------------------------------------------------------------------ what a cleanup sees


@dataclass(frozen=True, slots=True)
class Abandoned:
    """Which files nobody will commit: those made in the spans of dead writes, before ``until``."""

    spans: tuple[tuple[int, int], ...]
    until: int
    settled: tuple[str, ...]
    """The notes of dead writes all of whose files lie before ``until``."""

    def includes(self, modified: int) -> bool:
        """Whether a file of that time, which no version names, may go."""
        return modified < self.until and any(start <= modified <= end for start, end in self.spans)


def find_abandoned(root: Root, store: ObjectStore, own: WriteMark | None) -> Abandoned:
    """Look at the marks of all writes; those of dead ones become notes. ``own``: the mark of the cleanup.

    To be called before anything is looked at that a living write may change. Without a mark of its own, as a
    preview, this changes nothing.
    """
    now = time.time_ns() if own is None else own.start()
    starts = [now]
    dead: dict[str, tuple[int, int] | None] = {}
    for name, modified in store.modified(STAGING_DIR).items():
        if own is not None and name == own.name:
            continue
        if name.endswith(".dead"):
            dead[name] = _span_of(name)
        elif _is_alive(root, name, now - modified):
            starts.append(_start_of(store, name, modified))
        elif own is None:
            dead[name] = _start_of(store, name, modified), now
        else:
            with contextlib.suppress(ObjectNotFound, KeyError):
                note = _note_dead(store, name, now)
                dead[note] = _span_of(note)
    until = min(starts)
    spans = tuple(span for span in dead.values() if span is not None)
    settled = tuple(name for name, span in dead.items() if span is None or span[1] <= until)
    return Abandoned(spans, until, settled)


def forget_dead(store: ObjectStore, abandoned: Abandoned) -> None:
    """Remove the notes of dead writes whose files are gone."""
    for name in abandoned.settled:
        store.delete(name)


def _is_alive(root: Root, name: str, age: int) -> bool:
    if name.endswith(".job"):
        return age < JOB_DEAD_AFTER
    if root.is_local:
        try:
            return flock.is_locked(f"{root.path}/{name}")
        except OSError:
            return True
    return age < DEAD_AFTER


def _start_of(store: ObjectStore, name: str, modified: int) -> int:
    """When a write began: when its mark was put, or what it says since it was renewed."""
    try:
        said = json.loads(store.read_text(name) or "{}")
        return int(said.get("started", modified))
    except (ObjectNotFound, ValueError, AttributeError):
        return modified


def _note_dead(store: ObjectStore, name: str, end: int | None = None) -> str:
    """Replace a mark by the note that its write is dead; without ``end`` it is dead from now on."""
    found = store.modified(STAGING_DIR)
    start = _start_of(store, name, found[name])
    stem = name.removeprefix(f"{STAGING_DIR}/").partition(".")[0]
    if len(found) > MOST_DEAD:
        store.delete(name)
        return f"{STAGING_DIR}/{stem}.{start}.{start}.dead"
    if end is None:
        end = store.touch(name)
    note = f"{STAGING_DIR}/{stem}.{start}.{end}.dead"
    # A rename, which needs no room on a full disk.
    store.rename(name, note)
    return note


def _span_of(name: str) -> tuple[int, int] | None:
    """The span that a note names; None if it is no note of ours."""
    parts = name.split(".")
    try:
        return int(parts[-3]), int(parts[-2])
    except (IndexError, ValueError):
        return None
