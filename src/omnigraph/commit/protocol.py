"""The commit protocol: phases A to D, used by every writer.

1. Stage files without locks.
2. Take the locks of all tables written or relied on, and keep them until Phase D, so that what is
   checked stays true until it is published.
3. Check branch, schema, pins and drift against the manifest as it is now. A pin is the table version
   the manifest names; drift is a table whose newest version is not the pinned one.
4. Phase A writes the sidecar, B commits the tables, C publishes the manifest, D deletes the
   sidecar.

For example, a write to Person (pin 7) and Knows (pin 3) moves Person to 8 and Knows to 4 in Phase
B, invisibly: readers still use 7 and 3. The publish in Phase C pins 8 and 4 at once. A crash before
Phase C leaves the sidecar, from which recovery rolls the operation forward or back.

Before every effect the locks are checked once more, because a lease can expire. Every commit also
checks its own outcome, so correctness never depends on the locks alone.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from omnigraph import failpoints
from omnigraph.cancel import stop_looking
from omnigraph.commit.changes import (
    WRITERS,
    InlineStep,
    NothingToPublish,
    StagedStep,
    TableChange,
    Write,
)
from omnigraph.commit.classify import is_by_writer
from omnigraph.commit.drift import open_undrifted
from omnigraph.commit.forks import pin_at, reclaim_fork, refuse_pending
from omnigraph.commit.heal import run_healing
from omnigraph.commit.phases.failed import FailedCommit, recovery_required
from omnigraph.commit.phases.marking import check_mark
from omnigraph.commit.phases.publishing import publish_under_locks
from omnigraph.commit.replays import refuse_repeated, refuse_repeated_batch
from omnigraph.commit.sidecar import (
    Sidecar,
    build_sidecar,
    delete_sidecar,
    list_sidecars,
    write_sidecar,
)
from omnigraph.commit.stage_tables import (
    MoreLocks,
    lock_names,
    lock_purpose,
    needs_fork,
    stage_early,
    stage_step,
)
from omnigraph.errors import Contention, Drift, OmniGraphError
from omnigraph.lang.schema.catalog_of import catalog_of
from omnigraph.lang.schema.read_ir import read_ir
from omnigraph.manifest.history.records import MAINTENANCE
from omnigraph.manifest.history.version_marks import ANY_GONE, gone_marks
from omnigraph.manifest.lost_races import branch_remade, check_expected, schema_changed
from omnigraph.manifest.manifest import BranchState
from omnigraph.manifest.migrations import refuse_newer
from omnigraph.manifest.publisher import ManifestChanges
from omnigraph.manifest.rows import GraphCommit, Head, TableState
from omnigraph.manifest.schema_row import ContractBroken, unlike_tables
from omnigraph.manifest.workspace import Workspace, Written
from omnigraph.storage.locks.locks import HeldLocks
from omnigraph.storage.tables.staging import Staged
from omnigraph.storage.tables.table import Table, open_table
from omnigraph.storage.tables.table_branches import create_branch
from omnigraph.storage.tables.table_commits import commit_staged
from omnigraph.storage.tables.table_errors import CommitMisplaced, TableMoved
from omnigraph.storage.tables.transactions import transaction_uuid, transactions_after

logger = logging.getLogger(__name__)

# Every writer has a failpoint at each of these moments, such as `load.before_phase_b`.
MOMENTS = (
    "before_locks",
    "before_phase_a",
    "before_phase_b",
    "before_fork",
    "after_fork",
    "before_table_commit",
    "after_table_commit",
    "after_phase_b_before_phase_c",
    "after_phase_c_before_phase_d",
)
POINTS = {
    (writer, moment): failpoints.declare(f"{writer}.{moment}")
    for writer in WRITERS
    for moment in MOMENTS
}


def commit(workspace: Workspace, write: Write) -> GraphCommit:
    """Carry a write through phases A to D. A failure before Phase A leaves only unreferenced files."""
    staged = stage(workspace, write)

    def run() -> GraphCommit:
        with workspace.locks.acquire(
            lock_names(workspace, write), None, lock_purpose(write)
        ) as held:
            return commit_under_locks(workspace, write, staged, held)

    return run_healing(workspace, run)


def stage(workspace: Workspace, write: Write) -> dict[str, Staged]:
    """Write the files of a write, which nothing refers to yet; no lock is needed."""
    staged = stage_early(workspace, write)
    failpoints.hit(POINTS[write.writer, "before_locks"])
    return staged


def commit_under_locks(
    workspace: Workspace, write: Write, staged: dict[str, Staged], held: HeldLocks
) -> GraphCommit:
    """Run phases A to D under locks that the caller holds and releases.

    Raises ``MoreLocks`` if the locks do not cover the write, and ``HealFirst`` if a dead writer
    must be recovered first, which needs its locks to be free.
    """
    # Locks were taken for an earlier attempt, and a write that was planned anew may rely on other tables.
    if not lock_names(workspace, write) <= set(held.names):
        raise MoreLocks
    made = _Commit(workspace, write, staged, held).run()
    workspace.tally.count_commit()
    logger.info("commit %s: %s on branch `%s`", made.graph_commit_id, made.operation, write.branch)
    return made


class _Commit:
    """One run of a write through the phases."""

    def __init__(
        self, workspace: Workspace, write: Write, staged: dict[str, Staged], held: HeldLocks
    ) -> None:
        self.workspace = workspace
        self.write = write
        self.staged = staged
        self.held = held
        self.effects = 0  # attempted effects; 0 means that Phase B certainly changed nothing
        self.written: list[Written] = []  # the tables that have a new version
        self.committed: dict[int, list[Staged]] = {}  # what was committed to each incarnation

    def run(self) -> GraphCommit:
        """Run the checks and the phases; return the commit that was published."""
        state = self._check_state()
        if self.write.touches_no_table:
            # The publish alone is atomic: there is nothing a recovery could finish or undo.
            self._hit("before_phase_a")
            stop_looking()
            return self._publish([])
        # Before the sidecar: what lies in the way now is somebody else's, and after it recovery would take it
        # for ours.
        self._make_room(state.head.graph_id)
        sidecar = build_sidecar(self.write, state.head.graph_id, self.forks, self.held)
        self._hit("before_phase_a")
        self.held.check()
        check_mark(self.workspace)
        stop_looking()
        # From here on every end is decided by what is on the store: a caller that gives up changes nothing
        # about it.
        write_sidecar(self.workspace, sidecar)
        try:
            self._hit("before_phase_b")
            pins = self._phase_b()
        except OmniGraphError as error:
            # Without an effect the sidecar can go at once; otherwise somebody has to look which tables moved.
            return self._failed(sidecar).settle(error, tried=self.effects > 0)
        self._hit("after_phase_b_before_phase_c")
        commit = self._phase_c(sidecar, pins)
        self._hit("after_phase_c_before_phase_d")
        # Published: whatever fails from here on, the write has happened, and a sidecar that stays is closed by
        # the next heal.
        self._phase_d(sidecar)
        self._tell()
        return commit

    def _hit(self, moment: str) -> None:
        failpoints.hit(POINTS[self.write.writer, moment])

    # -- the checks, under the locks

    def _check_state(self) -> BranchState:
        """Check branch, schema, pins and drift under the locks; open the tables; return the state."""
        state = self.workspace.manifest.state(self.write.branch)
        # A copy of a graph whose own addresses still lead to the original must not be written to.
        self.workspace.manifest.ensure_settled()
        refuse_newer(state.table)
        self._check_branch(state)
        if self.write.batch is None:
            refuse_repeated(self.workspace, state, self.write.intent)
        else:
            refuse_repeated_batch(self.workspace, state, self.write.batch)
        self._check_schema(state.head)
        # By identity, not by number: another branch, or a table made anew, may have a version of the same
        # number.
        check_expected(state.head, self.write.expected, self.write.head_commit_id)
        self._check_tables(state.head)
        graph_id = state.head.graph_id
        self.tables: dict[str, Table] = {}
        self.forks: set[str] = set()
        for change in self.write.tables:
            base = change.base
            if needs_fork(base, self.write.branch):
                # A fork starts from the pinned version, so drift of the parent does not matter.
                self.forks.add(base.location)
                self.tables[base.location] = open_table(self.workspace.pinned(base))
            else:
                self.tables[base.location] = open_undrifted(
                    self.workspace,
                    base,
                    graph_id,
                    self.write.branch,
                    self.held,
                    change.opened,
                )
        return state

    def _check_schema(self, head: Head) -> None:
        """Refuse if the schema changed: the write was not validated against its rules."""
        if self.write.ir_hash is not None and self.write.ir_hash != head.ir_hash:
            raise schema_changed()

    def _check_tables(self, head: Head) -> None:
        """Refuse a schema whose tables the graph would not have: no reader could open what is published."""
        write = self.write
        if write.schema is None:
            return
        dropped = {pin.incarnation for pin in write.dropped}
        live = {
            write.renamed.get(pin.incarnation, key): pin.incarnation
            for key, pin in head.tables.items()
            if pin.incarnation not in dropped
        }
        new = (*write.taken_over, *write.brought_in, *(each.state for each in write.created))
        live |= {table.table_key: table.incarnation for table in new}
        unlike = unlike_tables(catalog_of(read_ir(write.schema.ir)), live)
        if unlike:
            raise ContractBroken(
                f"the commit would give the graph other tables than its schema: {', '.join(unlike)}; "
                "nothing was changed; please report this, it is a defect of OmniGraph",
                tables=unlike,
            )

    def _check_branch(self, state: BranchState) -> None:
        """Refuse a branch that was deleted and made again under the same name."""
        if state.identifier != self.write.pin.identifier:
            raise branch_remade(self.write.branch, self.write.expected)

    def _make_room(self, graph_id: str) -> None:
        """Remove leftovers where this operation will create a fork or a table.

        After Phase A, recovery may then assume that whatever lies there belongs to this operation.
        """
        created = {new.state.location: new.state.table_key for new in self.write.created}
        if not created and not self.forks:
            return
        pending = list_sidecars(self.workspace, graph_id)
        refuse_pending(pending, self.write.branch, created.keys() | self.forks)
        for location, table_key in created.items():
            # Foreign data is never adopted.
            if self.workspace.store.exists(location):
                raise Drift(
                    f"there is something at {location} already, where the table of {table_key} would "
                    "be, and this graph knows nothing of it; move it away",
                    location=location,
                )
        for location in sorted(self.forks):
            self.held.check()
            reclaim_fork(self.workspace, location, self.write.branch, pending)

    # -- phase B

    def _phase_b(self) -> list[TableState]:
        """Create tables and forks, commit every step, and return the new pins."""
        pins = []
        for new in self.write.created:
            self._effect()
            made = self._run_steps(TableChange(new.state, new.steps), new.create())
            pins.append(pin_at(new.state, made) if new.steps else new.state)
        for change in self.write.tables:
            table = self.tables[change.base.location]
            if change.base.location in self.forks:
                table = self._fork(table)
            after = self._run_steps(change, table)
            is_new = after.version != table.version
            maintained = is_new and self.write.writer in MAINTENANCE
            pin = pin_at(change.base, after, maintained=maintained)
            if is_new:
                self.written.append(Written(pin, after))
            pins.append(pin)
        # Upkeep whose steps all were left out would otherwise leave a commit that says nothing.
        if self.write.only_if_changed and not self.written:
            raise NothingToPublish("every step was left out; nothing was published")
        return pins

    def _effect(self) -> None:
        """Check the locks before an effect, and count it. A lost lock raises."""
        self.held.check()
        check_mark(self.workspace)
        self.effects += 1

    def _fork(self, table: Table) -> Table:
        self._hit("before_fork")
        self._effect()
        fork = create_branch(table, self.write.branch)
        self._hit("after_fork")
        return fork

    def _run_steps(self, change: TableChange, table: Table) -> Table:
        """Commit the steps of one table in order; return the table at its new version."""
        early = self.staged.get(change.base.location)
        for at, step in enumerate(change.steps):
            if isinstance(step, InlineStep):
                table = self._run_inline(step, table)
            elif step.best_effort:
                table = self._try_step(step, table)
            else:
                staged = early if at == 0 and early is not None else stage_step(step, table)
                if staged is not None:
                    self._hit("before_table_commit")
                    self._effect()
                    table = commit_staged(staged, table)
                    self.committed.setdefault(change.base.incarnation, []).append(staged)
            self._hit("after_table_commit")
        return table

    def _run_inline(self, step: InlineStep, table: Table) -> Table:
        """Run a step that commits by itself; check that only this writer's transactions appeared."""
        self._hit("before_table_commit")
        self._effect()
        # Lance commits here, under a UUID that nobody knows beforehand; so what it did is looked at afterwards.
        after = step.run(table)
        for made in transactions_after(after, table.version, after.version):
            if not is_by_writer(self.write.writer, made.operation):
                raise CommitMisplaced(
                    f"another program wrote to {table.ref.at(None)} during `{step.name}` "
                    f"({made.operation}); run omnigraph repair",
                    table=table.ref.dataset_uri,
                    expected=made.version,
                    actual=after.version,
                    transaction_uuid=made.uuid,
                )
        return after

    def _try_step(self, step: StagedStep, table: Table) -> Table:
        """Commit a best-effort step; a step that fails is logged and left out."""
        try:
            staged = stage_step(step, table)
            if staged is None:
                return table
            self._hit("before_table_commit")
            self._effect()
            after = commit_staged(staged, table)
        except (Contention, TableMoved, CommitMisplaced):
            # A lost lock, or another writer at the table: leaving out the step would not be enough.
            raise
        except OmniGraphError as error:
            failure = error
        else:
            step.settled(None)
            return after
        # The commit may have succeeded although its answer was lost.
        if not table.has_version(table.version + 1):
            logger.warning("left out of the commit: %s", failure)
            step.settled(failure)
            return table
        landed = open_table(table.ref.at(table.version + 1))
        if transaction_uuid(landed) == step.uuid:
            step.settled(None)
            return landed
        raise TableMoved(
            f"{table.ref.at(None)} was written to by another program; run omnigraph repair",
            table=table.ref.dataset_uri,
            expected=table.version,
            actual=landed.version,
        )

    # -- phases C and D

    def _phase_c(self, sidecar: Sidecar, pins: list[TableState]) -> GraphCommit:
        """Publish the new pins; a failure leaves the sidecar for recovery."""
        try:
            return self._publish(pins)
        except OmniGraphError as error:
            failed = self._failed(sidecar)
            if failed.has_lost_locks():
                return failed.settle(error, tried=self.effects > 0)
            raise recovery_required(sidecar, error) from error

    def _failed(self, sidecar: Sidecar) -> FailedCommit:
        return FailedCommit(self.workspace, self.write, self.held, sidecar)

    def _publish(self, pins: list[TableState]) -> GraphCommit:
        """Publish the pins with everything else that the write carries."""
        write = self.write
        intent = write.intent
        if write.late_facts is not None:
            intent = replace(intent, facts={**intent.facts, **write.late_facts(pins)})
        created = {new.state.incarnation for new in write.created}
        changes = ManifestChanges(
            tables=(
                *(pin for pin in pins if pin.incarnation not in created),
                *write.taken_over,
            ),
            registered=(
                *(pin for pin in pins if pin.incarnation in created),
                *write.brought_in,
            ),
            renamed=write.renamed,
            dropped=tuple(table.incarnation for table in write.dropped),
            purged=write.purged,
            schema=write.schema,
            adopted=write.adopted,
            streams=write.stream_records,
            gone={
                **{number: gone_marks(staged) for number, staged in self.committed.items()},
                **{pin.incarnation: ANY_GONE for pin in write.taken_over},
            },
            forgotten=write.forgotten,
            audit=write.audit,
        )
        return publish_under_locks(
            self.workspace,
            self.held,
            branch=write.branch,
            identifier=write.pin.identifier,
            changes=changes,
            expected=write.expected,
            intent=intent,
            head_commit_id=write.head_commit_id,
        )

    def _phase_d(self, sidecar: Sidecar) -> None:
        """Delete the sidecar. The commit is durable, so a failure is only logged."""
        try:
            delete_sidecar(self.workspace, sidecar, published=True)
        except OmniGraphError as error:
            logger.warning(
                "the commit is durable; its sidecar %s is consumed by the next write or open: %s",
                sidecar.name,
                error,
            )

    def _tell(self) -> None:
        """Tell the workspace of a commit that changed rows."""
        if self.write.writer not in MAINTENANCE:
            act = self.workspace.after_commit(self.workspace, self.write.branch, self.written)
            if act is not None:
                self.held.afterwards(act)
