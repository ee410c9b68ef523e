"""A table at the version a snapshot pins, opened once, and the identity under which it is cached."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple

from omnigraph.errors import HistoryReclaimed
from omnigraph.lang.schema.catalog import Entity
from omnigraph.manifest.rows import TableState
from omnigraph.storage.tables.branch_refs import TableBranch
from omnigraph.storage.tables.table import Table, open_table
from omnigraph.storage.tables.table_errors import BranchReplaced, TableMissing, VersionMissing
from omnigraph.storage.tables.table_ref import TableRef


class Lineage(NamedTuple):
    """One branch of one table for ever: a name can be deleted and used again, its identifier not."""

    graph_id: str
    location: str
    branch: str | None
    identifier: str | None


class Identity(NamedTuple):
    """One version of one branch of one table: the same rows whenever it is read."""

    lineage: Lineage
    version: int


class PinnedTable:
    """A table as a snapshot pins it. ``fork`` is its Lance branch, None on main."""

    def __init__(
        self,
        entity: Entity,
        state: TableState,
        graph_id: str,
        ref: TableRef,
        read_fork: Callable[[], TableBranch | None],
    ) -> None:
        self.entity = entity
        self.state = state
        self.ref = ref
        self._read_fork = read_fork
        self.fork = None if state.table_branch is None else self._live_fork()
        identifier = None if self.fork is None else self.fork.identifier
        if state.table_branch_id not in {None, identifier}:
            raise self._deleted()
        lineage = Lineage(graph_id, state.location, state.table_branch, identifier)
        self.identity = Identity(lineage, state.table_version)
        self._table: Table | None = None
        self._lock = threading.Lock()

    @property
    def row_count(self) -> int:
        """How many rows the manifest says there are."""
        return self.state.row_count

    @property
    def table(self) -> Table:
        """The open table."""
        with self._lock:
            if self._table is None:
                self._table = self._open()
            return self._table

    def check(self) -> None:
        """Raise an error that says so when the branch or the version was deleted."""
        self._open()

    def _open(self) -> Table:
        try:
            table = open_table(self.ref)
        except VersionMissing as error:
            self._check_fork()
            raise HistoryReclaimed(
                f"version {self.state.table_version} of {self.state.table_key} was removed by "
                "cleanup; read a newer state of the graph",
                table_key=self.state.table_key,
                version=self.state.table_version,
            ) from error
        except BranchReplaced:
            raise self._deleted() from None
        except TableMissing:
            self._check_fork()
            raise
        # The branch of that name may have become another one since its identifier was read.
        self._check_fork()
        return table

    def _check_fork(self) -> None:
        if self.fork is not None and self._live_fork().identifier != self.fork.identifier:
            raise self._deleted()

    def _live_fork(self) -> TableBranch:
        fork = self._read_fork()
        if fork is None:
            raise self._deleted()
        return fork

    def _deleted(self) -> HistoryReclaimed:
        return HistoryReclaimed(
            f"branch `{self.state.table_branch}`, which held {self.state.table_key}, was deleted; read "
            "a state of a branch that lives",
            table_key=self.state.table_key,
            version=self.state.table_version,
        )
