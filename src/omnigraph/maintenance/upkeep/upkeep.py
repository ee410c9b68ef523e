"""Put tables of a branch in shape, in one commit.

The locks are taken first, without waiting: while they are held no other writer can commit first, so no work
is wasted. What is done to a table is decided by ``table_work``, with little effort.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from omnigraph.commit.attempts import Attempt
from omnigraph.commit.changes import TableChange
from omnigraph.commit.phases.marking import marked
from omnigraph.commit.sidecar import list_sidecars
from omnigraph.errors import Contention, SchemaApplyInProgress
from omnigraph.maintenance.committing import commit_changed
from omnigraph.maintenance.effort import Effort
from omnigraph.maintenance.table_work import table_work
from omnigraph.maintenance.work_steps import Outcome, prepare
from omnigraph.manifest.actors import MAINTENANCE_ACTOR
from omnigraph.manifest.manifest import BranchState
from omnigraph.manifest.rows import GraphCommit, TableState
from omnigraph.manifest.workspace import Workspace, lance_branch
from omnigraph.storage.locks.locks import HeldLocks
from omnigraph.storage.locks.waiting import Patience, Purpose
from omnigraph.storage.tables.table import open_table


class OthersAtWork(Exception):
    """A lock is taken, or an operation is not settled yet: nothing was done."""


def keep_in_shape(
    workspace: Workspace, branch: str, tables: Sequence[TableState]
) -> GraphCommit | None:
    """Do the upkeep of these tables of a branch, as far as they still need it; return its commit."""
    with _hold(workspace, branch, tables) as held, marked(workspace, "optimize"):
        state = workspace.manifest.state(branch)
        if list_sidecars(workspace, state.head.graph_id):
            raise OthersAtWork("an operation is not settled yet")
        changes = tuple(_changes(workspace, state, {table.incarnation for table in tables}))
        attempt = Attempt(workspace, state, Patience(0), held)
        return commit_changed(attempt, "optimize", changes, MAINTENANCE_ACTOR)


def _hold(workspace: Workspace, branch: str, tables: Sequence[TableState]) -> HeldLocks:
    names = {workspace.lock_name(table.location, branch) for table in tables}
    try:
        return workspace.locks.acquire(names, Patience(0), Purpose("optimize", slow=True))
    except (Contention, SchemaApplyInProgress) as taken:
        raise OthersAtWork(str(taken)) from taken


def _changes(
    workspace: Workspace, state: BranchState, incarnations: set[int]
) -> Iterator[TableChange]:
    for pin in state.head.tables.values():
        if pin.incarnation not in incarnations or pin.table_branch != lance_branch(state.name):
            continue
        table = open_table(workspace.pinned(pin))
        work = table_work(table, None, Effort.LIGHT)
        if work.is_due:
            yield TableChange(pin, prepare(work, table).steps(Outcome(pin.table_key)))
