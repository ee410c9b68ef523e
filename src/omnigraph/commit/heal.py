"""When recovery runs: a full sweep at a read-write open, roll-forward only at every write.

Nobody is recovered from under a live writer: recovery needs the locks the writer holds from before
Phase A until after Phase D. A sidecar whose locks cannot be had is in flight and left alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from omnigraph.commit.audit import Recovery
from omnigraph.commit.recovery import OthersFirst, recover
from omnigraph.commit.sidecar import Sidecar, is_pending, list_sidecars
from omnigraph.errors import Contention
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.workspace import Workspace
from omnigraph.storage.locks.locks import HeldLocks


@dataclass
class Healed:
    """What a pass over the sidecars did."""

    recovered: list[Recovery] = field(default_factory=list)
    deferred: list[Sidecar] = field(default_factory=list)
    in_flight: list[Sidecar] = field(default_factory=list)


def heal(workspace: Workspace) -> Healed:
    """Roll forward what dead writers finished; what needs a rollback waits for an open."""
    return _pass(workspace, may_roll_back=False)


def sweep(workspace: Workspace) -> Healed:
    """Recover every dead writer's operation, forward or back."""
    return _pass(workspace, may_roll_back=True)


def _pass(workspace: Workspace, *, may_roll_back: bool) -> Healed:
    healed = Healed()
    graph_id = workspace.manifest.state(MAIN).head.graph_id
    waiting = list_sidecars(workspace, graph_id)
    postponed: set[str] = set()
    while waiting:
        sidecar = waiting.pop(0)
        held = _writers_locks(workspace, sidecar, patient=may_roll_back)
        if held is None:
            healed.in_flight.append(sidecar)
            continue
        # Each is put off once at the most, so that two that wait for each other both come to an end.
        others = [] if sidecar.operation_id in postponed else waiting
        with held:
            if not is_pending(workspace, sidecar):
                continue
            try:
                recovery = recover(workspace, sidecar, held, others, may_roll_back=may_roll_back)
            except OthersFirst:
                postponed.add(sidecar.operation_id)
                waiting.append(sidecar)
                continue
        if recovery is None:
            healed.deferred.append(sidecar)
        else:
            healed.recovered.append(recovery)
    return healed


def _writers_locks(workspace: Workspace, sidecar: Sidecar, *, patient: bool) -> HeldLocks | None:
    """The locks of a dead writer, or None while it lives.

    On a local disk the system freed them when it died. A lease ends only after its period, which
    an open waits for and a write does not.
    """
    if any(workspace.locks.is_mine(name) for name in sidecar.locks):
        return None  # its writer is further up in this very thread
    if not patient or workspace.root.is_local:
        return workspace.locks.try_acquire(sidecar.locks)
    try:
        return workspace.locks.acquire(sidecar.locks)
    except Contention:
        return None
