"""The published versions of one table, as one branch of the graph knows them: which commit made which.

The versions of a branch of a table are published in order by the branch of the graph that it belongs to.
A branch of the graph that has not written to a table pins a version of another one, and may pin an older one
later: a revert does that. So a version is looked up on one branch of the table at a time.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from typing import NamedTuple

from omnigraph.changes.table_side import state_of
from omnigraph.errors import BranchNotFound, HistoryReclaimed
from omnigraph.lang.schema.catalog import Entity
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.history.version_marks import (
    Published,
    VersionRows,
    first_published,
    published_between,
    versions_it_left,
)
from omnigraph.manifest.manifest import BranchState
from omnigraph.manifest.rows import GraphCommit, Head, TableState
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.manifest.workspace import Workspace
from omnigraph.storage.tables.branch_refs import read_branch
from omnigraph.storage.tables.table import open_table
from omnigraph.storage.tables.table_errors import BranchReplaced, TableMissing, VersionMissing

_GONE = (VersionMissing, TableMissing, BranchReplaced, BranchNotFound, HistoryReclaimed)


class LeavingPoint(NamedTuple):
    """Where a row may have left its table: the newest version, and whether all versions have marks."""

    newest: Published | None
    is_sure: bool


class TableLine:
    """Looks up the versions of the table of one type."""

    def __init__(self, workspace: Workspace, entity: Entity) -> None:
        self.workspace = workspace
        self.manifest = workspace.manifest
        self.entity = entity
        self._lowest: dict[tuple[str, str | None], int] = {}
        self._rows: dict[tuple[int, int], VersionRows] = {}

    def lowest(self, table: TableState) -> int:
        """Return the lowest version of the branch of the table that a state is on."""
        branch = table.table_branch
        if branch is None:
            return 1
        key = (branch, table.table_branch_id)
        if key not in self._lowest:
            fork = read_branch(self.workspace.store, table.location, branch)
            self._lowest[key] = 1 if fork is None else fork.parent_version + 1
        return self._lowest[key]

    def first(self, state: BranchState, table: TableState, version: int) -> Published | None:
        """Return the first published version from one version on up to a state, on its branch of the table."""
        versions = max(version, self.lowest(table)), table.table_version
        places = self._places(state, table)
        found = None if places is None else places.first(*versions)
        if found is not None:
            return found
        return first_published(
            self.manifest, state, table.incarnation, table.table_branch, versions
        )

    def _places(self, state: BranchState, table: TableState) -> VersionRows | None:
        """Return where the versions of the table stand in the manifest, where they are in order."""
        if state.name != MAIN or table.table_branch is not None:
            return None  # only `main` publishes versions of its own tables, one after the other
        key = (state.table.version, table.incarnation)
        if key not in self._rows:
            self._rows[key] = VersionRows(self.manifest, state, table.incarnation)
        return self._rows[key]

    def published(self, state: BranchState, table: TableState, version: int) -> list[Published]:
        """Return all published versions from one version on up to a state, oldest first."""
        versions = max(version, self.lowest(table)), table.table_version
        return published_between(
            self.manifest, state, table.incarnation, table.table_branch, versions
        )

    def left(self, state: BranchState, table: TableState, id: str) -> LeavingPoint:
        """Return where a row that a state of the table lacks may have left it, on its branch of the table."""
        low, high = self.lowest(table), table.table_version
        places = self._places(state, table)
        found = None if places is None else places.it_left(id, high)
        if found is None:
            found = versions_it_left(self.manifest, state, table.incarnation, id)
        rows = [
            row
            for row in found
            if row.table_branch == table.table_branch and low <= row.version <= high
        ]
        marked = [row for row in rows if row.graph_commit_id is not None]
        return LeavingPoint(marked[-1] if marked else None, len(marked) == len(rows))

    # -- states of the graph without marks, or behind what cleanup removed

    def head_that_published(self, state: BranchState, published: Published) -> GraphCommit | None:
        """Return the commit that published a version of the table, from the heads that are left."""
        for branch, versions in self._manifest_versions(state.name, None):
            if not versions:
                continue

            def reached(version: int, branch: str = branch) -> bool:
                return _rank(self._table_at(branch, version), branch) >= _rank_of(published, branch)

            at = bisect.bisect_left(versions, True, key=reached)
            if at > 0 and at < len(versions):
                return self._head(branch, versions[at]).commit
            if at == 0 and branch == MAIN:
                return self._head(branch, versions[0]).commit
        return None

    def older_readable(self, commit: GraphCommit) -> tuple[str, Snapshot] | None:
        """Return the nearest readable state before a commit, on its first-parent chain; None: none is left."""
        for branch, versions in self._manifest_versions(
            commit.branch or MAIN, commit.manifest_version
        ):
            found = self._newest_readable(branch, versions)
            if found is not None:
                return branch, Snapshot.of(branch, found)
        return None

    def _newest_readable(self, branch: str, versions: list[int]) -> Head | None:
        """Return the newest head of some versions of the manifest whose table can be opened."""
        end = len(versions)
        while end > 0:
            head = self._head(branch, versions[end - 1])
            table = state_of(Snapshot.of(branch, head), self.entity)
            if table is None or self.workspace.is_there(table):
                return head
            wanted = _rank_below(table, branch, self._versions_left(table))

            def is_above(version: int, wanted: tuple[int, int] = wanted) -> bool:
                return _rank(self._table_at(branch, version), branch) > wanted

            end = bisect.bisect_left(versions, True, 0, end - 1, key=is_above)
        return None

    def _versions_left(self, table: TableState) -> list[int]:
        try:
            every = open_table(self.workspace.pinned(table).at(None)).versions()
        except _GONE:
            return []
        return [version for version in every if version < table.table_version]

    def _manifest_versions(self, branch: str, below: int | None) -> Iterator[tuple[str, list[int]]]:
        """Yield a branch and those it comes from, each with the versions of the manifest that are left."""
        while True:
            try:
                table = self.manifest.state(branch).table
            except BranchNotFound:
                return
            versions = [one for one in table.versions() if below is None or one < below]
            yield branch, versions
            fork = None if branch == MAIN else self.manifest.branch(branch)
            if fork is None:
                return
            branch, below = fork.parent or MAIN, fork.parent_version + 1

    def _head(self, branch: str, version: int) -> Head:
        return self.manifest.at_version(branch, version)

    def _table_at(self, branch: str, version: int) -> TableState | None:
        return state_of(Snapshot.of(branch, self._head(branch, version)), self.entity)


def _rank(table: TableState | None, branch: str) -> tuple[int, int]:
    """Order the states that one branch of the graph pins: none, those it inherited, its own."""
    if table is None:
        return 0, 0
    is_own = branch != MAIN and table.table_branch == branch
    return (2 if is_own else 1), table.table_version


def _rank_of(published: Published, branch: str) -> tuple[int, int]:
    is_own = branch != MAIN and published.table_branch == branch
    return (2 if is_own else 1), published.version


def _rank_below(table: TableState, branch: str, left: list[int]) -> tuple[int, int]:
    """Return the rank of the newest state before one that may be there."""
    kind, _ = _rank(table, branch)
    if left:
        return kind, left[-1]
    return kind - 1, table.table_version
