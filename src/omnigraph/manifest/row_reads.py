"""Read rows of `__manifest` from one version of it: the head, the schema, the snapshot that table rows add up to.

Every publish rewrites the head row, so it lies in the newest fragment. The schema row is the first one of
the graph and the counter of identities the second, and an update leaves a row its row id, so they are found
by that. All cost the same however long the history is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from omnigraph.errors import StorageError
from omnigraph.manifest import rows
from omnigraph.manifest.rows import OF_TABLES, TABLE, TABLE_TOMBSTONE, Head, Row, TableState, dump
from omnigraph.storage.filters import Condition, filter_expression
from omnigraph.storage.tables.row_places import RowPlace
from omnigraph.storage.tables.table import Table

FEW_ROWS = 256
"""Fragments of the manifest of up to this number of rows are read whole."""
FIRST_ROW_ID = 0
"""The row id of the first row of a table."""
SECOND_ROW_ID = 1
_WITH_PLACE: Final[dict[str, Any]] = {"with_row_id": True, "with_row_address": True}


def read_head_row(table: Table) -> Head:
    """Return the head row. Every publish rewrites it, so the newest fragment is read first."""
    return find_head_row(table)[0]


def find_head_row(table: Table) -> tuple[Head, RowPlace]:
    """Return the head row, and where it is in this version."""
    if not {"object_id", "metadata"} <= set(table.schema.names):
        raise _no_manifest(table)
    wanted = ("object_id", rows.HEAD_ID)
    found = _read_where(table, *wanted, table.fragments()[-1:], **_WITH_PLACE)
    found = found or _read_where(table, *wanted, **_WITH_PLACE)
    if not found:
        raise _no_manifest(table)
    place = RowPlace(found[0]["_rowid"], found[0]["_rowaddr"])
    return rows.read_head(found[0]["metadata"]), place


def read_schema_text(table: Table) -> str | None:
    """Return the metadata of the schema row, at a cost that does not grow with the history.

    It is the first row of a graph, and an update leaves a row its row id, on every branch. In a graph of
    an older release it is another one, and is searched for.
    """
    return _read_at(table, FIRST_ROW_ID, rows.SCHEMA_ID)


def read_identities_text(table: Table) -> str | None:
    """Return the metadata of the counter of identities, likewise; None in a graph of an older format."""
    return _read_at(table, SECOND_ROW_ID, rows.IDENTITIES_ID)


def _read_at(table: Table, row_id: int, object_id: str) -> str | None:
    """Return the metadata of an object that is mostly found at a row id, and else searched for."""
    import pyarrow as pa

    there = table.find(pa.array([row_id], pa.uint64()), ["object_id", "metadata"])
    found = [row["metadata"] for row in there.to_pylist() if row["object_id"] == object_id]
    found = found or read_metadata(table, "object_id", object_id)
    return found[0] if found else None


def _no_manifest(table: Table) -> StorageError:
    return StorageError(
        f"{table.ref} has no head row, so it is no manifest of a graph; restore the graph from a "
        "copy, or choose another root"
    )


def read_metadata(
    table: Table, column: str, value: str, fragments: Sequence[Any] | None = None
) -> list[Any]:
    """Return the metadata texts of the rows whose column has this value; ``fragments`` are those to look at."""
    return [row["metadata"] for row in _read_where(table, column, value, fragments)]


def _read_where(
    table: Table,
    column: str,
    value: str,
    fragments: Sequence[Any] | None = None,
    **options: Any,
) -> list[dict[str, Any]]:
    """Return the rows whose column has this value, with their metadata."""
    if fragments is not None:
        options |= {"fragment_ids": [fragment.id for fragment in fragments]}
        if sum(fragment.physical_rows for fragment in fragments) <= FEW_ROWS:
            # Planning a filter takes longer than reading what a few publishes wrote.
            read = table.read([column, "metadata"], None, **options).to_pylist()
            return [row for row in read if row[column] == value]
    where = filter_expression(table.schema, [Condition(column, "=", value)])
    found: list[dict[str, Any]] = table.read(["metadata"], where, **options).to_pylist()
    return found


def read_table_states(rows: Iterable[Row]) -> dict[str, TableState]:
    """Derive the snapshot from the `table`, `table_version` and `table_tombstone` rows.

    For each registered table this is the newest version that no tombstone hides. Every head row
    must agree with it; recovery checks and tests compare the two.
    """
    keys: dict[int, tuple[str, str]] = {}
    newest: dict[int, Row] = {}
    hidden: dict[int, int] = {}
    for row in rows:
        if row.object_type not in OF_TABLES:
            continue
        incarnation = int(json.loads(row.metadata or "{}")["incarnation"])
        if row.object_type == TABLE:
            keys[incarnation] = (row.table_key or "", row.location or "")
        elif row.object_type == TABLE_TOMBSTONE:
            hidden[incarnation] = row.table_version or 0
        elif incarnation not in newest or _version(newest[incarnation]) < _version(row):
            newest[incarnation] = row
    states = {}
    for incarnation, (table_key, location) in keys.items():
        pinned = newest.get(incarnation)
        if pinned is None or _version(pinned) <= hidden.get(incarnation, -1):
            continue
        document = json.loads(pinned.metadata or "{}")
        states[table_key] = TableState(
            table_key=table_key,
            incarnation=incarnation,
            location=location,
            table_version=_version(pinned),
            table_branch=pinned.table_branch,
            row_count=pinned.row_count or 0,
            table_branch_id=document.get("table_branch_id"),
            maintained_at=document.get("maintained_at"),
        )
    return dict(sorted(states.items()))


def _version(row: Row) -> int:
    return row.table_version or 0


def without_purge(row: Row) -> Row:
    """Return a `table` or `table_tombstone` row whose purge is done."""
    document = json.loads(row.metadata or "{}")
    document.pop("purge", None)
    return replace(row, metadata=dump(document))


def former_keys(row: Row) -> list[str]:
    """Return the keys a registered table had before its current one."""
    former: list[str] = json.loads(row.metadata or "{}").get("former", [])
    return former
