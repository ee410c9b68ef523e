"""The drift guard: under the locks, a written table's HEAD must be its pin.

What to do about a table that is ahead depends on what covers it: a pending sidecar that can be
rolled forward (heal and try again), one that needs a rollback, one of a live writer, or nothing.
"""

from __future__ import annotations

from omnigraph.commit.sidecar import Sidecar, list_sidecars
from omnigraph.errors import Contention, Drift, OmniGraphError, RecoveryRequired, StorageError
from omnigraph.manifest.rows import TableState
from omnigraph.manifest.workspace import Workspace
from omnigraph.storage.locks.locks import HeldLocks
from omnigraph.storage.tables.table import Table, open_table


class HealFirst(Exception):
    """A dead writer's finished work lies in the way; healing it clears the path."""


def open_undrifted(
    workspace: Workspace, pin: TableState, graph_id: str, branch: str, held: HeldLocks
) -> Table:
    """The table at its pin, which is its HEAD; any drift is an error that says what to do."""
    table = open_table(workspace.pinned(pin))
    if table.is_head():
        return table
    raise drift_error(workspace, pin, graph_id, branch, held, table.head_version())


def drift_error(
    workspace: Workspace, pin: TableState, graph_id: str, branch: str, held: HeldLocks, head: int
) -> Exception:
    """What a table that is ahead of its pin means for the writer that met it."""
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
            return Contention(
                f"another writer is in the middle of a commit to {where}; try again",
                attempts=1,
                operation_id=sidecar.operation_id,
            )
    return HealFirst(covering[0].operation_id)


def rollback_needed(operation_id: str) -> RecoveryRequired:
    """The error for a write that meets an operation only a read-write open can undo."""
    return RecoveryRequired(
        f"operation {operation_id} stopped half way and must be rolled back: reopen the graph "
        "read-write",
        operation_id=operation_id,
    )


def covers(sidecar: Sidecar, location: str) -> bool:
    """Whether an operation moves the table."""
    return any(entry.base.location == location for entry in sidecar.tables)


def _is_live(workspace: Workspace, sidecar: Sidecar, held: HeldLocks) -> bool:
    """Whether the writer still holds a lock that we do not hold ourselves."""
    others = [name for name in sidecar.locks if name not in held.names]
    return any(workspace.locks.is_locked_by_other(name) for name in others)
