"""Decide what to do with an interrupted operation: observe its tables, then judge what was seen.

Judging is pure: ``classify`` and ``decide`` read nothing.

Each table gets a class by comparing its pin, its HEAD and the transactions between them with the
UUIDs in the sidecar; ``decide`` then looks at all classes together. For an operation with
transaction ``a`` on Person and ``b`` on Knows, both pinned at version 4:

  Person 4..5 [a]   Knows 4..5 [b]   both ROLLED_PAST_EXPECTED          -> ROLL_FORWARD
  Person 4..5 [a]   Knows 4          Knows is NO_MOVEMENT               -> ROLL_BACK
  Person 4..5 [x]   Knows 4          x is foreign: UNEXPECTED_AT_P1     -> ROLL_BACK (Person stays)
  Person 3          ...              HEAD below pin: INVARIANT_VIOLATION -> REFUSE

Of ``optimize`` and ``ensure_indices`` the second one is rolled forward too: they change no content.
"""

from __future__ import annotations

import enum
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from omnigraph.commit.changes import Writer
from omnigraph.commit.sidecar import Sidecar, TableEntry
from omnigraph.errors import ExpectedVersionMismatch
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.history.records import MAINTENANCE
from omnigraph.manifest.lost_races import check_expected
from omnigraph.manifest.manifest import BranchState
from omnigraph.manifest.rows import TableState
from omnigraph.manifest.workspace import Workspace
from omnigraph.storage.tables.branch_refs import branch_names
from omnigraph.storage.tables.table import Table, open_table, table_exists
from omnigraph.storage.tables.table_ref import TableRef
from omnigraph.storage.tables.transactions import (
    TransactionFacts,
    TransactionKind,
    transactions_after,
)

CONTENT_PRESERVING = frozenset(
    {TransactionKind.REWRITE, TransactionKind.RESERVE_FRAGMENTS, TransactionKind.CREATE_INDEX}
)


class TableClass(enum.StrEnum):
    """How far one table of an interrupted operation got."""

    NO_MOVEMENT = "no_movement"
    ROLLED_PAST_EXPECTED = "rolled_past_expected"
    INCOMPLETE = "incomplete"
    RESTORED = "restored"
    UNEXPECTED_AT_P1 = "unexpected_at_p1"
    UNEXPECTED_MULTISTEP = "unexpected_multistep"
    INVARIANT_VIOLATION = "invariant_violation"


class RecoveryDecision(enum.StrEnum):
    """What recovery does with the whole operation."""

    ROLL_FORWARD = "roll_forward"
    ROLL_BACK = "roll_back"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class Observation:
    """One table as recovery finds it. ``head`` is None if the fork or dataset was never created."""

    head: int | None
    transactions: tuple[TransactionFacts, ...] = ()


def restore_uuid(operation_id: str, location: str) -> str:
    """Return the UUID under which recovery restores a table.

    It is derived from the operation, so a recovery that is repeated recognises its own restore.
    """
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"omnigraph restore {operation_id} {location}"))


def classify(
    writer: Writer, entry: TableEntry, pinned: int, observed: Observation, operation_id: str
) -> TableClass:
    """Return the class of one table. ``pinned`` is the version the manifest pins now."""
    # A dataset that the operation created has no pin before: its version 1 is already a movement.
    pin = 0 if entry.created_dataset else pinned
    head = observed.head
    if head is None or head == pin:
        return TableClass.NO_MOVEMENT
    if head < pin:
        return TableClass.INVARIANT_VIOLATION
    *before, last = observed.transactions
    # A recovery got as far as this restore and died before it published.
    if last.uuid == restore_uuid(operation_id, entry.base.location):
        is_own = _made_by_operation(writer, entry, before)
        return TableClass.RESTORED if is_own else TableClass.UNEXPECTED_MULTISTEP
    if _made_by_operation(writer, entry, observed.transactions):
        # Enough versions alone say nothing: maintenance may have made some that the sidecar does not name.
        if head < entry.post_commit_version or not _has_all_required(entry, observed.transactions):
            return TableClass.INCOMPLETE
        return TableClass.ROLLED_PAST_EXPECTED
    # One step or several makes no difference to recovery; the record tells it to whoever has to repair the
    # table.
    return TableClass.UNEXPECTED_AT_P1 if head == pin + 1 else TableClass.UNEXPECTED_MULTISTEP


def is_by_writer(writer: Writer, operation: TransactionKind) -> bool:
    """Return whether the writer's inline steps make this kind of transaction.

    Inline steps have no UUID beforehand, so their transactions are recognised by kind. Only
    maintenance has such steps; whatever it does, the content of the table stays the same.
    """
    return writer in MAINTENANCE and operation in CONTENT_PRESERVING


def _made_by_operation(
    writer: Writer, entry: TableEntry, transactions: Iterable[TransactionFacts]
) -> bool:
    """Return whether the operation itself could have made each of these transactions."""
    return all(
        transaction.uuid in entry.uuids
        or (entry.created_dataset and transaction.version == 1)
        or is_by_writer(writer, transaction.operation)
        for transaction in transactions
    )


def _has_all_required(entry: TableEntry, transactions: Iterable[TransactionFacts]) -> bool:
    """Return whether every required transaction of the table is among these."""
    return set(entry.transaction_uuids) <= {transaction.uuid for transaction in transactions}


def decide(
    writer: Writer, classes: Iterable[TableClass], *, expectations_hold: bool = True
) -> RecoveryDecision:
    """Return what to do with the whole operation, given the classes of its tables.

    A complete operation is rolled back all the same if its expectations no longer hold, for example
    because a table that its validation relied on has moved. Its own writer would not have published
    it either. Of maintenance whatever was done is kept, because no content changes: undoing it would
    have to wait for the next open, and block writers until then.
    """
    found = set(classes)
    if TableClass.INVARIANT_VIOLATION in found:
        return RecoveryDecision.REFUSE
    complete = {TableClass.ROLLED_PAST_EXPECTED}
    if writer in MAINTENANCE and found != {TableClass.NO_MOVEMENT}:
        complete |= {TableClass.INCOMPLETE, TableClass.NO_MOVEMENT}
    if expectations_hold and found <= complete:
        return RecoveryDecision.ROLL_FORWARD
    return RecoveryDecision.ROLL_BACK


def is_restorable(one: TableClass) -> bool:
    """Return whether only this operation moved the table, so that undoing it harms no other writer."""
    return one in (TableClass.ROLLED_PAST_EXPECTED, TableClass.INCOMPLETE)


def is_foreign(one: TableClass) -> bool:
    """Return whether another program moved the table; recovery leaves such a table as it is."""
    return one in (TableClass.UNEXPECTED_AT_P1, TableClass.UNEXPECTED_MULTISTEP)


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
