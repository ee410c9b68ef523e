"""Forks of tables: the pin of a table after a commit, and the removal of leftovers before a fork.

A leftover is a table branch that no manifest pins but that lies where the first write of a graph
branch is about to create its own fork.
"""

from __future__ import annotations

from dataclasses import replace

from omnigraph.commit.drift import HealFirst, covers
from omnigraph.commit.sidecar import Sidecar, list_sidecars
from omnigraph.errors import BranchInUse, Contention
from omnigraph.manifest.rows import TableState
from omnigraph.manifest.workspace import Workspace
from omnigraph.storage.tables.branch_refs import branch_names, branch_of
from omnigraph.storage.tables.table import Table
from omnigraph.storage.tables.table_branches import delete_branch, list_branches, remove_residue


def pin_at(base: TableState, table: Table, *, maintained: bool = False) -> TableState:
    """Return the pin of a table after a commit, on the fork that the commit may have created.

    ``maintained``: by a maintenance commit.
    """
    identifier = base.table_branch_id
    if table.ref.branch not in {None, base.table_branch}:
        # The commit made this fork, so its identifier was not known when the write was prepared.
        identifier = table.ref.branch_id
        if identifier is None and (fork := branch_of(table.ref)) is not None:
            identifier = fork.identifier
    return replace(
        base,
        table_version=table.version,
        table_branch=table.ref.branch,
        table_branch_id=identifier,
        row_count=table.count_rows(),
        maintained_at=table.version if maintained else base.maintained_at,
    )


def refuse_pending(pending: list[Sidecar], branch: str, locations: set[str]) -> None:
    """Raise ``HealFirst`` if a pending operation covers one of these tables.

    Recovery will judge that operation by what lies there, so it must not be removed or made anew.
    """
    for sidecar in pending:
        if sidecar.branch == branch and any(covers(sidecar, place) for place in locations):
            raise HealFirst(sidecar.operation_id)


def reclaim_fork(workspace: Workspace, location: str, branch: str, pending: list[Sidecar]) -> None:
    """Remove what lies where a table is about to be forked. The caller holds that fork's lock.

    The fork of a deleted branch may have outlived it because another leftover was forked from it.
    The other leftover is then removed first, under its own lock.
    """
    ref = workspace.ref(location)
    if branch in branch_names(ref):
        forks = list_branches(ref)
        for dependent in [name for name, fork in forks.items() if fork.parent == branch]:
            _reclaim_dependent(workspace, location, branch, dependent, pending)
        delete_branch(ref, branch)
    remove_residue(ref, branch)


def reclaim_leftover(workspace: Workspace, location: str, branch: str) -> bool:
    """Remove the fork of a table that the live branch of its name does not pin.

    Return False if it is needed after all: its writer is at work, or died and is not settled yet.
    """
    held = workspace.locks.try_acquire(workspace.lock_name(location, branch))
    if held is None:
        return False
    with held:
        state = workspace.manifest.state(branch)
        pending = list_sidecars(workspace, state.head.graph_id)
        pins = state.head.tables.values()
        if any(one.branch == branch and covers(one, location) for one in pending) or any(
            pin.location == location and pin.table_branch == branch for pin in pins
        ):
            return False
        reclaim_fork(workspace, location, branch, pending)
    return True


def _reclaim_dependent(
    workspace: Workspace, location: str, branch: str, dependent: str, pending: list[Sidecar]
) -> None:
    """Remove the fork ``dependent``, which was made from the fork of ``branch``.

    Refused while a writer holds its lock, or while a live branch still pins it.
    """
    held = workspace.locks.try_acquire(workspace.lock_name(location, dependent))
    if held is None:
        raise Contention(
            f"a writer of branch `{dependent}` holds a table that branch `{branch}` needs; try again",
            attempts=1,
        )
    with held:
        refuse_pending(pending, dependent, {location})
        if dependent in workspace.manifest.branch_names():
            pins = workspace.manifest.state(dependent).head.tables.values()
            if any(pin.location == location and pin.table_branch == dependent for pin in pins):
                raise BranchInUse(
                    f"a leftover fork `{branch}` of {location} is still needed by branch "
                    f"`{dependent}`; choose another branch name",
                    branch=branch,
                    by=dependent,
                )
        reclaim_fork(workspace, location, dependent, pending)
