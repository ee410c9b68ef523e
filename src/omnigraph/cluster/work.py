"""What every command of a cluster works with: its directory, store, ledger and lock, and its document."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from omnigraph.cluster.declared.diagnostics import Code, Diagnostics, Refused
from omnigraph.cluster.stored.ledger import STATE_PATH, Ledger, ReadLedger, read_ledger
from omnigraph.cluster.stored.lock import LOCK_PATH, LockHolder, locked, read_lock
from omnigraph.errors import OmniGraphError
from omnigraph.service.documents import Document
from omnigraph.storage.objects.object_store import ObjectStore
from omnigraph.storage.objects.stores import open_store
from omnigraph.storage.uris import Root


@dataclass(slots=True)
class CommandRun:
    """One run of a command."""

    config_dir: str
    diagnostics: Diagnostics = field(default_factory=Diagnostics)
    root: Root | None = None
    found: ReadLedger = field(default_factory=lambda: ReadLedger(Ledger()))
    holder: LockHolder | None = None
    lock_id: str | None = None
    _store: ObjectStore | None = None

    @property
    def ledger(self) -> Ledger:
        """The ledger as it was read."""
        return self.found.ledger

    @property
    def store(self) -> ObjectStore:
        """The store of the cluster."""
        assert self._store is not None
        return self._store

    def open(self, root: Root) -> None:
        """Begin to work on the storage of a cluster."""
        self.root, self._store = root, open_store(root)

    def look(self) -> None:
        """Read ledger and lock, without taking the lock."""
        self.holder = read_lock(self.store)
        self.found = read_ledger(self.store, self.diagnostics)

    @contextmanager
    def held(self, operation: str, actor: str | None = None) -> Iterator[None]:
        """Hold the lock while the block runs, and read the ledger under it."""
        try:
            with locked(self.store, operation, actor, self.diagnostics) as lock_id:
                self.lock_id = lock_id
                self.found = read_ledger(self.store, self.diagnostics)
                yield
        except Refused:
            if self.lock_id is None:
                self.holder = read_lock(self.store)
            raise

    def observed(self) -> dict[str, Any]:
        """Return what the document says of ledger and lock (`state_observations`)."""
        ledger = self.ledger
        shown: dict[str, Any] = {
            "state_path": self._address(STATE_PATH),
            "lock_path": self._address(LOCK_PATH),
            "state_found": self.found.is_there,
            "state_revision": ledger.revision,
        }
        if self.found.cas is not None:
            shown["state_cas"] = self.found.cas
        if ledger.config_digest is not None:
            shown["applied_config_digest"] = ledger.config_digest
        shown |= {"resource_count": len(ledger.resources), "locked": False}
        if self.holder is not None:
            shown |= self.holder.observed()
        shown["lock_acquired"] = self.lock_id is not None
        if self.lock_id is not None:
            shown["acquired_lock_id"] = self.lock_id
        return shown

    def document(self, **fields: Any) -> Document:
        """Return the document of the command."""
        return {
            "ok": self.diagnostics.is_ok,
            "config_dir": self.config_dir,
            "diagnostics": self.diagnostics.to_json(),
            **fields,
        }

    def with_observations(self, **fields: Any) -> Document:
        """Return the document of a command that looks at the state."""
        return self.document(state_observations=self.observed(), **fields)

    def _address(self, name: str) -> str:
        return name if self.root is None else f"{self.root.canonical.rstrip('/')}/{name}"


def require_ledger(work: CommandRun) -> None:
    """Refuse a cluster without a ledger."""
    if not work.found.is_there:
        work.diagnostics.error(
            Code.STATE_MISSING,
            STATE_PATH,
            "there is no ledger yet; run `omnigraph cluster import` first",
        )
        raise Refused


@dataclass(slots=True)
class Told:
    """A block that a command may leave early: the diagnostics say why. Errors of the store become one of them."""

    work: CommandRun

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> bool:
        if isinstance(error, OmniGraphError):
            self.work.diagnostics.error(Code.STATE_READ_ERROR, STATE_PATH, error.message)
            return True
        return isinstance(error, Refused)
