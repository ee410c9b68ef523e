"""`if_commit`: a write that happens only while its branch is at the commit the caller knows."""

from __future__ import annotations

from dataclasses import replace

from omnigraph.commit.changes import Write
from omnigraph.commit.protocol import commit
from omnigraph.commit.workspace import Workspace
from omnigraph.errors import ExpectedVersionMismatch, PreconditionFailed
from omnigraph.manifest.handle import BranchState
from omnigraph.manifest.rows import GraphCommit


def check_precondition(state: BranchState, if_commit: str | None) -> None:
    """Refuse before any work when the branch has moved on."""
    actual = state.head.commit.graph_commit_id
    if if_commit is not None and if_commit != actual:
        raise _failed(state.name, if_commit, actual)


def commit_conditionally(
    space: Workspace, write: Write, state: BranchState, if_commit: str | None
) -> GraphCommit:
    """Commit a write prepared on `state`; a head that moved is the caller's precondition.

    Any other commit on the branch breaks the condition, whatever it touches. So the write locks
    every table and the graph: nobody can make one between the last look and the publish.
    """
    if if_commit is None:
        return commit(space, write)
    written = {change.base.table_key for change in write.tables}
    others = (pin for key, pin in state.head.tables.items() if key not in written)
    guarded = replace(
        write,
        relied_on=tuple(others),
        expected_manifest_version=state.head.commit.manifest_version,
        takes_graph_lock=True,
    )
    try:
        return commit(space, guarded)
    except ExpectedVersionMismatch:
        check_precondition(space.manifest.state(write.branch), if_commit)
        raise


def _failed(branch: str, expected: str, actual: str) -> PreconditionFailed:
    return PreconditionFailed(
        f"branch `{branch}` is at commit {actual}, not at {expected}; read again and decide anew",
        branch=branch,
        expected=expected,
        actual=actual,
    )
