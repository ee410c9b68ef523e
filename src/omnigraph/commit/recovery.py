"""Recover one interrupted operation: roll it forward, roll it back, or discard it with its branch.

The caller holds the locks the writer held.

1. The branch is gone: record that the operation was discarded.
2. Its commit, or its rollback commit, is already published: only the audit row and the sidecar are
   left to settle.
3. Otherwise classify each table (``commit/classify.py``) and roll forward or back with one publish.

Every path ends with one audit row and no sidecar and, unless the branch is gone, with one commit that
says what was done (under the writer's own commit id if it could be finished). Each step finds out whether
it was already done, so an interrupted recovery starts over and ends the same. For example, an operation
that moved Person from 7 to 8 but not Knows is rolled back by restoring Person as version 9, with the
content of 7, and by publishing that pin.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from omnigraph import failpoints
from omnigraph.clock import stamp_us
from omnigraph.commit import audit
from omnigraph.commit.audit import Recovery, RecoveryKind, TableOutcome
from omnigraph.commit.changes import RELOCATE
from omnigraph.commit.classify import (
    Observation,
    RecoveryDecision,
    TableClass,
    decide,
    expectations_hold,
    is_foreign,
    is_restorable,
    live_branch,
    observe_all,
    restore_uuid,
    target_ref,
)
from omnigraph.commit.forks import pin_at
from omnigraph.commit.phases.publishing import publish_under_locks
from omnigraph.commit.sidecar import Sidecar, TableEntry, delete_sidecar
from omnigraph.errors import BranchNotFound, ExpectedVersionMismatch, StorageError
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.history.records import MAINTENANCE
from omnigraph.manifest.history.registrations import all_registrations
from omnigraph.manifest.history.version_marks import ANY_GONE
from omnigraph.manifest.manifest import BranchState
from omnigraph.manifest.publisher import Intent, ManifestChanges
from omnigraph.manifest.rows import GraphCommit, TableState
from omnigraph.manifest.workspace import Workspace
from omnigraph.storage.locks.locks import HeldLocks
from omnigraph.storage.tables.inline_residual import drop_table
from omnigraph.storage.tables.rewriting import stage_restore
from omnigraph.storage.tables.staging import with_uuid
from omnigraph.storage.tables.table import open_table
from omnigraph.storage.tables.table_branches import delete_branch, remove_residue
from omnigraph.storage.tables.table_commits import commit_staged
from omnigraph.storage.tables.table_errors import TableMoved

RECOVERY_ACTOR = "omnigraph:recovery"
ATTEMPTS = 3
"""How often an operation is looked at before a change by another program is an error."""

logger = logging.getLogger(__name__)

BEFORE_PUBLISH = failpoints.declare("recovery.before_publish")
AFTER_PUBLISH = failpoints.declare("recovery.after_publish")
BEFORE_RESTORE = failpoints.declare("recovery.before_restore")
AFTER_RESTORE = failpoints.declare("recovery.after_restore")
BEFORE_DISCARD = failpoints.declare("recovery.before_discard")

CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


class OthersFirst(Exception):
    """Another pending operation moved a table of this one, so that one must be settled first."""


def recover(
    workspace: Workspace,
    sidecar: Sidecar,
    held: HeldLocks,
    others: Iterable[Sidecar] = (),
    *,
    may_roll_back: bool,
) -> Recovery | None:
    """Finish or undo the operation; return None if that needs a rollback and none is allowed here.

    ``others`` are the other pending operations. If one of them moved a table of this operation, the
    table does not count as changed by a foreign program; ``OthersFirst`` is raised instead.
    """
    # Versions of tables do not say whose they are; transactions do, by UUIDs that sidecars name beforehand.
    theirs = {uuid for other in others for entry in other.tables for uuid in entry.uuids}
    for _ in range(ATTEMPTS - 1):
        try:
            return _recover(workspace, sidecar, held, theirs, may_roll_back=may_roll_back)
        except (TableMoved, ExpectedVersionMismatch, BranchNotFound) as moved:
            # A program outside these locks changed something, so the observations are out of date.
            logger.info("looking at operation %s again: %s", sidecar.operation_id, moved)
    return _recover(workspace, sidecar, held, theirs, may_roll_back=may_roll_back)


def _recover(
    workspace: Workspace,
    sidecar: Sidecar,
    held: HeldLocks,
    theirs: AbstractSet[str],
    *,
    may_roll_back: bool,
) -> Recovery | None:
    """Look at the operation once and settle it; the numbered list above says how."""
    state = live_branch(workspace, sidecar)
    if state is None:
        # No reader can reach the forks that it wrote to any more, and cleanup removes them.
        return _discard_orphan(workspace, sidecar)
    # A writer that died between phases C and D, or a recovery that did: its commit id is in the manifest.
    done = _already_published(workspace, state, sidecar)
    if done is not None:
        return _close(workspace, sidecar, done)
    if sidecar.writer == RELOCATE:
        # Wherever the graph lies now it is settled: that comes before any recovery.
        return _close(workspace, sidecar, _unpublished(sidecar, "RolledBack"))
    work = _Work(workspace, sidecar, held, state)
    if work.moved_by(theirs):
        raise OthersFirst
    holds = expectations_hold(state, sidecar)
    decision = decide(sidecar.writer, work.classes, expectations_hold=holds)
    if decision is RecoveryDecision.REFUSE:
        raise StorageError(
            f"a table of operation {sidecar.operation_id} is behind its pin, which nothing this "
            "product does can cause; restore the graph from a copy",
            operation_id=sidecar.operation_id,
        )
    if decision is RecoveryDecision.ROLL_FORWARD:
        return work.roll_forward()
    # A restore beside running writers can lose an append, so it waits for a read-write open.
    return work.roll_back() if may_roll_back else None


def needs_rollback(workspace: Workspace, sidecar: Sidecar) -> bool:
    """Return whether an operation, whose writer is dead, can only be undone; nothing is written.

    Without locks that is what it looks like now: another process may be settling it.
    """
    state = live_branch(workspace, sidecar)
    if (
        state is None
        or sidecar.writer == RELOCATE
        or _already_published(workspace, state, sidecar) is not None
    ):
        return False
    classes = observe_all(workspace, sidecar, state).classes
    holds = expectations_hold(state, sidecar)
    return (
        decide(sidecar.writer, classes, expectations_hold=holds)
        is not RecoveryDecision.ROLL_FORWARD
    )


# ------------------------------------------------------------------ what is published


def _already_published(
    workspace: Workspace, state: BranchState, sidecar: Sidecar
) -> Recovery | None:
    """Return the recovery if the operation's commit or its rollback commit is in the manifest."""
    commit = workspace.manifest.commit(state, sidecar.intent.graph_commit_id)
    if commit is not None:
        return _recovery_from(sidecar, "RolledForward", commit)
    # The id of a rollback follows from the operation, so that a second recovery finds the first one's commit.
    commit = workspace.manifest.commit(state, rollback_commit_id(sidecar.operation_id))
    return None if commit is None else _recovery_from(sidecar, "RolledBack", commit)


def _recovery_from(sidecar: Sidecar, kind: RecoveryKind, commit: GraphCommit) -> Recovery:
    """Return the recovery that a published commit records; without a record, one with no outcomes."""
    facts = commit.facts.get("recovery")
    if facts is not None:
        outcomes = tuple(TableOutcome(**outcome) for outcome in facts["outcomes"])
        return Recovery(**{**facts, "outcomes": outcomes}, graph_commit_id=commit.graph_commit_id)
    return Recovery(
        operation_id=sidecar.operation_id,
        recovery_kind=kind,
        graph_commit_id=commit.graph_commit_id,
        recovery_for_actor=sidecar.intent.actor_id,
        created_at=stamp_us(),
        outcomes=(),
    )


# ------------------------------------------------------------------ forward and back


class _Work:
    """One operation under recovery: what was observed, and the two ways to settle it."""

    def __init__(
        self, workspace: Workspace, sidecar: Sidecar, held: HeldLocks, state: BranchState
    ) -> None:
        self.workspace = workspace
        self.sidecar = sidecar
        self.held = held
        self.pins, self.seen, self.classes = observe_all(workspace, sidecar, state)

    def moved_by(self, theirs: AbstractSet[str]) -> bool:
        """Return whether a table that looks foreign was moved by transactions with these UUIDs."""
        return any(
            is_foreign(one) and any(made.uuid in theirs for made in seen.transactions)
            for one, seen in zip(self.classes, self.seen, strict=True)
        )

    def roll_forward(self) -> Recovery:
        """Publish the tables as they are, under the writer's own commit id."""
        sidecar = self.sidecar
        pins, versions = [], []
        for entry, seen, one in zip(sidecar.tables, self.seen, self.classes, strict=True):
            versions.append(seen.head)
            if one is TableClass.NO_MOVEMENT:
                continue  # a table that maintenance did not reach
            # Pin the version that was classified: a later one was not looked at.
            head = open_table(target_ref(self.workspace, entry, seen.head))
            pins.append(pin_at(entry.base, head, maintained=sidecar.writer in MAINTENANCE))
        registered = set(sidecar.registered)
        changes = ManifestChanges(
            tables=(
                *(pin for pin in pins if pin.incarnation not in registered),
                *sidecar.taken_over,
            ),
            registered=(
                *(pin for pin in pins if pin.incarnation in registered),
                *sidecar.brought_in,
            ),
            renamed=sidecar.renamed,
            dropped=sidecar.dropped,
            purged=sidecar.purged,
            schema=sidecar.schema,
            adopted=sidecar.adopted,
            streams=sidecar.streams,
            gone=self._gone(pins),
            forgotten=sidecar.forgotten,
            audit=sidecar.audit,
        )
        recovery = self._recovery("RolledForward", versions)
        intent = replace(
            sidecar.intent,
            actor_id=RECOVERY_ACTOR,
            facts={**sidecar.intent.facts, "recovery": recovery.facts()},
        )
        # With the writer's own expectations: a commit that came between was not validated against these rows.
        return self._publish(changes, sidecar.expected, intent, recovery, sidecar.head_commit_id)

    def _gone(self, pins: Iterable[TableState]) -> dict[int, tuple[str, ...]]:
        """Return the marks of rows that left; which they were died with the writer."""
        if self.sidecar.writer in MAINTENANCE:
            return {}
        moved = (*pins, *self.sidecar.taken_over)
        return {pin.incarnation: ANY_GONE for pin in moved}

    def roll_back(self) -> Recovery:
        """Undo what the operation did to each table and publish the resulting pins.

        Tables that a foreign program wrote to stay as they are, ahead of their pins.
        """
        restored: list[TableState] = []
        versions: list[int | None] = []
        for entry, pin, seen, one in zip(
            self.sidecar.tables, self.pins, self.seen, self.classes, strict=True
        ):
            new = None
            # Undoing it would take another program's rows along, of which we know nothing.
            if is_foreign(one):
                logger.warning(
                    "%s on branch `%s` was written to by another program and stays as it is, "
                    "ahead of its pin; run omnigraph repair",
                    entry.base.table_key,
                    self.sidecar.branch,
                )
            elif pin is not None:
                new = self._undo(entry, pin, seen, one)
            versions.append(seen.head if new is None else new.table_version)
            if new is not None:
                restored.append(new)
        recovery = self._recovery("RolledBack", versions)
        intent = Intent(
            graph_commit_id=rollback_commit_id(self.sidecar.operation_id),
            operation="recovery",
            created_at=stamp_us(),
            actor_id=RECOVERY_ACTOR,
            facts={"recovery": recovery.facts()},
        )
        # Tables that are pinned now must still be pinned so at the publish. Dropped tables and
        # datasets this operation created have no pin that could be expected.
        expected = [
            pin
            for entry, pin in zip(self.sidecar.tables, self.pins, strict=True)
            if pin is not None and not entry.created_dataset
        ]
        return self._publish(ManifestChanges(tables=tuple(restored)), expected, intent, recovery)

    def _undo(
        self, entry: TableEntry, pin: TableState, seen: Observation, one: TableClass
    ) -> TableState | None:
        """Take one table back to its pin; return the new pin if that made a new version."""
        ref = self.workspace.ref(entry.base.location)
        # Nothing pinned it yet, and Phase A made sure that nothing was there before.
        if entry.created_dataset:
            self.held.check()
            drop_table(ref)
            return None
        if entry.created_fork and entry.table_branch is not None:
            # Another operation may have published a fork under this name; that one must stay.
            if pin.table_branch != entry.table_branch:
                self.held.check()
                # A fork without a pin is invisible, but its name would be taken for the next write to this
                # table.
                delete_branch(ref, entry.table_branch)
                remove_residue(ref, entry.table_branch)
            return None
        if one is TableClass.NO_MOVEMENT:
            return None
        # Restore over the version that was classified: a later one may hold another writer's work.
        head = open_table(target_ref(self.workspace, entry, seen.head))
        if is_restorable(one):
            staged = stage_restore(head, pin.table_version)
            failpoints.hit(BEFORE_RESTORE)
            self.held.check()
            # A UUID that follows from the operation: a recovery that dies after the restore is recognised, and
            # not repeated.
            uuid = restore_uuid(self.sidecar.operation_id, entry.base.location)
            head = commit_staged(with_uuid(staged, uuid))
            failpoints.hit(AFTER_RESTORE)
        return replace(pin, table_version=head.version)

    def _publish(
        self,
        changes: ManifestChanges,
        expected: Sequence[TableState],
        intent: Intent,
        recovery: Recovery,
        head_commit_id: str | None = None,
    ) -> Recovery:
        """Publish the outcome, then write the audit row and delete the sidecar."""
        failpoints.hit(BEFORE_PUBLISH)
        commit = publish_under_locks(
            self.workspace,
            self.held,
            branch=self.sidecar.branch,
            identifier=self.sidecar.pin.identifier,
            changes=changes,
            expected=expected,
            intent=intent,
            head_commit_id=head_commit_id,
        )
        failpoints.hit(AFTER_PUBLISH)
        return _close(
            self.workspace, self.sidecar, replace(recovery, graph_commit_id=commit.graph_commit_id)
        )

    def _recovery(self, kind: RecoveryKind, versions: Sequence[int | None]) -> Recovery:
        """Return the recovery record with one outcome for each table."""
        outcomes = tuple(
            TableOutcome(entry.base.table_key, str(one), (pin or entry.base).table_version, version)
            for entry, one, pin, version in zip(
                self.sidecar.tables, self.classes, self.pins, versions, strict=True
            )
        )
        return Recovery(
            operation_id=self.sidecar.operation_id,
            recovery_kind=kind,
            graph_commit_id=None,
            recovery_for_actor=self.sidecar.intent.actor_id,
            created_at=stamp_us(),
            outcomes=outcomes,
        )


def rollback_commit_id(operation_id: str) -> str:
    """Return the commit id of an operation's rollback, a ULID that is the same at every attempt."""
    digest = int.from_bytes(
        hashlib.sha256(f"rollback {operation_id}".encode()).digest()[:10], "big"
    )
    # A ULID has ten characters of time, kept from the operation, and sixteen of randomness.
    tail = "".join(CROCKFORD[(digest >> shift) & 31] for shift in range(75, -5, -5))
    return operation_id[:10] + tail


# ------------------------------------------------------------------ the ends


def _close(workspace: Workspace, sidecar: Sidecar, recovery: Recovery) -> Recovery:
    """Write the audit row, then delete the sidecar; a crash in between repeats both."""
    # In this order: without the sidecar nobody would come back to write the row.
    audit.record(workspace, recovery)
    delete_sidecar(workspace, sidecar)
    return recovery


def _discard_orphan(workspace: Workspace, sidecar: Sidecar) -> Recovery:
    """Settle an operation whose branch is gone, and with it everything it could have made visible.

    Tables that it made are removed, unless it was published and a branch made from its branch has them.
    """
    failpoints.hit(BEFORE_DISCARD)
    made = [entry for entry in sidecar.tables if entry.created_dataset]
    if made:
        manifest = workspace.manifest
        live = map(manifest.state, (MAIN, *manifest.branch_names()))
        known = all_registrations(manifest, live)
        for entry in made:
            if entry.base.incarnation not in known:
                drop_table(workspace.ref(entry.base.location))
    return _close(workspace, sidecar, _unpublished(sidecar, "OrphanedBranchDiscarded"))


def _unpublished(sidecar: Sidecar, kind: RecoveryKind) -> Recovery:
    """Return the recovery of an operation for which nothing is published."""
    return Recovery(
        operation_id=sidecar.operation_id,
        recovery_kind=kind,
        graph_commit_id=None,
        recovery_for_actor=sidecar.intent.actor_id,
        created_at=stamp_us(),
        outcomes=(),
    )
