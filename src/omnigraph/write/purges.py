"""Finish purges owed: remove from disk what a hard drop took out of the graph.

The publish of the hard drop has recorded them, so any later process can finish them: the schema
apply itself, cleanup, or the next read-write open. What a running export reads is removed after it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from omnigraph import failpoints
from omnigraph.clock import now_us
from omnigraph.errors import Contention, OmniGraphError, StorageError
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.publisher import settle_purges
from omnigraph.manifest.rows import Purge
from omnigraph.manifest.workspace import Workspace
from omnigraph.storage.locks.locks import HeldLocks
from omnigraph.storage.locks.read_leases import LeasedTable, ReadLease, live_leases
from omnigraph.storage.locks.waiting import Purpose
from omnigraph.storage.tables.inline_residual import purge_table, purge_versions
from omnigraph.storage.tables.table import open_table
from omnigraph.storage.tables.table_branches import delete_branch, list_branches
from omnigraph.storage.tables.table_ref import TableRef

logger = logging.getLogger(__name__)

BEFORE_RECORD = failpoints.declare("purge.before_record")
PURPOSE = Purpose("purge")


def finish_purges(workspace: Workspace) -> tuple[str, ...]:
    """Remove what is owed; return a warning for each purge that could not be finished."""
    if not purges_owed(workspace):
        return ()
    try:
        with workspace.locks.acquire(workspace.locks.graph_lock(), None, PURPOSE) as held:
            return purge_all(workspace, held)
    except OmniGraphError as error:
        return tuple(_warn(purge, error) for purge in purges_owed(workspace))


def try_purges(workspace: Workspace) -> None:
    """Remove what is owed, unless another process holds the graph lock and may be doing so."""
    held = workspace.locks.try_acquire(workspace.locks.graph_lock())
    if held is not None:
        with held:
            purge_all(workspace, held)


def purges_owed(workspace: Workspace) -> tuple[Purge, ...]:
    """Return what hard drops still have to remove."""
    return workspace.manifest.state(MAIN).head.purges


def purge_all(workspace: Workspace, held: HeldLocks) -> tuple[str, ...]:
    """Remove what is owed, under the graph lock; return a warning for each purge left unfinished."""
    done, warnings = [], []
    try:
        for purge in purges_owed(workspace):
            held.check()
            try:
                _purge(workspace, purge)
            except OmniGraphError as error:
                warnings.append(_warn(purge, error))
            else:
                done.append(purge)
        BEFORE_RECORD.hit()
        held.check()
        settle_purges(workspace.manifest, done)
    except OmniGraphError as error:
        warnings += [_warn(purge, error) for purge in done]
    return tuple(warnings)


def _purge(workspace: Workspace, purge: Purge) -> None:
    """Remove a table, or its old versions; raise if some of them are still there."""
    for lease in live_leases(workspace.store, now_us()):
        if is_leased(purge, [lease]):
            raise Contention(f"a running {lease.operation} reads it", attempts=1)
    ref = workspace.ref(purge.location)
    if purge.below is None:
        purge_table(ref)
        return
    remove_orphans(ref, set(workspace.manifest.branch_names()))
    purge_versions(ref, purge.below)
    left = [version for version in open_table(ref).versions() if version < purge.below]
    if left:
        raise StorageError(f"something still needs its versions {left}, such as a Lance tag")


def is_leased(purge: Purge, leases: Iterable[ReadLease]) -> bool:
    """Return whether a purge has to wait for a reader of what it would remove."""
    return any(_reads(table, purge) for lease in leases for table in lease.tables)


def _reads(table: LeasedTable, purge: Purge) -> bool:
    """Return whether a purge would remove what a lease names."""
    below = purge.below
    return table.location == purge.location and (below is None or table.table_version < below)


def remove_orphans(ref: TableRef, live: set[str]) -> list[str]:
    """Remove forks that deleted branches left behind, and return their names.

    They would keep old versions alive. Nobody can reach them, and under the graph lock no branch of their
    name can be made. A fork that another one was made from goes after that one.
    """
    orphans = {name: fork for name, fork in list_branches(ref).items() if name not in live}
    names = sorted(orphans)
    while orphans:
        parents = {fork.parent for fork in orphans.values()}
        leaves = [name for name in orphans if name not in parents] or list(orphans)
        for name in leaves:
            delete_branch(ref, name)
            del orphans[name]
    return names


def _warn(purge: Purge, error: OmniGraphError) -> str:
    text = (
        f"old data of {purge.table_key} is still on disk ({error}); the next read-write open "
        "tries to remove it again"
    )
    logger.warning("%s", text)
    return text
