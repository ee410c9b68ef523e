"""What changed between two versions of a table: no row at all, or little enough to be told.

A schema change, an index and a compaction make a new version and change no row, so what was read of one version serves
the other:

    version 7 is numbered in memory; version 8 adds a column (Merge), version 9 renames one (Project)
    -> version 9 is cached under the identity of version 7: ids, edges and columns are there already

Columns are cached by the id of their property, so a new name does not matter. A column that got other
values all the same has another field id in Lance than in the version before, and then the versions
count as different. Over several versions field ids say nothing: Lance gives those of dropped columns again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.errors import StorageError
from omnigraph.read.thresholds import ViewThresholds
from omnigraph.read.view.byte_cache import ByteCache
from omnigraph.read.view.pinned_table import Identity, Lineage, PinnedTable, columns_by_key
from omnigraph.storage.tables.table import Delta, Table, open_table
from omnigraph.storage.tables.table_errors import VersionMissing, lance_errors
from omnigraph.storage.tables.transactions import (
    TRACKED,
    TransactionKind,
    transaction_at,
    transactions_after,
)

# These change which columns there are, and no row.
OF_COLUMNS: Final = frozenset({TransactionKind.MERGE, TransactionKind.PROJECT})

# These change which files and indexes there are, and no row.
OF_FILES: Final = frozenset(
    {
        TransactionKind.CREATE_INDEX,
        TransactionKind.REWRITE,
        TransactionKind.RESERVE_FRAGMENTS,
        TransactionKind.UPDATE_CONFIG,
    }
)

# A rough size of two identities and what holds them.
_ENTRY_BYTES: Final = 512


def rows_identity(
    cache: ByteCache,
    pinned: PinnedTable,
    numbered: Callable[[], Mapping[Identity, int]],
    by_commits: Callable[[int], bool],
    max_versions: int,
) -> Identity:
    """The identity under which the rows of a pinned table are cached.

    ``numbered`` gives the states of tables whose rows are cached, with their numbers of rows; states
    more than ``max_versions`` older are not looked at. ``by_commits`` says of an earlier version whether
    commits that change rows came after it, for when the versions in between are gone.
    """
    exact = pinned.exact
    kept: Identity | None = cache.peek(_key(exact))
    if kept is not None:
        return kept
    older = [
        state
        for state, rows in numbered().items()
        if state.lineage == exact.lineage
        and exact.version - max_versions <= state.version <= exact.version
        # The pin says how many rows there are, which rules out most states that differ, unread.
        and rows == pinned.row_count
    ]
    base = max(older, key=lambda state: state.version, default=exact)
    if base.version == exact.version:
        return exact
    same = _same_rows(pinned.table, base.version)
    # What Lance no longer tells, because versions were removed, the commits of the graph still say.
    if not (by_commits(base.version) if same is None else same):
        return exact
    return cache.get(_key(exact), lambda: base, lambda _: _ENTRY_BYTES)


def same_states(cache: ByteCache, exact: Identity) -> tuple[Identity, ...]:
    """The states under which the rows of a table version may be cached: its own, and one with the same rows."""
    kept: Identity | None = cache.peek(_key(exact))
    return (exact,) if kept is None else (exact, kept)


def _key(exact: Identity) -> tuple[str, Identity]:
    return "same rows", exact


def _same_rows(table: Table, version: int) -> bool | None:
    """Whether a table has the rows of an earlier version; None when the versions since were removed."""
    of_columns = []
    try:
        # The newest first: if rows were written, it was mostly by that one.
        for number in range(table.version, version, -1):
            operation = transaction_at(table, number).operation
            if operation not in OF_COLUMNS | OF_FILES:
                return False
            if operation in OF_COLUMNS:
                of_columns.append(number)
        return _left_columns_alone(table, of_columns[::-1])
    except VersionMissing:
        return None
    except StorageError:
        return False


def _left_columns_alone(table: Table, made: Sequence[int]) -> bool:
    """Whether the versions that changed columns, in order, left those as they were that there are at the end.

    A new name changes nothing. A column that was missing in between is another one.
    """
    if not made:
        return True
    first = _field_ids(open_table(table.ref.at(made[0] - 1)))
    left = set(first)
    for number in made:
        before, after = (_field_ids(open_table(table.ref.at(at))) for at in (number - 1, number))
        left = {key for key in left if key in before and after.get(key) == before[key]}
    return (first.keys() & _field_ids(table).keys()) <= left


def _field_ids(table: Table) -> dict[int | str, int]:
    numbers = table.field_ids()
    return {key: numbers[name] for key, name in columns_by_key(table.schema).items()}


# These leave every row that was there as it was.
_ONLY_INSERTS: Final = OF_FILES | {TransactionKind.APPEND}


class TableChanges(NamedTuple):
    """Rows inserted and updated (as they are now), and the row ids of those that are gone.

    ``columns_too``: columns got other values in rows that are not listed here, so cached ones are stale.
    """

    inserted: pa.Table
    updated: pa.Table
    gone: npt.NDArray[np.uint64]
    columns_too: bool


def base_of(
    pinned: PinnedTable, known: Iterable[Identity], thresholds: ViewThresholds
) -> Identity | None:
    """The newest known state that this one was made from recently, on its branch or else on main."""
    here = pinned.identity
    oldest = here.version - thresholds.derived_versions
    near = [it for it in known if oldest <= it.version <= here.version]
    usable = [it for it in near if it.lineage == here.lineage]
    if not usable and near and pinned.fork is not None and pinned.fork.parent is None:
        main = _main(here.lineage)
        forked_at = pinned.fork.parent_version
        # A fork begins with the rows of its parent at that version; what main did later is not in it.
        usable = [it for it in near if it.lineage == main and it.version <= forked_at]
    return max(usable, key=lambda it: it.version, default=None)


def changes_since(
    base: Identity, pinned: PinnedTable, columns: Sequence[str], limit: int
) -> list[TableChanges] | None:
    """The changes that lead from an earlier state to this one, in order.

    None when more than ``limit`` rows were inserted, updated or deleted, or when Lance cannot tell.
    """
    try:
        found = []
        for table, since in _steps(base, pinned):
            changes = _changes(table, since, columns, limit)
            if changes is None:
                return None
            found.append(changes)
        return found
    except StorageError:
        # Cleanup may have removed a version in between.
        return None


def _main(lineage: Lineage) -> Lineage:
    return lineage._replace(branch=None, identifier=None)


def _steps(base: Identity, pinned: PinnedTable) -> Iterator[tuple[Table, int]]:
    """The tables to compare, each with the version it is compared with."""
    since = base.version
    if base.lineage != pinned.identity.lineage:
        assert pinned.fork is not None
        forked_at = pinned.fork.parent_version
        if since < forked_at:
            yield open_table(pinned.ref.on(None, forked_at)), since
        since = forked_at
    if since < pinned.identity.version:
        yield pinned.table, since


def _changes(table: Table, since: int, columns: Sequence[str], limit: int) -> TableChanges | None:
    made_by = transactions_after(table, since, table.version)
    # A restore, for one, brings rows back under their old versions, which a delta goes by.
    if any(transaction.operation not in TRACKED for transaction in made_by):
        return None
    with lance_errors(f"comparing {table.ref} with version {since}"):
        of_columns = [
            number
            for number, transaction in enumerate(made_by, since + 1)
            if transaction.operation in OF_COLUMNS
        ]
        columns_too = not _left_columns_alone(table, of_columns)
        only_new = {one.operation for one in made_by} <= _ONLY_INSERTS
        delta = table.delta(since)
        return _read_delta(delta, columns, limit, only_new=only_new, columns_too=columns_too)


def _read_delta(
    delta: Delta, columns: Sequence[str], limit: int, *, only_new: bool, columns_too: bool
) -> TableChanges | None:
    inserted = _rows(delta.inserted(), [*columns, "_rowid"], limit)
    if inserted is None:
        return None
    if only_new:
        return TableChanges(inserted, inserted[:0], np.empty(0, np.uint64), columns_too)
    updated = _rows(delta.updated(), [*columns, "_rowid"], limit)
    # Counted before it is read: a delta of deletions compares all row ids of both versions.
    lost = delta.count_deleted(inserted.num_rows)
    if updated is None or (lost is not None and lost > limit):
        return None
    gone = np.empty(0, np.uint64)
    if lost != 0:
        found = _rows(delta.deleted_row_ids(), ["_rowid"], limit)
        if found is None:
            return None
        gone = found.column("_rowid").to_numpy()
    return TableChanges(inserted, updated, gone, columns_too)


def _rows(reader: pa.RecordBatchReader, columns: list[str], limit: int) -> pa.Table | None:
    """These columns of the rows; None when there are more than the limit."""
    batches, rows = [], 0
    for batch in reader:
        rows += batch.num_rows
        if rows > limit:
            return None
        batches.append(batch.select(columns))
    schema = pa.schema([reader.schema.field(name) for name in columns])
    return pa.Table.from_batches(batches, schema)
