"""What recovery observes of an operation: its branch, and HEAD and transactions of each of its tables."""

from __future__ import annotations

from typing import NamedTuple

from omnigraph.commit.classify import Observation, TableClass, classify
from omnigraph.commit.sidecar import Sidecar, TableEntry
from omnigraph.errors import ExpectedVersionMismatch
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.lost_races import check_expected
from omnigraph.manifest.manifest import BranchState
from omnigraph.manifest.rows import TableState
from omnigraph.manifest.workspace import Workspace
from omnigraph.storage.tables.branch_refs import branch_names
from omnigraph.storage.tables.table import Table, open_table, table_exists
from omnigraph.storage.tables.table_ref import TableRef
from omnigraph.storage.tables.transactions import transactions_after


def live_branch(workspace: Workspace, sidecar: Sidecar) -> BranchState | None:
    """Return the branch the operation wrote to; None if it was deleted, or deleted and made again."""
    if sidecar.branch == MAIN:
        return workspace.manifest.state(MAIN)
    live = workspace.manifest.branch(sidecar.branch)
    if live is None or live.identifier != sidecar.pin.identifier:
        return None
    state = workspace.manifest.state(sidecar.branch)
    return state if state.identifier == sidecar.pin.identifier else None


def expectations_hold(state: BranchState, sidecar: Sidecar) -> bool:
    """Return whether everything the operation was validated against is still current."""
    try:
        check_expected(state.head, sidecar.expected, sidecar.head_commit_id)
    except ExpectedVersionMismatch:
        return False
    return True


class Observed(NamedTuple):
    """The tables of an operation, in the order of its sidecar: pins, what is there, and how far it got."""

    pins: list[TableState | None]
    seen: list[Observation]
    classes: list[TableClass]


def observe_all(workspace: Workspace, sidecar: Sidecar, state: BranchState) -> Observed:
    """Look at every table of an operation, and classify it."""
    pins = [_pin_of(state, entry) for entry in sidecar.tables]
    seen = [
        Observation(None) if pin is None else observe(workspace, entry, pin.table_version)
        for entry, pin in zip(sidecar.tables, pins, strict=True)
    ]
    classes = [
        TableClass.NO_MOVEMENT
        if pin is None
        else classify(sidecar.writer, entry, pin.table_version, found, sidecar.operation_id)
        for entry, pin, found in zip(sidecar.tables, pins, seen, strict=True)
    ]
    return Observed(pins, seen, classes)


def _pin_of(state: BranchState, entry: TableEntry) -> TableState | None:
    """Return what the manifest pins now; None if the table no longer concerns this operation.

    Another operation may have dropped the table, or created one where this one meant to.
    """
    tables = state.head.tables.values()
    if entry.created_dataset:
        taken = any(table.location == entry.base.location for table in tables)
        return None if taken else entry.base
    return next((t for t in tables if t.incarnation == entry.base.incarnation), None)


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
