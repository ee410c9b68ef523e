"""The steps that do what a table needs.

1. Remove settings by which Lance would delete versions that the graph needs.
2. Drop the indexes that are declared no more.
3. Fold the indexes that limit which fragments can be merged: those that follow rewrites.
4. Merge fragments.
5. Build the indexes that are missing.
6. Fold the others: those that do not cover the merged fragments, and those that were built in parts.

Nothing of this changes rows or row ids. The versions in which rows changed stay as exact as `row_versions` says. The merged fragments are
written beforehand, without locks, for the indexes as they will be after step 3. Each step is made for
the table as it finds it, and is left out when it fails: the tables are complete then, and only less compact.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from omnigraph.clock import new_ulid, stamp_us
from omnigraph.commit.attempts import Attempt
from omnigraph.commit.changes import (
    InlineStep,
    NothingToPublish,
    StagedStep,
    Step,
    TableChange,
    Write,
)
from omnigraph.errors import OmniGraphError, StorageError
from omnigraph.maintenance.effort import Effort, due_folds
from omnigraph.maintenance.table_work import TableWork, is_kept_apart
from omnigraph.manifest.publisher import Intent
from omnigraph.manifest.rows import GraphCommit
from omnigraph.storage.tables.indexing.index_health import blame
from omnigraph.storage.tables.indexing.index_kinds import follows_rewrites
from omnigraph.storage.tables.indexing.table_indexes import (
    IndexState,
    list_indexes,
    stage_drop_index,
)
from omnigraph.storage.tables.inline_residual import optimize_indices
from omnigraph.storage.tables.rewriting import Merged, merge_task, run_task, stage_rewritten
from omnigraph.storage.tables.staging import Staged
from omnigraph.storage.tables.table import Table, open_table
from omnigraph.storage.tables.table_errors import TableMoved
from omnigraph.storage.versions import stage_unset
from omnigraph.write.index_builds import Builds, IndexReport, build_here, index_steps

logger = logging.getLogger(__name__)

Rewrite = Callable[[Table, Sequence[Any]], Sequence[Any]]
"""A function that runs merge tasks on a table, in this process or elsewhere; it returns their results."""


def rewrite_here(table: Table, tasks: Sequence[Any]) -> list[Any]:
    """Run one task after the other, in this process."""
    return [run_task(table, task) for task in tasks]


def prepare(work: TableWork, table: Table, rewrite: Rewrite = rewrite_here) -> PreparedWork:
    """Write the merged fragments, which nothing refers to yet. No lock is needed."""
    tasks = [merge_task(table, group.fragment_ids, group.batch_rows) for group in work.groups]
    results = rewrite(table, tasks) if tasks else ()
    pairs = zip(work.groups, results, strict=True)
    return PreparedWork(work, [Merged.of(group.fragment_ids, result) for group, result in pairs])


@dataclass(slots=True)
class WorkOutcome:
    """What became of the work on one table; filled in while its steps run."""

    table_key: str
    fragments_removed: int = 0
    fragments_added: int = 0
    indexes: IndexReport = field(default_factory=IndexReport)
    settings_removed: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    """Why something else than an index was left out."""

    @property
    def error(self) -> str | None:
        """What was left out, and why; None if nothing was."""
        indexes = (f"the index on {name}: {why}" for _, name, why in self.indexes.failed)
        return "; ".join(dict.fromkeys((*self.errors, *indexes))) or None

    def failed(self, column: str, error: OmniGraphError) -> None:
        """Note that the index on a column stays as it is."""
        logger.warning("the index on %s of %s was left as it is: %s", column, self.table_key, error)
        self.indexes.failed.append((self.table_key, column, str(error)))

    def left_out(self, error: OmniGraphError | None) -> bool:
        """Note the error of a step, if any; return whether there was one."""
        if error is not None:
            self.errors.append(str(error))
        return error is not None


@dataclass(frozen=True, slots=True)
class PreparedWork:
    """The work on a table whose merged fragments are written; ``results`` describe them."""

    work: TableWork
    results: Sequence[Merged] = ()

    def steps(self, outcome: WorkOutcome, builds: Builds = build_here) -> tuple[Step, ...]:
        """Return the steps to commit; none if nothing is left to do. They fill in the outcome."""
        return tuple(self._steps(outcome, builds))

    def _steps(self, outcome: WorkOutcome, builds: Builds) -> Iterator[Step]:
        work = self.work
        if work.auto_cleanup:
            yield _unset(work.auto_cleanup, outcome)
        for name in work.undeclared:
            yield _drop(name, outcome)
        if any(follows_rewrites(fold.state.kind) for fold in work.folds):
            yield _fold(work.effort, outcome, before_merge=True)
        if self.results:
            yield _merge(self.results, outcome)
        if work.entity is not None:
            yield from index_steps(work.entity, work.missing, outcome.indexes, builds)
        kinds = {fold.state.kind for fold in work.folds} | {kind for _, kind in work.missing}
        if self.results or not all(map(follows_rewrites, kinds)):
            yield _fold(work.effort, outcome, before_merge=False)


def _unset(names: Sequence[str], outcome: WorkOutcome) -> StagedStep:
    def settled(error: OmniGraphError | None) -> None:
        if not outcome.left_out(error):
            outcome.settings_removed.extend(names)

    return StagedStep(lambda table: stage_unset(table, names), best_effort=True, settled=settled)


def _drop(name: str, outcome: WorkOutcome) -> StagedStep:
    return StagedStep(
        lambda table: stage_drop_index(table, name), best_effort=True, settled=outcome.left_out
    )


def _merge(results: Sequence[Merged], outcome: WorkOutcome) -> StagedStep:
    """Put merged fragments in place, except those that an index keeps apart after all."""
    usable: list[Merged] = []

    def stage(table: Table) -> Staged | None:
        states = list_indexes(table)
        usable[:] = [one for one in results if not is_kept_apart(one.fragment_ids, states)]
        return stage_rewritten(table, usable) if usable else None

    def settled(error: OmniGraphError | None) -> None:
        if not outcome.left_out(error):
            outcome.fragments_removed += sum(len(one.fragment_ids) for one in usable)
            outcome.fragments_added += sum(len(one.new) for one in usable)

    return StagedStep(stage, best_effort=True, settled=settled)


def _fold(effort: Effort, outcome: WorkOutcome, *, before_merge: bool) -> InlineStep:
    """Fold the indexes that are due before fragments are merged, or after that.

    Recovery may publish what is there without it: ``versions=0``.
    """

    def run(table: Table) -> Table:
        rows = {fragment.id: fragment.num_rows for fragment in table.fragments()}
        together: dict[int | None, list[IndexState]] = {}
        for fold in due_folds(list_indexes(table), rows, effort):
            if follows_rewrites(fold.state.kind) is before_merge:
                together.setdefault(fold.merged, []).append(fold.state)
        for merged, states in together.items():
            table = _fold_some(table, states, merged, outcome)
        return table

    return InlineStep("fold indexes", run, versions=0)


def _fold_some(
    table: Table, states: Sequence[IndexState], merged: int | None, outcome: WorkOutcome
) -> Table:
    """Fold indexes in one version; one that fails is left as it is, and does not stop the others.

    Searches read the rows that an index does not cover directly from the table.
    """
    try:
        table = optimize_indices(table, [state.name for state in states], merged)
    except TableMoved:
        raise
    except OmniGraphError as error:
        # The fold may have succeeded although its answer was lost, so open the newest version.
        table = open_table(table.ref.at(None))
        if len(states) > 1:
            for state in states:
                table = _fold_some(table, [state], merged, outcome)
        else:
            blame(table.ref, table.dataset, [states[0].column], error)
            outcome.failed(states[0].column, error)
        return table
    # Lance passes over an index that it cannot read, without an error.
    uncovered = {state.name for state in list_indexes(table) if state.tail}
    for state in states:
        if state.name in uncovered:
            unreadable = _unreadable(table)
            blame(table.ref, table.dataset, [state.column], unreadable)
            outcome.failed(state.column, unreadable)
        else:
            outcome.indexes.extended.append((outcome.table_key, state.column))
    return table


def _unreadable(table: Table) -> StorageError:
    return StorageError(
        f"Lance cannot read its files in {table.ref}; build it anew with "
        "`omnigraph ensure-indices --rebuild`"
    )


def commit_changed(
    attempt: Attempt,
    operation: Literal["optimize", "ensure_indices"],
    changes: Sequence[TableChange],
    actor_id: str | None,
) -> GraphCommit | None:
    """Commit the changes; return None if there are none, or if every step of them was left out."""
    if not changes:
        return None
    write = Write(
        operation,
        attempt.state.pin,
        Intent(new_ulid(), operation, stamp_us(), actor_id),
        tuple(changes),
        ir_hash=attempt.state.head.ir_hash,
        only_if_changed=True,
    )
    with contextlib.suppress(NothingToPublish):
        return attempt.commit(write)
    return None
