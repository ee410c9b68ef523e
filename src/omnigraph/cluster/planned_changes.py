"""What would change: (declared, ledger, approvals) -> changes, each with what becomes of it. Nothing is read or written.

| disposition | |
|---|---|
| applied | it is made |
| derived | a graph changes because its schema or a query does |
| deferred | it cannot be made by a cluster: a schema change that the engine does not support |
| blocked | it waits: for an approval, for something it depends on, for a recovery, or after a failure |
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from omnigraph.cluster.declared.resources import (
    Desired,
    graph_address,
    graph_of,
    kind_of,
    schema_address,
)
from omnigraph.cluster.stored.ledger import Ledger
from omnigraph.cluster.stored.recovery_files import Approval

Operation = Literal["create", "update", "delete"]
Disposition = Literal["applied", "derived", "deferred", "blocked"]

APPROVAL_REQUIRED: Final = "approval_required"
APPROVAL_STALE: Final = "approval_stale"
DEPENDENCY_NOT_APPLIED: Final = "dependency_not_applied"
RECOVERY_PENDING: Final = "cluster_recovery_pending"
UNSUPPORTED_KIND: Final = "apply_unsupported_kind"

_ORDER: Final = ("schema", "provider", "query", "graph", "policy")
_METADATA: Final = {
    "applies_to": "policy_bindings",
    "embedding_profile": "embedding_profile",
    "embedding_provider": "embedding_provider",
    "external_blob_policy": "external_blob_policy",
    "expose": "query_exposure",
    "tool_name": "query_exposure",
}


@dataclass(frozen=True, slots=True)
class ResourceChange:
    """A resource that is not as declared, and what becomes of that."""

    resource: str
    operation: Operation
    before: str | None = None
    after: str | None = None
    disposition: Disposition = "applied"
    reason: str | None = None
    metadata: str | None = None
    migration: Sequence[Mapping[str, Any]] | None = None
    approval: Approval | None = None

    @property
    def is_done(self) -> bool:
        """Whether apply makes it."""
        return self.disposition in {"applied", "derived"}

    def blocked(self, reason: str) -> ResourceChange:
        """Return the change as one that is not made, for a reason."""
        return replace(self, disposition="blocked", reason=reason)

    def to_json(self) -> dict[str, Any]:
        """Return the public form."""
        document: dict[str, Any] = {
            "resource": self.resource,
            "operation": self.operation,
            "before_digest": self.before,
            "after_digest": self.after,
            "disposition": self.disposition,
            "reason": self.reason,
            "metadata_change": self.metadata,
        }
        document = {key: value for key, value in document.items() if value is not None}
        if self.metadata == "policy_bindings":
            document["binding_change"] = True
        if self.migration is not None:
            document["migration"] = list(self.migration)
        return document


def find_changes(
    desired: Desired,
    ledger: Ledger,
    approvals: Iterable[Approval] = (),
    pending: Collection[str] = (),
) -> list[ResourceChange]:
    """Return every difference between what is declared and what was applied, by address.

    ``pending`` are graphs with a recovery that nobody could finish.
    """
    changes = {}
    for address in sorted({*desired.resources, *ledger.resources}):
        found = _difference(address, desired, ledger)
        if found is not None:
            changes[address] = found
    _decide_deletes(changes, desired, approvals)
    for address, change in changes.items():
        if graph_of(address) in pending:
            changes[address] = change.blocked(RECOVERY_PENDING)
    return spread(changes.values(), desired)


def _difference(address: str, desired: Desired, ledger: Ledger) -> ResourceChange | None:
    wanted, entry = desired.resources.get(address), ledger.resources.get(address)
    if wanted is None:
        assert entry is not None
        return ResourceChange(address, "delete", before=entry.digest)
    if entry is None:
        return ResourceChange(address, "create", after=wanted.digest)
    facts = {
        key
        for key in {*wanted.facts, *entry.facts}
        if wanted.facts.get(key) != entry.facts.get(key)
    }
    if wanted.digest == entry.digest and not facts:
        return None
    metadata = next((_METADATA[key] for key in sorted(facts)), None)
    change = ResourceChange(address, "update", entry.digest, wanted.digest, metadata=metadata)
    if kind_of(address) == "graph" and metadata is None:
        return replace(change, disposition="derived")
    return change


def _decide_deletes(
    changes: dict[str, ResourceChange], desired: Desired, approvals: Iterable[Approval]
) -> None:
    """Block deletes of graphs that nobody approved, with everything that would go with them."""
    open_ones = [one for one in approvals if one.consumed_at is None]
    for address, change in list(changes.items()):
        if kind_of(address) != "graph" or change.operation != "delete":
            continue
        about = [one for one in open_ones if one.resource == address]
        fits = [one for one in about if is_for(one, change, desired)]
        if fits:
            changes[address] = replace(change, approval=fits[-1])
            continue
        reason = APPROVAL_STALE if about else APPROVAL_REQUIRED
        for other, one in changes.items():
            if graph_of(other) == graph_of(address):
                changes[other] = one.blocked(reason)


def is_for(approval: Approval, change: ResourceChange, desired: Desired) -> bool:
    """Return whether an approval is for this very change: of these digests, under this config."""
    return (
        approval.resource == change.resource
        and approval.operation == change.operation
        and approval.bound_config_digest == desired.config_digest
        and approval.bound_before_digest == change.before
        and approval.bound_after_digest == change.after
    )


def in_order(addresses: Iterable[str]) -> list[str]:
    """Return addresses so that what depends on something comes after it."""
    return sorted(addresses, key=lambda at: (_ORDER.index(kind_of(at)), at))


def spread(changes: Iterable[ResourceChange], desired: Desired) -> list[ResourceChange]:
    """Return the changes; those that depend on one that is not made are blocked."""
    known = {one.resource: one for one in changes}
    for address in in_order(known):
        change = known[address]
        if not change.is_done or change.operation == "delete":
            continue
        below = [known[one] for one in desired.depends.get(address, ()) if one in known]
        if kind_of(address) == "query":
            # A graph that cannot be made has a schema that would be made.
            graph = graph_of(address)
            below += [
                known[at]
                for at in (graph_address(graph or ""),)
                if at in known and known[at].operation == "create"
            ]
        if any(not one.is_done for one in below):
            known[address] = change.blocked(DEPENDENCY_NOT_APPLIED)
    return [known[address] for address in sorted(known)]


def fail(
    changes: Iterable[ResourceChange], graph: str, reason: str, desired: Desired
) -> list[ResourceChange]:
    """Return the changes after a move of a graph failed: it is blocked, and what depends on it."""
    changes = list(changes)
    failed = {graph_address(graph), schema_address(graph)}
    if graph not in desired.graphs:
        failed |= {one.resource for one in changes if graph_of(one.resource) == graph}
    return spread(
        (one.blocked(reason) if one.resource in failed and one.is_done else one for one in changes),
        desired,
    )
