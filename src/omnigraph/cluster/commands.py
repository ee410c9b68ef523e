"""The commands that look: `validate`, `import`, `status`, `refresh`; and `force-unlock`."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace
from typing import Any

from omnigraph.cluster.declared.cluster_yaml import read_root
from omnigraph.cluster.declared.diagnostics import Code, Refused
from omnigraph.cluster.declared.directory import CONFIG_FILE
from omnigraph.cluster.declared.read_resources import Declared, read_declared, require_declared
from omnigraph.cluster.declared.resources import (
    Desired,
    graph_address,
    kind_of,
    schema_address,
)
from omnigraph.cluster.graphs import graph_uri, look_at, observation
from omnigraph.cluster.outcomes import RootContents
from omnigraph.cluster.planning import dependencies
from omnigraph.cluster.stored.catalogue import has_blob, read_blob, unreferenced
from omnigraph.cluster.stored.ledger import STATE_PATH, AppliedResource, Ledger, Status, swap_ledger
from omnigraph.cluster.stored.lock import force_unlock as remove_lock
from omnigraph.cluster.stored.recovery_files import read_approvals, read_recoveries
from omnigraph.cluster.sweep import finish, sweep
from omnigraph.cluster.work import CommandRun, Told, require_ledger
from omnigraph.service.documents import Document


def validate(config_dir: str, reserved: Container[str] = ()) -> Document:
    """Read a directory with everything it names, and return all that is wrong with it."""
    work = CommandRun(config_dir)
    declared: Declared | None = None
    with Told(work):
        declared = read_declared(config_dir, work.diagnostics, reserved)
    desired = Desired(None, {}, {}) if declared is None else declared.desired
    return work.document(
        config_file=CONFIG_FILE,
        config_digest=desired.config_digest if work.diagnostics.is_ok else None,
        resource_digests=desired.digests,
        resources=[
            {"address": at, "kind": kind_of(at), **({"file": one.file} if one.file else {})}
            for at, one in sorted(desired.resources.items())
        ],
        dependencies=dependencies(desired),
    )


def import_cluster(config_dir: str, reserved: Container[str] = ()) -> Document:
    """Make the ledger of a directory, with the graphs that are there already."""
    work = CommandRun(config_dir)
    ledger = Ledger()
    with Told(work):
        declared = require_declared(config_dir, work.diagnostics, reserved)
        work.open(declared.config.root)
        with work.held("import"):
            if work.found.is_there:
                work.diagnostics.error(
                    Code.STATE_ALREADY_EXISTS,
                    STATE_PATH,
                    "there is a ledger already; run plan and apply, or refresh",
                )
                raise Refused
            ledger = _observed(work, declared.desired, ledger, is_import=True)
            if not work.diagnostics.is_ok:
                raise Refused
            for address in declared.desired.resources:
                if address not in ledger.statuses:
                    ledger = ledger.with_status(address, "pending")
            written = swap_ledger(work.store, work.found, ledger, work.diagnostics)
            if written is not None:
                work.found = written
    return work.with_observations(
        operation="import",
        resource_digests={at: one.digest for at, one in sorted(work.ledger.resources.items())},
        **_statuses(ledger),
    )


def refresh(config_dir: str, reserved: Container[str] = ()) -> Document:
    """Look at every graph and blob again, and write down what is seen."""
    work = CommandRun(config_dir)
    ledger = Ledger()
    with Told(work):
        declared = require_declared(config_dir, work.diagnostics, reserved)
        work.open(declared.config.root)
        with work.held("refresh"):
            require_ledger(work)
            swept = sweep(work.store, work.ledger, work.diagnostics)
            ledger = _observed(work, declared.desired, swept.ledger, is_import=False)
            ledger = _blobs_seen(work, ledger).settled()
            written = swap_ledger(work.store, work.found, ledger, work.diagnostics)
            if written is not None:
                work.found = written
                finish(work.store, swept.done, read_approvals(work.store), work.diagnostics)
    return work.with_observations(**_statuses(ledger))


def _statuses(ledger: Ledger) -> dict[str, Any]:
    return {
        "resource_statuses": {at: dict(one) for at, one in sorted(ledger.statuses.items())},
        "observations": {at: dict(one) for at, one in sorted(ledger.observations.items())},
    }


def _observed(work: CommandRun, desired: Desired, ledger: Ledger, *, is_import: bool) -> Ledger:
    """Return the ledger with what is seen of every graph, applied or declared."""
    assert work.root is not None
    for graph in sorted({*ledger.graphs, *desired.graphs}):
        seen = look_at(graph_uri(work.root, graph))
        wanted = desired.resources.get(schema_address(graph))
        digest = None if wanted is None else wanted.digest
        ledger = replace(
            ledger,
            observations={**ledger.observations, graph_address(graph): observation(seen, digest)},
        )
        if seen.place == "complete":
            ledger = _with_graph(ledger, graph, seen, digest, is_import=is_import)
        elif seen.place == "absent":
            ledger = _without_graph(ledger, graph)
        else:
            work.diagnostics.error(
                Code.GRAPH_OBSERVATION_ERROR,
                graph_address(graph),
                f"what lies at {graph_uri(work.root, graph)} cannot be opened: {seen.message}",
            )
            ledger = ledger.with_status(
                graph_address(graph), "error", seen.message, "graph_observation_error"
            )
    return ledger


def _with_graph(
    ledger: Ledger, graph: str, seen: RootContents, declared: str | None, *, is_import: bool
) -> Ledger:
    address, schema = graph_address(graph), schema_address(graph)
    assert seen.digest is not None
    applied = ledger.digest(schema)
    # A graph that the ledger does not know is taken over: what is declared is what it should be.
    expected = declared if is_import or applied is None else applied
    status: Status = "applied" if seen.digest == expected else "drifted"
    ledger = ledger.with_entry(schema, AppliedResource(seen.digest))
    if address not in ledger.resources:
        ledger = ledger.with_entry(address, AppliedResource(""))
    ledger = ledger.with_status(address, status).with_status(schema, status)
    return ledger.settled()


def _without_graph(ledger: Ledger, graph: str) -> Ledger:
    address, schema = graph_address(graph), schema_address(graph)
    is_known = address in ledger.resources
    status: Status = "drifted" if is_known else "pending"
    conditions = ("graph_missing",) if is_known else ()
    left = {at: one for at, one in ledger.resources.items() if at not in {address, schema}}
    ledger = replace(ledger, resources=left)
    return ledger.with_status(address, status, None, *conditions).with_status(
        schema, status, None, *conditions
    )


def _blobs_seen(work: CommandRun, ledger: Ledger) -> Ledger:
    """Return the ledger without the queries and bundles whose blobs are gone or changed."""
    for address, entry in sorted(ledger.resources.items()):
        if not has_blob(address):
            continue
        found, _, why = read_blob(work.store, address, entry.digest)
        if found == "fits":
            continue
        if found == "payload_read_error":
            work.diagnostics.error(Code.PAYLOAD_READ_ERROR, address, why)
            ledger = ledger.with_status(address, "error", why, found)
        else:
            work.diagnostics.warn(
                Code.CATALOG_PAYLOAD_MISMATCH, address, f"{why}; apply puts it back"
            )
            resources = {at: one for at, one in ledger.resources.items() if at != address}
            ledger = replace(ledger, resources=resources)
            ledger = ledger.with_status(address, "drifted", None, found)
    return ledger


def status(config_dir: str) -> Document:
    """Return what the ledger says, who holds the lock, and whether the blobs are there."""
    work = CommandRun(config_dir)
    statuses: dict[str, Mapping[str, Any]] = {}
    strays = 0
    with Told(work):
        work.open(read_root(config_dir, work.diagnostics))
        work.look()
        statuses = dict(work.ledger.statuses)
        if not work.found.is_there:
            work.diagnostics.warn(
                Code.STATE_MISSING,
                STATE_PATH,
                "there is no ledger yet; run `omnigraph cluster import`",
            )
        for record in read_recoveries(work.store)[0]:
            work.diagnostics.warn(
                Code.CLUSTER_RECOVERY_PENDING,
                graph_address(record.graph_id),
                f"{record.operation} {record.operation_id} was begun at {record.started_at}; apply looks "
                "after it",
            )
        for address, entry in sorted(work.ledger.resources.items()):
            found, why = "fits", ""
            if has_blob(address):
                found, _, why = read_blob(work.store, address, entry.digest)
            if found != "fits":
                work.diagnostics.warn(
                    Code.CATALOG_PAYLOAD_MISMATCH,
                    address,
                    f"{why}; run refresh, then apply",
                )
                word = "error" if found == "payload_read_error" else "drifted"
                statuses[address] = {"status": word, "conditions": [found]}
        strays = unreferenced(work.store, work.ledger)
    return work.with_observations(
        resource_statuses={at: dict(one) for at, one in sorted(statuses.items())},
        unreferenced_blobs=strays,
    )


def force_unlock(config_dir: str, lock_id: str) -> Document:
    """Remove a lock that a dead command left, by its exact id."""
    work = CommandRun(config_dir)
    removed = False
    with Told(work):
        work.open(read_root(config_dir, work.diagnostics))
        work.look()
        removed = remove_lock(work.store, lock_id, work.diagnostics)
        if removed:
            work.holder = None
    return work.with_observations(lock_removed=removed)
