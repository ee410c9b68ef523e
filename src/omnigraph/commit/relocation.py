"""Settle a graph that lies elsewhere than before: copied, moved, mounted, restored, up to a bucket or down.

Every fork of a table looks for what it inherited at the place where it was made. So the first read-write
open at another root than the recorded one does this, under the graph lock:

A. Write a sidecar: the id that the graph will have, and the commit that will say so.
B. Note in the head of `main` that the forks are being settled, from where on nobody reads them. Make every
   version of every fork find its files at the new place. Recover what dead writers left, whose sidecars
   came along. Refuse a copy without what its manifest names. In a copy, undo what tables hold beyond
   the copied manifest (``commit/unpublished.py``).
C. Write the new place and id into the head of every branch and last, with a commit of operation
   `relocate`, into that of `main`. That publish is what settles the graph.
D. Delete the sidecar.

Every step looks at what is there and is done again after a crash, with the id of the sidecar. A graph that
was moved back in the middle is settled where it lies now and keeps its id.

For example, a copy of the graph 7c1e… at `/old` that is opened at `/new` becomes the graph 90aa…, and its
newest commit has the facts ``{"graph_id": "90aa…", "former_graph_id": "7c1e…", "from": "/old", "to": "/new"}``.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from dataclasses import replace

from omnigraph import failpoints
from omnigraph.cancel import shielded
from omnigraph.clock import new_ulid, stamp_us
from omnigraph.commit.changes import RELOCATE
from omnigraph.commit.heal import sweep
from omnigraph.commit.sidecar import Sidecar, delete_sidecar, list_sidecars, write_sidecar
from omnigraph.commit.unpublished import refuse_incomplete, undo_unpublished
from omnigraph.errors import StorageError
from omnigraph.manifest.actors import MAINTENANCE_ACTOR
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.graph_identity import is_settled
from omnigraph.manifest.manifest import BranchPin, Manifest
from omnigraph.manifest.migrations import refuse_newer
from omnigraph.manifest.publisher import (
    Intent,
    ManifestChanges,
    NewPlace,
    mark_unsettled,
    publish,
    record_place,
)
from omnigraph.manifest.rows import GraphCommit, Head
from omnigraph.manifest.workspace import Workspace
from omnigraph.storage.locks.locks import HeldLocks
from omnigraph.storage.locks.waiting import Purpose
from omnigraph.storage.moved_forks import settle_forks
from omnigraph.storage.objects.stores import probe_compare_and_set, probe_put_if_absent
from omnigraph.storage.tables.lance_import import forget_sessions

logger = logging.getLogger(__name__)

BEFORE_A = failpoints.declare("relocate.before_phase_a")
BEFORE_B = failpoints.declare("relocate.before_phase_b")
AFTER_FORK = failpoints.declare("relocate.after_fork")
AFTER_FORKS = failpoints.declare("relocate.after_forks")
AFTER_B = failpoints.declare("relocate.after_phase_b_before_phase_c")
AFTER_HEAD = failpoints.declare("relocate.after_head")
AFTER_C = failpoints.declare("relocate.after_phase_c_before_phase_d")

FORMER_ID = "former_graph_id"
COPY_ID = "copy_graph_id"
"""The id that a graph had while it passed for a copy."""


def settle(workspace: Workspace, *, keep_id: bool = False) -> GraphCommit | None:
    """Settle the graph where it lies, unless it is; return the commit that says so, if one was made.

    It becomes a graph of its own with an id of its own. ``keep_id``: the original is gone, so this is it.
    """
    refuse_newer(workspace.manifest.state(MAIN).table)
    lock = workspace.locks.graph_lock()
    with shielded(), workspace.locks.acquire(lock, None, Purpose(RELOCATE, slow=True)) as held:
        commit = _settle(workspace, held, keep_id)
    workspace.manifest.begin_anew()
    return commit


def take_back_id(workspace: Workspace) -> GraphCommit | None:
    """Give a copy the id of its original, which is gone; None if the graph is no copy.

    Those who knew the original go on with it: their cursors hold again.
    """
    lock = workspace.locks.graph_lock()
    with shielded(), workspace.locks.acquire(lock, None, Purpose(RELOCATE)) as held:
        manifest = Manifest(workspace.root, workspace.store, relocating=True)
        head = manifest.state(MAIN).head
        if not head.is_copy:
            return None
        own = replace(workspace, manifest=manifest)
        *older, former = head.former_ids
        place = NewPlace(head.root, former, (*older, head.graph_id))
        facts = {"graph_id": former, COPY_ID: head.graph_id, "from": head.root, "to": head.root}
        sidecar = _sidecar(head, held, facts)
        write_sidecar(own, sidecar)
        mark_unsettled(manifest)
        commit = _record(own, held, sidecar, place)
    workspace.manifest.begin_anew()
    return commit


def _settle(workspace: Workspace, held: HeldLocks, keep_id: bool) -> GraphCommit | None:
    """Go through the phases; the caller holds the graph lock."""
    manifest = Manifest(workspace.root, workspace.store, relocating=True)
    own = replace(workspace, manifest=manifest)
    head = manifest.state(MAIN).head
    if is_settled(head, own.root):
        return None  # another process was faster
    # Commits rely on what the store promises, and this one may be another than before.
    probe_put_if_absent(own.store)
    probe_compare_and_set(own.store)
    failpoints.hit(BEFORE_A)
    sidecar = _phase_a(own, held, head, keep_id)
    failpoints.hit(BEFORE_B)
    held.check()
    mark_unsettled(manifest)
    changed = settle_forks(own.root, own.store, AFTER_FORK.hit)
    logger.info("%d versions of forks look for their files at %s now", changed, own.root)
    # What Lance has read of forks so far was about their files at the old place.
    forget_sessions()
    manifest.begin_anew()
    failpoints.hit(AFTER_FORKS)
    sweep(own, held)
    refuse_incomplete(own)
    if FORMER_ID in sidecar.intent.facts:
        undo_unpublished(own, held)
    failpoints.hit(AFTER_B)
    return _record(own, held, sidecar, _place(own, sidecar))


def _phase_a(workspace: Workspace, held: HeldLocks, head: Head, keep_id: bool) -> Sidecar:
    """Return the sidecar of this operation: that of an earlier try, if it was the same one."""
    is_back = head.root == workspace.root.canonical
    former = None if keep_id or is_back else head.graph_id
    for left in list_sidecars(workspace, head.graph_id):
        if left.writer != RELOCATE:
            continue
        facts = left.intent.facts
        is_same = facts.get(FORMER_ID) == former and COPY_ID not in facts
        if facts["to"] == workspace.root.canonical and is_same:
            return left
        delete_sidecar(workspace, left)
    facts = {"graph_id": head.graph_id}
    if former is not None:
        facts = {"graph_id": str(uuid.uuid4()), FORMER_ID: former}
    facts |= {"from": head.root, "to": workspace.root.canonical}
    sidecar = _sidecar(head, held, facts)
    write_sidecar(workspace, sidecar)
    return sidecar


def _sidecar(head: Head, held: HeldLocks, facts: dict[str, str]) -> Sidecar:
    return Sidecar(
        operation_id=new_ulid(),
        graph_id=head.graph_id,
        writer=RELOCATE,
        pin=BranchPin(MAIN, None, head.commit.graph_commit_id),
        intent=Intent(new_ulid(), RELOCATE, stamp_us(), MAINTENANCE_ACTOR, facts=facts),
        tables=(),
        expected=(),
        locks=held.names,
        owner={**held.owner.as_json(), "locks": held.name},
    )


def _place(workspace: Workspace, sidecar: Sidecar) -> NewPlace:
    """Return what the heads will say."""
    head, facts = workspace.manifest.state(MAIN).head, sidecar.intent.facts
    if FORMER_ID in facts:
        return NewPlace(facts["to"], facts["graph_id"], (*head.former_ids, head.graph_id), True)
    return NewPlace(facts["to"], head.graph_id, head.former_ids, head.is_copy and _is_back(facts))


def _is_back(facts: Mapping[str, str]) -> bool:
    """Return whether the graph lies where it was before somebody began to settle it elsewhere."""
    return facts["from"] == facts["to"] and COPY_ID not in facts


def _record(
    workspace: Workspace, held: HeldLocks, sidecar: Sidecar, place: NewPlace
) -> GraphCommit | None:
    """Phases C and D: write the place into all heads, that of `main` last."""
    manifest, facts = workspace.manifest, sidecar.intent.facts
    for branch in manifest.branch_names():
        held.check()
        record_place(manifest, branch, place)
        failpoints.hit(AFTER_HEAD)
    held.check()
    commit = None
    if _is_back(facts):
        record_place(manifest, MAIN, place)  # it is back where it was, as if nothing had happened
    else:
        commit = publish(
            manifest,
            MAIN,
            ManifestChanges(place=place),
            (),
            sidecar.intent,
            unchecked=True,
            may_have_landed=True,
        )
    failpoints.hit(AFTER_C)
    try:
        delete_sidecar(workspace, sidecar)
    except StorageError as error:
        logger.warning("the sidecar %s stays for the next open: %s", sidecar.name, error)
    return commit
