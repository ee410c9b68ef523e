"""Compaction: small fragments become large ones, in one commit. Rows, ids and answers stay.

Who rewrites the fragments (this process, or executors) is the caller's choice: a ``Rewrite``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from omnigraph.commit.attempts import Attempt, Attempts
from omnigraph.commit.changes import InlineStep, NothingToPublish, TableChange, Write
from omnigraph.commit.heal import heal
from omnigraph.commit.workspace import Workspace, lance_branch
from omnigraph.errors import OmniGraphError
from omnigraph.manifest.create import new_commit_id, now_us
from omnigraph.manifest.publisher import Intent
from omnigraph.manifest.rows import GraphCommit, TableState
from omnigraph.storage.handles import Table, open_table
from omnigraph.storage.inline_residual import (
    commit_compaction,
    plan_compaction,
    run_compaction_task,
)

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

    The commit is Lance's own, which keeps indexes whole; a rewrite staged by hand would not.
    """

    def __init__(self, table_key: str, report: CompactionReport, rewrite: Rewrite) -> None:
        self.table_key = table_key
        self.report = report
        self.rewrite = rewrite
        self.results: Sequence[Any] = ()

    def prepare(self, table: Table) -> bool:
        """Write the new fragments, which nothing refers to yet; whether there are any."""
        try:
            self.results = self.rewrite(table, plan_compaction(table))
        except OmniGraphError as error:
            self.report.failed[self.table_key] = str(error)
        return bool(self.results)

    def step(self) -> InlineStep:
        """Put what was prepared in place; prepare it on the fork where there is one only now."""
        return InlineStep("compact", self._run, versions=COMPACTION_VERSIONS)

    def _run(self, table: Table) -> Table:
        if not self.results and not self.prepare(table):
            return table
        done = commit_compaction(table, self.results)
        self.report.removed[self.table_key] = done.fragments_removed
        self.report.added[self.table_key] = done.fragments_added
        return done.table


def compact(
    space: Workspace,
    branch: str,
    actor_id: str | None = None,
    rewrite_for: Callable[[TableState], Rewrite] = lambda _pin: rewrite_here,
) -> CompactionReport:
    """Compact every table of a branch that has fragments to merge, in one commit.

    A table that fails is reported and does not hold up the others.
    """
    heal(space)

    def work(attempt: Attempt) -> CompactionReport:
        report = CompactionReport()
        changes = []
        for pin in attempt.state.head.tables.values():
            table = open_table(space.pinned(pin))
            if not plan_compaction(table):
                continue
            job = TableCompaction(pin.table_key, report, rewrite_for(pin))
            # Files of a branch lie in the directory of its fork, which its first write makes.
            if pin.table_branch != lance_branch(branch) or job.prepare(table):
                changes.append(TableChange(pin, (job.step(),)))
        if changes:
            intent = Intent(new_commit_id(), "optimize", now_us(), actor_id)
            write = Write(
                "optimize", attempt.state.pin, intent, tuple(changes), only_if_changed=True
            )
            with contextlib.suppress(NothingToPublish):
                report.commit = attempt.commit(write)
        return report

    return Attempts(space, "optimize", branch).run(work)
