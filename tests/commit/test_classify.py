"""The decision table of recovery, without a disk: every class, every decision, every writer."""

from __future__ import annotations

import itertools

import pytest

from omnigraph.commit.changes import WRITERS
from omnigraph.commit.classify import (
    Observation,
    RecoveryDecision,
    TableClass,
    classify,
    decide,
    is_by_writer,
    is_foreign,
    is_restorable,
    restore_uuid,
)
from omnigraph.commit.recovery import rollback_commit_id
from omnigraph.commit.sidecar import TableEntry
from omnigraph.manifest.rows import TableState
from omnigraph.storage.tables.transactions import TransactionFacts, TransactionKind

PIN = 5
OPERATION_ID = "01HZZZZZZZZZZZZZZZZZZZZZZZ"
BASE = TableState("node:Person", 1, "nodes/person", PIN, None, 0)
RESTORE = restore_uuid(OPERATION_ID, BASE.location)

MAINTENANCE = ("optimize", "ensure_indices")
DATA_WRITERS = tuple(set(WRITERS) - {*MAINTENANCE})
CONTENT_PRESERVING = (
    TransactionKind.REWRITE,
    TransactionKind.RESERVE_FRAGMENTS,
    TransactionKind.CREATE_INDEX,
)
CHANGING = tuple(set(TransactionKind) - {*CONTENT_PRESERVING})
SCHEMA = (TransactionKind.MERGE, TransactionKind.PROJECT, TransactionKind.REWRITE)


def entry(required=("u1",), optional=(), *, post=PIN + 1, fork=False, dataset=False) -> TableEntry:
    branch = "x" if fork else None
    return TableEntry(BASE, branch, post, tuple(required), tuple(optional), fork, dataset)


def seen(*transactions: tuple[str, TransactionKind] | str, first: int = PIN + 1) -> Observation:
    """HEAD after these transactions, each a UUID (an append) or a UUID and an operation."""
    pairs = [(one, TransactionKind.APPEND) if isinstance(one, str) else one for one in transactions]
    facts = tuple(
        TransactionFacts(first + at, uuid, operation, first + at - 1)
        for at, (uuid, operation) in enumerate(pairs)
    )
    return Observation(first + len(facts) - 1, facts)


def judged(writer, table_entry, observed) -> TableClass:
    return classify(writer, table_entry, PIN, observed, OPERATION_ID)


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize(
    ("table_entry", "observed", "expected"),
    [
        (entry(), seen(), "no_movement"),
        (entry(fork=True), Observation(None), "no_movement"),
        (entry(fork=True), seen(), "no_movement"),
        (entry((), post=1, dataset=True), Observation(None), "no_movement"),
        (entry(), seen("u1"), "rolled_past_expected"),
        (entry(fork=True), seen("u1"), "rolled_past_expected"),
        (entry(("u1", "u2"), post=PIN + 2), seen("u1", "u2"), "rolled_past_expected"),
        (entry(("u1",), ("i1", "i2")), seen("u1"), "rolled_past_expected"),
        (entry(("u1",), ("i1", "i2")), seen("u1", "i2"), "rolled_past_expected"),
        (entry(("u1",), ("i1", "i2")), seen("u1", "i1", "i2"), "rolled_past_expected"),
        (entry(("u1", "u2"), post=PIN + 2), seen("u1"), "incomplete"),
        (entry(("u1",), ("i1",)), seen("i1"), "incomplete"),
        (entry(), seen("alien"), "unexpected_at_p1"),
        (entry(), seen("alien", "u1"), "unexpected_multistep"),
        (entry(), seen("u1", "alien"), "unexpected_multistep"),
        (entry(), seen("alien", "alien2"), "unexpected_multistep"),
        (entry(), seen("u1", RESTORE), "restored"),
        (entry(("u1", "u2"), post=PIN + 2), seen("u1", RESTORE), "restored"),
        (entry(), seen("u1", "alien", RESTORE), "unexpected_multistep"),
        (entry(), seen("u1", RESTORE, "alien"), "unexpected_multistep"),
        (entry(), Observation(PIN - 1), "invariant_violation"),
        (entry(), Observation(0), "invariant_violation"),
    ],
)
def test_uuids_prove_ownership_for_every_writer(writer, table_entry, observed, expected):
    assert judged(writer, table_entry, observed) == expected


@pytest.mark.parametrize("writer", WRITERS)
def test_the_first_version_of_a_table_being_made_is_ours(writer):
    made = entry((), post=1, dataset=True)
    first = ("whatever", TransactionKind.OVERWRITE)
    assert judged(writer, made, seen(first, first=1)) == "rolled_past_expected"
    assert judged(writer, made, seen(first, "alien", first=1)) == "unexpected_multistep"


@pytest.mark.parametrize("writer", MAINTENANCE)
@pytest.mark.parametrize("operation", CONTENT_PRESERVING)
def test_maintenance_owns_what_keeps_the_content(writer, operation):
    assert judged(writer, entry(()), seen(("any", operation))) == "rolled_past_expected"
    two = entry((), post=PIN + 2)
    assert judged(writer, two, seen(("any", operation))) == "incomplete"
    assert judged(writer, two, seen(("a", operation), ("b", operation))) == "rolled_past_expected"
    assert judged(writer, two, seen(("a", operation), "alien")) == "unexpected_multistep"


@pytest.mark.parametrize("done", range(len(SCHEMA) + 1))
def test_a_schema_apply_is_as_far_as_its_uuids_say(done):
    # A crossing rename half-way has columns of the right names and types with the wrong values.
    uuids = ("u1", "u2", "u3")
    wanted = entry(uuids, post=PIN + 3)
    landed = list(zip(uuids, SCHEMA, strict=True))[:done]
    expected = {0: "no_movement", 3: "rolled_past_expected"}.get(done, "incomplete")
    assert judged("schema_apply", wanted, seen(*landed)) == expected
    if done:
        foreign = seen(*landed, ("alien", TransactionKind.PROJECT))
        assert judged("schema_apply", wanted, foreign) == "unexpected_multistep"


@pytest.mark.parametrize(
    ("writers", "operations"),
    [
        (DATA_WRITERS, tuple(TransactionKind)),
        (MAINTENANCE, CHANGING),
    ],
)
def test_everything_else_without_our_uuid_is_foreign(writers, operations):
    for writer, operation in itertools.product(writers, operations):
        assert not is_by_writer(writer, operation)
        alien = seen(("alien", operation))
        assert judged(writer, entry(), alien) == "unexpected_at_p1", (writer, operation)
        assert judged(writer, entry(), seen("u1", ("alien", operation))) == "unexpected_multistep"


def test_the_pin_of_now_counts_not_the_one_of_then():
    observed = Observation(9, (TransactionFacts(9, "u1", TransactionKind.APPEND, 8),))
    assert classify("load", entry(post=PIN + 1), 8, observed, OPERATION_ID) == (
        TableClass.ROLLED_PAST_EXPECTED
    )
    assert classify("load", entry(), 9, Observation(9), OPERATION_ID) is TableClass.NO_MOVEMENT


def test_decisions_over_all_pairs_of_classes():
    for writer, *classes in itertools.product(WRITERS, TableClass, TableClass):
        found = set(classes)
        if TableClass.INVARIANT_VIOLATION in found:
            wanted = RecoveryDecision.REFUSE
        elif found == {TableClass.ROLLED_PAST_EXPECTED}:
            wanted = RecoveryDecision.ROLL_FORWARD
        elif writer not in MAINTENANCE or found == {TableClass.NO_MOVEMENT}:
            wanted = RecoveryDecision.ROLL_BACK
        else:
            # Content stays the same, however far maintenance came.
            ours = {TableClass.ROLLED_PAST_EXPECTED, TableClass.INCOMPLETE, TableClass.NO_MOVEMENT}
            wanted = RecoveryDecision.ROLL_FORWARD if found <= ours else RecoveryDecision.ROLL_BACK
        assert decide(writer, classes) is wanted, (writer, classes)
        broken = decide(writer, classes, expectations_hold=False)
        assert broken is (
            RecoveryDecision.ROLL_BACK if wanted is RecoveryDecision.ROLL_FORWARD else wanted
        )


def test_only_what_we_alone_moved_is_restored():
    restorable = {one for one in TableClass if is_restorable(one)}
    foreign = {one for one in TableClass if is_foreign(one)}
    assert restorable == {TableClass.ROLLED_PAST_EXPECTED, TableClass.INCOMPLETE}
    assert foreign == {TableClass.UNEXPECTED_AT_P1, TableClass.UNEXPECTED_MULTISTEP}


def test_derived_names_are_stable_and_differ():
    operations = [f"01HZZZZZZZZZZZZZZZZZZZZZ{n:02}" for n in range(50)]
    commits = [rollback_commit_id(one) for one in operations]
    assert commits == [rollback_commit_id(one) for one in operations]
    assert len({*commits, *operations}) == 100
    assert all(len(one) == 26 and one[:10] == operations[0][:10] for one in commits)
    assert len({restore_uuid(op, at) for op in operations for at in ("a", "b")}) == 100
