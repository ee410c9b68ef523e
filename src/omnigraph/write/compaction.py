"""Compaction: merge small fragments into large ones, in one commit. Rows, ids and answers stay.

1. Plan for each table which fragments to merge.
2. Rewrite them, without locks. Where that runs (this process or Spark executors) is the caller's
   choice: a ``Rewrite``.
3. Commit all tables at once, under the locks.

For example, a table with fragments of 10, 20 and 30 rows gets one fragment of 60 rows, and the
report says ``removed={"node:Person": 3}, added={"node:Person": 1}``.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from omnigraph.clock import new_ulid, stamp_us
from omnigraph.commit.attempts import Attempt, Attempts
from omnigraph.commit.changes import (
    InlineStep,
    NothingToPublish,
    StagedStep,
    Step,
    TableChange,
    Write,
)
from omnigraph.commit.heal import heal
from omnigraph.errors import OmniGraphError
from omnigraph.manifest.lost_races import branch_remade
from omnigraph.manifest.publisher import Intent
from omnigraph.manifest.rows import GraphCommit, TableState
from omnigraph.manifest.workspace import Workspace, lance_branch
from omnigraph.storage.tables.inline_residual import (
    commit_compaction,
    compaction_limits,
    fold_indexes,
    plan_compaction,
    run_compaction_task,
)
from omnigraph.storage.tables.rewriting import stage_rewritten
from omnigraph.storage.tables.staging import Staged
from omnigraph.storage.tables.table import Table, open_table
from omnigraph.storage.tables.table_errors import TableMoved

logger = logging.getLogger(__name__)

# Lance commits a compaction as two transactions, ReserveFragments and Rewrite.
COMPACTION_VERSIONS = 2

Rewrite = Callable[[Table, Sequence[Any]], Sequence[Any]]
"""A function that runs the tasks of ``plan_compaction`` on that table and returns their results."""


@dataclass(slots=True)
class CompactionReport:
    """How many fragments were removed and added, by table key; failed tables are unchanged."""

    removed: dict[str, int] = field(default_factory=dict)
    added: dict[str, int] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    """By table key: ``large_blobs`` where fragments were left alone for the size of their blobs."""
    commit: GraphCommit | None = None
    note: str | None = None
    """Why another engine was used than the caller would expect."""


def rewrite_here(table: Table, tasks: Sequence[Any]) -> list[Any]:
    """Run one task after the other, in this process."""
    return [run_compaction_task(table, task) for task in tasks]


class TableCompaction:
    """The compaction of one table: fragments are rewritten first, without locks, then committed.

    On main the commit is Lance's own, which keeps indexes complete. On a branch Lance's commit
    would break them, so the rewrite is staged there without the indexes, which are then extended in
    a second step.
    """

    def __init__(self, table_key: str, report: CompactionReport, rewrite: Rewrite) -> None:
        self.table_key = table_key
        self.report = report
        self.rewrite = rewrite
        self.results: Sequence[Any] = ()

    def prepare(self, table: Table, tasks: Sequence[Any]) -> bool:
        """Write the new fragments, which nothing refers to yet; return whether there are any."""
        try:
            self.results = self.rewrite(table, tasks)
        except OmniGraphError as error:
            self.report.failed[self.table_key] = str(error)
        return bool(self.results)

    def steps(self, branch: str) -> tuple[Step, ...]:
        """Return the steps that commit the prepared fragments."""
        if lance_branch(branch) is None:
            return (InlineStep("compact", self._commit, versions=COMPACTION_VERSIONS),)
        # The rewrite is complete without the fold, so recovery may publish it alone: versions=0.
        return StagedStep(self._stage), InlineStep("fold indexes", self._fold, versions=0)

    def _commit(self, table: Table) -> Table:
        done = commit_compaction(table, self.results)
        self._count(done.fragments_removed, done.fragments_added)
        return done.table

    def _stage(self, table: Table) -> Staged:
        self._count(
            sum(len(result.original_fragments) for result in self.results),
            sum(len(result.new_fragments) for result in self.results),
        )
        return stage_rewritten(table, self.results)

    def _fold(self, table: Table) -> Table:
        """Extend the indexes to the new fragments. A failure is only logged: searches find rows anyway.

        Searches read the rows that an index does not cover directly from the table.
        """
        try:
            return fold_indexes(table)
        except TableMoved:
            raise
        except OmniGraphError as error:
            logger.warning("the indexes of %s do not cover all rows yet: %s", table.ref, error)
        # The fold may have succeeded although its answer was lost, so open the newest version.
        return open_table(table.ref.at(None))

    def _count(self, removed: int, added: int) -> None:
        self.report.removed[self.table_key] = removed
        self.report.added[self.table_key] = added


def compact(
    workspace: Workspace,
    branch: str,
    actor_id: str | None = None,
    rewrite_for: Callable[[TableState], Rewrite] = lambda _pin: rewrite_here,
) -> CompactionReport:
    """Compact every table of a branch that has fragments of its own to merge, in one commit.

    A table that fails is reported and does not stop the others.
    """
    heal(workspace)

    def work(attempt: Attempt) -> CompactionReport:
        report = CompactionReport()
        changes = []
        for pin in attempt.state.head.tables.values():
            if pin.table_branch != lance_branch(branch):
                continue  # inherited unchanged from the parent branch, which compacts it
            table = open_table(workspace.pinned(pin))
            limits = compaction_limits(table)
            if limits.too_large:
                report.skipped[pin.table_key] = "large_blobs"
            tasks = plan_compaction(table, limits)
            if not tasks:
                continue
            job = TableCompaction(pin.table_key, report, rewrite_for(pin))
            if job.prepare(table, tasks):
                changes.append(TableChange(pin, job.steps(branch)))
        if report.failed:
            # The failure may come from files that were deleted together with their branch.
            now = workspace.manifest.state(branch)
            if now.identifier != attempt.state.identifier:
                raise branch_remade(branch)
        if changes:
            intent = Intent(new_ulid(), "optimize", stamp_us(), actor_id)
            write = Write(
                "optimize", attempt.state.pin, intent, tuple(changes), only_if_changed=True
            )
            with contextlib.suppress(NothingToPublish):
                report.commit = attempt.commit(write)
        return report

    return Attempts(workspace, branch).run(work)
