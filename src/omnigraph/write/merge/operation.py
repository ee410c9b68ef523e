"""What a merge and a revert have in common: one run on pinned heads, from the plan to the commit.

To bring the plan into the target branch, files are staged before any lock is taken, except those of tables
that the branch has not forked yet. Under the locks the target must still have the content that was compared.
Maintenance that came in between changes none: the rows are then staged again on the tables as they are now.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, TypeVar

from omnigraph.changes.stats import Meter
from omnigraph.clock import new_ulid, stamp_us
from omnigraph.commit.attempts import check_precondition
from omnigraph.commit.changes import TableChange, Write, Writer
from omnigraph.commit.heal import run_healing
from omnigraph.commit.protocol import commit_under_locks, stage
from omnigraph.commit.stage_tables import lock_purpose, needs_fork, stage_early
from omnigraph.commit.whole_branch import hold_branch
from omnigraph.errors import ExpectedVersionMismatch, Gone, StorageError
from omnigraph.lang.schema.catalog import Catalog
from omnigraph.manifest.history.equal_content import is_readable
from omnigraph.manifest.history.stream_records import StreamRecord, newer_streams
from omnigraph.manifest.lost_races import branch_remade
from omnigraph.manifest.manifest import BranchState
from omnigraph.manifest.publisher import Intent
from omnigraph.manifest.rows import GraphCommit, TableState
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.manifest.workspace import Workspace
from omnigraph.write.merge.decided import DecideOptions, conflicts_error
from omnigraph.write.merge.request import MergeOptions, MergeResult, MergeStats, Outcome
from omnigraph.write.merge.resolutions import Resolutions, read_resolutions
from omnigraph.write.merge.spool import HELD_BYTES, Scratch
from omnigraph.write.merge.three_way import Plan, States, ThreeWay
from omnigraph.write.vectors import planned_vectors


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


class MergeRun:
    """One merge or revert. ``pinned`` are the branches it looks at, the target first."""

    held_bytes: ClassVar[int] = HELD_BYTES
    """This many bytes of the merged rows of each table are held in memory, the rest in files."""

    def __init__(
        self, workspace: Workspace, options: MergeOptions, pinned: tuple[BranchState, ...]
    ) -> None:
        self.workspace = workspace
        self.options = options
        self.pinned = pinned
        self.target = pinned[0]
        self.started = stamp_us()
        self.meter = Meter(workspace)
        self.scratch = Scratch(self.held_bytes)

    def check_head(self) -> None:
        """Refuse unless the target, as it was pinned, is at the commit that the caller named, if any."""
        check_precondition(self.workspace, self.target, self.options.if_commit)

    @cached_property
    def catalog(self) -> Catalog:
        """The types of the target."""
        return self.options.catalog(self.target)

    @cached_property
    def resolutions(self) -> Resolutions:
        """How the caller decides conflicts."""
        return read_resolutions(self.catalog, self.options.resolve, self.options.blobs)

    def plan(self, base: Snapshot, source: Snapshot, *, checks: bool) -> Plan:
        """Compare base and source, and decide what becomes of the target."""
        states = States(base, source, Snapshot.of(self.target.name, self.target.head))
        plan = ThreeWay(
            self.workspace,
            self.catalog,
            states,
            self.target.name,
            DecideOptions(self.options.granularity, self.resolutions),
            meter=self.meter,
            scratch=self.scratch,
            make_vectors=planned_vectors if self.options.dry_run else self.options.vectors.make,
            images=self.options.images,
            short=self.options.short,
            spark_for=self.options.spark_for,
        ).run(checks=checks)
        plan.count(self.meter)
        return plan

    def commit(
        self,
        plan: Plan,
        writer: Writer,
        what: str,
        facts: dict[str, Any],
        told: MergeResult,
        merged_parent: str | None = None,
        adopted: tuple[GraphCommit, ...] = (),
    ) -> MergeResult:
        """Publish the plan, and return the result with its commit; in a dry run, return the result alone.

        Conflicts are raised; ``what`` has them.
        """
        if self.options.dry_run:
            return told
        if plan.conflicts:
            raise conflicts_error(what, plan.conflicts)
        asked = self.options.asked("merge" if writer == "branch_merge" else "revert")
        intent = Intent(
            new_ulid(),
            writer,
            self.started,
            self.options.actor_id,
            merged_parent_commit_id=merged_parent,
            facts={**facts, **asked.facts(told.answer())},
            operation_id=asked.operation_id,
        )
        streams = newer_streams(self.workspace.manifest, self.target, adopted)
        publication = Publication(
            writer, self.target, plan, intent, lambda: self._check(plan), adopted, streams
        )
        try:
            made = publish_merge(self.workspace, publication)
        except ExpectedVersionMismatch:
            # Whoever named a head asked about exactly this, and can act on that answer.
            now = self.workspace.manifest.state(self.target.name)
            check_precondition(self.workspace, now, self.options.if_commit)
            raise
        # The commit of an operation with an id keeps the answer that its caller gets.
        stats = told.stats if asked.operation_id is not None else self._stats(plan)
        return replace(told, commit=made, stats=stats)

    def _check(self, plan: Plan) -> None:
        """Make sure, under the locks, that what the commit will refer to is still there.

        A branch that is only read may have moved on, and a cleanup may have removed what was read.
        """
        self.refuse_replaced()
        for before in self.pinned[1:]:
            then = before.head.commit
            now = self.workspace.manifest.state(before.name).head.commit
            if then != now and not is_readable(self.workspace, then):
                raise PlanAgain
        for merged in plan.tables.values():
            if merged.taken_over is not None and not self.workspace.is_there(merged.taken_over):
                raise PlanAgain

    def refuse_replaced(self) -> None:
        """Refuse if one of the branches was deleted, or deleted and made again, since it was pinned."""
        for before in self.pinned:
            if self.workspace.manifest.state(before.name).identifier != before.identifier:
                raise branch_remade(before.name)

    def has_moved(self) -> bool:
        """Return whether one of the branches has another head than the one that was pinned."""
        return any(
            self.workspace.manifest.state(before.name).pin != before.pin for before in self.pinned
        )

    def result(
        self,
        outcome: Outcome,
        base: GraphCommit,
        theirs: GraphCommit,
        plan: Plan,
        *,
        source: str | None = None,
        reverted: str | None = None,
    ) -> MergeResult:
        """Return what is to be done, without a commit; ``source`` is merged, or ``reverted`` undone."""
        return MergeResult(
            outcome=outcome,
            target=self.target.name,
            base_commit_id=base.graph_commit_id,
            source_commit_id=theirs.graph_commit_id,
            target_commit_id=self.target.head.commit.graph_commit_id,
            stats=self._stats(plan),
            actor_id=self.options.actor_id,
            dry_run=self.options.dry_run,
            conflicts=tuple(plan.conflicts),
            source=source,
            reverted=reverted,
        )

    def _stats(self, plan: Plan) -> MergeStats:
        return MergeStats.of(self.meter.stats(), plan.resolved, plan.embeddings_pending)


Made = TypeVar("Made", bound=MergeRun)


def run_until_planned(make: Callable[[], Made], run: Callable[[Made], MergeResult]) -> MergeResult:
    """Run an operation; begin again with new pins where others have made its plan useless.

    Those others are maintenance, and cleanups after a branch has moved on.
    """
    while True:
        operation = make()
        try:
            return run(operation)
        except PlanAgain:
            continue
        except (StorageError, Gone):
            # Files may be gone because one of the branches is, or because it has moved on.
            operation.refuse_replaced()
            if not operation.has_moved():
                raise
        finally:
            operation.scratch.close()
