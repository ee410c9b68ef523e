"""Bring a planned merge into the target branch: stage, take the locks, check again, commit.

Files are staged before any lock is taken, except those of tables that the branch has not forked yet.
Under the locks the target must still have the content that was compared. Maintenance that came in
between changes none: the rows are then staged again on the tables as they are now.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from omnigraph.commit.changes import TableChange, Write, Writer
from omnigraph.commit.heal import run_healing
from omnigraph.commit.protocol import commit_under_locks, stage
from omnigraph.commit.staging import lock_purpose, needs_fork, stage_early
from omnigraph.commit.whole_branch import hold_branch
from omnigraph.manifest.history.streams import StreamRecord
from omnigraph.manifest.manifest import BranchState
from omnigraph.manifest.publisher import Intent
from omnigraph.manifest.rows import GraphCommit, TableState
from omnigraph.manifest.workspace import Workspace
from omnigraph.write.merge.three_way import Plan


class PlanAgain(Exception):
    """A table that was to be taken over has its own fork now, so its rows are needed after all."""


@dataclass(frozen=True, slots=True)
class Publication:
    """A merge that is ready for its target.

    ``before`` is the target as it was compared. ``adopted`` are records of commits that it lacks, and
    ``streams`` the newer batches of streams that come with them.
    ``check`` is called under the locks, and raises if the merge must not go on.
    """

    writer: Writer
    before: BranchState
    plan: Plan
    intent: Intent
    check: Callable[[], None]
    adopted: tuple[GraphCommit, ...] = ()
    streams: tuple[StreamRecord, ...] = ()


def publish_merge(workspace: Workspace, merge: Publication) -> GraphCommit:
    """Commit the merge, after finishing what dead writers left on its way."""
    return run_healing(workspace, lambda: _publish(workspace, merge))


def _publish(workspace: Workspace, merge: Publication) -> GraphCommit:
    write = _write(merge, merge.before)
    staged = stage(workspace, write)
    with hold_branch(workspace, merge.before, lock_purpose(write)) as branch:
        merge.check()
        if branch.state.pin != merge.before.pin:
            write = _write(merge, branch.state)
            staged = stage_early(workspace, write)
        return commit_under_locks(workspace, write, staged, branch.held)


def _write(merge: Publication, state: BranchState) -> Write:
    """Return the write of a merge on a state of its target; it rests on every table of the branch."""
    changes: list[TableChange] = []
    taken_over: list[TableState] = []
    for key, merged in merge.plan.tables.items():
        pin = state.head.tables[key]
        if merged.taken_over is None:
            changes.append(merged.change(pin))
        elif needs_fork(pin, state.name):
            taken_over.append(merged.taken_over)
        else:
            raise PlanAgain
    moved = {change.base.table_key for change in changes}
    return Write(
        writer=merge.writer,
        pin=state.pin,
        intent=merge.intent,
        tables=tuple(changes),
        relied_on=tuple(pin for key, pin in state.head.tables.items() if key not in moved),
        taken_over=tuple(taken_over),
        adopted=merge.adopted,
        streams=merge.streams,
        exact_head=True,
        takes_graph_lock=True,
        ir_hash=state.head.ir_hash,
    )
