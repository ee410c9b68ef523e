"""`cluster plan` and `cluster approve`: what apply would change, and the approval that the delete of a graph needs."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import replace

from omnigraph.clock import new_ulid
from omnigraph.cluster.declared.diagnostics import Code, Diagnostics, Refused
from omnigraph.cluster.declared.read_resources import Declared, require_declared
from omnigraph.cluster.declared.resources import (
    Desired,
    graph_address,
    graph_of,
    kind_of,
    provider_address,
)
from omnigraph.cluster.graph_moves import preview
from omnigraph.cluster.graphs import graph_uri
from omnigraph.cluster.planned_changes import (
    APPROVAL_STALE,
    DEPENDENCY_NOT_APPLIED,
    UNSUPPORTED_KIND,
    ResourceChange,
    find_changes,
    spread,
)
from omnigraph.cluster.stored.ledger import Ledger
from omnigraph.cluster.stored.recovery_files import Approval, read_approvals
from omnigraph.cluster.stored.times import now_text
from omnigraph.cluster.sweep import sweep
from omnigraph.cluster.work import CommandRun, Told, require_ledger
from omnigraph.errors import OmniGraphError
from omnigraph.service.documents import Document
from omnigraph.storage.uris import Root


def plan(config_dir: str, reserved: Container[str] = ()) -> Document:
    """Return what apply would change. Nothing is written."""
    work = CommandRun(config_dir)
    changes: list[ResourceChange] = []
    declared: Declared | None = None
    with Told(work):
        declared = require_declared(config_dir, work.diagnostics, reserved)
        work.open(declared.config.root)
        with work.held("plan"):
            pending = sweep(work.store, work.ledger, work.diagnostics, acts=False).pending
            changes = planned(work, declared, read_approvals(work.store), pending)
    desired = Desired(None, {}, {}) if declared is None else declared.desired
    gated = [one for one in changes if _is_gated(one)]
    return work.with_observations(
        desired_revision=None if declared is None else {"config_digest": desired.config_digest},
        resource_digests=desired.digests,
        dependencies=dependencies(desired),
        changes=[one.to_json() for one in changes],
        blast_radius=[
            {"resource": address, "affected": affected}
            for address, affected in desired.affected_by(one.resource for one in changes).items()
        ],
        approvals_required=[
            {
                "resource": one.resource,
                "reason": "graph_delete",
                "satisfied": one.approval is not None,
            }
            for one in gated
        ],
    )


def dependencies(desired: Desired) -> list[dict[str, object]]:
    """Return what each resource depends on, as documents show it."""
    return [
        {"resource": address, "depends_on": list(below)}
        for address, below in sorted(desired.depends.items())
        if below
    ]


def _is_gated(change: ResourceChange) -> bool:
    return kind_of(change.resource) == "graph" and change.operation == "delete"


def planned(
    work: CommandRun, declared: Declared, approvals: Iterable[Approval], pending: Container[str]
) -> list[ResourceChange]:
    """Return the changes, with the steps of every schema that a graph would be migrated to."""
    assert work.root is not None
    desired = declared.desired
    waiting = {graph for graph in desired.graphs if graph in pending}
    waiting |= {graph for graph in work.ledger.graphs if graph in pending}
    found = hold_needed(
        find_changes(desired, work.ledger, approvals, waiting), work.ledger, desired
    )
    planned = []
    for change in found:
        if change.reason == APPROVAL_STALE and _is_gated(change):
            work.diagnostics.warn(
                Code.APPROVAL_STALE,
                change.resource,
                "its delete was approved for another state; approve it again",
            )
        planned.append(_with_steps(change, work.root, desired, work.diagnostics))
    return spread(planned, desired)


def _with_steps(
    change: ResourceChange, root: Root, desired: Desired, diagnostics: Diagnostics
) -> ResourceChange:
    """Return a change of a schema with its steps; deferred, if the engine does not support one."""
    if kind_of(change.resource) != "schema" or change.operation != "update" or not change.is_done:
        return change
    content = desired.resources[change.resource].content
    assert content is not None
    uri = graph_uri(root, graph_of(change.resource) or "")
    try:
        steps = preview(uri, content.decode())
    except OmniGraphError as error:
        diagnostics.warn(Code.SCHEMA_PREVIEW_UNAVAILABLE, change.resource, error.message)
        return change
    change = replace(change, migration=steps.steps)
    if steps.supported:
        return change
    diagnostics.warn(
        Code.APPLY_UNSUPPORTED_CHANGE,
        change.resource,
        "the schema has changes that no migration makes; see its steps, and change the file",
    )
    return replace(change, disposition="deferred", reason=UNSUPPORTED_KIND)


def hold_needed(
    changes: list[ResourceChange], ledger: Ledger, desired: Desired
) -> list[ResourceChange]:
    """Block the delete of providers and bundles of graphs that stay although they are not declared any more.

    Without its bundle such a graph would be served to everybody with a token.
    """
    left = {one.resource for one in changes if kind_of(one.resource) == "graph" and not one.is_done}
    needed = {
        provider_address(str(ledger.resources[at].facts.get("embedding_provider")))
        for at in left
        if at in ledger.resources
    }
    for at, entry in ledger.resources.items():
        if any(graph_address(scope) in left for scope in entry.facts.get("applies_to", ())):
            needed.add(at)
    return spread(
        (
            one.blocked(DEPENDENCY_NOT_APPLIED)
            if one.operation == "delete" and one.is_done and one.resource in needed
            else one
            for one in changes
        ),
        desired,
    )


def approve(
    config_dir: str, address: str, actor: str | None, reserved: Container[str] = ()
) -> Document:
    """Write down that somebody approves the delete of a graph, as it is and as the config is now."""
    work = CommandRun(config_dir)
    approval: Approval | None = None
    with Told(work):
        if actor is None:
            work.diagnostics.error(
                Code.ACTOR_REQUIRED, "", "an approval has a name under it; pass --as ACTOR"
            )
            raise Refused
        declared = require_declared(config_dir, work.diagnostics, reserved)
        work.open(declared.config.root)
        with work.held("approve", actor):
            require_ledger(work)
            approval = _approval(work, declared.desired, address, actor)
            try:
                work.store.write_text(approval.name, approval.text())
            except OmniGraphError as error:
                work.diagnostics.error(Code.APPROVAL_WRITE_ERROR, approval.name, error.message)
                approval = None
    return work.document(
        approval_id=None if approval is None else approval.approval_id,
        resource=address,
        operation=None if approval is None else approval.operation,
        approved_by=actor,
    )


def _approval(work: CommandRun, desired: Desired, address: str, actor: str) -> Approval:
    gated = [one for one in find_changes(desired, work.ledger) if _is_gated(one)]
    for change in gated:
        if change.resource == address:
            assert change.before is not None
            return Approval(
                approval_id=new_ulid(),
                resource=address,
                operation=change.operation,
                reason="graph_delete",
                bound_config_digest=desired.config_digest,
                bound_before_digest=change.before,
                bound_after_digest=change.after,
                approved_by=actor,
                created_at=now_text(),
            )
    waiting = ", ".join(one.resource for one in gated) or "nothing"
    work.diagnostics.error(
        Code.APPROVAL_NOT_REQUIRED,
        address,
        f"no change of {address} waits for an approval ({waiting} does)",
    )
    raise Refused
