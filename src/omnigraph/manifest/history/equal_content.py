r"""Commits that have the same content, and which of them can still be read.

A maintenance commit has the content of its first parent, and a fast-forward merge that of its
merged parent. So when a commit cannot be read any more, because its branch was deleted or cleanup
removed its tables, one of these may stand in for it:

    main     G ------- F - M     F is a fast-forward of B2, M an `optimize` on it
              \       /
    deleted    B1 - B2           B2 is gone with its branch; F and M have its content
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence

from omnigraph.errors import BranchNotFound, HistoryReclaimed
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.history.ancestry import CommitGraph
from omnigraph.manifest.history.records import MAINTENANCE
from omnigraph.manifest.history.resolve import gone_with_branch, head_at, resolve_commit
from omnigraph.manifest.lost_races import moved_error
from omnigraph.manifest.manifest import BranchState, Manifest
from omnigraph.manifest.rows import GraphCommit, TableIdentity, TableState
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.manifest.workspace import Workspace
from omnigraph.storage.tables.table import open_table
from omnigraph.storage.tables.table_errors import BranchReplaced, TableMissing, VersionMissing


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
"""At most this many commits are searched to find out that a table has the rows of an earlier version."""


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
        tables = head_at(manifest, snapshot.branch, parent.manifest_version).tables.values()
        before = next((one for one in tables if one.incarnation == table.incarnation), None)
        if before is None or before.table_branch_id != table.table_branch_id:
            return False
        if before.identity != table.identity and commit.operation not in KEEPS_ROWS:
            return False
        commit, table = parent, before
    return False


def check_unchanged(
    manifest: Manifest, state: BranchState, read: Iterable[TableState]
) -> frozenset[str]:
    """Return the keys that tables have at the head of a branch, if their rows are those that were read.

    Otherwise raise ``ExpectedVersionMismatch``. Maintenance and changes of the schema leave rows as they are.
    """
    snapshot, keys = Snapshot.of(state.name, state.head), set()
    now = {table.incarnation: table for table in snapshot.tables.values()}
    for table in read:
        found = now.get(table.incarnation)
        if found is None or (
            found.identity != table.identity
            and not (
                found.identity[:3] == table.identity[:3]
                and has_rows_of(manifest, snapshot, found, table.table_version)
            )
        ):
            raise moved_error(table, found)
        keys.add(found.table_key)
    return frozenset(keys)


def equal_parent(commit: GraphCommit) -> str | None:
    """Return the id of the parent whose content a commit has by construction, if there is one."""
    if commit.operation in MAINTENANCE:
        return commit.parent_commit_id
    merge = commit.facts.get("merge")
    if isinstance(merge, dict) and merge.get("outcome") == "fast_forward":
        return commit.merged_parent_commit_id
    return None


class CommitReader:
    """Reads the snapshots of commits and finds out whether they are still there, once for each.

    A table that a hard drop removed need not be there: nothing of it can be merged any more, because at most
    one of the branches still has its type.
    """

    def __init__(self, workspace: Workspace, graph: CommitGraph) -> None:
        self._workspace = workspace
        tables = [table for state in graph.states for table in state.head.tables.values()]
        # What a live head pins is there: no need to open it.
        self._pinned = frozenset(table.identity for table in tables)
        counted = Counter(table.incarnation for table in tables)
        most = min(2, len(graph.states))
        self._needed = frozenset(number for number, heads in counted.items() if heads >= most)
        self._known: dict[str, Snapshot | HistoryReclaimed] = {}

    def read(self, commit: GraphCommit) -> Snapshot:
        """Return the snapshot of a commit; raise ``HistoryReclaimed`` if it cannot be read."""
        name = commit.graph_commit_id
        found = self._known.get(name)
        if found is None:
            try:
                found = read_commit(self._workspace, commit, self._pinned, self._needed)
            except HistoryReclaimed as refusal:
                found = refusal
            self._known[name] = found
        if isinstance(found, HistoryReclaimed):
            raise found
        return found


def readable_snapshot(
    workspace: Workspace,
    graph: CommitGraph,
    commit: GraphCommit,
    heads: Sequence[GraphCommit] = (),
    *,
    without: str | None = None,
    reader: CommitReader | None = None,
) -> Snapshot:
    """Return the snapshot of a commit, or of one with the same content if it cannot be read.

    Of several that can be read it is the newest common ancestor of ``heads``, so that versions both
    sides share are recognised; failing that the newest one. ``HistoryReclaimed`` if there is none.
    ``without`` names a branch whose commits do not count. ``reader`` remembers what earlier calls read.
    """
    reader = CommitReader(workspace, graph) if reader is None else reader
    commit = graph.record(commit.graph_commit_id)
    least = origin_of(graph, commit).depth
    lines = [
        {one.graph_commit_id: one for one in graph.ancestors([head], least_depth=least)}
        for head in heads
    ]
    shared = set.intersection(*map(set, lines)) if lines else set()
    walked = [one for line in lines for one in line.values()]
    refusals: dict[str, HistoryReclaimed] = {}
    for group in (walked, _live_records(graph, least)):
        equal = _equal_commits(graph, commit, group)
        equal.sort(key=lambda one: (one.graph_commit_id in shared, *_age(one)), reverse=True)
        for one in equal:
            if one.graph_commit_id in refusals:
                continue
            if without is not None and one.branch == without:
                refusals[one.graph_commit_id] = gone_with_branch(one)
                continue
            try:
                return reader.read(one)
            except HistoryReclaimed as refusal:
                refusals[one.graph_commit_id] = refusal
    raise refusals[commit.graph_commit_id]


def is_readable(workspace: Workspace, commit: GraphCommit) -> bool:
    """Return whether a commit's branch lives and everything it pins can be opened."""
    try:
        read_commit(workspace, commit)
    except HistoryReclaimed:
        return False
    return True


def read_commit(
    workspace: Workspace,
    commit: GraphCommit,
    pinned: Collection[TableIdentity] = (),
    needed: Collection[int] | None = None,
) -> Snapshot:
    """Return the snapshot of a commit; raise ``HistoryReclaimed`` unless all its tables can be opened.

    ``pinned`` are states of tables that are known to be there, ``needed`` the only tables that matter, by
    default all.
    """
    _, snapshot = resolve_commit(workspace.manifest, commit)
    for table in snapshot.tables.values():
        if table.identity in pinned or (needed is not None and table.incarnation not in needed):
            continue
        try:
            open_table(workspace.pinned(table))
        except (VersionMissing, TableMissing, BranchReplaced):
            raise HistoryReclaimed(
                f"version {table.table_version} of {table.table_key} is gone, which commit "
                f"`{commit.graph_commit_id}` needs; use a newer one",
                table_key=table.table_key,
                version=table.table_version,
            ) from None
    return snapshot


def origin_of(graph: CommitGraph, commit: GraphCommit) -> GraphCommit:
    """Return the oldest commit of equal content, from which a commit has its content."""
    return _chain_of(graph, commit)[-1]


def _chain_of(graph: CommitGraph, commit: GraphCommit) -> list[GraphCommit]:
    """Return a commit and the parents it has its content from, down to the first one."""
    chain = [commit]
    while (parent := equal_parent(chain[-1])) is not None:
        chain.append(graph.record(parent))
    return chain


def _equal_commits(
    graph: CommitGraph, commit: GraphCommit, among: Iterable[GraphCommit]
) -> list[GraphCommit]:
    """Return a commit and all others of equal content: those it comes from, and those made of them."""
    equal = {one.graph_commit_id: one for one in _chain_of(graph, commit)}
    for one in sorted(among, key=lambda one: one.depth):
        if equal_parent(one) in equal:
            equal[one.graph_commit_id] = one
    return list(equal.values())


def _live_records(graph: CommitGraph, least_depth: int) -> Iterator[GraphCommit]:
    """Yield the records of all live branches down to a depth."""
    manifest = graph.manifest
    known = {state.name for state in graph.states}
    for branch in (MAIN, *manifest.branch_names()):
        if branch not in known:
            with contextlib.suppress(BranchNotFound):
                graph.add(manifest.state(branch))
    heads = [graph.record(state.head.commit.graph_commit_id) for state in graph.states]
    yield from graph.ancestors(heads, least_depth=least_depth)


def _age(commit: GraphCommit) -> tuple[int, int, str]:
    """Return what orders commits of equal content from old to new."""
    return commit.depth, commit.created_us, commit.graph_commit_id
