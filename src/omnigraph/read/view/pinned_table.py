"""A table at the version a snapshot pins, opened once, and the identity under which it is cached.

A past version is read with the schema of today, and may call its columns otherwise: a property is the
column that carries its id, whatever its name was then. ``PinnedTable.column_of`` is the one place that
knows; all else names properties.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa

from omnigraph.errors import HistoryReclaimed, StorageError
from omnigraph.lang.schema.catalog import FILL_METADATA, PROPERTY_ID_METADATA, Entity, Property
from omnigraph.lang.schema.indexes import IndexKind
from omnigraph.manifest.rows import TableState
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.manifest.workspace import Workspace
from omnigraph.storage.tables.branch_refs import TableBranch, read_branch
from omnigraph.storage.tables.indexing.table_indexes import (
    Coverage,
    IndexState,
    best_coverage,
    list_indexes,
)
from omnigraph.storage.tables.table import Table, open_table
from omnigraph.storage.tables.table_errors import BranchReplaced, TableMissing, VersionMissing
from omnigraph.storage.tables.table_ref import TableRef


class Lineage(NamedTuple):
    """One branch of one table, for ever: its name can be deleted and used again, its identifier cannot."""

    graph_id: str
    location: str
    branch: str | None
    identifier: str | None


class Identity(NamedTuple):
    """One version of one branch of one table: the same rows whenever it is read."""

    lineage: Lineage
    version: int


ColumnKey = int | str
"""What identifies a column whatever its name: the id of its property, or its name if it has none."""


class PinnedTable:
    """A table as a snapshot pins it. ``fork`` is its Lance branch, None on main.

    ``exact`` is the pinned version. ``identity`` is what its rows are cached under: an earlier version
    where only its columns, files or indexes changed since (``same_rows``). ``is_dropped`` says whether
    the type was dropped meanwhile, ``is_being_purged`` whether a hard drop is removing this version.
    """

    def __init__(
        self,
        entity: Entity,
        state: TableState,
        graph_id: str,
        ref: TableRef,
        read_fork: Callable[[], TableBranch | None],
        is_dropped: Callable[[], bool],
        is_being_purged: Callable[[], bool],
    ) -> None:
        self.entity = entity
        self.state = state
        self.ref = ref
        self._read_fork = read_fork
        self._is_dropped = is_dropped
        self._is_being_purged = is_being_purged
        self.fork = None if state.table_branch is None else self._live_fork()
        identifier = None if self.fork is None else self.fork.identifier
        if state.table_branch_id not in {None, identifier}:
            raise self._deleted()
        lineage = Lineage(graph_id, state.location, state.table_branch, identifier)
        self.exact = Identity(lineage, state.table_version)
        self.identity = self.exact
        self._table: Table | None = None
        self._schema: pa.Schema | None = None
        self._columns: dict[ColumnKey, str] | None = None
        self._indexes: list[IndexState] | None = None
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

    @property
    def schema(self) -> pa.Schema:
        """The columns of this version."""
        if self._schema is None:
            self._schema = self.table.schema
        return self._schema

    def column_key(self, name: str) -> ColumnKey:
        """What tells a property of the type from all others, also from a dropped one of its name."""
        prop = self.entity.properties.get(name)
        return name if prop is None else prop.property_id

    def column_of(self, name: str) -> str | None:
        """The column that holds a property at this version; None when it has none: all is null then."""
        if self._columns is None:
            self._columns = columns_by_key(self.schema)
        prop = self.entity.properties.get(name)
        if prop is None:
            return self._columns.get(name)
        ids = (prop.property_id, *prop.joined_ids)
        return next((self._columns[number] for number in ids if number in self._columns), None)

    def has_property(self, prop: Property) -> bool:
        """Whether a column of this version holds the property."""
        if self._columns is None:
            self._columns = columns_by_key(self.schema)
        return any(number in self._columns for number in prop.ids)

    def filled_with(self, name: str) -> str | None:
        """The value that all rows got when the column of a property was added; None if they got none."""
        column = self.column_of(name)
        metadata = {} if column is None else self.schema.field(column).metadata or {}
        found = metadata.get(FILL_METADATA.encode())
        return None if found is None else found.decode()

    def indexes(self) -> list[IndexState]:
        """The indexes that this version has."""
        if self._indexes is None:
            self._indexes = list_indexes(self.table)
        return self._indexes

    def coverage(self, name: str, kind: IndexKind) -> Coverage:
        """How much of this version the best index of that kind on a property covers."""
        column = self.column_of(name)
        return Coverage.NONE if column is None else best_coverage(self.indexes(), column, kind)

    def at(self, state: Identity) -> PinnedTable:
        """The table at an earlier state that this one was made from: on its branch, or on main."""
        pin, version = self.state, state.version
        if state.lineage == self.exact.lineage:
            pin, ref = replace(pin, table_version=version), self.ref.at(version)
        else:
            pin = replace(pin, table_version=version, table_branch=None, table_branch_id=None)
            ref = self.ref.on(None, version)
        graph_id = state.lineage.graph_id
        checks = self._read_fork, self._is_dropped, self._is_being_purged
        return PinnedTable(self.entity, pin, graph_id, ref, *checks)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Turn the error of a missing file into one that says which branch or version was deleted."""
        try:
            yield
        except StorageError:
            self.check()
            raise

    def check(self) -> None:
        """Raise an error that says so when the branch or the version was deleted.

        A purge removes data files first: the version still opens until it is through.
        """
        self._open()
        if self._is_being_purged():
            raise self._purged()

    def _open(self) -> Table:
        try:
            table = open_table(self.ref)
        except VersionMissing as error:
            self._check_fork()
            raise self._purged() from error
        except BranchReplaced:
            raise self._deleted() from None
        except TableMissing:
            self._check_fork()
            if self._is_dropped():
                raise self._reclaimed(
                    f"{self.state.table_key} was removed by a schema change that removes data; read a "
                    "newer state of the graph"
                ) from None
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
        return self._reclaimed(
            f"branch `{self.state.table_branch}`, which held {self.state.table_key}, was deleted; read "
            "a state of a branch that lives"
        )

    def _purged(self) -> HistoryReclaimed:
        return self._reclaimed(
            f"version {self.state.table_version} of {self.state.table_key} was removed by "
            "cleanup, a purge or a schema change that removes data; read a newer state of the graph"
        )

    def _reclaimed(self, message: str) -> HistoryReclaimed:
        return HistoryReclaimed(
            message, table_key=self.state.table_key, version=self.state.table_version
        )


def pin_table(
    workspace: Workspace, snapshot: Snapshot, entity: Entity, state: TableState
) -> PinnedTable:
    """A table as a snapshot pins it; ``HistoryReclaimed`` when its branch is gone."""

    def read_fork() -> TableBranch | None:
        branch = state.table_branch
        return None if branch is None else read_branch(workspace.store, state.location, branch)

    def is_dropped() -> bool:
        now = workspace.manifest.state(snapshot.branch).head.tables.values()
        return all(table.incarnation != state.incarnation for table in now)

    return PinnedTable(
        entity,
        state,
        snapshot.graph_id,
        workspace.pinned(state),
        read_fork,
        is_dropped,
        lambda: _is_being_purged(workspace, state),
    )


def _is_being_purged(workspace: Workspace, state: TableState) -> bool:
    """Whether a hard drop or a purge owes the removal of that version of a table."""
    return any(purge.removes(state) for purge in workspace.manifest.purges_owed())


def columns_by_key(schema: pa.Schema) -> dict[ColumnKey, str]:
    """The columns of a table version: of properties by their ids, others by their names."""
    found: dict[ColumnKey, str] = {}
    for field in schema:
        number = (field.metadata or {}).get(PROPERTY_ID_METADATA.encode())
        found[field.name if number is None else int(number)] = field.name
    return found
