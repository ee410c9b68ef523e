"""`optimize`: bring every table of a branch into shape, in one commit. Rows, ids and answers stay.

1. See what each table needs (``table_work``). A table that another program moved is left alone.
2. Write the merged fragments, several tables at a time, without locks.
3. Commit all tables at once, under their locks (``work_steps``).

For example, a table with fragments of 10, 20 and 30 rows and a BTREE on the first of them gets one
fragment of 60 rows, and the BTREE covers it. On a branch only tables are looked at that it has forked,
and only fragments of its own are merged: the others are the parent's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from functools import partial

from omnigraph import settings
from omnigraph.cancel import SIGNAL_SECONDS
from omnigraph.commit.attempts import Attempt, Attempts
from omnigraph.commit.changes import InlineStep, Step, TableChange
from omnigraph.commit.drift import open_undrifted, rollback_needed
from omnigraph.commit.heal import heal
from omnigraph.errors import Drift, OmniGraphError
from omnigraph.lang.schema.catalog import Catalog
from omnigraph.maintenance.effort import Effort
from omnigraph.maintenance.reports import OptimizeReport, OptimizeRow
from omnigraph.maintenance.table_work import TableWork, table_work
from omnigraph.maintenance.work_steps import PreparedWork, WorkOutcome, commit_changed, prepare
from omnigraph.maintenance.workers import Workers
from omnigraph.manifest.actors import MAINTENANCE_ACTOR
from omnigraph.manifest.history.resolve import resolve
from omnigraph.manifest.lost_races import branch_remade, check_expected
from omnigraph.manifest.manifest import BranchState
from omnigraph.manifest.rows import GraphCommit, TableState
from omnigraph.manifest.snapshot import Target
from omnigraph.manifest.workspace import Workspace, lance_branch
from omnigraph.storage.locks.waiting import Purpose
from omnigraph.storage.tables.table import Table, open_table

PURPOSE = Purpose("optimize", slow=True)
DRIFTS = 3
"""How often tables are looked at before one that other programs keep writing to is an error."""

Tell = Callable[[int, int], object]
"""Called with how much is done, and how much there is to do in all."""


@dataclass(slots=True)
class _Item:
    """One table of the branch: what it needs, and what became of that."""

    pin: TableState
    table: Table
    work: TableWork
    outcome: WorkOutcome
    prepared: PreparedWork | None = None


@dataclass(slots=True)
class _Optimizer:
    workspace: Workspace
    branch: str
    catalog_at: Callable[[BranchState], Catalog]
    workers: Workers
    tell: Tell
    known: dict[tuple[TableState, str], PreparedWork] = field(default_factory=dict)
    """What was prepared for tables as they still are, when another attempt is needed."""

    def attempt(self, attempt: Attempt) -> OptimizeReport:
        """Do it all on the branch as this attempt finds it."""
        catalog = self.catalog_at(attempt.state)
        items: list[_Item] = []
        drifted: list[OptimizeRow] = []
        for pin in self._own_tables(attempt.state):
            try:
                table = self._open(attempt, pin)
            except Drift as drift:
                drifted.append(_drift_row(pin, drift))
                continue
            outcome = WorkOutcome(pin.table_key)
            work = TableWork(Effort.THOROUGH)
            try:
                work = table_work(table, catalog.entity(pin.table_key), Effort.THOROUGH)
            except OmniGraphError as error:
                outcome.left_out(error)
            items.append(_Item(pin, table, work, outcome))
        due = [item for item in items if item.work.is_due]
        self._prepare(attempt.state, due)
        if any(item.outcome.error for item in items):
            # The failure may come from files that were deleted together with their branch.
            now = self.workspace.manifest.state(self.branch)
            if now.identifier != attempt.state.identifier:
                raise branch_remade(self.branch)
        commit = self._commit(attempt, due)
        rows = (*drifted, *self._rows(items, commit))
        return OptimizeReport(
            tuple(sorted(rows, key=lambda row: row.table_key)),
            commit,
            self.workers.engine,
            self.workers.note,
            tuple(_warnings(items)),
        )

    def _own_tables(self, state: BranchState) -> Iterable[TableState]:
        """Return the tables that are not inherited unchanged from the parent branch."""
        pins = state.head.tables.values()
        return [pin for pin in pins if pin.table_branch == lance_branch(self.branch)]

    def _open(self, attempt: Attempt, pin: TableState) -> Table:
        """Open a table at its pin; ``Drift`` if another program moved it.

        A table that is ahead of its pin may have a writer in the middle of its commit, which holds the
        lock; once it is done, this attempt has lost its race.
        """
        table = open_table(self.workspace.pinned(pin))
        if table.is_head():
            return table
        with contextlib.ExitStack() as stack:
            name = self.workspace.lock_name(pin.location, self.branch)
            held = attempt.held
            if held is None or name not in held.names:
                locks = self.workspace.locks
                held = stack.enter_context(locks.acquire(name, attempt.patience, PURPOSE))
            now = self.workspace.manifest.state(self.branch).head
            check_expected(now, [pin])
            return open_undrifted(self.workspace, pin, now.graph_id, self.branch, held)

    # -- the merged fragments

    def _prepare(self, state: BranchState, due: Sequence[_Item]) -> None:
        """Write the merged fragments of all tables; what fails is noted on the table's outcome.

        A job of executors is done by all of them, so such tables come one after the other.
        """
        total, done = 2 * len(due), 0
        self.tell(done, total)
        here: list[_Item] = []
        for item in due:
            item.prepared = self.known.get((item.pin, state.head.ir_hash))
            if item.prepared is None and self.workers.are_here(item.pin):
                here.append(item)
                continue
            if item.prepared is None:
                self._prepare_one(item)
            done += 1
            self.tell(done, total)
        for _ in _in_threads(self._prepare_one, here):
            done += 1
            self.tell(done, total)
        for item in due:
            if item.prepared is not None:
                self.known[item.pin, state.head.ir_hash] = item.prepared

    def _prepare_one(self, item: _Item) -> None:
        try:
            item.prepared = prepare(item.work, item.table, self.workers.rewrite(item.pin))
        except OmniGraphError as error:
            item.outcome.left_out(error)

    # -- the commit

    def _commit(self, attempt: Attempt, due: Sequence[_Item]) -> GraphCommit | None:
        changes: list[TableChange] = []
        for item in due:
            if item.prepared is None:
                continue
            steps = item.prepared.steps(item.outcome, self.workers.builds(item.pin))
            if steps:
                told = partial(self.tell, len(due) + len(changes), 2 * len(due))
                changes.append(TableChange(item.pin, (_telling(steps[0], told), *steps[1:])))
        return commit_changed(attempt, "optimize", changes, MAINTENANCE_ACTOR)

    def _rows(self, items: Sequence[_Item], commit: GraphCommit | None) -> Iterable[OptimizeRow]:
        after: Mapping[str, TableState] = {}
        if commit is not None:
            target = Target.of(snapshot=commit.graph_commit_id)
            after = resolve(self.workspace.manifest, target).tables
        for item in items:
            now = after.get(item.pin.table_key, item.pin)
            yield OptimizeRow(
                item.pin.table_key,
                item.outcome.fragments_removed,
                item.outcome.fragments_added,
                committed=now.identity != item.pin.identity,
                skipped="large_blobs" if item.work.large_blobs else None,
                manifest_version=now.table_version,
                lance_head_version=now.table_version,
                pending_indexes=(
                    *item.work.pending,
                    *(name for _, name in item.outcome.indexes.pending),
                ),
                error=item.outcome.error,
            )


def optimize(
    workspace: Workspace,
    catalog_at: Callable[[BranchState], Catalog],
    branch: str,
    workers: Workers | None = None,
    tell: Tell = lambda _done, _total: None,
) -> OptimizeReport:
    """Optimize every table that the branch has of its own, in one commit; none if nothing is due.

    ``catalog_at`` gives the types of a state of the branch; each attempt asks it, so that a schema
    that changed meanwhile is followed. A table that fails is reported and does not stop the others.
    """
    for sidecar in heal(workspace).deferred:
        raise rollback_needed(sidecar.operation_id)
    work = _Optimizer(workspace, branch, catalog_at, workers or Workers(), tell)
    for _ in range(DRIFTS - 1):
        # A program that does not know the graph may write to a table after it was looked at.
        with contextlib.suppress(Drift):
            return Attempts(workspace, branch).run(work.attempt)
    return Attempts(workspace, branch).run(work.attempt)


def _telling(step: Step, told: Callable[[], object]) -> Step:
    """Return the step, which reports when it begins."""
    if isinstance(step, InlineStep):
        run = step.run
        return replace(step, run=lambda table: (told(), run(table))[1])
    stage = step.stage
    return replace(step, stage=lambda table: (told(), stage(table))[1])


def _drift_row(pin: TableState, drift: Drift) -> OptimizeRow:
    return OptimizeRow(
        pin.table_key,
        skipped="drift_needs_repair",
        manifest_version=pin.table_version,
        lance_head_version=int(drift.details["head"]),
    )


def _warnings(items: Iterable[_Item]) -> Iterable[str]:
    for item in items:
        if item.outcome.settings_removed:
            names = ", ".join(item.outcome.settings_removed)
            yield (
                f"removed {names} from {item.pin.table_key}: another tool had set it, and Lance would "
                "have deleted versions that the graph needs"
            )


def _in_threads(act: Callable[[_Item], None], items: Sequence[_Item]) -> Iterable[_Item]:
    """Act on all items, a few at a time; yield each when it is done. Ctrl-C skips those not begun."""
    if not items:
        return
    workers = min(len(items), settings.MAINTENANCE_CONCURRENCY.get())
    with ThreadPoolExecutor(workers, "omnigraph-optimize") as pool:
        going_on: dict[Future[None], _Item] = {pool.submit(act, item): item for item in items}
        try:
            while going_on:
                # The waits are short: a signal that arrives as a wait begins is seen when it ends.
                for future in wait(going_on, SIGNAL_SECONDS, "FIRST_COMPLETED").done:
                    future.result()
                    yield going_on.pop(future)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
