"""When recovery runs: fully at a read-write open, and only rolling forward at every write.

1. List the pending sidecars.
2. Try to take the locks each writer holds from before Phase A until after Phase D. If they cannot
   be taken, the writer is alive and its operation is left alone ("in flight").
3. Recover the operation. If another pending operation moved one of its tables, that one goes first.

For example, a writer that died after Phase B leaves its sidecar behind; the next write rolls it
forward. One that died in the middle of Phase B is ``deferred`` by every write and rolled back by
the next read-write open, because a restore beside running writers can lose an append.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TypeVar

from omnigraph.cancel import shielded
from omnigraph.commit.audit import Recovery
from omnigraph.commit.changes import RELOCATE
from omnigraph.commit.drift import HealFirst, being_recovered, rollback_needed
from omnigraph.commit.phases.marking import marked, note_left_files
from omnigraph.commit.recovery import OthersFirst, needs_rollback, recover
from omnigraph.commit.sidecar import Sidecar, is_pending, list_sidecars
from omnigraph.errors import Contention, SchemaApplyInProgress
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.workspace import Workspace
from omnigraph.storage.full_disk import keep_reserve, with_reserve
from omnigraph.storage.locks.locks import HeldLocks

Result = TypeVar("Result")


@dataclass
class HealReport:
    """What one pass over the sidecars did with each operation."""

    recovered: list[Recovery] = field(default_factory=list)
    deferred: list[Sidecar] = field(default_factory=list)
    in_flight: list[Sidecar] = field(default_factory=list)

    def refuse_deferred(self, operation_id: str | None) -> None:
        """Raise if this operation was looked at under its locks and must be rolled back."""
        if any(one.operation_id == operation_id for one in self.deferred):
            raise rollback_needed(str(operation_id))


def heal(workspace: Workspace) -> HealReport:
    """Roll forward what dead writers completed; what needs a rollback is left for an open."""
    return _with_room(workspace, may_roll_back=False)


def sweep(workspace: Workspace, under: HeldLocks | None = None) -> HealReport:
    """Recover the operation of every dead writer, forward or back.

    ``under`` are locks that the caller holds already. It settles the graph at a new place, and its own
    operation is not looked at.
    """
    return _with_room(workspace, may_roll_back=True, under=under)


def _with_room(
    workspace: Workspace, *, may_roll_back: bool, under: HeldLocks | None = None
) -> HealReport:
    """Recover also on a full disk, out of the reserve that the graph keeps for that."""
    with shielded():
        keep_reserve(workspace.root)
        return with_reserve(
            workspace.root,
            lambda: _recover_pending(workspace, may_roll_back=may_roll_back, under=under),
        )


def run_healing(workspace: Workspace, work: Callable[[], Result]) -> Result:
    """Run the work; if a dead writer is in its way, finish that one's work and run it once more."""
    with marked(workspace, "write"):
        for _ in range(2):
            try:
                return work()
            except HealFirst as first:
                blocked_by = str(first)
                note_left_files(workspace)
                heal(workspace).refuse_deferred(blocked_by)
        raise being_recovered(blocked_by)


def refuse_rollbacks(
    workspace: Workspace, branches: Collection[str], *, read_only: bool = False
) -> None:
    """Heal, and refuse if an operation on one of these branches is left that must be rolled back.

    With ``read_only`` nothing is finished, and a lock that seems held counts as held.
    """
    if read_only:
        graph_id = workspace.manifest.state(MAIN).head.graph_id
        left = [one for one in list_sidecars(workspace, graph_id) if _is_stuck(workspace, one)]
    else:
        left = heal(workspace).deferred
    for sidecar in left:
        if sidecar.branch in branches:
            raise rollback_needed(sidecar.operation_id)


def dead_writers(workspace: Workspace) -> list[Sidecar]:
    """Return the operations that dead writers left half way.

    Nothing is finished or written, so a lock that seems held counts as held.
    """
    graph_id = workspace.manifest.state(MAIN).head.graph_id
    return [
        one
        for one in list_sidecars(workspace, graph_id)
        if not _seems_alive(workspace, one) and is_pending(workspace, one)
    ]


def _is_stuck(workspace: Workspace, sidecar: Sidecar) -> bool:
    """Return whether the writer of a sidecar is dead and its operation must be rolled back."""
    return not _seems_alive(workspace, sidecar) and needs_rollback(workspace, sidecar)


def _seems_alive(workspace: Workspace, sidecar: Sidecar) -> bool:
    return any(workspace.locks.seems_held(name) for name in sidecar.locks)


def _recover_pending(
    workspace: Workspace, *, may_roll_back: bool, under: HeldLocks | None = None
) -> HealReport:
    """Recover one pending operation after the other, each under the locks of its writer."""
    report = HealReport()
    graph_id = workspace.manifest.state(MAIN).head.graph_id
    waiting = list_sidecars(workspace, graph_id)
    if under is not None:
        waiting = [one for one in waiting if one.writer != RELOCATE]
    postponed: set[str] = set()
    while waiting:
        sidecar = waiting.pop(0)
        held = _take_writer_locks(workspace, sidecar, patient=may_roll_back, under=under)
        if held is None:
            report.in_flight.append(sidecar)
            continue
        # Each is postponed once at most, so that two that wait for each other both get settled.
        others = [] if sidecar.operation_id in postponed else waiting
        with held, marked(workspace, "recovery"):
            if not is_pending(workspace, sidecar):
                continue
            try:
                recovery = recover(workspace, sidecar, held, others, may_roll_back=may_roll_back)
            except OthersFirst:
                postponed.add(sidecar.operation_id)
                waiting.append(sidecar)
                continue
        if recovery is None:
            report.deferred.append(sidecar)
        else:
            report.recovered.append(recovery)
    return report


def _take_writer_locks(
    workspace: Workspace, sidecar: Sidecar, *, patient: bool, under: HeldLocks | None
) -> HeldLocks | None:
    """Take the locks of a dead writer; return None while it is alive.

    On a local disk the operating system freed them when the process died. A lease on an object
    store ends only after its period: an open waits for that, a write does not.
    """
    have = () if under is None else under.names
    names = [name for name in sidecar.locks if name not in have]
    if any(workspace.locks.is_mine(name) for name in names):
        return None  # its writer is further up in this very thread
    if not patient or workspace.root.is_local:
        return workspace.locks.try_acquire(names)
    try:
        return workspace.locks.acquire(names)
    except (Contention, SchemaApplyInProgress):
        return None
