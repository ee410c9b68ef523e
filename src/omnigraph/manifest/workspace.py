"""The parts of an open graph that writers and recovery work with."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.history.operation_records import RecentOperations
from omnigraph.manifest.manifest import Manifest
from omnigraph.manifest.rows import TableState
from omnigraph.storage.locks.locks import LockManager
from omnigraph.storage.objects.object_store import ObjectStore
from omnigraph.storage.tables.recent_ids import RecentIds
from omnigraph.storage.tables.table import Table, open_table
from omnigraph.storage.tables.table_errors import BranchReplaced, TableMissing, VersionMissing
from omnigraph.storage.tables.table_ref import TableRef
from omnigraph.storage.uris import Root


class Written(NamedTuple):
    """A table that a commit moved: its new pin, and the table opened there."""

    pin: TableState
    table: Table


AfterCommit = Callable[["Workspace", str, Sequence[Written]], Callable[[], object] | None]
"""Gets the branch and the tables of a commit; returns what to do once its locks are free, if anything."""


class Tally:
    """How many commits a handle made, and how many of its attempts found another commit made before them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.commits = 0
        self.lost_races = 0

    def count_commit(self) -> None:
        """Count a commit."""
        with self._lock:
            self.commits += 1

    def count_lost_race(self) -> None:
        """Count an attempt that another commit came before."""
        with self._lock:
            self.lost_races += 1


@dataclass(frozen=True, slots=True)
class Workspace:
    """The root, control objects, locks and manifest of one graph.

    ``after_commit`` is told of every commit that changes rows, after its last phase. ``operations``
    remembers which ids of callers the newest commits hold, and ``recent_ids`` which rows tables have.
    """

    root: Root
    store: ObjectStore
    locks: LockManager
    manifest: Manifest
    after_commit: AfterCommit = lambda _workspace, _branch, _written: None
    operations: RecentOperations = field(default_factory=RecentOperations)
    tally: Tally = field(default_factory=Tally)
    recent_ids: RecentIds = field(default_factory=RecentIds)

    def ref(self, location: str) -> TableRef:
        """Return the address of a table."""
        return TableRef(self.root.child(location), storage_options=self.root.lance_options())

    def pinned(self, state: TableState) -> TableRef:
        """Return the address of a table at its pinned version; one of a fork must be settled."""
        if state.table_branch is not None:
            self.manifest.ensure_settled()
        return self.ref(state.location).on(
            state.table_branch, state.table_version, state.table_branch_id
        )

    def is_there(self, state: TableState) -> bool:
        """Return whether a state of a table can still be opened: no cleanup removed it."""
        try:
            open_table(self.pinned(state))
        except (VersionMissing, TableMissing, BranchReplaced):
            return False
        return True

    def lock_name(self, location: str, branch: str) -> str:
        """Return the name of the lock of a table on a graph branch."""
        return self.locks.table_lock(location, lance_branch(branch))


def lance_branch(branch: str) -> str | None:
    """Return the Lance branch that tables of a graph branch are forked to; None for `main`."""
    return None if branch == MAIN else branch
