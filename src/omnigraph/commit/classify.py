"""Classification of an interrupted operation: pure functions from what was seen to what to do."""

from __future__ import annotations

import enum
import uuid
from collections.abc import Iterable
from dataclasses import dataclass

from omnigraph.commit.changes import Writer
from omnigraph.commit.sidecar import TableEntry
from omnigraph.manifest.commits import MAINTENANCE
from omnigraph.storage.tables.transactions import Operation, TransactionFacts

CONTENT_PRESERVING = frozenset(
    {Operation.REWRITE, Operation.RESERVE_FRAGMENTS, Operation.CREATE_INDEX}
)
# A hard drop is a staged overwrite: it is known by its UUID, and a foreign overwrite is data.
SCHEMA_OPERATIONS = frozenset({Operation.PROJECT, Operation.MERGE, Operation.UPDATE_CONFIG})


class TableClass(enum.StrEnum):
    """How far one table of an interrupted operation got."""

    NO_MOVEMENT = "no_movement"
    ROLLED_PAST_EXPECTED = "rolled_past_expected"
    INCOMPLETE = "incomplete"
    RESTORED = "restored"
    UNEXPECTED_AT_P1 = "unexpected_at_p1"
    UNEXPECTED_MULTISTEP = "unexpected_multistep"
    INVARIANT_VIOLATION = "invariant_violation"


class Decision(enum.StrEnum):
    """What recovery does with the whole operation."""

    ROLL_FORWARD = "roll_forward"
    ROLL_BACK = "roll_back"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class Observed:
    """One table as recovery finds it. ``head`` is None when the fork or dataset was never made.

    ``schema_matches`` says whether a schema apply's table has the columns it was to get.
    """

    head: int | None
    transactions: tuple[TransactionFacts, ...] = ()
    schema_matches: bool = True


def restore_uuid(operation_id: str, location: str) -> str:
    """The UUID recovery restores a table under: the same at every attempt."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"omnigraph restore {operation_id} {location}"))


def classify(
    writer: Writer, entry: TableEntry, pinned: int, observed: Observed, operation_id: str
) -> TableClass:
    """The class of one table; `pinned` is what the manifest pins now."""
    pin = 0 if entry.created_dataset else pinned
    head = observed.head
    if head is None or head == pin:
        return TableClass.NO_MOVEMENT
    if head < pin:
        return TableClass.INVARIANT_VIOLATION
    *before, last = observed.transactions
    if last.uuid == restore_uuid(operation_id, entry.base.location):
        ours = _are_ours(writer, entry, before)
        return TableClass.RESTORED if ours else TableClass.UNEXPECTED_MULTISTEP
    if _are_ours(writer, entry, observed.transactions):
        if head < entry.post_commit_version or not _has_all(entry, observed.transactions):
            return TableClass.INCOMPLETE
        if observed.schema_matches or _are_known(entry, observed.transactions):
            return TableClass.ROLLED_PAST_EXPECTED
    return TableClass.UNEXPECTED_AT_P1 if head == pin + 1 else TableClass.UNEXPECTED_MULTISTEP


def is_by_writer(writer: Writer, operation: Operation) -> bool:
    """Whether a writer's inline steps commit this kind of operation, without a UUID beforehand."""
    if writer in MAINTENANCE:
        return operation in CONTENT_PRESERVING
    return writer == "schema_apply" and operation in SCHEMA_OPERATIONS


def _are_ours(writer: Writer, entry: TableEntry, transactions: Iterable[TransactionFacts]) -> bool:
    """Whether each transaction is one this operation would have made."""
    return all(
        transaction.uuid in entry.uuids
        or (entry.created_dataset and transaction.version == 1)
        or is_by_writer(writer, transaction.operation)
        for transaction in transactions
    )


def _are_known(entry: TableEntry, transactions: Iterable[TransactionFacts]) -> bool:
    return all(transaction.uuid in entry.uuids for transaction in transactions)


def _has_all(entry: TableEntry, transactions: Iterable[TransactionFacts]) -> bool:
    return set(entry.transaction_uuids) <= {transaction.uuid for transaction in transactions}


def decide(classes: Iterable[TableClass], *, expectations_hold: bool = True) -> Decision:
    """What to do with all tables together.

    A finished operation whose expectations no longer hold (a table its validation relied on has
    moved meanwhile) would not have been published by its writer either: it goes back.
    """
    found = list(classes)
    if TableClass.INVARIANT_VIOLATION in found:
        return Decision.REFUSE
    if expectations_hold and all(one is TableClass.ROLLED_PAST_EXPECTED for one in found):
        return Decision.ROLL_FORWARD
    return Decision.ROLL_BACK


def is_restorable(one: TableClass) -> bool:
    """Whether only our transactions moved the table, so that undoing them harms nobody."""
    return one in (TableClass.ROLLED_PAST_EXPECTED, TableClass.INCOMPLETE)


def is_foreign(one: TableClass) -> bool:
    """Whether somebody else moved the table; it is left as it is."""
    return one in (TableClass.UNEXPECTED_AT_P1, TableClass.UNEXPECTED_MULTISTEP)
