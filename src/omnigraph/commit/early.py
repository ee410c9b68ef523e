"""Staging before any lock is taken: files that nobody names yet, for tables that need no fork."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

from omnigraph.commit.changes import StagedStep, Write
from omnigraph.commit.workspace import Workspace, lance_branch
from omnigraph.cores import usable_cores
from omnigraph.manifest.rows import TableState
from omnigraph.storage.handles import Table, TableRef, open_table
from omnigraph.storage.staging import Staged, with_uuid


def needs_fork(base: TableState, branch: str) -> bool:
    """Whether the table has no branch of its own there yet."""
    return base.table_branch != lance_branch(branch)


def stage_early(space: Workspace, write: Write) -> dict[str, Staged]:
    """Stage the first step of every table that needs no fork: files only, outside any lock."""
    early = {
        change.base.location: (step, space.pinned(change.base))
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
    """Stage in threads; when one fails, or somebody presses Ctrl-C, the others give up."""
    threads = min(len(early), usable_cores())
    with ThreadPoolExecutor(threads, "omnigraph-stage") as pool:
        try:
            running = {
                location: pool.submit(
                    lambda step, ref: stage_step(step, open_table(ref)), step, ref
                )
                for location, (step, ref) in early.items()
            }
            done, _ = wait(running.values(), return_when=FIRST_EXCEPTION)
            for future in running.values():
                if future in done:
                    future.result()
            return {location: future.result() for location, future in running.items()}
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for step, _ in early.values():
                assert step.stop is not None
                step.stop()
            raise


def stage_step(step: StagedStep, table: Table) -> Staged | None:
    """The step's transaction under the UUID that the sidecar names; None when there is none."""
    prepared = step.stage(table)
    return None if prepared is None else with_uuid(prepared, step.uuid)
