"""What recovery observes of a table: its HEAD, the transactions since the pin, and its columns."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from omnigraph.commit.classify import Observation
from omnigraph.commit.sidecar import TableEntry
from omnigraph.manifest.rows import SchemaRow
from omnigraph.manifest.schema_row import read_catalog
from omnigraph.manifest.workspace import Workspace
from omnigraph.storage.tables.table import Table, open_table, table_exists
from omnigraph.storage.tables.table_branches import list_branches
from omnigraph.storage.tables.table_ref import TableRef
from omnigraph.storage.tables.transactions import transactions_after

if TYPE_CHECKING:
    import pyarrow as pa


def observe(workspace: Workspace, entry: TableEntry, pin: int) -> Observation:
    """Return HEAD of the branch the operation committed to, and the transactions since the pin."""
    ref = workspace.ref(entry.base.location)
    if entry.created_dataset:
        if not table_exists(ref):
            return Observation(None)
        return _observe_table(open_table(ref), 0)
    if entry.created_fork and entry.table_branch not in list_branches(ref):
        return Observation(None)
    return _observe_table(open_table(target_ref(workspace, entry)), pin)


def target_ref(workspace: Workspace, entry: TableEntry, version: int | None = None) -> TableRef:
    """Return the address the operation committed to.

    A fork that the operation created has an identifier that the sidecar could not know yet.
    """
    identifier = None if entry.created_fork else entry.base.table_branch_id
    return workspace.ref(entry.base.location).on(entry.table_branch, version, identifier)


def _observe_table(table: Table, pin: int) -> Observation:
    return Observation(table.version, tuple(transactions_after(table, pin, table.version)))


def has_moved(entry: TableEntry, observed: Observation) -> bool:
    """Return whether a transaction of the operation landed on the table."""
    if entry.created_dataset:
        return observed.head is not None
    return any(transaction.uuid in entry.uuids for transaction in observed.transactions)


def compare_schema(
    workspace: Workspace, entry: TableEntry, seen: Observation, row: SchemaRow
) -> Observation:
    """Return the observation, completed by whether the table has the columns of the new schema."""
    if not seen.head:
        return seen
    table = open_table(target_ref(workspace, entry, seen.head))
    target = _target_schema(row, entry.base.incarnation)
    matches = target is not None and _columns(table.schema) == _columns(target)
    return replace(seen, schema_matches=matches)


def _target_schema(row: SchemaRow, incarnation: int) -> pa.Schema | None:
    catalog = read_catalog(row)
    for entity in (*catalog.nodes.values(), *catalog.edges.values()):
        if entity.table_incarnation_id == incarnation:
            return entity.arrow_schema()
    return None


def _columns(schema: pa.Schema) -> dict[str, tuple[pa.DataType, bool]]:
    """Return names, types and nullability, so that schemas compare equal in any column order."""
    return {field.name: (field.type, field.nullable) for field in schema}
