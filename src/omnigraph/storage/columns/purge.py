"""Remove what a hard drop leaves behind: old versions of a table, or a whole table. Repeatable."""

from __future__ import annotations

from omnigraph.storage.tables.inline_residual import Cleaned, cleanup_versions, drop_table
from omnigraph.storage.tables.table import open_table
from omnigraph.storage.tables.table_errors import TableMissing
from omnigraph.storage.tables.table_ref import TableRef


def purge_versions(ref: TableRef, below: int) -> Cleaned:
    """Remove every version of the table before version ``below``, with the files only they used.

    The newest version stays in any case, and so do versions that a Lance branch or a Lance tag
    needs. Nothing happens when there is nothing to remove, or no table.
    """
    try:
        table = open_table(ref.on(None))
    except TableMissing:
        return Cleaned(0, 0)
    doomed = [version for version in table.versions() if version < min(below, table.version)]
    return cleanup_versions(table, doomed) if doomed else Cleaned(0, 0)


def purge_table(ref: TableRef) -> None:
    """Remove a table with all its versions, branches and files. There may be none."""
    drop_table(ref.on(None))
