"""Create and delete graph branches, under the graph lock."""

from __future__ import annotations

from omnigraph.cancel import shielded
from omnigraph.commit.drift import HealFirst
from omnigraph.commit.heal import heal, run_healing
from omnigraph.commit.sidecar import list_sidecars
from omnigraph.errors import BranchInUse, Contention, SchemaConflict
from omnigraph.manifest import refs
from omnigraph.manifest.branch_names import MAIN, check_branch_name
from omnigraph.manifest.history.equal_content import is_same_content, read_commit
from omnigraph.manifest.history.resolve import resolve
from omnigraph.manifest.lost_races import branch_remade
from omnigraph.manifest.manifest import BranchPin
from omnigraph.manifest.rows import GraphCommit
from omnigraph.manifest.snapshot import Target
from omnigraph.manifest.workspace import Workspace
from omnigraph.storage.locks.locks import HeldLocks
from omnigraph.storage.locks.waiting import Patience, Purpose
from omnigraph.write.branch_needs import refuse_needed


def create_branch(workspace: Workspace, name: str, source: Target) -> refs.BranchCreated:
    """Make a branch at the head of another one, or at the commit that a past target names.

    No data is copied and no commit is made. At a past commit the branch descends from the branch on
    which that commit was made.
    """
    # A dead writer may have left an operation on an earlier branch of that name; recovery discards it.
    heal(workspace)
    return run_healing(workspace, lambda: _create(workspace, name, source))


def _create(workspace: Workspace, name: str, source: Target) -> refs.BranchCreated:
    with _take_graph_lock(workspace, name, "branch_create", Patience()):
        _refuse_unsettled(workspace, check_branch_name(name))
        if source.names_a_head:
            branch, version = source.branch or MAIN, None
        else:
            commit = _past_commit(workspace, source)
            branch, version = commit.branch or MAIN, commit.manifest_version
        with shielded():
            return refs.create_ref(workspace.manifest, name, branch, version)


def _past_commit(workspace: Workspace, source: Target) -> GraphCommit:
    """Return the commit of a past target; refuse one under another schema, or that is not readable."""
    snapshot = resolve(workspace.manifest, source)
    accepted = workspace.manifest.state(MAIN).head.ir_hash
    if snapshot.ir_hash != accepted:
        raise SchemaConflict(
            f"commit `{snapshot.graph_commit_id}` has another schema than the accepted one, and all "
            "branches share one; choose a commit made since the schema last changed",
            graph_commit_id=snapshot.graph_commit_id,
        )
    read_commit(workspace, snapshot.commit)
    return snapshot.commit


def delete_branch(workspace: Workspace, name: str, merged: BranchPin | None = None) -> None:
    """Delete a branch and its commits, while no writer is between its checks and its publish.

    ``merged`` is the branch as a merge brought it into another one: if it is another branch by now, or
    has commits since, it stays.
    """
    patience = Patience()
    with (
        _take_graph_lock(workspace, name, "branch_delete", patience),
        _lock_out_writers(workspace, name, patience),
    ):
        if merged is not None:
            _refuse_unmerged(workspace, merged)
        refuse_needed(workspace, name)
        with shielded():
            refs.delete_ref(workspace.manifest, name)


def _refuse_unmerged(workspace: Workspace, merged: BranchPin) -> None:
    """Refuse to delete what was written to a branch after it was merged."""
    state = workspace.manifest.state(merged.name)
    if state.identifier != merged.identifier:
        raise branch_remade(merged.name)
    if not is_same_content(workspace.manifest, state, merged.head_commit_id):
        raise BranchInUse(
            f"branch `{merged.name}` has commits that came after the merge, so it was not deleted; merge "
            "it again",
            branch=merged.name,
            by=merged.name,
        )


def discard_branch(workspace: Workspace, name: str, made: refs.BranchCreated) -> bool:
    """Delete a branch that its creator no longer needs; return False if others have written to it.

    A branch with a pending sidecar stays as well, because its operation is left to recovery.
    """
    patience = Patience()
    with (
        _take_graph_lock(workspace, name, "branch_delete", patience),
        _lock_out_writers(workspace, name, patience),
    ):
        state = workspace.manifest.state(name)
        pending = list_sidecars(workspace, state.head.graph_id)
        moved = state.head.commit.graph_commit_id != made.head_commit_id
        if (
            state.identifier != made.identifier
            or moved
            or any(one.branch == name for one in pending)
        ):
            return False
        refuse_needed(workspace, name)
        with shielded():
            refs.delete_ref(workspace.manifest, name)
        return True


def _lock_out_writers(workspace: Workspace, name: str, patience: Patience) -> HeldLocks:
    """Take the head lock and every table lock of a branch.

    The caller holds the graph lock, so the branch cannot be replaced meanwhile.
    """
    branch = check_branch_name(name)
    tables = workspace.manifest.state(branch).head.tables.values()
    names = [workspace.lock_name(table.location, branch) for table in tables]
    purpose = Purpose("branch_delete")
    return workspace.locks.acquire([workspace.locks.head_lock(branch), *names], patience, purpose)


def _refuse_unsettled(workspace: Workspace, name: str) -> None:
    """Refuse a name for which an operation is still pending on an earlier branch.

    Otherwise that operation could be published to the new branch. A schema apply whose process died
    comes first: a branch made now would keep the schema before it.
    """
    if workspace.manifest.branch(name) is not None:
        return
    for sidecar in list_sidecars(workspace, workspace.manifest.state(MAIN).head.graph_id):
        if sidecar.writer == "schema_apply":
            raise HealFirst(sidecar.operation_id)
        if sidecar.branch == name:
            raise Contention(
                f"an operation on the earlier branch `{name}` is not settled yet; try again, or "
                "reopen the graph read-write",
                attempts=1,
                operation_id=sidecar.operation_id,
            )


def _take_graph_lock(
    workspace: Workspace, name: str, operation: str, patience: Patience
) -> HeldLocks:
    """Take the graph lock.

    Name and graph are checked first, because taking a lock writes to the store.
    """
    check_branch_name(name)
    workspace.manifest.state(MAIN)
    return workspace.locks.acquire(workspace.locks.graph_lock(), patience, Purpose(operation))
