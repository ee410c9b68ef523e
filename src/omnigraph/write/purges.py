"""Finish purges owed: remove from disk what a hard drop or a purge of entities took out of the graph.

The publish has recorded them, so any later process can finish them: the operation itself, cleanup,
or the next read-write open. What a running export reads is removed after it. Of a purge of entities
also the files go that no version names, once nobody can own them who might still commit them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from omnigraph import failpoints
from omnigraph.clock import now_us
from omnigraph.errors import Contention, OmniGraphError, StorageError
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.publisher import settle_purges
from omnigraph.manifest.rows import Purge
from omnigraph.manifest.workspace import Workspace
from omnigraph.storage import layout
from omnigraph.storage.locks.locks import HeldLocks
from omnigraph.storage.locks.read_leases import LeasedTable, ReadLease, live_leases
from omnigraph.storage.locks.waiting import Purpose
from omnigraph.storage.locks.write_marks import find_abandoned
from omnigraph.storage.tables.inline_residual import purge_table, purge_versions
from omnigraph.storage.tables.table import open_table
from omnigraph.storage.tables.table_branches import delete_branch, list_branches
from omnigraph.storage.tables.table_errors import BranchReplaced, TableMissing
from omnigraph.storage.tables.table_ref import TableRef
from omnigraph.storage.versions import plan_removal, remove_versions, unnamed_files

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
    """Return what hard drops and purges of entities still have to remove.

    Branches other than `main` owe something only while a purge of entities is under way, or after it was
    interrupted; they are not looked at otherwise.
    """
    under_way = workspace.store.exists(layout.PURGING)
    return workspace.manifest.purges_owed(None if under_way else ())


def note_purging(workspace: Workspace) -> None:
    """Say that branches may owe something from now on."""
    workspace.store.write_text(layout.PURGING, "{}")


def note_purged(workspace: Workspace) -> None:
    """Say that no branch owes anything, if that is so."""
    if workspace.store.exists(layout.PURGING) and not workspace.manifest.purges_owed():
        workspace.store.delete(layout.PURGING)


def purge_all(workspace: Workspace, held: HeldLocks) -> tuple[str, ...]:
    """Remove what is owed, under the graph lock; return a warning for each purge left unfinished."""
    done, warnings = [], []
    try:
        for purge in purges_owed(workspace):
            held.check()
            try:
                finish(workspace, purge, held)
            except OmniGraphError as error:
                warnings.append(_warn(purge, error))
            else:
                done.append(purge)
        BEFORE_RECORD.hit()
        held.check()
        settle_purges(workspace.manifest, done)
        note_purged(workspace)
    except OmniGraphError as error:
        warnings += [_warn(purge, error) for purge in done]
    return tuple(warnings)


@dataclass(frozen=True, slots=True)
class Finished:
    """What finishing a purge removed; ``left`` are files that no version names and that somebody may own."""

    versions: int = 0
    files: int = 0
    bytes: int = 0
    left: tuple[str, ...] = ()


def finish(workspace: Workspace, purge: Purge, held: HeldLocks) -> None:
    """Remove what a purge owes; raise if some of it is still there."""
    if purge.is_of_entities and purge.below is not None:
        done = finish_run(workspace, purge, held)
        if done.left:
            raise StorageError(
                f"{done.left[0]} belongs to no version, and a write that may be alive can own it"
            )
    else:
        _purge(workspace, purge)


def finish_run(workspace: Workspace, purge: Purge, held: HeldLocks) -> Finished:
    """Remove a run of versions on one branch of a table, and the files that no version names.

    Those of a write that may be alive stay. A branch that is gone took everything along.
    """
    _refuse_leased(workspace, purge)
    ref = workspace.ref(purge.location).on(purge.table_branch, None, purge.table_branch_id)
    try:
        table = open_table(ref)
    except (TableMissing, BranchReplaced):
        return Finished()
    doomed = [
        version
        for version in table.versions()
        if purge.removes_version(purge.table_branch, purge.table_branch_id, version)
    ]
    if doomed and doomed[-1] == table.version:
        raise StorageError(f"{ref} has no version after {table.version}, which has to go")
    _refuse_pinned(workspace, purge)
    abandoned = find_abandoned(workspace.root, workspace.store, None)
    made = workspace.store.modified(purge.place)
    before = (purge.at or 0) * 1_000

    def dead(names: Sequence[str]) -> list[str]:
        # Made before every write began that may be alive: by one that failed, or by an earlier try of this.
        until = abandoned.until
        return [name for name in names if made.get(f"{purge.place}/{name}", until) < until]

    removal = plan_removal(table, doomed, dead)
    remove_versions(table, doomed, held.check, dead)
    left = [version for version in open_table(ref).versions() if version in set(doomed)]
    if left:
        raise StorageError(f"something still needs its versions {left}, such as a Lance tag")
    young = [
        f"{purge.place}/{name}"
        for name in unnamed_files(table)
        if made.get(f"{purge.place}/{name}", before + 1) <= before
    ]
    files = len(removal.versions) + len(removal.files)
    return Finished(len(doomed), files, removal.bytes, tuple(young))


def _refuse_pinned(workspace: Workspace, purge: Purge) -> None:
    """Refuse to remove what a branch reads; one may have been made from such a version meanwhile."""
    manifest = workspace.manifest
    for name in (MAIN, *manifest.branch_names()):
        if any(map(purge.removes, manifest.state(name).head.tables.values())):
            raise Contention(f"branch `{name}` was made from it; delete that branch", attempts=1)


def _refuse_leased(workspace: Workspace, purge: Purge) -> None:
    for lease in live_leases(workspace.store, now_us()):
        if is_leased(purge, [lease]):
            raise Contention(f"a running {lease.operation} reads it", attempts=1)


def _purge(workspace: Workspace, purge: Purge) -> None:
    """Remove a table, or its old versions; raise if some of them are still there."""
    _refuse_leased(workspace, purge)
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
    branch = table.table_branch, table.table_branch_id
    return table.location == purge.location and purge.removes_version(*branch, table.table_version)


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
        f"data of {purge.table_key} that was dropped or purged is still on disk ({error}); the next read-write open "
        "tries to remove it again"
    )
    logger.warning("%s", text)
    return text
