"""`if_commit`: a write that happens only while its branch is at the commit the caller knows."""

from __future__ import annotations

from omnigraph.commit.changes import Write
from omnigraph.commit.protocol import commit
from omnigraph.commit.workspace import Workspace
from omnigraph.errors import ExpectedVersionMismatch, PreconditionFailed
from omnigraph.manifest.handle import BranchState
from omnigraph.manifest.publisher import MANIFEST_KEY
from omnigraph.manifest.rows import GraphCommit


def check_precondition(state: BranchState, if_commit: str | None) -> None:
    """Refuse before any work when the branch has moved on."""
    actual = state.head.commit.graph_commit_id
    if if_commit is not None and if_commit != actual:
        raise _failed(state.name, if_commit, actual)


def required_version(state: BranchState, if_commit: str | None) -> int | None:
    """The manifest version the publish must find, when the caller named a commit."""
    return None if if_commit is None else state.head.commit.manifest_version


def commit_conditionally(space: Workspace, write: Write, if_commit: str | None) -> GraphCommit:
    """Commit; a head that moved meanwhile is the caller's precondition, not a lost race."""
    try:
        return commit(space, write)
    except ExpectedVersionMismatch as lost:
        if if_commit is None or lost.details["table_key"] != MANIFEST_KEY:
            raise
        actual = space.manifest.state(write.branch).head.commit.graph_commit_id
        raise _failed(write.branch, if_commit, actual) from lost


def _failed(branch: str, expected: str, actual: str) -> PreconditionFailed:
    return PreconditionFailed(
        f"branch `{branch}` is at commit {actual}, not at {expected}; read again and decide anew",
        branch=branch,
        expected=expected,
        actual=actual,
    )
