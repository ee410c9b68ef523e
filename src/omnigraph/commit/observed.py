"""What recovery observes of a table: its HEAD and the transactions since the pin."""

from __future__ import annotations

from omnigraph.commit.classify import Observation
from omnigraph.commit.sidecar import TableEntry
from omnigraph.manifest.workspace import Workspace
from omnigraph.storage.tables.branch_refs import branch_names
from omnigraph.storage.tables.table import Table, open_table, table_exists
from omnigraph.storage.tables.table_ref import TableRef
from omnigraph.storage.tables.transactions import transactions_after


def observe(workspace: Workspace, entry: TableEntry, pin: int) -> Observation:
    """Return HEAD of the branch the operation committed to, and the transactions since the pin."""
    ref = workspace.ref(entry.base.location)
    if entry.created_dataset:
        if not table_exists(ref):
            return Observation(None)
        return _observe_table(open_table(ref), 0)
    if entry.created_fork and entry.table_branch not in branch_names(ref):
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
