"""From a target to the snapshot it names.

For example, with `main` at commit C3 (parents C3 -> C2 -> C1), ``resolve(Target(snapshot="C2"))``
returns the tables as C2 pinned them.
"""

from __future__ import annotations

from omnigraph.errors import BranchNotFound, HistoryReclaimed, VersionNotFound
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.history.records import find_commit
from omnigraph.manifest.manifest import BranchState, Manifest
from omnigraph.manifest.rows import GraphCommit, Head
from omnigraph.manifest.snapshot import Snapshot, Target
from omnigraph.storage.tables.table_errors import TableMissing, VersionMissing


def resolve(manifest: Manifest, target: Target) -> Snapshot:
    """Return the snapshot that a target names."""
    return resolve_on(manifest, target)[1]


def resolve_on(manifest: Manifest, target: Target) -> tuple[BranchState, Snapshot]:
    """Return the snapshot that a target names, and the state in which its branch was found."""
    if target.snapshot is not None:
        return resolve_commit(manifest, find_commit(manifest, target.snapshot))
    branch = target.branch or MAIN
    state = manifest.state(branch)
    if target.version is None:
        return state, Snapshot.of(branch, state.head)
    newest = state.head.commit.manifest_version
    if not state.fork_version <= target.version <= max(newest, state.fork_version):
        raise VersionNotFound(
            f"branch `{branch}` has no version {target.version}; its versions are "
            f"{state.fork_version} to {newest}",
            branch=branch,
            version=target.version,
        )
    return state, Snapshot.of(branch, head_at(manifest, branch, target.version))


def resolve_commit(manifest: Manifest, commit: GraphCommit) -> tuple[BranchState, Snapshot]:
    """Return the snapshot of a commit; raise ``HistoryReclaimed`` if its branch is gone."""
    branch = commit.branch or MAIN
    reclaimed = HistoryReclaimed(
        f"the data of commit `{commit.graph_commit_id}` is gone with its branch `{branch}`",
        table_key="__manifest",
        version=commit.manifest_version,
    )
    try:
        state = manifest.state(branch)
        head = head_at(manifest, branch, commit.manifest_version)
    except BranchNotFound:
        raise reclaimed from None
    if head.commit.graph_commit_id != commit.graph_commit_id:
        # The branch was deleted and made again; its version of that number is another commit.
        raise reclaimed
    return state, Snapshot.of(branch, head)


def head_at(manifest: Manifest, branch: str, version: int) -> Head:
    """Return the head of a branch at one version; raise ``HistoryReclaimed`` if cleanup removed it."""
    try:
        return manifest.at_version(branch, version)
    except (VersionMissing, TableMissing):
        raise HistoryReclaimed(
            f"version {version} of branch `{branch}` was removed by cleanup",
            table_key="__manifest",
            version=version,
        ) from None
