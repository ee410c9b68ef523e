"""The commit graph: first-parent chains, single commits, and the snapshots they name.

For example, with `main` at commit C3 (parents C3 -> C2 -> C1), ``list_commits`` returns ``[C3, C2,
C1]`` and ``resolve(Target(snapshot="C2"))`` returns the tables as C2 pinned them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator

from omnigraph.errors import (
    BadRequest,
    BranchNotFound,
    CommitNotFound,
    HistoryReclaimed,
    VersionNotFound,
)
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.manifest import BranchState, Manifest
from omnigraph.manifest.rows import GraphCommit, Head, TableState
from omnigraph.manifest.snapshot import Snapshot, Target
from omnigraph.storage.tables.table_errors import TableMissing, VersionMissing

Test = Callable[[GraphCommit], bool]


def list_commits(
    manifest: Manifest,
    branch: str = MAIN,
    filters: str | Iterable[str] | None = None,
    limit: int | None = None,
) -> list[GraphCommit]:
    """Return the first-parent chain of a branch, newest first; ``limit`` applies after filtering."""
    _check_limit(limit)
    tests = [parse_filter(text) for text in _filter_texts(filters)]
    state = manifest.state(branch)
    records = manifest.commits(state)
    found: list[GraphCommit] = []
    for commit in _chain(records, state.head.commit):
        if all(test(commit) for test in tests):
            found.append(commit)
            if limit is not None and len(found) == limit:
                break
    return found


def _check_limit(limit: object) -> None:
    if limit is None or (isinstance(limit, int) and not isinstance(limit, bool) and limit >= 1):
        return
    raise BadRequest(f"limit is {limit!r}; it must be a whole number, at least 1")


def _chain(records: dict[str, GraphCommit], head: GraphCommit) -> Iterator[GraphCommit]:
    """Yield the head, its first parent, and so on."""
    commit: GraphCommit | None = head
    while commit is not None:
        yield commit
        parent = commit.parent_commit_id
        commit = records.get(parent) if parent is not None else None


def _filter_texts(filters: object) -> Iterable[object]:
    """Return the filters as an iterable; a single filter need not be in a list."""
    if filters is None:
        return ()
    return (filters,) if isinstance(filters, str) or not isinstance(filters, Iterable) else filters


def parse_filter(text: object) -> Test:
    """Return the test that a commit filter stands for: `actor=<id>` or `branch=<name>`."""
    if not isinstance(text, str):
        raise BadRequest(f"a commit filter is a text, actor=<id> or branch=<name>, not {text!r}")
    key, equals, value = text.partition("=")
    if not equals:
        raise BadRequest(f"the filter `{text}` has no `=`; write actor=<id> or branch=<name>")
    if key == "actor":
        return lambda commit: (commit.actor_id or "") == value
    if key == "branch":
        return lambda commit: (commit.branch or MAIN) == value
    raise BadRequest(f"commits cannot be filtered by `{key}`; the keys are actor and branch")


def find_commit(manifest: Manifest, graph_commit_id: str) -> GraphCommit:
    """Return the record of a commit, from whichever live branch holds it."""
    for branch in (MAIN, *manifest.branches()):
        # A branch that is deleted while this loop runs is no longer live.
        with contextlib.suppress(BranchNotFound):
            found = manifest.commit(manifest.state(branch), graph_commit_id)
            if found is not None:
                return found
    raise CommitNotFound(
        f"no live branch holds the commit `{graph_commit_id}`; list the commits to see which there are",
        graph_commit_id=graph_commit_id,
    )


MAINTENANCE = frozenset({"optimize", "ensure_indices"})
"""Operations that change no content."""


def is_same_content(manifest: Manifest, state: BranchState, graph_commit_id: str) -> bool:
    """Return whether a branch's head is that commit, or only maintenance came after it.

    A maintenance commit changes no content, so it counts as its first parent.
    """
    commit: GraphCommit | None = state.head.commit
    while commit is not None:
        if commit.graph_commit_id == graph_commit_id:
            return True
        if commit.operation not in MAINTENANCE or commit.parent_commit_id is None:
            return False
        commit = manifest.commit(state, commit.parent_commit_id)
    return False


KEEPS_ROWS = MAINTENANCE | {"schema_apply"}
"""Operations that change no row of a table: at most its columns, files and indexes."""
MAX_STEPS = 16
"""So many commits are looked at, at most, to find out that a table has the rows of an earlier version."""


def has_rows_of(
    manifest: Manifest, snapshot: Snapshot, table: TableState, earlier_version: int
) -> bool:
    """Return whether a table of a snapshot has the rows that an earlier version of it had.

    The commits in between say so, also after their versions of the table were removed. False if it
    cannot be known, or if the commit that pinned the earlier version lies far back.
    """
    state, commit = manifest.state(snapshot.branch), snapshot.commit
    for _ in range(MAX_STEPS):
        if table.table_version == earlier_version:
            return True
        parent = None
        if commit.parent_commit_id is not None:
            parent = manifest.commit(state, commit.parent_commit_id)
        if parent is None or (parent.branch or MAIN) != snapshot.branch:
            return False
        tables = _head_at(manifest, snapshot.branch, parent.manifest_version).tables.values()
        before = next((one for one in tables if one.incarnation == table.incarnation), None)
        if before is None or before.table_branch_id != table.table_branch_id:
            return False
        if before.identity != table.identity and commit.operation not in KEEPS_ROWS:
            return False
        commit, table = parent, before
    return False


def resolve(manifest: Manifest, target: Target) -> Snapshot:
    """Return the snapshot that a target names."""
    return resolve_on(manifest, target)[1]


def resolve_on(manifest: Manifest, target: Target) -> tuple[BranchState, Snapshot]:
    """Return the snapshot that a target names, and the state in which its branch was found."""
    if target.snapshot is not None:
        return _resolve_commit(manifest, target.snapshot)
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
    return state, Snapshot.of(branch, _head_at(manifest, branch, target.version))


def _resolve_commit(manifest: Manifest, graph_commit_id: str) -> tuple[BranchState, Snapshot]:
    """Return the snapshot of a commit; raise ``HistoryReclaimed`` if its branch is gone."""
    commit = find_commit(manifest, graph_commit_id)
    branch = commit.branch or MAIN
    reclaimed = HistoryReclaimed(
        f"the data of commit `{graph_commit_id}` is gone with its branch `{branch}`",
        table_key="__manifest",
        version=commit.manifest_version,
    )
    try:
        state = manifest.state(branch)
        head = _head_at(manifest, branch, commit.manifest_version)
    except BranchNotFound:
        raise reclaimed from None
    if head.commit.graph_commit_id != graph_commit_id:
        # The branch was deleted and made again; its version of that number is another commit.
        raise reclaimed
    return state, Snapshot.of(branch, head)


def _head_at(manifest: Manifest, branch: str, version: int) -> Head:
    """Return the head of a branch at one version; raise ``HistoryReclaimed`` if cleanup removed it."""
    try:
        return manifest.at_version(branch, version)
    except (VersionMissing, TableMissing):
        raise HistoryReclaimed(
            f"version {version} of branch `{branch}` was removed by cleanup",
            table_key="__manifest",
            version=version,
        ) from None
