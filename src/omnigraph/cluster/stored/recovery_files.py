"""Recovery files and approvals: small records beside the ledger, each under an id of its own."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Final, Literal, Self, TypeVar

from omnigraph import failpoints
from omnigraph.clock import is_ulid
from omnigraph.cluster.declared.diagnostics import Code, Diagnostics
from omnigraph.errors import OmniGraphError
from omnigraph.storage.objects.object_store import ObjectStore
from omnigraph.storage.objects.store_errors import ObjectNotFound

RECOVERIES: Final = "__cluster/recoveries"
APPROVALS: Final = "__cluster/approvals"
VERSION: Final = 1
Operation = Literal["graph_create", "schema_apply", "graph_delete"]

AFTER_RECOVERY_FILE = failpoints.declare("cluster.after_recovery_file")
BEFORE_RECOVERY_REMOVED = failpoints.declare("cluster.before_recovery_removed")
AFTER_APPROVAL_USED = failpoints.declare("cluster.after_approval_used")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Record:
    schema_version: int = VERSION

    def text(self) -> str:
        """Return the content of the file."""
        return json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Return the record of a file; None if it is not one, or one of a later release."""
        try:
            document = json.loads(text)
            known = {one.name for one in fields(cls)}
            if document["schema_version"] != VERSION:
                return None
            return cls(**{key: value for key, value in document.items() if key in known})
        except (ValueError, TypeError, KeyError, RecursionError):
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryFile(_Record):
    """A move of a graph that was begun, and may not have been finished."""

    operation_id: str
    operation: Operation
    graph_id: str
    graph_uri: str
    actor: str | None
    started_at: str
    expected_schema_digest: str | None = None
    before_manifest_version: int | None = None
    after_manifest_version: int | None = None
    approval_id: str | None = None
    state_cas_base: str | None = None

    @property
    def name(self) -> str:
        """The object it lies in."""
        return f"{RECOVERIES}/{self.operation_id}.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval(_Record):
    """An approval to delete a resource. It holds only while the resource and the config are what they were then."""

    approval_id: str
    resource: str
    operation: str
    reason: str
    bound_config_digest: str
    bound_before_digest: str
    bound_after_digest: str | None
    approved_by: str
    created_at: str
    consumed_at: str | None = None
    consumed_by_operation: str | None = None

    @property
    def name(self) -> str:
        """The object it lies in."""
        return f"{APPROVALS}/{self.approval_id}.json"


Record = TypeVar("Record", RecoveryFile, Approval)


def _read_all(
    store: ObjectStore, prefix: str, kind: type[Record]
) -> tuple[list[Record], list[str]]:
    found: list[Record] = []
    strange: list[str] = []
    for name in store.list(prefix):
        stem = name.rpartition("/")[2].removesuffix(".json")
        try:
            record = kind.parse(store.read_text(name)) if is_ulid(stem) else None
        except ObjectNotFound:
            continue
        if record is None or record.name != name:
            strange.append(name)
        else:
            found.append(record)
    return found, strange


def read_recoveries(store: ObjectStore) -> tuple[list[RecoveryFile], list[str]]:
    """Return the recovery files, oldest first, and the names of files there that are none."""
    return _read_all(store, RECOVERIES, RecoveryFile)


def read_approvals(store: ObjectStore) -> list[Approval]:
    """Return all approvals, oldest first."""
    return _read_all(store, APPROVALS, Approval)[0]


def write_recovery(store: ObjectStore, record: RecoveryFile, diagnostics: Diagnostics) -> bool:
    """Put a recovery file down; return whether that was done."""
    try:
        store.write_text(record.name, record.text())
    except OmniGraphError as error:
        diagnostics.error(Code.RECOVERY_SIDECAR_WRITE_ERROR, record.name, error.message)
        return False
    AFTER_RECOVERY_FILE.hit()
    return True


def remove_recovery(store: ObjectStore, record: RecoveryFile, diagnostics: Diagnostics) -> None:
    """Remove a recovery file; if that fails the next command looks at it again."""
    BEFORE_RECOVERY_REMOVED.hit()
    try:
        store.delete(record.name)
    except OmniGraphError as error:
        diagnostics.warn(Code.CLUSTER_RECOVERY_PENDING, record.name, error.message)


def use_approval(
    store: ObjectStore, approval: Approval, operation_id: str, at: str, diagnostics: Diagnostics
) -> bool:
    """Write down that an approval was used, once its delete is in the ledger."""
    if approval.consumed_at is None:
        used = replace(approval, consumed_at=at, consumed_by_operation=operation_id)
        try:
            store.write_text(used.name, used.text())
        except OmniGraphError as error:
            diagnostics.error(Code.APPROVAL_WRITE_ERROR, used.name, error.message)
            return False
    AFTER_APPROVAL_USED.hit()
    return True


def shown(record: RecoveryFile | Approval) -> dict[str, Any]:
    """Return what a ledger keeps of a record."""
    return {key: value for key, value in asdict(record).items() if value is not None}
