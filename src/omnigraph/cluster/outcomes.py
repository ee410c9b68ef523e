"""What becomes of a move that was begun: (recovery file, ledger, what is seen of the graph) -> outcome.

| operation | graph | outcome |
|---|---|---|
| graph_create | absent / complete / partial | drop / forward / keep |
| schema_apply | schema as in the ledger / as expected / another | drop / forward / keep |
| graph_delete | gone / tombstone without manifest / manifest there | forward / finish / retire |

A delete that used up its approval was done: a graph that is there was made later, and the file is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from omnigraph.cluster.declared.diagnostics import Code
from omnigraph.cluster.stored.recovery_files import RecoveryFile

Place = Literal["absent", "complete", "partial", "tombstone"]
Step = Literal["drop", "forward", "keep", "finish", "retire"]


@dataclass(frozen=True, slots=True)
class RootContents:
    """What lies at the root of a graph: nothing, a graph, something that cannot be opened, or a half-done delete."""

    place: Place
    digest: str | None = None
    """The digest of the accepted schema, if it is a graph."""
    manifest_version: int | None = None
    message: str | None = None
    """Why it cannot be opened."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What to do about a recovery file, and the code to say so by."""

    step: Step
    code: Code | None = None


def decide(
    record: RecoveryFile, applied_digest: str | None, seen: RootContents, *, is_used: bool = False
) -> Outcome:
    """Return what to do.

    ``applied_digest`` is that of the schema in the ledger, ``is_used`` whether a delete has used up its approval.
    """
    if record.operation == "graph_create":
        return _created(seen)
    if record.operation == "schema_apply":
        return _migrated(record, applied_digest, seen)
    return _deleted(seen, is_used)


def _created(seen: RootContents) -> Outcome:
    if seen.place == "absent":
        return Outcome("drop")
    if seen.place == "complete":
        return Outcome("forward", Code.CLUSTER_RECOVERY_ROLLED_FORWARD)
    return Outcome("keep", Code.GRAPH_CREATE_INCOMPLETE)


def _migrated(record: RecoveryFile, applied_digest: str | None, seen: RootContents) -> Outcome:
    if seen.place in {"complete", "absent"} and seen.digest == applied_digest:
        return Outcome("drop")
    if seen.place == "complete" and seen.digest == record.expected_schema_digest:
        return Outcome("forward", Code.CLUSTER_RECOVERY_ROLLED_FORWARD)
    return Outcome("keep", Code.ACTUAL_APPLIED_STATE_PENDING)


def _deleted(seen: RootContents, is_used: bool) -> Outcome:
    if seen.place == "absent":
        return Outcome("forward", Code.CLUSTER_RECOVERY_ROLLED_FORWARD)
    if seen.place == "tombstone":
        return Outcome("finish", Code.CLUSTER_RECOVERY_ROLLED_FORWARD)
    if is_used:
        return Outcome("drop")
    return Outcome("retire", Code.GRAPH_DELETE_INCOMPLETE)
