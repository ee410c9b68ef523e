"""Compaction: small fragments become large ones, in one commit. Rows, ids and answers stay.

Who rewrites the fragments (this process, or executors) is the caller's choice: a ``Rewrite``.
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
from omnigraph.manifest.publisher import Intent, branch_remade
from omnigraph.manifest.rows import GraphCommit, TableState
from omnigraph.manifest.workspace import Workspace, lance_branch
from omnigraph.storage.tables.inline_residual import (
    commit_compaction,
    fold_indexes,
    plan_compaction,
    run_compaction_task,
)
from omnigraph.storage.tables.rewriting import stage_rewritten
from omnigraph.storage.tables.staging import Staged
from omnigraph.storage.tables.table import Table, open_table
from omnigraph.storage.tables.table_errors import TableMoved

logger = logging.getLogger(__name__)

# Lance commits a compaction as ReserveFragments and Rewrite.
COMPACTION_VERSIONS = 2

Rewrite = Callable[[Table, Sequence[Any]], Sequence[Any]]
"""Run the tasks of ``plan_compaction`` on that version of the table, and give their results."""


@dataclass(slots=True)
class CompactionReport:
    """How many fragments went and came, by table key; tables that failed are as they were."""

    removed: dict[str, int] = field(default_factory=dict)
    added: dict[str, int] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    commit: GraphCommit | None = None
    note: str | None = None
    """Why the engine is not the one that was to be expected."""


def rewrite_here(table: Table, tasks: Sequence[Any]) -> list[Any]:
    """Run one task after the other, in this process."""
    return [run_compaction_task(table, task) for task in tasks]


class TableCompaction:
    """The compaction of one table: fragments are rewritten first, at leisure, then put in place.

    On main the commit is Lance's own, which keeps indexes whole. On a branch that would break them:
    there a staged rewrite leaves the new fragments out of the indexes, which are then folded.
    """

    def __init__(self, table_key: str, report: CompactionReport, rewrite: Rewrite) -> None:
        self.table_key = table_key
        self.report = report
        self.rewrite = rewrite
        self.results: Sequence[Any] = ()

    def prepare(self, table: Table, tasks: Sequence[Any]) -> bool:
        """Write the new fragments, which nothing refers to yet; whether there are any."""
        try:
            self.results = self.rewrite(table, tasks)
        except OmniGraphError as error:
            self.report.failed[self.table_key] = str(error)
        return bool(self.results)

    def steps(self, branch: str) -> tuple[Step, ...]:
        """Put what was prepared in place."""
        if lance_branch(branch) is None:
            return (InlineStep("compact", self._commit, versions=COMPACTION_VERSIONS),)
        # A rewrite without the fold is whole in itself, so recovery may publish it alone.
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
        """Best effort: searches read what an index does not cover."""
        try:
            return fold_indexes(table)
        except TableMoved:
            raise
        except OmniGraphError as error:
            logger.warning("the indexes of %s do not cover all rows yet: %s", table.ref, error)
        # It may have landed although its answer was lost.
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

    A table that fails is reported and does not hold up the others.
    """
    heal(workspace)

    def work(attempt: Attempt) -> CompactionReport:
        report = CompactionReport()
        changes = []
        for pin in attempt.state.head.tables.values():
            if pin.table_branch != lance_branch(branch):
                continue  # inherited whole: the parent's to compact
            table = open_table(workspace.pinned(pin))
            tasks = plan_compaction(table)
            if not tasks:
                continue
            job = TableCompaction(pin.table_key, report, rewrite_for(pin))
            if job.prepare(table, tasks):
                changes.append(TableChange(pin, job.steps(branch)))
        if report.failed:
            # Files that are missing may have gone with their branch.
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
