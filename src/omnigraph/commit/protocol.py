"""THE commit protocol: phases A to D, for every writer.

Locks of all tables written or relied on are held from the checks to Phase D, so what was checked
stays true until it is published. Every effect is preceded by a look whether the locks are still
ours; every commit is checked by itself all the same.
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace

from omnigraph import failpoints, settings
from omnigraph.commit.changes import WRITERS, StagedStep, TableChange, Write
from omnigraph.commit.drift import HealFirst, open_undrifted, rollback_needed
from omnigraph.commit.heal import heal
from omnigraph.commit.recovery import has_moved, observe
from omnigraph.commit.sidecar import (
    Sidecar,
    delete_sidecar,
    list_sidecars,
    sidecar_of,
    write_sidecar,
)
from omnigraph.commit.workspace import Workspace, lance_branch
from omnigraph.errors import Contention, OmniGraphError, RecoveryRequired
from omnigraph.manifest.handle import BranchState
from omnigraph.manifest.migrations import refuse_newer
from omnigraph.manifest.publisher import Changes, check_expected, publish
from omnigraph.manifest.rows import GraphCommit, TableState
from omnigraph.storage.handles import Table, open_table
from omnigraph.storage.staging import Staged, with_uuid
from omnigraph.storage.tables import (
    commit_staged,
    create_branch,
    delete_branch,
    list_branches,
    remove_residue,
)

logger = logging.getLogger(__name__)

MOMENTS = (
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


def commit(space: Workspace, write: Write) -> GraphCommit:
    """Carry a write through phases A to D; a failure up to Phase A leaves only unreferenced files."""
    staged = _stage_early(space, write)
    try:
        return _Commit(space, write, staged).run()
    except HealFirst:
        # A writer that died after its last table commit: finish its work, then look again.
        heal(space)
    try:
        return _Commit(space, write, staged).run()
    except HealFirst as stuck:
        raise rollback_needed(str(stuck)) from None


def _needs_fork(base: TableState, branch: str) -> bool:
    return base.table_branch != lance_branch(branch)


def _stage_early(space: Workspace, write: Write) -> dict[str, Staged]:
    """Stage the first step of every table that needs no fork: files only, outside any lock."""
    staged = {}
    for change in write.tables:
        step = change.steps[0]
        if isinstance(step, StagedStep) and not _needs_fork(change.base, write.branch):
            prepared = step.stage(open_table(space.pinned(change.base)))
            if prepared is not None:
                staged[change.base.location] = with_uuid(prepared, step.uuid)
    return staged


class _Commit:
    """One run through the phases."""

    def __init__(self, space: Workspace, write: Write, staged: dict[str, Staged]) -> None:
        self.space = space
        self.write = write
        self.staged = staged
        self.effects = 0

    def run(self) -> GraphCommit:
        with self.space.locks.acquire(self._lock_names()) as held:
            self.held = held
            state = self._checked_state()
            sidecar = self._sidecar(state)
            self._hit("before_phase_a")
            held.check()
            write_sidecar(self.space, sidecar)
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

    def _lock_names(self) -> list[str]:
        write = self.write
        tables = [change.base for change in write.tables]
        tables += [*write.relied_on, *write.dropped, *(new.state for new in write.created)]
        names = [self.space.lock_name(table.location, write.branch) for table in tables]
        return [*names, self.space.locks.graph_lock()] if write.takes_graph_lock else names

    # -- the checks, under the locks

    def _checked_state(self) -> BranchState:
        state = self.space.manifest.state(self.write.branch)
        refuse_newer(state.table)
        check_expected(state.head, self.write.expected)
        graph_id = state.head.graph_id
        self.tables: dict[str, Table] = {}
        self.forks: set[str] = set()
        for change in self.write.tables:
            base = change.base
            if _needs_fork(base, self.write.branch):
                self.forks.add(base.location)
                self.tables[base.location] = open_table(self.space.pinned(base))
            else:
                self.tables[base.location] = open_undrifted(
                    self.space, base, graph_id, self.write.branch, self.held
                )
        return state

    def _sidecar(self, state: BranchState) -> Sidecar:
        sidecar = sidecar_of(
            self.write, state.head.graph_id, state.identifier, self.forks, self.held
        )
        if self.forks:
            self._refuse_claimed_forks(state.head.graph_id)
        return sidecar

    def _refuse_claimed_forks(self, graph_id: str) -> None:
        """A leftover fork may be reclaimed unless a pending operation made it."""
        for pending in list_sidecars(self.space, graph_id):
            for entry in pending.tables:
                if pending.branch == self.write.branch and entry.base.location in self.forks:
                    raise HealFirst(pending.operation_id)

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
            pins.append(self._run_steps(change, table))
        return pins

    def _effect(self) -> None:
        """Called before every effect: stop when a lock is lost, count what was done."""
        self.held.check()
        self.effects += 1

    def _fork(self, table: Table) -> Table:
        name = self.write.branch
        self._hit("before_fork")
        self._effect()
        if name in list_branches(table.ref):
            delete_branch(table.ref, name)
        remove_residue(table.ref, name)
        fork = create_branch(table, name)
        self._hit("after_fork")
        return fork

    def _run_steps(self, change: TableChange, table: Table) -> TableState:
        early = self.staged.get(change.base.location)
        for at, step in enumerate(change.steps):
            if not isinstance(step, StagedStep):
                self._hit("before_table_commit")
                self._effect()
                table = step.run(table)
            elif step.best_effort:
                table = self._try_step(step, table)
            else:
                staged = early if at == 0 and early is not None else _stage(step, table)
                if staged is not None:
                    self._hit("before_table_commit")
                    self._effect()
                    table = commit_staged(staged)
            self._hit("after_table_commit")
        return replace(
            change.base,
            table_version=table.version,
            table_branch=table.ref.branch,
            row_count=table.count_rows(),
        )

    def _try_step(self, step: StagedStep, table: Table) -> Table:
        try:
            staged = _stage(step, table)
            if staged is None:
                return table
            self._effect()
            return commit_staged(staged)
        except Contention:
            raise
        except OmniGraphError as error:
            logger.warning("left out of the commit: %s", error)
            # The step may have landed although its answer was lost.
            return open_table(table.ref.at(None))

    def _after_failure(self, sidecar: Sidecar, error: OmniGraphError) -> OmniGraphError:
        """Nothing moved: take the sidecar back. Something did: somebody must recover."""
        if self.effects == 0 or not self._moved(sidecar):
            try:
                delete_sidecar(self.space, sidecar)
            except OmniGraphError as stuck:
                logger.warning("the sidecar %s stays until the next open: %s", sidecar.name, stuck)
            return error
        return _recovery_required(sidecar, error)

    def _moved(self, sidecar: Sidecar) -> bool:
        """Whether a transaction of ours landed. A fork without one is reclaimed by the next write."""
        inline = {
            change.base.location
            for change in self.write.tables
            if not all(isinstance(step, StagedStep) for step in change.steps)
        }
        try:
            for entry in sidecar.tables:
                seen = observe(self.space, entry, entry.base.table_version)
                if has_moved(entry, seen) or (entry.base.location in inline and seen.transactions):
                    return True
        except OmniGraphError:
            return True
        return False

    # -- phases C and D

    def _phase_c(self, sidecar: Sidecar, pins: list[TableState]) -> GraphCommit:
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
        try:
            return self._publish(changes)
        except OmniGraphError as error:
            raise _recovery_required(sidecar, error) from error

    def _publish(self, changes: Changes) -> GraphCommit:
        """Publish; while our locks keep the expectations true, only the head row is contended."""
        write = self.write
        deadline = time.monotonic() + settings.LOCK_WAIT_MS.get() / 1000
        again = False
        while True:
            self.held.check()
            try:
                return publish(
                    self.space.manifest,
                    write.branch,
                    changes,
                    write.expected,
                    write.intent,
                    unchecked=not write.expected,
                    may_have_landed=again,
                )
            except Contention:
                if time.monotonic() > deadline:
                    raise
            again = True

    def _phase_d(self, sidecar: Sidecar) -> None:
        try:
            delete_sidecar(self.space, sidecar)
        except OmniGraphError as error:
            logger.warning(
                "the commit is durable; its sidecar %s is consumed by the next write or open: %s",
                sidecar.name,
                error,
            )


def _stage(step: StagedStep, table: Table) -> Staged | None:
    prepared = step.stage(table)
    return None if prepared is None else with_uuid(prepared, step.uuid)


def _recovery_required(sidecar: Sidecar, error: OmniGraphError) -> RecoveryRequired:
    return RecoveryRequired(
        f"operation {sidecar.operation_id} stopped half way ({error}); the next write or "
        "read-write open finishes or undoes it",
        operation_id=sidecar.operation_id,
    )
