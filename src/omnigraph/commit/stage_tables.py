"""What a write does before its commit: stage the first step of each table, and name the locks it needs.

The staged files are unreferenced until the commit. Tables that must be forked first are skipped: a
write staged on the parent and committed on the fork would leave the fork unreadable.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait

from omnigraph.cancel import SIGNAL_SECONDS, look
from omnigraph.commit.changes import StagedStep, TableChange, Write
from omnigraph.cores import usable_cores
from omnigraph.manifest.rows import TableState
from omnigraph.manifest.workspace import Workspace, lance_branch
from omnigraph.storage.locks.waiting import Purpose
from omnigraph.storage.tables.staging import Staged, with_uuid
from omnigraph.storage.tables.table import Table, open_table
from omnigraph.storage.tables.table_ref import TableRef


def needs_fork(base: TableState, branch: str) -> bool:
    """Return whether the table has no Lance branch of its own for this graph branch yet."""
    return base.table_branch != lance_branch(branch)


def stage_early(workspace: Workspace, write: Write) -> dict[str, Staged]:
    """Stage the first step of every table that needs no fork; return the transactions by location."""
    early = {
        change.base.location: (step, workspace.pinned(change.base))
        for change in write.tables
        if isinstance(step := change.steps[0], StagedStep)
        and not step.best_effort
        and not needs_fork(change.base, write.branch)
    }
    # Threads only if every staging can be stopped: otherwise Ctrl-C would have to wait for them.
    apart = len(early) > 1 and all(step.stop is not None for step, _ in early.values())
    prepared = _stage_in_threads(early) if apart else _stage_in_turn(early)
    return {location: staged for location, staged in prepared.items() if staged is not None}


def _stage_in_turn(early: Mapping[str, tuple[StagedStep, TableRef]]) -> dict[str, Staged | None]:
    return {location: stage_step(step, _open(step, ref)) for location, (step, ref) in early.items()}


def _open(step: StagedStep, ref: TableRef) -> Table:
    return step.opened if step.opened is not None and step.opened.ref == ref else open_table(ref)


def _stage_in_threads(
    early: Mapping[str, tuple[StagedStep, TableRef]],
) -> dict[str, Staged | None]:
    """Stage in threads; when one fails, or on Ctrl-C, make the others give up.

    The futures are created here: Ctrl-C inside ``pool.submit`` loses the future it would have
    returned, and with it the only way to know whether that thread is still working.
    """
    futures: dict[str, Future[Staged | None]] = {location: Future() for location in early}
    with ThreadPoolExecutor(min(len(early), usable_cores()), "omnigraph-stage") as pool:
        try:
            for location, future in futures.items():
                pool.submit(_stage_into, future, *early[location])
            _wait_for(futures.values())
            return {location: future.result() for location, future in futures.items()}
        except BaseException:
            running = [future for future in futures.values() if not future.cancel()]
            for step, _ in early.values():
                assert step.stop is not None
                step.stop()
            wait(running)
            raise


def _stage_into(future: Future[Staged | None], step: StagedStep, ref: TableRef) -> None:
    """Stage one step and put its result, or its exception, into the future."""
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(stage_step(step, _open(step, ref)))
    except BaseException as failure:  # noqa: BLE001 - raised where the future is asked
        future.set_exception(failure)


def _wait_for(futures: Collection[Future[Staged | None]]) -> None:
    """Wait for all futures; raise the exception of the first one that fails.

    The waits are short, because a signal that arrives as a wait begins is only seen when it ends.
    """
    going_on = set(futures)
    while going_on:
        done, going_on = wait(going_on, SIGNAL_SECONDS, FIRST_EXCEPTION)
        look()
        for future in done:
            future.result()


def stage_step(step: StagedStep, table: Table) -> Staged | None:
    """Stage a step under the UUID the sidecar names; return None if there is nothing to commit."""
    prepared = step.stage(table)
    return None if prepared is None else with_uuid(prepared, step.uuid)


class MoreLocks(Exception):
    """The write touches tables whose locks the caller does not hold."""


def lock_names(workspace: Workspace, write: Write) -> set[str]:
    """Return the names of the locks a write needs from its checks to Phase D."""
    tables = [*write.expected, *(new.state for new in write.created)]
    names = {workspace.lock_name(table.location, write.branch) for table in tables}
    if write.exact_head or write.touches_no_table:
        names.add(workspace.locks.head_lock(write.branch))
    one_at_a_time = write.intent.operation_ids if write.batch is None else [write.batch.stream_key]
    if not write.exact_head:
        # Two writes of one id, or of one stream, may touch different tables; whoever needs the exact
        # head locks them all.
        names |= {workspace.locks.operation_lock(write.branch, one) for one in one_at_a_time}
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
