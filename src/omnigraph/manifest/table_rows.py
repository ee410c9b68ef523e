"""What the rows about tables say: the snapshot they add up to, former names, purges."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace

from omnigraph.manifest.rows import (
    OF_TABLES,
    TABLE,
    TABLE_TOMBSTONE,
    Row,
    TableState,
    dump,
)


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
            table_key,
            incarnation,
            location,
            _version(pinned),
            pinned.table_branch,
            pinned.row_count or 0,
            document.get("table_branch_id"),
            document.get("maintained_at"),
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
