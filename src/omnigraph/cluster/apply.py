"""`cluster apply`: bring what is declared into force.

    sweep -> create graphs -> schema updates -> catalogue blobs -> approved deletes -> one swap of the ledger

The first move of a graph that fails stops later ones, and blocks what depends on it. Whatever was done is
written down; the digest of the config only moves when nothing is left to do.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import replace

from omnigraph import failpoints
from omnigraph.cluster.declared.diagnostics import Code, Refused
from omnigraph.cluster.declared.read_resources import Declared, require_declared
from omnigraph.cluster.declared.resources import (
    Desired,
    graph_of,
    kind_of,
    schema_address,
)
from omnigraph.cluster.graph_moves import Mover
from omnigraph.cluster.graphs import graph_uri, look_at
from omnigraph.cluster.outcomes import RootContents
from omnigraph.cluster.planned_changes import (
    DEPENDENCY_NOT_APPLIED,
    ResourceChange,
    fail,
    find_changes,
    in_order,
    spread,
)
from omnigraph.cluster.planning import hold_needed, planned
from omnigraph.cluster.stored.catalogue import has_blob, write_blob
from omnigraph.cluster.stored.ledger import AppliedResource, Ledger, swap_ledger
from omnigraph.cluster.stored.recovery_files import Approval, RecoveryFile, read_approvals, shown
from omnigraph.cluster.sweep import brought_up, finish, sweep
from omnigraph.cluster.work import CommandRun, Told, require_ledger
from omnigraph.errors import OmniGraphError
from omnigraph.service.documents import Document

AFTER_BLOB = failpoints.declare("cluster.after_blob")


def apply(config_dir: str, actor: str | None = None, reserved: Container[str] = ()) -> Document:
    """Bring what is declared into force."""
    work = CommandRun(config_dir)
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


class _Applying:
    """One apply, under the lock."""

    def __init__(self, work: CommandRun, declared: Declared, actor: str | None) -> None:
        assert work.root is not None
        self.work = work
        self.declared = declared
        self.desired = declared.desired
        self.diagnostics = work.diagnostics
        self.ledger = work.ledger
        self.approvals: list[Approval] = []
        self.mover = Mover(work.root, work.store, actor, work.found.cas, work.diagnostics)
        self.changes: list[ResourceChange] = []
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
        self.ledger, self.approvals = swept.ledger, read_approvals(self.work.store)
        self.work.found = replace(self.work.found, ledger=self.ledger)
        self.changes = planned(self.work, self.declared, self.approvals, swept.pending)
        self._each("graph", "create", Code.GRAPH_CREATE_SKIPPED, self._create)
        self._each("schema", "update", Code.SCHEMA_APPLY_SKIPPED, self._migrate)
        self._catalogue()
        self._each("graph", "delete", Code.GRAPH_DELETE_SKIPPED, self._delete)
        self.changes = hold_needed(self.changes, self.ledger, self.desired)
        self._drop()
        self._write_down(swept.done)

    def _each(
        self,
        kind: str,
        operation: str,
        skipped: Code,
        move: Callable[[str, ResourceChange], Code | None],
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
            elif (failed := move(graph, change)) is not None:
                self.is_stopped = True
                self.changes = fail(self.changes, graph, str(failed), self.desired)

    def _create(self, graph: str, _: ResourceChange) -> Code | None:
        schema = self.desired.resources[schema_address(graph)]
        assert schema.content is not None
        failed = self.mover.create(graph, schema.content, schema.digest)
        if failed is None:
            seen = RootContents("complete", schema.digest)
            self.ledger = brought_up(self.ledger, self.mover.made[-1], seen)
        return failed

    def _migrate(self, graph: str, change: ResourceChange) -> Code | None:
        schema = self.desired.resources[change.resource]
        assert schema.content is not None
        assert self.work.root is not None
        before = look_at(graph_uri(self.work.root, graph))
        if before.digest != schema.digest:
            failed = self.mover.migrate(graph, schema.content, schema.digest, before)
            if failed is not None:
                return failed
        self.ledger = self.ledger.with_entry(change.resource, AppliedResource(schema.digest))
        return None

    def _delete(self, graph: str, change: ResourceChange) -> Code | None:
        assert change.approval is not None
        failed = self.mover.delete(graph, change.approval)
        if failed is not None:
            return failed
        record = self.mover.made[-1]
        self.ledger = replace(
            brought_up(self.ledger, record, RootContents("absent")),
            approvals={
                **self.ledger.approvals,
                change.approval.approval_id: {
                    **shown(change.approval),
                    "consumed_by_operation": record.operation_id,
                },
            },
        )
        return None

    def _catalogue(self) -> None:
        """Put queries and bundles into the catalogue, and everything that is no move into the ledger."""
        for at in in_order(one.resource for one in self.changes):
            change = next(one for one in self.changes if one.resource == at)
            if not change.is_done or change.operation == "delete" or kind_of(at) == "schema":
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
            self.ledger = self.ledger.with_entry(at, AppliedResource(wanted.digest, wanted.facts))

    def _drop(self) -> None:
        """Take queries, bundles and providers that are not declared any more out of the ledger."""
        gone = [one.resource for one in self.changes if one.operation == "delete" and one.is_done]
        self.ledger = self.ledger.without(*gone)

    def _block(self, address: str, reason: str) -> None:
        blocked = [one.blocked(reason) if one.resource == address else one for one in self.changes]
        self.changes = spread(blocked, self.desired)

    def _write_down(self, swept: list[RecoveryFile]) -> None:
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
    ledger: Ledger, desired: Desired, changes: Iterable[ResourceChange], left: Container[str]
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
