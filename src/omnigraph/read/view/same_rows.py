"""Versions of a table that hold the same rows: what was read of one serves the other.

A schema change, an index and a compaction make a new version and change no row:

    version 7 is numbered in memory; version 8 adds a column (Merge), version 9 renames one (Project)
    -> version 9 is cached under the identity of version 7: ids, edges and columns are there already

Columns are cached by the id of their property, so a new name does not matter. A column that got other
values all the same has another field id in Lance, and then the versions count as different.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from omnigraph.errors import StorageError
from omnigraph.read.view.byte_cache import ByteCache
from omnigraph.read.view.pinned_table import Identity, PinnedTable, columns_by_key
from omnigraph.storage.tables.table import Table, open_table
from omnigraph.storage.tables.table_errors import VersionMissing
from omnigraph.storage.tables.transactions import Operation, transaction_at

# These change which columns there are, and no row.
OF_COLUMNS: Final = frozenset({Operation.MERGE, Operation.PROJECT})

# These change which files and indexes there are, and no row.
OF_FILES: Final = frozenset(
    {
        Operation.CREATE_INDEX,
        Operation.REWRITE,
        Operation.RESERVE_FRAGMENTS,
        Operation.UPDATE_CONFIG,
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
        and rows == pinned.row_count
    ]
    base = max(older, key=lambda state: state.version, default=exact)
    if base.version == exact.version:
        return exact
    same = _same_rows(pinned.table, base.version)
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
    of_columns = False
    try:
        # The newest first: if rows were written, it was mostly by that one.
        for number in range(table.version, version, -1):
            operation = transaction_at(table, number).operation
            if operation not in OF_COLUMNS | OF_FILES:
                return False
            of_columns = of_columns or operation in OF_COLUMNS
        return not of_columns or same_columns(open_table(table.ref.at(version)), table)
    except VersionMissing:
        return None
    except StorageError:
        return False


def same_columns(before: Table, now: Table) -> bool:
    """Whether every column that both versions have is the same one, whatever its name is."""
    left, right = _field_ids(before), _field_ids(now)
    return all(left[key] == right[key] for key in left.keys() & right.keys())


def _field_ids(table: Table) -> dict[int | str, int]:
    numbers = table.field_ids()
    return {key: numbers[name] for key, name in columns_by_key(table.schema).items()}
