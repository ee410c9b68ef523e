"""Classification of an interrupted operation: pure functions from what was seen to what to do."""

from __future__ import annotations

import enum
import uuid
from collections.abc import Iterable
from dataclasses import dataclass

from omnigraph.commit.changes import Writer
from omnigraph.commit.sidecar import TableEntry
from omnigraph.storage.transactions import Operation, TransactionFacts

CONTENT_PRESERVING = frozenset(
    {Operation.REWRITE, Operation.RESERVE_FRAGMENTS, Operation.CREATE_INDEX}
)
SCHEMA_OPERATIONS = frozenset(
    {Operation.PROJECT, Operation.MERGE, Operation.UPDATE_CONFIG, Operation.OVERWRITE}
)
MAINTENANCE: frozenset[Writer] = frozenset({"optimize", "ensure_indices"})


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
    """One table as recovery finds it. ``head`` is None when the fork or dataset was never made."""

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
        ours = _are_ours(writer, entry, before, observed.schema_matches)
        return TableClass.RESTORED if ours else TableClass.UNEXPECTED_MULTISTEP
    if _are_ours(writer, entry, observed.transactions, observed.schema_matches):
        done = head >= entry.post_commit_version and _has_all(entry, observed.transactions)
        return TableClass.ROLLED_PAST_EXPECTED if done else TableClass.INCOMPLETE
    return TableClass.UNEXPECTED_AT_P1 if head == pin + 1 else TableClass.UNEXPECTED_MULTISTEP


def _are_ours(
    writer: Writer,
    entry: TableEntry,
    transactions: Iterable[TransactionFacts],
    schema_matches: bool,
) -> bool:
    """Whether each transaction is one this operation would have made."""
    return all(
        transaction.uuid in entry.uuids
        or (entry.created_dataset and transaction.version == 1)
        or (writer in MAINTENANCE and transaction.operation in CONTENT_PRESERVING)
        or (
            writer == "schema_apply"
            and transaction.operation in SCHEMA_OPERATIONS
            and schema_matches
        )
        for transaction in transactions
    )


def _has_all(entry: TableEntry, transactions: Iterable[TransactionFacts]) -> bool:
    return set(entry.transaction_uuids) <= {transaction.uuid for transaction in transactions}


def decide(classes: Iterable[TableClass]) -> Decision:
    """What to do with all tables together. An operation without tables only has its publish left."""
    found = list(classes)
    if TableClass.INVARIANT_VIOLATION in found:
        return Decision.REFUSE
    if all(one is TableClass.ROLLED_PAST_EXPECTED for one in found):
        return Decision.ROLL_FORWARD
    return Decision.ROLL_BACK


def is_restorable(one: TableClass) -> bool:
    """Whether only our transactions moved the table, so that undoing them harms nobody."""
    return one in (TableClass.ROLLED_PAST_EXPECTED, TableClass.INCOMPLETE)


def is_foreign(one: TableClass) -> bool:
    """Whether somebody else moved the table; it is left as it is."""
    return one in (TableClass.UNEXPECTED_AT_P1, TableClass.UNEXPECTED_MULTISTEP)
