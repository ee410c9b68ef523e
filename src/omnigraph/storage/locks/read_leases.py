"""Read leases: what a long read says about the table versions it needs, so that no cleanup removes them.

A lease is one object, ``__leases/{ulid}.json``. Its reader writes it again every minute and deletes it at
the end. A lease that was not renewed for 15 minutes is dead: its reader crashed, or lost the store.
For example, while an export reads version 8 of a table:

    {"graph_id": "…", "operation": "export", "created_at": …, "renewed_at": …, "owner": {…},
     "tables": [{"table_key": "node:Person", "location": "nodes/…", "table_version": 8, …}]}

A lease protects only if it is there before a cleanup decides what to keep. So the caller of ``put_lease``
holds the graph lock while it pins the versions and puts the lease.
"""

from __future__ import annotations

import contextlib
import json
import logging
import threading
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Self

from omnigraph.clock import new_ulid, now_us, stamp_us
from omnigraph.errors import StorageError
from omnigraph.storage.decoded import has_type
from omnigraph.storage.layout import LEASES_DIR, is_lease, lease_name
from omnigraph.storage.objects.object_store import ObjectStore
from omnigraph.storage.objects.store_errors import ObjectChanged, ObjectNotFound
from omnigraph.storage.owner import OwnerProcess

RENEW_SECONDS: Final = 60.0
DEAD_AFTER_US: Final = 15 * 60 * 1_000_000

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LeasedTable:
    """A table state that a lease names: one version, on the main lineage or on a table branch."""

    table_key: str
    location: str
    table_version: int
    table_branch: str | None = None
    table_branch_id: str | None = None


@dataclass(frozen=True, slots=True)
class ReadLease:
    """A lease as its object describes it. Times are microseconds since the epoch."""

    id: str
    graph_id: str
    operation: str
    created_at: int
    renewed_at: int
    owner: OwnerProcess
    tables: tuple[LeasedTable, ...]

    def is_live(self, now: int) -> bool:
        """Whether its reader has to be reckoned with at a moment."""
        return now - self.renewed_at < DEAD_AFTER_US


def put_lease(
    store: ObjectStore,
    graph_id: str,
    operation: str,
    tables: Iterable[LeasedTable],
    *,
    renew_seconds: float = RENEW_SECONDS,
) -> HeldLease:
    """Put a lease on table states and renew it until it is ended. The caller holds the graph lock."""
    now = stamp_us()
    lease = ReadLease(
        new_ulid(), graph_id, operation, now, now, OwnerProcess.current(), tuple(tables)
    )
    version = store.write_text_if_absent(lease_name(lease.id), _text(lease))
    return HeldLease(store, lease, version, renew_seconds)


class HeldLease:
    """A lease of this process. A daemon thread renews it until ``end``, or until somebody removed it.

    A lease that was removed is not put back: its graph may have been deleted.
    """

    def __init__(
        self, store: ObjectStore, lease: ReadLease, version: str, renew_seconds: float
    ) -> None:
        self.lease = lease
        self._store = store
        self._version = version
        self._every = renew_seconds
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="read lease", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Stop the renewals and delete the lease; one that cannot be deleted dies by itself."""
        self._ended.set()
        # A renewal that is under way would put the lease back.
        self._thread.join()
        try:
            self._store.delete(lease_name(self.lease.id))
        except StorageError as error:
            logger.warning("the read lease %s stays for 15 minutes: %s", self.lease.id, error)

    def _renew(self) -> None:
        while not self._ended.wait(self._every):
            renewed = replace(self.lease, renewed_at=now_us())
            try:
                self._replace(lease_name(renewed.id), _text(renewed))
            except ObjectNotFound:
                logger.warning("the read lease %s was removed by somebody else", renewed.id)
                return
            except StorageError as error:
                logger.warning("the read lease %s could not be renewed: %s", renewed.id, error)

    def _replace(self, name: str, text: str) -> None:
        try:
            self._version = self._store.write_text_if_match(name, text, self._version)
        except ObjectChanged:
            # Nobody else writes it, so this is a renewal that was never answered; the next one goes on from it.
            self._version = self._store.read_versioned(name).version

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


def live_leases(store: ObjectStore, now: int) -> list[ReadLease]:
    """Return the leases whose readers may still be running, oldest first."""
    return [lease for lease in _leases(store) if lease.is_live(now)]


def remove_dead_leases(store: ObjectStore, now: int) -> list[ReadLease]:
    """Delete the leases that nobody renews any more, and return them."""
    dead = [lease for lease in _leases(store) if not lease.is_live(now)]
    for lease in dead:
        store.delete(lease_name(lease.id))
    return dead


def _leases(store: ObjectStore) -> list[ReadLease]:
    found = []
    for name in filter(is_lease, store.list(LEASES_DIR)):
        # A reader may end between the listing and this read.
        with contextlib.suppress(ObjectNotFound):
            found.append(_parsed(name, store.read_text(name)))
    return found


def _text(lease: ReadLease) -> str:
    return json.dumps(asdict(lease), indent=1)


def _parsed(name: str, text: str) -> ReadLease:
    try:
        record: dict[str, Any] = json.loads(text)
        record["owner"] = OwnerProcess(**record["owner"])
        record["tables"] = tuple(LeasedTable(**table) for table in record["tables"])
        lease = ReadLease(**record)
        fits = has_type(lease, ReadLease)
    except (ValueError, TypeError, LookupError, RecursionError):
        fits = False
    if not fits:
        # What it protects is unknown, so it must not be ignored.
        raise StorageError(
            f'"{name}" is no read lease this omnigraph can read; if no export is running, delete it',
            object=name,
        )
    return lease
