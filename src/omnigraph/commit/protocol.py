"""THE commit protocol: phases A to D, for every writer.

Locks of all tables written or relied on are held from the checks to Phase D, so what was checked
stays true until it is published. Every effect is preceded by a look whether the locks are still
ours; every commit is checked by itself all the same.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from omnigraph import failpoints
from omnigraph.clock import new_ulid
from omnigraph.commit.changes import (
    WRITERS,
    InlineStep,
    NothingToPublish,
    StagedStep,
    TableChange,
    Write,
)
from omnigraph.commit.classify import is_by_writer
from omnigraph.commit.drift import HealFirst, open_undrifted, rollback_needed
from omnigraph.commit.forks import pin_at, reclaim_fork, refuse_claimed
from omnigraph.commit.heal import heal
from omnigraph.commit.observed import has_moved, observe
from omnigraph.commit.publishing import publish_held
from omnigraph.commit.sidecar import (
    Sidecar,
    delete_sidecar,
    is_pending,
    list_sidecars,
    sidecar_of,
    write_sidecar,
)
from omnigraph.commit.staging import needs_fork, stage_early, stage_step
from omnigraph.errors import (
    Contention,
    Drift,
    OmniGraphError,
    RecoveryRequired,
    SchemaConflict,
)
from omnigraph.manifest.manifest import BranchState
from omnigraph.manifest.migrations import refuse_newer
from omnigraph.manifest.publisher import Changes, branch_remade, check_expected
from omnigraph.manifest.rows import GraphCommit, Head, TableState
from omnigraph.manifest.workspace import Workspace
from omnigraph.storage.locks.locks import HeldLocks
from omnigraph.storage.locks.waiting import Purpose
from omnigraph.storage.tables.staging import Staged
from omnigraph.storage.tables.table import Table, open_table, table_exists
from omnigraph.storage.tables.table_branches import create_branch
from omnigraph.storage.tables.table_commits import commit_staged
from omnigraph.storage.tables.table_errors import CommitMisplaced, TableMoved
from omnigraph.storage.tables.transactions import transaction_uuid, transactions_after

logger = logging.getLogger(__name__)

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


class MoreLocks(Exception):
    """The write touches tables that its caller did not lock beforehand."""


def commit(workspace: Workspace, write: Write) -> GraphCommit:
    """Carry a write through phases A to D; a failure up to Phase A leaves only unreferenced files."""
    staged = stage(workspace, write)
    for _ in range(2):
        try:
            with workspace.locks.acquire(
                lock_names(workspace, write), None, purpose_of(write)
            ) as held:
                return commit_held(workspace, write, staged, held)
        except HealFirst as dead:
            # A writer that died after its last table commit: finish its work, then look again.
            first = dead
            heal(workspace)
    raise rollback_needed(str(first))


def stage(workspace: Workspace, write: Write) -> dict[str, Staged]:
    """Put down the files of a write, which nobody names yet; no lock is needed."""
    staged = stage_early(workspace, write)
    failpoints.hit(POINTS[write.writer, "before_locks"])
    return staged


def commit_held(
    workspace: Workspace, write: Write, staged: dict[str, Staged], held: HeldLocks
) -> GraphCommit:
    """Phases A to D under locks that the caller holds and gives back.

    ``MoreLocks`` when they do not cover the write, ``HealFirst`` when a dead writer must be recovered
    before, which needs its locks to be free.
    """
    if not lock_names(workspace, write) <= set(held.names):
        raise MoreLocks
    return _Commit(workspace, write, staged, held).run()


def lock_names(workspace: Workspace, write: Write) -> set[str]:
    """The locks that a write needs from its checks to Phase D."""
    tables = [*write.expected, *(new.state for new in write.created)]
    names = {workspace.lock_name(table.location, write.branch) for table in tables}
    if write.exact_head or write.touches_no_table:
        names.add(workspace.locks.head_lock(write.branch))
    if write.takes_graph_lock:
        names.add(workspace.locks.graph_lock())
    return names


def purpose_of(write: Write) -> Purpose:
    """What those are told who wait for its locks."""
    slow = write.is_large or any(
        needs_fork(change.base, write.branch) or not _is_staged_early(change)
        for change in write.tables
    )
    return Purpose(write.writer, slow)


def _is_staged_early(change: TableChange) -> bool:
    """Whether all that a table needs is put down before its lock is taken."""
    first, *others = change.steps
    return isinstance(first, StagedStep) and not first.best_effort and not others


class _Commit:
    """One run through the phases."""

    def __init__(
        self, workspace: Workspace, write: Write, staged: dict[str, Staged], held: HeldLocks
    ) -> None:
        self.workspace = workspace
        self.write = write
        self.staged = staged
        self.held = held
        self.effects = 0
        self.changed = False

    def run(self) -> GraphCommit:
        state = self._checked_state()
        if self.write.touches_no_table:
            # The publish alone is atomic: there is nothing a recovery could finish or undo.
            self._hit("before_phase_a")
            return self._publish([])
        self._make_room(state.head.graph_id)
        sidecar = sidecar_of(self.write, state.head.graph_id, self.forks, self.held)
        self._hit("before_phase_a")
        self.held.check()
        write_sidecar(self.workspace, sidecar)
        try:
            self._hit("before_phase_b")
            pins = self._phase_b()
        except OmniGraphError as error:
            raise self._after_failure(sidecar, error) from error
        self._hit("after_phase_b_before_phase_c")
        commit = self._phase_c(sidecar, pins)
        self._hit("after_phase_c_before_phase_d")
        self._phase_d(sidecar)
        return commit

    def _hit(self, moment: str) -> None:
        failpoints.hit(POINTS[self.write.writer, moment])

    # -- the checks, under the locks

    def _checked_state(self) -> BranchState:
        state = self.workspace.manifest.state(self.write.branch)
        refuse_newer(state.table)
        self._check_branch(state)
        self._check_schema(state.head)
        check_expected(state.head, self.write.expected, self.write.head_commit_id)
        graph_id = state.head.graph_id
        self.tables: dict[str, Table] = {}
        self.forks: set[str] = set()
        for change in self.write.tables:
            base = change.base
            if needs_fork(base, self.write.branch):
                self.forks.add(base.location)
                self.tables[base.location] = open_table(self.workspace.pinned(base))
            else:
                self.tables[base.location] = open_undrifted(
                    self.workspace, base, graph_id, self.write.branch, self.held
                )
        return state

    def _check_schema(self, head: Head) -> None:
        """What was validated against another schema may break a rule of this one."""
        if self.write.ir_hash is not None and self.write.ir_hash != head.ir_hash:
            raise SchemaConflict("the schema changed while the write was prepared; run it again")

    def _check_branch(self, state: BranchState) -> None:
        """A branch that was made again under its name is another branch, whatever is on it."""
        if state.identifier != self.write.pin.identifier:
            raise branch_remade(self.write.branch, self.write.expected)

    def _make_room(self, graph_id: str) -> None:
        """Before Phase A nothing may lie where this operation will make a fork or a table.

        So whatever recovery finds there afterwards is this operation's.
        """
        created = {new.state.location for new in self.write.created}
        if not created and not self.forks:
            return
        pending = list_sidecars(self.workspace, graph_id)
        refuse_claimed(pending, self.write.branch, created | self.forks)
        for location in sorted(created):
            if table_exists(self.workspace.ref(location)):
                raise Drift(
                    f"there is a table at {location} that this graph knows nothing of; move it away",
                    location=location,
                )
        for location in sorted(self.forks):
            self.held.check()
            reclaim_fork(self.workspace, location, self.write.branch, pending)

    # -- phase B

    def _phase_b(self) -> list[TableState]:
        for new in self.write.created:
            self._effect()
            new.create()
        pins = [new.state for new in self.write.created]
        for change in self.write.tables:
            table = self.tables[change.base.location]
            if change.base.location in self.forks:
                table = self._fork(table)
            after = self._run_steps(change, table)
            self.changed |= after.version != table.version
            pins.append(self._pin(change, after))
        if self.write.only_if_changed and not self.changed:
            raise NothingToPublish("every step was left out; nothing was published")
        return pins

    def _effect(self) -> None:
        """Called before every effect: stop when a lock is lost, count what was done."""
        self.held.check()
        self.effects += 1

    def _fork(self, table: Table) -> Table:
        self._hit("before_fork")
        self._effect()
        fork = create_branch(table, self.write.branch)
        self._hit("after_fork")
        return fork

    def _run_steps(self, change: TableChange, table: Table) -> Table:
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
                    table = commit_staged(staged)
            self._hit("after_table_commit")
        return table

    def _pin(self, change: TableChange, table: Table) -> TableState:
        return pin_at(change.base, table)

    def _run_inline(self, step: InlineStep, table: Table) -> Table:
        self._hit("before_table_commit")
        self._effect()
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
        try:
            staged = stage_step(step, table)
            if staged is None:
                return table
            self._hit("before_table_commit")
            self._effect()
            return commit_staged(staged)
        except (Contention, TableMoved, CommitMisplaced):
            # A lost lock, or somebody else at the table: no step is worth publishing that.
            raise
        except OmniGraphError as error:
            logger.warning("left out of the commit: %s", error)
        # The step may have landed although its answer was lost.
        if not table.has_version(table.version + 1):
            return table
        landed = open_table(table.ref.at(table.version + 1))
        if transaction_uuid(landed) == step.uuid:
            return landed
        raise TableMoved(
            f"{table.ref.at(None)} was written to by another program; run omnigraph repair",
            table=table.ref.dataset_uri,
            expected=table.version,
            actual=landed.version,
        )

    def _after_failure(self, sidecar: Sidecar, error: OmniGraphError) -> OmniGraphError:
        """Nothing moved: take the sidecar back. Something did: somebody must recover."""
        if self.effects == 0 or not self._moved(sidecar):
            try:
                delete_sidecar(self.workspace, sidecar)
            except OmniGraphError as stuck:
                logger.warning("the sidecar %s stays until the next open: %s", sidecar.name, stuck)
            return error
        return _recovery_required(self._covering(sidecar), error)

    def _moved(self, sidecar: Sidecar) -> bool:
        """Whether a transaction of ours lies ahead of its pin.

        A fork without one is reclaimed by the next write.
        """
        inline = {
            change.base.location
            for change in self.write.tables
            if not all(isinstance(step, StagedStep) for step in change.steps)
        }
        try:
            tables = self.workspace.manifest.state(self.write.branch).head.tables.values()
            pins = {table.incarnation: table.table_version for table in tables}
            for entry in sidecar.tables:
                pin = pins.get(entry.base.incarnation, entry.base.table_version)
                seen = observe(self.workspace, entry, pin)
                if has_moved(entry, seen) or (entry.base.location in inline and seen.transactions):
                    return True
        except OmniGraphError:
            return True
        return False

    def _covering(self, sidecar: Sidecar) -> Sidecar:
        """The sidecar that covers what moved, written anew where it is gone.

        A writer that slept past its lease between two looks at it may commit after others rolled
        its operation back. Under its old id the operation counts as settled, hence a new one.
        """
        try:
            if not is_pending(self.workspace, sidecar):
                sidecar = replace(sidecar, operation_id=new_ulid())
                write_sidecar(self.workspace, sidecar)
        except OmniGraphError as stuck:
            logger.warning("the tables of %s may need repair: %s", sidecar.operation_id, stuck)
        return sidecar

    # -- phases C and D

    def _phase_c(self, sidecar: Sidecar, pins: list[TableState]) -> GraphCommit:
        try:
            return self._publish(pins)
        except OmniGraphError as error:
            raise _recovery_required(sidecar, error) from error

    def _publish(self, pins: list[TableState]) -> GraphCommit:
        write = self.write
        created = {new.state.incarnation for new in write.created}
        changes = Changes(
            tables=tuple(pin for pin in pins if pin.incarnation not in created),
            registered=tuple(pin for pin in pins if pin.incarnation in created),
            renamed=write.renamed,
            dropped=tuple(table.incarnation for table in write.dropped),
            schema=write.schema,
            adopted=write.adopted,
        )
        return publish_held(
            self.workspace,
            self.held,
            write.branch,
            write.pin.identifier,
            changes,
            write.expected,
            write.intent,
            write.head_commit_id,
        )

    def _phase_d(self, sidecar: Sidecar) -> None:
        try:
            delete_sidecar(self.workspace, sidecar)
        except OmniGraphError as error:
            logger.warning(
                "the commit is durable; its sidecar %s is consumed by the next write or open: %s",
                sidecar.name,
                error,
            )


def _recovery_required(sidecar: Sidecar, error: OmniGraphError) -> RecoveryRequired:
    return RecoveryRequired(
        f"operation {sidecar.operation_id} stopped half way ({error}); the next write or "
        "read-write open finishes or undoes it",
        operation_id=sidecar.operation_id,
    )
