"""The published versions of one table, as one branch of the graph knows them: which commit made which.

A branch of a table goes on from a version of its parent, so the versions up to a state form a line:

    state       version 14 of branch `review`, which was forked from version 11 of main
    stretches   `review` 12 to 14, main 1 to 11
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


class Stretch(NamedTuple):
    """The versions of one branch of a table that belong to a line, both ends included."""

    table_branch: str | None
    low: int
    high: int


class Left(NamedTuple):
    """Where a row may have left its table: the newest version, and whether all versions have marks."""

    newest: Published | None
    is_sure: bool


class TableLine:
    """Looks up the versions of the table of one type."""

    def __init__(self, workspace: Workspace, entity: Entity) -> None:
        self.workspace = workspace
        self.manifest = workspace.manifest
        self.entity = entity
        self._stretches: dict[object, list[Stretch]] = {}

    def stretches(self, table: TableState) -> list[Stretch]:
        """Return the versions up to a state of the table, newest first."""
        known = self._stretches.get(table.identity)
        if known is None:
            known = self._stretches[table.identity] = list(self._walk(table))
        return known

    def _walk(self, table: TableState) -> Iterator[Stretch]:
        branch, high = table.table_branch, table.table_version
        while branch is not None:
            fork = read_branch(self.workspace.store, table.location, branch)
            if fork is None:
                return
            yield Stretch(branch, fork.parent_version + 1, high)
            branch, high = fork.parent, min(high, fork.parent_version)
        yield Stretch(None, 1, high)

    def commit_of(self, state: BranchState, table: TableState, version: int) -> Published | None:
        """Return the first published version, up to a state, that has what a version has."""
        stretches = self.stretches(table)
        for at, one in reversed(list(enumerate(stretches))):
            if one.high < version:
                continue
            versions = max(one.low, version), one.high
            found = first_published(
                self.manifest, state, table.incarnation, one.table_branch, versions
            )
            if found is not None or at == 0:
                return found
        return None

    def published(self, state: BranchState, table: TableState, version: int) -> list[Published]:
        """Return all published versions from one version on up to a state, oldest first."""
        found: list[Published] = []
        for one in reversed(self.stretches(table)):
            versions = max(one.low, version), one.high
            if versions[0] <= versions[1]:
                found += published_between(
                    self.manifest, state, table.incarnation, one.table_branch, versions
                )
        return found

    def left(self, state: BranchState, table: TableState, id: str) -> Left:
        """Return where a row that a state of the table lacks may have left it."""
        rows = versions_it_left(self.manifest, state, table.incarnation, id)
        newest, is_sure = None, True
        for one in self.stretches(table):
            for row in reversed(rows):
                if row.table_branch != one.table_branch or not one.low <= row.version <= one.high:
                    continue
                if row.graph_commit_id is None:
                    is_sure = False
                elif newest is None:
                    newest = row
        return Left(newest, is_sure)

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
