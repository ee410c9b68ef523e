"""Finish moves that were begun but never written down in the ledger, or say why they cannot be finished."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from omnigraph.cluster.declared.diagnostics import Code, Diagnostics
from omnigraph.cluster.declared.resources import graph_address, graph_of, schema_address
from omnigraph.cluster.graphs import delete_at, look_at
from omnigraph.cluster.outcomes import Outcome, RootContents, decide
from omnigraph.cluster.stored.ledger import AppliedResource, Ledger
from omnigraph.cluster.stored.recovery_files import (
    Approval,
    RecoveryFile,
    read_approvals,
    read_recoveries,
    remove_recovery,
    shown,
    use_approval,
)
from omnigraph.cluster.stored.times import now_text
from omnigraph.errors import OmniGraphError
from omnigraph.maintenance.delete_graph import withdraw
from omnigraph.storage.objects.object_store import ObjectStore
from omnigraph.storage.objects.stores import open_store
from omnigraph.storage.uris import Root


@dataclass(slots=True)
class Swept:
    """What was found: the ledger brought up to the graphs, and the files to remove once it is written."""

    ledger: Ledger
    done: list[RecoveryFile] = field(default_factory=list)
    pending: set[str] = field(default_factory=set)
    """Graphs whose recovery could not be finished."""


def find_pending(
    store: ObjectStore, ledger: Ledger, diagnostics: Diagnostics
) -> list[tuple[RecoveryFile, RootContents, Outcome]]:
    """Return every recovery file with what is seen of its graph and what to do about it. Nothing is written."""
    records, strange = read_recoveries(store)
    for name in strange:
        diagnostics.error(
            Code.CLUSTER_RECOVERY_UNATTRIBUTED,
            name,
            "this is no recovery file of this release; move it away, or upgrade omnigraph",
        )
    used = {one.consumed_by_operation for one in read_approvals(store)} if records else set()
    found = []
    for record in records:
        seen = look_at(record.graph_uri)
        applied = ledger.digest(schema_address(record.graph_id))
        outcome = decide(record, applied, seen, is_used=record.operation_id in used)
        found.append((record, seen, outcome))
    return found


def sweep(
    store: ObjectStore, ledger: Ledger, diagnostics: Diagnostics, *, acts: bool = True
) -> Swept:
    """Bring the ledger up to what dead commands did to graphs. With ``acts`` off, only say what is pending."""
    swept = Swept(ledger)
    for record, seen, outcome in find_pending(store, ledger, diagnostics):
        if outcome.step == "keep" or not acts:
            _tell(record, seen, outcome, diagnostics)
            if outcome.step == "keep":
                swept.pending.add(record.graph_id)
        elif outcome.step == "drop":
            remove_recovery(store, record, diagnostics)
        elif outcome.step == "retire":
            withdraw(open_store(Root.parse(record.graph_uri)))
            diagnostics.warn(
                Code.GRAPH_DELETE_INCOMPLETE,
                graph_address(record.graph_id),
                "a delete ended before it removed anything, and was taken back",
            )
            remove_recovery(store, record, diagnostics)
        else:
            _forward(store, swept, record, seen, outcome, diagnostics)
    return swept


def _tell(
    record: RecoveryFile, seen: RootContents, outcome: Outcome, diagnostics: Diagnostics
) -> None:
    address = graph_address(record.graph_id)
    if outcome.step == "keep" and outcome.code is not None:
        what = (
            f"it cannot be opened ({seen.message})"
            if seen.message
            else "its schema is neither the old nor the new one"
        )
        diagnostics.error(
            outcome.code,
            address,
            f"{record.operation} {record.operation_id} was not finished, and {what}; look at "
            f"{record.graph_uri}, then run `omnigraph cluster refresh`, or remove {record.name}",
        )
    diagnostics.warn(
        Code.CLUSTER_RECOVERY_PENDING,
        address,
        f"{record.operation} {record.operation_id} was begun at {record.started_at} and is not written "
        "down; apply looks after it",
    )


def _forward(
    store: ObjectStore,
    swept: Swept,
    record: RecoveryFile,
    seen: RootContents,
    outcome: Outcome,
    diagnostics: Diagnostics,
) -> None:
    if outcome.step == "finish":
        try:
            delete_at(record.graph_uri)
        except OmniGraphError as error:
            diagnostics.error(
                Code.GRAPH_DELETE_FAILED, graph_address(record.graph_id), error.message
            )
            swept.pending.add(record.graph_id)
            return
    # Now, and not with the ledger: this command may make the graph again, and be killed.
    if not _use_up(store, record, read_approvals(store), diagnostics):
        swept.pending.add(record.graph_id)
        return
    swept.ledger = replace(
        brought_up(swept.ledger, record, seen),
        recoveries={**swept.ledger.recoveries, record.operation_id: shown(record)},
    )
    diagnostics.warn(
        Code.CLUSTER_RECOVERY_ROLLED_FORWARD,
        graph_address(record.graph_id),
        f"{record.operation} {record.operation_id} had been done, and is written down now",
    )
    swept.done.append(record)


def brought_up(ledger: Ledger, record: RecoveryFile, seen: RootContents) -> Ledger:
    """Return the ledger as a move that was done leaves it."""
    graph, schema = graph_address(record.graph_id), schema_address(record.graph_id)
    if record.operation == "graph_delete":
        gone = [at for at in ledger.resources if graph_of(at) == record.graph_id]
        return ledger.without(*gone)
    assert seen.digest is not None
    ledger = ledger.with_entry(schema, AppliedResource(seen.digest))
    if graph not in ledger.resources:
        ledger = ledger.with_entry(graph, AppliedResource(""))
    return ledger.settled()


def finish(
    store: ObjectStore,
    records: list[RecoveryFile],
    approvals: list[Approval],
    diagnostics: Diagnostics,
) -> None:
    """Use up approvals and remove recovery files, now that the ledger says what was done."""
    for record in records:
        if _use_up(store, record, approvals, diagnostics):
            remove_recovery(store, record, diagnostics)


def _use_up(
    store: ObjectStore, record: RecoveryFile, approvals: list[Approval], diagnostics: Diagnostics
) -> bool:
    """Use up the approval of a delete that was done; return whether that is written down."""
    approval = next((one for one in approvals if one.approval_id == record.approval_id), None)
    if approval is None:
        return True
    return use_approval(store, approval, record.operation_id, now_text(), diagnostics)
