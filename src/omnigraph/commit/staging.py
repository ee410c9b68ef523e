"""Staging before any lock is taken: files that nobody names yet, for tables that need no fork."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait

from omnigraph.commit.changes import StagedStep, Write
from omnigraph.cores import usable_cores
from omnigraph.manifest.rows import TableState
from omnigraph.manifest.workspace import Workspace, lance_branch
from omnigraph.storage.tables.staging import Staged, with_uuid
from omnigraph.storage.tables.table import Table, open_table
from omnigraph.storage.tables.table_ref import TableRef

SIGNAL_SECONDS = 0.2
"""The longest that Ctrl-C may go unseen."""


def needs_fork(base: TableState, branch: str) -> bool:
    """Whether the table has no branch of its own there yet."""
    return base.table_branch != lance_branch(branch)


def stage_early(workspace: Workspace, write: Write) -> dict[str, Staged]:
    """Stage the first step of every table that needs no fork: files only, outside any lock."""
    early = {
        change.base.location: (step, workspace.pinned(change.base))
        for change in write.tables
        if isinstance(step := change.steps[0], StagedStep)
        and not step.best_effort
        and not needs_fork(change.base, write.branch)
    }
    apart = len(early) > 1 and all(step.stop is not None for step, _ in early.values())
    prepared = _beside_each_other(early) if apart else _one_by_one(early)
    return {location: staged for location, staged in prepared.items() if staged is not None}


def _one_by_one(early: Mapping[str, tuple[StagedStep, TableRef]]) -> dict[str, Staged | None]:
    return {location: stage_step(step, open_table(ref)) for location, (step, ref) in early.items()}


def _beside_each_other(
    early: Mapping[str, tuple[StagedStep, TableRef]],
) -> dict[str, Staged | None]:
    """Stage in threads; when one fails, or somebody presses Ctrl-C, the others give up.

    The futures are ours: Ctrl-C inside ``pool.submit`` loses the one that it would have returned,
    and with it the only way to tell whether that thread works.
    """
    futures: dict[str, Future[Staged | None]] = {location: Future() for location in early}
    with ThreadPoolExecutor(min(len(early), usable_cores()), "omnigraph-stage") as pool:
        try:
            for location, future in futures.items():
                pool.submit(_work, future, *early[location])
            _wait_for(futures.values())
            return {location: future.result() for location, future in futures.items()}
        except BaseException:
            running = [future for future in futures.values() if not future.cancel()]
            for step, _ in early.values():
                assert step.stop is not None
                step.stop()
            wait(running)
            raise


def _work(future: Future[Staged | None], step: StagedStep, ref: TableRef) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(stage_step(step, open_table(ref)))
    except BaseException as failure:  # noqa: BLE001 - raised where the future is asked
        future.set_exception(failure)


def _wait_for(futures: Collection[Future[Staged | None]]) -> None:
    """Wait for all of them; raise what the first one that fails raises.

    In short waits: a signal that comes as a wait begins is only seen when that wait ends.
    """
    going_on = set(futures)
    while going_on:
        done, going_on = wait(going_on, SIGNAL_SECONDS, FIRST_EXCEPTION)
        for future in done:
            future.result()


def stage_step(step: StagedStep, table: Table) -> Staged | None:
    """The step's transaction under the UUID that the sidecar names; None when there is none."""
    prepared = step.stage(table)
    return None if prepared is None else with_uuid(prepared, step.uuid)
