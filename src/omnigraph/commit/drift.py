"""The drift guard: under the locks, HEAD of a table to be written must be the pinned version.

If the table is ahead of its pin, a pending sidecar may explain it:

1. No sidecar covers the table: ``Drift``, which a person has to look at.
2. The writer of the sidecar is alive: ``Contention``, try again later (``SchemaApplyInProgress``
   if it is a schema apply).
3. The writer is dead: ``HealFirst``. The caller heals and tries again; if the heal finds that the
   operation needs a rollback, the caller gets ``RecoveryRequired``.

For example, pin 4 and HEAD 5 with a sidecar of a writer that died after its table commit raises
``HealFirst``; after healing the pin is 5 and the write goes on.
"""

from __future__ import annotations

from omnigraph.commit.sidecar import Sidecar, list_sidecars
from omnigraph.errors import (
    Contention,
    Drift,
    OmniGraphError,
    RecoveryRequired,
    SchemaApplyInProgress,
    StorageError,
)
from omnigraph.manifest.rows import TableState
from omnigraph.manifest.workspace import Workspace
from omnigraph.storage.locks.locks import HeldLocks
from omnigraph.storage.tables.table import Table, opened_at


class HealFirst(Exception):
    """A dead writer left pending work on a table; heal and try again."""


def open_undrifted(
    workspace: Workspace,
    pin: TableState,
    graph_id: str,
    branch: str,
    held: HeldLocks,
    opened: Table | None = None,
) -> Table:
    """Open the table at its pin, after checking that the pin is HEAD; otherwise raise.

    ``opened``: a table that the writer has open already; it is taken if it is at the pin, and that is still there.
    """
    if opened is not None and not opened.has_version(opened.version):
        opened = None
    table = opened_at(workspace.pinned(pin), opened)
    if table.is_head():
        return table
    raise drift_error(workspace, pin, graph_id, branch, held, table.head_version())


def drift_error(
    workspace: Workspace, pin: TableState, graph_id: str, branch: str, held: HeldLocks, head: int
) -> Exception:
    """Return the exception for a writer that meets a table ahead of its pin."""
    where = f"{pin.table_key} on branch `{branch}`"
    facts = {"table_key": pin.table_key, "pinned": pin.table_version, "head": head}
    try:
        covering = [
            sidecar
            for sidecar in list_sidecars(workspace, graph_id)
            if sidecar.branch == branch and covers(sidecar, pin.location)
        ]
    except (StorageError, OmniGraphError) as error:
        return Drift(
            f"{where} is at version {head}, ahead of its pin {pin.table_version}, and the pending "
            f"recoveries cannot be listed ({error}): once they can, reopen the graph read-write; "
            "if none is pending, run omnigraph repair",
            **facts,
        )
    if not covering:
        return Drift(
            f"{where} is at version {head}, ahead of its pin {pin.table_version}, and no pending "
            "operation explains it: run omnigraph repair",
            **facts,
        )
    for sidecar in covering:
        if _is_live(workspace, sidecar, held):
            if sidecar.writer == "schema_apply":
                return SchemaApplyInProgress(
                    f"a schema apply is in the middle of its commit to {where}; try again",
                    operation_id=sidecar.operation_id,
                )
            return Contention(
                f"another writer is in the middle of a commit to {where}; try again",
                attempts=1,
                operation_id=sidecar.operation_id,
            )
    return HealFirst(covering[0].operation_id)


def rollback_needed(operation_id: str) -> RecoveryRequired:
    """Return the error for a write that is blocked by an operation only a read-write open can undo."""
    return RecoveryRequired(
        f"operation {operation_id} stopped half way and must be rolled back: reopen the graph "
        "read-write",
        operation_id=operation_id,
    )


def being_recovered(operation_id: str) -> Contention:
    """Return the error for a write that is blocked by an operation which another process settles."""
    return Contention(
        f"another process is settling operation {operation_id}, which is in the way; try again",
        attempts=1,
        operation_id=operation_id,
    )


def covers(sidecar: Sidecar, location: str) -> bool:
    """Return whether the operation of a sidecar moves the table at this location."""
    return any(entry.base.location == location for entry in sidecar.tables)


def _is_live(workspace: Workspace, sidecar: Sidecar, held: HeldLocks) -> bool:
    """Return whether the writer of a sidecar still holds a lock.

    Locks that this process holds itself say nothing about the other writer, so they are left out.
    """
    others = [name for name in sidecar.locks if name not in held.names]
    return any(workspace.locks.is_locked_by_other(name) for name in others)
