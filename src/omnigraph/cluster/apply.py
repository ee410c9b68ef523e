"""`cluster plan`, `cluster apply` and `cluster approve`: what would change, the changes, and the word for a delete.

    sweep -> create graphs -> schema updates -> catalogue blobs -> approved deletes -> one swap of the ledger

The first move of a graph that fails stops later ones, and blocks what depends on it. Whatever was done is
written down; the digest of the config only moves when nothing is left to do.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import replace

from omnigraph import failpoints
from omnigraph.clock import new_ulid
from omnigraph.cluster.changes import (
    APPROVAL_STALE,
    DEPENDENCY_NOT_APPLIED,
    UNSUPPORTED_KIND,
    Change,
    fail,
    find_changes,
    spread,
)
from omnigraph.cluster.declared.diagnostics import Code, Diagnostics, Refused
from omnigraph.cluster.declared.resources import (
    Desired,
    graph_of,
    kind_of,
    schema_address,
)
from omnigraph.cluster.declared.sources import Declared, require_declared
from omnigraph.cluster.graphs import graph_uri, look_at
from omnigraph.cluster.moves import Mover, preview
from omnigraph.cluster.outcomes import Seen
from omnigraph.cluster.stored.catalogue import has_blob, write_blob
from omnigraph.cluster.stored.ledger import STATE_PATH, Entry, Ledger, swap_ledger
from omnigraph.cluster.stored.records import (
    Approval,
    Recovery,
    read_approvals,
    shown,
)
from omnigraph.cluster.stored.times import now_text
from omnigraph.cluster.sweep import brought_up, finish, sweep
from omnigraph.cluster.work import Told, Work
from omnigraph.errors import OmniGraphError
from omnigraph.service.documents import Document
from omnigraph.storage.uris import Root

AFTER_BLOB = failpoints.declare("cluster.after_blob")


def plan(config_dir: str, reserved: Container[str] = ()) -> Document:
    """Return what apply would change. Nothing is written."""
    work = Work(config_dir)
    changes: list[Change] = []
    declared: Declared | None = None
    with Told(work):
        declared = require_declared(config_dir, work.diagnostics, reserved)
        work.open(declared.config.root)
        with work.held("plan"):
            pending = sweep(work.store, work.ledger, work.diagnostics, acts=False).pending
            changes = _planned(work, declared, read_approvals(work.store), pending)
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


def _is_gated(change: Change) -> bool:
    return kind_of(change.resource) == "graph" and change.operation == "delete"


def _planned(
    work: Work, declared: Declared, approvals: Iterable[Approval], pending: Container[str]
) -> list[Change]:
    """Return the changes, with the steps of every schema that a graph would be migrated to."""
    assert work.root is not None
    desired = declared.desired
    waiting = {graph for graph in desired.graphs if graph in pending}
    waiting |= {graph for graph in work.ledger.graphs if graph in pending}
    found = _hold_providers(
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


def _with_steps(change: Change, root: Root, desired: Desired, diagnostics: Diagnostics) -> Change:
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


def _hold_providers(changes: list[Change], ledger: Ledger, desired: Desired) -> list[Change]:
    """Block the delete of a provider that a graph still has after this apply."""
    left = {one.resource for one in changes if not one.is_done}
    used = {
        ledger.resources[at].facts.get("embedding_provider")
        for at in left
        if at in ledger.resources and kind_of(at) == "graph"
    }
    return spread(
        (
            one.blocked(DEPENDENCY_NOT_APPLIED)
            if one.operation == "delete"
            and kind_of(one.resource) == "provider"
            and one.resource.rpartition(".")[2] in used
            else one
            for one in changes
        ),
        desired,
    )


def apply(config_dir: str, actor: str | None = None, reserved: Container[str] = ()) -> Document:
    """Bring what is declared into force."""
    work = Work(config_dir)
    applying: _Applying | None = None
    with Told(work):
        declared = require_declared(config_dir, work.diagnostics, reserved)
        if actor is None and declared.desired.bindings:
            work.diagnostics.error(
                Code.ACTOR_REQUIRED,
                "",
                "the config binds bundles, so somebody must answer for it; pass --as ACTOR",
            )
            raise Refused
        work.open(declared.config.root)
        with work.held("apply", actor):
            require_ledger(work)
            applying = _Applying(work, declared, actor)
            applying.run()
    changes = [] if applying is None else applying.changes
    return work.with_observations(
        actor=actor,
        changes=[one.to_json() for one in changes],
        applied_count=sum(one.is_done for one in changes),
        deferred_count=sum(one.disposition == "deferred" for one in changes),
        converged=applying is not None and applying.converged,
        state_written=applying is not None and applying.is_written,
        resource_statuses={at: dict(one) for at, one in sorted(work.ledger.statuses.items())},
    )


def require_ledger(work: Work) -> None:
    """Refuse a cluster without a ledger."""
    if not work.found.is_there:
        work.diagnostics.error(
            Code.STATE_MISSING,
            STATE_PATH,
            "there is no ledger yet; run `omnigraph cluster import` first",
        )
        raise Refused


class _Applying:
    """One apply, under the lock."""

    def __init__(self, work: Work, declared: Declared, actor: str | None) -> None:
        assert work.root is not None
        self.work = work
        self.declared = declared
        self.desired = declared.desired
        self.diagnostics = work.diagnostics
        self.ledger = work.ledger
        self.approvals = read_approvals(work.store)
        self.mover = Mover(work.root, work.store, actor, work.found.cas, work.diagnostics)
        self.changes: list[Change] = []
        self.converged = False
        self.is_written = False
        self.is_stopped = False

    def run(self) -> None:
        """Do everything, and write down what was done."""
        moved = self.declared.config.directory.changed()
        if moved:
            self.diagnostics.error(
                Code.RESOURCE_CONTENT_CHANGED,
                moved[0],
                f"{', '.join(moved)} changed while it was read; run the command again",
            )
            raise Refused
        swept = sweep(self.work.store, self.ledger, self.diagnostics)
        self.ledger = swept.ledger
        self.work.found = replace(self.work.found, ledger=self.ledger)
        self.changes = _planned(self.work, self.declared, self.approvals, swept.pending)
        self._each("graph", "create", Code.GRAPH_CREATE_SKIPPED, self._create)
        self._each("schema", "update", Code.SCHEMA_APPLY_SKIPPED, self._migrate)
        self._blobs()
        self._each("graph", "delete", Code.GRAPH_DELETE_SKIPPED, self._delete)
        self.changes = _hold_providers(self.changes, self.ledger, self.desired)
        self._write_down(swept.done)

    def _each(
        self,
        kind: str,
        operation: str,
        skipped: Code,
        move: Callable[[str, Change], bool],
    ) -> None:
        """Make the moves of one kind, until one fails."""
        for at in [one.resource for one in self.changes if kind_of(one.resource) == kind]:
            change = next(one for one in self.changes if one.resource == at)
            if change.operation != operation or not change.is_done:
                continue
            graph = graph_of(at) or ""
            if self.is_stopped:
                self.diagnostics.warn(skipped, at, "an earlier move failed; run apply again")
                self.changes = fail(self.changes, graph, str(skipped), self.desired)
            elif not move(graph, change):
                self.is_stopped = True
                failed = self.diagnostics.found[-1].code
                self.changes = fail(self.changes, graph, str(failed), self.desired)

    def _create(self, graph: str, _: Change) -> bool:
        schema = self.desired.resources[schema_address(graph)]
        assert schema.content is not None
        if not self.mover.create(graph, schema.content, schema.digest):
            return False
        record = self.mover.made[-1]
        self.ledger = brought_up(self.ledger, record, Seen("complete", schema.digest))
        return True

    def _migrate(self, graph: str, change: Change) -> bool:
        schema = self.desired.resources[change.resource]
        assert schema.content is not None
        assert self.work.root is not None
        before = look_at(graph_uri(self.work.root, graph))
        if before.digest != schema.digest and not self.mover.migrate(
            graph, schema.content, schema.digest, before
        ):
            return False
        self.ledger = self.ledger.with_entry(change.resource, Entry(schema.digest))
        return True

    def _delete(self, graph: str, change: Change) -> bool:
        assert change.approval is not None
        if not self.mover.delete(graph, change.approval):
            return False
        record = self.mover.made[-1]
        self.ledger = replace(
            brought_up(self.ledger, record, Seen("absent")),
            approvals={
                **self.ledger.approvals,
                change.approval.approval_id: {
                    **shown(change.approval),
                    "consumed_by_operation": record.operation_id,
                },
            },
        )
        return True

    def _blobs(self) -> None:
        """Put queries and bundles into the catalogue, and everything that is no move into the ledger."""
        for change in self.changes:
            at = change.resource
            if not change.is_done or kind_of(at) == "schema":
                continue
            if change.operation == "delete":
                if kind_of(at) in {"policy", "provider"} or (
                    kind_of(at) == "query" and graph_of(at) in self.desired.graphs
                ):
                    self.ledger = self.ledger.without(at)
                continue
            wanted = self.desired.resources[at]
            if has_blob(at):
                assert wanted.content is not None
                try:
                    write_blob(self.work.store, at, wanted.content)
                except OmniGraphError as error:
                    code = Code.RESOURCE_PAYLOAD_WRITE_ERROR
                    self.diagnostics.error(code, at, error.message)
                    self._block(at, str(code))
                    continue
                AFTER_BLOB.hit()
            self.ledger = self.ledger.with_entry(at, Entry(wanted.digest, wanted.facts))

    def _block(self, address: str, reason: str) -> None:
        blocked = [one.blocked(reason) if one.resource == address else one for one in self.changes]
        self.changes = spread(blocked, self.desired)

    def _write_down(self, swept: list[Recovery]) -> None:
        ledger = self.ledger.settled()
        left = {one.resource: one for one in find_changes(self.desired, ledger, self.approvals)}
        self.converged = not left and self.diagnostics.is_ok
        if self.converged:
            ledger = replace(ledger, config_digest=self.desired.config_digest)
        ledger = _with_statuses(ledger, self.desired, self.changes, left)
        for one in self.changes:
            if one.reason == DEPENDENCY_NOT_APPLIED:
                self.diagnostics.warn(
                    Code.APPLY_DEPENDENCY_BLOCKED,
                    one.resource,
                    "something it depends on is not applied",
                )
        if ledger != self.work.ledger or swept:
            written = swap_ledger(self.work.store, self.work.found, ledger, self.diagnostics)
            if written is None:
                self.converged = False
                return
            self.work.found, self.is_written = written, True
        finish(self.work.store, [*swept, *self.mover.made], self.approvals, self.diagnostics)


def _with_statuses(
    ledger: Ledger, desired: Desired, changes: Iterable[Change], left: Container[str]
) -> Ledger:
    """Return the ledger with the status of every resource after an apply."""
    reasons = {one.resource: one for one in changes if not one.is_done}
    statuses = {}
    for address in sorted({*desired.resources, *ledger.resources}):
        change = reasons.get(address)
        if change is not None:
            word = "pending" if change.disposition == "deferred" else "blocked"
            statuses[address] = {"status": word, "conditions": [change.reason]}
        else:
            statuses[address] = {"status": "pending" if address in left else "applied"}
    observations = {at: one for at, one in ledger.observations.items() if at in statuses}
    return replace(ledger, statuses=statuses, observations=observations)


def approve(
    config_dir: str, address: str, actor: str | None, reserved: Container[str] = ()
) -> Document:
    """Write down that somebody approves the delete of a graph, as it is and as the config is now."""
    work = Work(config_dir)
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


def _approval(work: Work, desired: Desired, address: str, actor: str) -> Approval:
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
