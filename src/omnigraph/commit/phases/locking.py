"""Which locks a write needs from its checks to Phase D, and what others see while they wait for them."""

from __future__ import annotations

from omnigraph.commit.changes import StagedStep, TableChange, Write
from omnigraph.commit.staging import needs_fork
from omnigraph.manifest.workspace import Workspace
from omnigraph.storage.locks.waiting import Purpose


class MoreLocks(Exception):
    """The write touches tables whose locks the caller does not hold."""


def lock_names(workspace: Workspace, write: Write) -> set[str]:
    """Return the names of the locks a write needs from its checks to Phase D."""
    tables = [*write.expected, *(new.state for new in write.created)]
    names = {workspace.lock_name(table.location, write.branch) for table in tables}
    if write.exact_head or write.touches_no_table:
        names.add(workspace.locks.head_lock(write.branch))
    one_at_a_time = write.intent.operation_id if write.batch is None else write.batch.stream_key
    if one_at_a_time is not None and not write.exact_head:
        # Two writes of one id, or of one stream, may touch different tables; whoever needs the exact
        # head locks them all.
        names.add(workspace.locks.operation_lock(write.branch, one_at_a_time))
    if write.takes_graph_lock:
        names.add(workspace.locks.graph_lock())
    return names


def lock_purpose(write: Write) -> Purpose:
    """Return what other writers see while they wait: who holds the locks, and whether it takes long."""
    slow = write.is_large or any(
        needs_fork(change.base, write.branch) or not _is_staged_early(change)
        for change in write.tables
    )
    return Purpose(write.writer, slow)


def _is_staged_early(change: TableChange) -> bool:
    """Return whether everything the table needs is staged before its lock is taken."""
    first, *others = change.steps
    return isinstance(first, StagedStep) and not first.best_effort and not others
