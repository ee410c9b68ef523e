"""What becomes of a commit that failed after Phase A: the next process must be able to settle it."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

from omnigraph.clock import new_ulid
from omnigraph.commit.changes import StagedStep, Write
from omnigraph.commit.classify import has_moved, observe
from omnigraph.commit.sidecar import Sidecar, delete_sidecar, is_pending, write_sidecar
from omnigraph.errors import OmniGraphError, RecoveryRequired
from omnigraph.manifest.manifest import BranchState
from omnigraph.manifest.rows import GraphCommit
from omnigraph.manifest.workspace import Workspace
from omnigraph.storage.locks.locks import HeldLocks
from omnigraph.storage.objects.store_errors import LockLost

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FailedCommit:
    """A commit whose sidecar is written and that did not get to its publish."""

    workspace: Workspace
    write: Write
    held: HeldLocks
    sidecar: Sidecar

    def settle(self, error: OmniGraphError, *, tried: bool) -> GraphCommit:
        """Settle a failed Phase B, or a Phase C without locks: return the commit if others made it.

        ``tried``: an effect was attempted. If nothing moved, the sidecar is deleted and the error stays
        as it is. Otherwise the sidecar stays, and the caller gets ``RecoveryRequired``. If the tables
        cannot be read, they count as moved.
        """
        made, moved = None, False
        if tried:
            try:
                state = self.workspace.manifest.state(self.write.branch)
                made = self._made_by_others(state)
                moved = made is None and self._has_moved(state)
            except OmniGraphError:
                moved = True
        if moved:
            raise recovery_required(self._cover(), error) from error
        try:
            delete_sidecar(self.workspace, self.sidecar)
        except OmniGraphError as stuck:
            name = self.sidecar.name
            logger.warning("the sidecar %s stays until the next open: %s", name, stuck)
        if made is None:
            raise error
        return made

    def _made_by_others(self, state: BranchState) -> GraphCommit | None:
        """Return the commit of this operation if a recovery finished it after its locks were lost.

        To run such an operation again would apply it twice.
        """
        return self.workspace.manifest.commit(state, self.write.intent.graph_commit_id)

    def _has_moved(self, state: BranchState) -> bool:
        """Return whether a transaction of this operation lies ahead of its pin.

        A fork without one does not count: the next write reclaims it.
        """
        # Inline steps have no UUID beforehand, so any transaction on these tables may be theirs.
        inline = {
            change.base.location
            for change in self.write.tables
            if not all(isinstance(step, StagedStep) for step in change.steps)
        }
        pins = {table.incarnation: table.table_version for table in state.head.tables.values()}
        for entry in self.sidecar.tables:
            pin = pins.get(entry.base.incarnation, entry.base.table_version)
            seen = observe(self.workspace, entry, pin)
            if has_moved(entry, seen) or (entry.base.location in inline and seen.transactions):
                return True
        return False

    def _cover(self) -> Sidecar:
        """Return the sidecar that covers what moved; write a new one if the old one does not.

        A writer that slept past its lease between two checks may commit after others rolled its
        operation back, or after they looked at the table and before they delete the sidecar. Under its
        old id the operation counts as settled, so the new sidecar has a new id.
        """
        sidecar = self.sidecar
        try:
            if self.has_lost_locks() or not is_pending(self.workspace, sidecar):
                sidecar = replace(sidecar, operation_id=new_ulid())
                write_sidecar(self.workspace, sidecar)
        except OmniGraphError as stuck:
            logger.warning("the tables of %s may need repair: %s", sidecar.operation_id, stuck)
        return sidecar

    def has_lost_locks(self) -> bool:
        """Return whether the locks of the write are no longer held."""
        try:
            self.held.check()
        except LockLost:
            return True
        return False


def recovery_required(sidecar: Sidecar, error: OmniGraphError) -> RecoveryRequired:
    """Return the error for an operation that stopped half way, and whose sidecar stays."""
    return RecoveryRequired(
        f"operation {sidecar.operation_id} stopped half way ({error}); the next write or "
        "read-write open finishes or undoes it",
        operation_id=sidecar.operation_id,
    )
