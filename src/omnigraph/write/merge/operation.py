"""What a merge and a revert have in common: one run on pinned heads, from the plan to the commit.

To bring the plan into the target branch, files are staged before any lock is taken, except those of tables
that the branch has not forked yet. Under the locks the target must still have the content that was compared.
Maintenance that came in between changes none: the rows are then staged again on the tables as they are now.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar

from omnigraph.changes.stats import Meter
from omnigraph.clock import new_ulid, stamp_us
from omnigraph.commit.attempts import check_precondition
from omnigraph.commit.changes import TableChange, Write, Writer
from omnigraph.commit.heal import run_healing
from omnigraph.commit.protocol import POINTS, commit_under_locks, stage
from omnigraph.commit.stage_tables import lock_purpose, needs_fork, stage_early
from omnigraph.commit.whole_branch import hold_branch
from omnigraph.errors import ExpectedVersionMismatch, Gone, StorageError
from omnigraph.lang.schema.catalog import Catalog
from omnigraph.lang.schema.merge.resolution_words import Words
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.history.equal_content import is_readable
from omnigraph.manifest.history.stream_records import StreamRecord, newer_streams
from omnigraph.manifest.lost_races import branch_remade
from omnigraph.manifest.manifest import BranchState
from omnigraph.manifest.publisher import Intent
from omnigraph.manifest.rows import GraphCommit
from omnigraph.manifest.schema_row import mirror_main, settle_mirrors
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.manifest.workspace import Workspace
from omnigraph.storage.locks.waiting import Purpose
from omnigraph.write.merge.decided import DecideOptions, conflicts_error
from omnigraph.write.merge.request import MergeOptions, MergeResult, MergeStats, Outcome
from omnigraph.write.merge.resolutions import Resolutions, read_resolutions
from omnigraph.write.merge.schemas import MergedSchemas, SchemaMerging
from omnigraph.write.merge.spool import HELD_BYTES, Scratch
from omnigraph.write.merge.three_way import Plan, States, ThreeWay
from omnigraph.write.schema_tables import (
    ChangedTables,
    column_steps,
    new_dataset,
    table_changes,
)
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
    if merge.plan.changes_schema:
        return _publish_with_schema(workspace, merge)
    write = _write(workspace, merge, merge.before)
    staged = stage(workspace, write)
    with hold_branch(workspace, merge.before, lock_purpose(write)) as branch:
        merge.check()
        if branch.state.pin != merge.before.pin:
            write = _write(workspace, merge, branch.state)
            staged = stage_early(workspace, write)
        return commit_under_locks(workspace, write, staged, branch.held)


def _publish_with_schema(workspace: Workspace, merge: Publication) -> GraphCommit:
    """Commit a merge that changes the schema: columns come before rows, and are tried under the locks."""
    schemas = merge.plan.schemas
    assert schemas is not None
    assert schemas.row is not None
    row, on_main = schemas.row, merge.before.name == MAIN
    expected = table_changes(
        workspace, merge.before, schemas.target, schemas.catalog, by_merge=True
    )
    places = [table.location for _, table in expected.created]
    purpose = Purpose(merge.writer, slow=True)
    POINTS[merge.writer, "before_locks"].hit()
    with hold_branch(workspace, merge.before, purpose, places) as branch:
        merge.check()
        if on_main:
            settle_mirrors(workspace.store, workspace.manifest.schema(branch.state))
        write = _write(workspace, merge, branch.state)
        commit = commit_under_locks(workspace, write, {}, branch.held)
        if on_main:
            mirror_main(workspace.store, row)
        return commit


def _write(workspace: Workspace, merge: Publication, state: BranchState) -> Write:
    """Return the write of a merge on a state of its target; it rests on every table of the branch."""
    plan, schemas = merge.plan, merge.plan.schemas
    changes = ChangedTables()
    if plan.changes_schema and schemas is not None:
        changes = table_changes(workspace, state, schemas.target, schemas.catalog, by_merge=True)
    pins = {pin.incarnation: pin for pin in state.head.tables.values()}
    steps = {
        pin.incarnation: list(column_steps(workspace, pin, one, state.name))
        for pin, one in changes.columns
    }
    taken_over, brought_in, rows_of = [], [], {}
    for merged in plan.tables.values():
        number = merged.entity.table_incarnation_id
        if merged.taken_over is None:
            rows_of[number] = merged.step()
        elif merged.is_new:
            brought_in.append(merged.taken_over)
        elif needs_fork(pins[number], state.name):
            taken_over.append(merged.taken_over)
            steps.pop(number, None)
        else:
            raise PlanAgain
    for number, step in rows_of.items():
        if number in pins:
            steps.setdefault(number, []).append(step)
    known = {pin.incarnation for pin in brought_in}
    created = tuple(
        new_dataset(workspace, entity, table, rows_of.get(table.incarnation))
        for entity, table in changes.created
        if table.incarnation not in known
    )
    dropped = {pin.incarnation for pin in changes.dropped}
    return Write(
        writer=merge.writer,
        pin=state.pin,
        intent=merge.intent,
        tables=tuple(TableChange(pins[number], tuple(done)) for number, done in steps.items()),
        created=created,
        relied_on=tuple(
            pin for number, pin in pins.items() if number not in steps and number not in dropped
        ),
        taken_over=tuple(taken_over),
        brought_in=tuple(brought_in),
        renamed=changes.renamed,
        dropped=changes.dropped,
        schema=None if schemas is None else schemas.row,
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

    def resolutions(self, catalog: Catalog | None = None) -> Resolutions:
        """Return how the caller decides conflicts, given the types of the result; by default the target's."""
        if catalog is None:
            catalog = self.options.catalog(self.target)
        return read_resolutions(catalog, self.options.resolve, self.options.blobs)

    def plan(
        self,
        base: Snapshot,
        source: Snapshot,
        name: str,
        *,
        checks: bool,
        undone: str | None = None,
    ) -> Plan:
        """Compare base and source, and decide what becomes of the target.

        ``name`` is how messages call the source; of a revert, ``undone`` is the commit.
        """
        states = States(base, source, Snapshot.of(self.target.name, self.target.head))
        schemas = self._schemas(states, name, undone)
        if schemas is not None and schemas.conflicts:
            return Plan(conflicts=list(schemas.conflicts), schemas=schemas)
        catalog = self.options.catalog(self.target) if schemas is None else schemas.catalog
        plan = ThreeWay(
            self.workspace,
            catalog,
            states,
            self.target.name,
            DecideOptions(self.options.granularity, self.resolutions(catalog)),
            meter=self.meter,
            scratch=self.scratch,
            make_vectors=planned_vectors if self.options.dry_run else self.options.vectors.make,
            images=self.options.images,
            short=self.options.short,
            spark_for=self.options.spark_for,
            schemas=schemas,
        ).run(checks=checks)
        plan.count(self.meter)
        return plan

    def _schemas(self, states: States, name: str, undone: str | None) -> MergedSchemas | None:
        """Return what the three schemas come to; None if there is one schema, which costs no look."""
        every = (states.base, states.source, states.target)
        if len({one.ir_hash for one in every}) == 1:
            Words(self.options.resolve_schema).refuse_unused()
            return None
        names = name, self.target.name
        merging = SchemaMerging(self.workspace, every, names, self.meter, undone)
        return merging.run(self.options.resolve_schema, dry_run=self.options.dry_run)

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

        Conflicts are raised; ``what`` has them. A dry run shows them, and raises every other refusal of the schema.
        """
        if plan.conflicts:
            if self.options.dry_run:
                return told
            raise conflicts_error(what, plan.conflicts, resolved=plan.resolved > 0)
        if plan.schemas is not None and plan.schemas.row is not None and plan.schemas.change:
            self.options.check_schema(plan.schemas.row.source)
        if self.options.dry_run:
            return told
        asked = self.options.asked("merge" if writer == "branch_merge" else "revert")
        intent = Intent(
            new_ulid(),
            writer,
            self.started,
            self.options.actor_id,
            merged_parent_commit_id=merged_parent,
            facts={**facts, **plan.schema_facts(), **asked.facts(told.answer())},
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
            schema=None if plan.schemas is None else plan.schemas.change,
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
