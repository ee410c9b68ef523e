"""What the tables of a copy hold beyond its own history: it is undone before the copy is used.

A copy that is made while writers run has its manifest first and its tables later. So a table may have
versions that are not published in the copy, and the sidecars that would explain them may not have come
along. They belong to commits of the original that the copy does not have. No reader ever sees them, but a
writer would refuse such a table as drifted. So each is restored to its pinned content, by a version
on top, and that one is pinned: one commit for each branch. Nothing is removed.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from omnigraph.clock import new_ulid, stamp_us
from omnigraph.commit.changes import RELOCATE
from omnigraph.commit.drift import covers
from omnigraph.commit.phases.publishing import publish_under_locks
from omnigraph.commit.sidecar import list_sidecars
from omnigraph.commit.stage_tables import needs_fork
from omnigraph.errors import StorageError
from omnigraph.manifest.actors import MAINTENANCE_ACTOR
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.manifest import BranchState
from omnigraph.manifest.publisher import Intent, ManifestChanges
from omnigraph.manifest.rows import TableState
from omnigraph.manifest.workspace import Workspace
from omnigraph.storage.locks.locks import HeldLocks
from omnigraph.storage.tables.rewriting import stage_restore
from omnigraph.storage.tables.table import open_table
from omnigraph.storage.tables.table_commits import commit_staged
from omnigraph.storage.tables.table_errors import TableMissing, VersionMissing

logger = logging.getLogger(__name__)


def refuse_incomplete(workspace: Workspace) -> None:
    """Refuse a copy that lacks the pinned version of a table: it was made in a careless order."""
    for branch in (MAIN, *workspace.manifest.branch_names()):
        for pin in workspace.manifest.state(branch).head.tables.values():
            if needs_fork(pin, branch):
                continue  # it is looked at with the branch that it is inherited from
            try:
                open_table(workspace.pinned(pin))
            except (TableMissing, VersionMissing) as error:
                raise StorageError(
                    f"this copy of a graph is incomplete: version {pin.table_version} of {pin.table_key}, "
                    f"which branch `{branch}` pins, did not come along. Copy the graph again, in the "
                    'order that the page "Copies and backups" says'
                ) from error


def undo_unpublished(workspace: Workspace, held: HeldLocks) -> None:
    """Restore every table that is ahead of its pin, on every branch. The caller holds the graph lock."""
    for branch in (MAIN, *workspace.manifest.branch_names()):
        state = workspace.manifest.state(branch)
        ahead = _ahead(workspace, state)
        if not ahead:
            continue
        restored = [restore_pinned(workspace, pin, held) for pin in ahead]
        facts = {"undone": [pin.table_key for pin in ahead]}
        publish_under_locks(
            workspace,
            held,
            branch,
            state.identifier,
            ManifestChanges(tables=tuple(restored)),
            ahead,
            Intent(new_ulid(), RELOCATE, stamp_us(), MAINTENANCE_ACTOR, facts=facts),
        )


def _ahead(workspace: Workspace, state: BranchState) -> list[TableState]:
    """Return the pins of the tables that are ahead of them, and that no pending operation explains."""
    pending = list_sidecars(workspace, state.head.graph_id)
    return [
        pin
        for pin in state.head.tables.values()
        if not needs_fork(pin, state.name)
        and open_table(workspace.pinned(pin).at(None)).version > pin.table_version
        and not any(one.branch == state.name and covers(one, pin.location) for one in pending)
    ]


def restore_pinned(workspace: Workspace, pin: TableState, held: HeldLocks) -> TableState:
    """Put the pinned content of a table on top of what it holds, and return its new pin."""
    head = open_table(workspace.pinned(pin).at(None))
    logger.warning(
        "%s has versions up to %d that are not in the history of the graph; it goes on from version %d",
        pin.table_key,
        head.version,
        pin.table_version,
    )
    held.check()
    restored = commit_staged(stage_restore(head, pin.table_version))
    return replace(pin, table_version=restored.version)
