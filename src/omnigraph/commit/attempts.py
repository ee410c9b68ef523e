"""Run an operation again when it loses a race, until it is committed or its caller gives up.

What happens, for two writers of one branch:

1. Both prepare on the head they see, without locks. Without other writers that is the whole story.
2. The faster one takes the locks and commits. The slower one takes them next, finds that the head
   has moved, and keeps its locks.
3. The slower one prepares again on the new head. Every other writer needs those locks, so this
   attempt cannot lose to one of them.

Writers that wait for a lock get it roughly in order of arrival. The time spent waiting is limited
over all attempts together (OMNIGRAPH_LOCK_WAIT_MS); the time spent working is not.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

from omnigraph import failpoints
from omnigraph.commit.changes import Write
from omnigraph.commit.drift import HealFirst, being_recovered
from omnigraph.commit.heal import heal
from omnigraph.commit.phases.marking import marked, note_left_files
from omnigraph.commit.protocol import commit_under_locks, stage
from omnigraph.commit.stage_tables import MoreLocks, lock_names, lock_purpose, stage_early
from omnigraph.errors import (
    Contention,
    ExpectedVersionMismatch,
    HistoryReclaimed,
    PreconditionFailed,
    SchemaApplyInProgress,
    SchemaConflict,
    StorageError,
)
from omnigraph.manifest.actors import check_if_commit
from omnigraph.manifest.history.equal_content import is_same_content
from omnigraph.manifest.lost_races import branch_remade, check_expected, schema_changed
from omnigraph.manifest.manifest import BranchState
from omnigraph.manifest.rows import GraphCommit
from omnigraph.manifest.schema_row import ContractBroken
from omnigraph.manifest.workspace import Workspace
from omnigraph.storage.locks.locks import HeldLocks
from omnigraph.storage.locks.waiting import Patience, Purpose

PINNED = failpoints.declare("attempt.pinned")

Result = TypeVar("Result")

LOST = (ExpectedVersionMismatch, Contention, SchemaConflict, SchemaApplyInProgress)
"""What an attempt raises when another writer came first."""
PAUSE_SECONDS = 0.02
"""The longest pause before the next attempt, where the last one took no new locks."""


@dataclass(slots=True)
class Attempt:
    """One attempt: the branch as it is now, and the way to commit what was prepared on it."""

    workspace: Workspace
    state: BranchState
    patience: Patience
    held: HeldLocks | None = None
    """The locks kept from an earlier attempt, or those this attempt took for its commit."""
    if_commit: str | None = None
    lock_request: LockRequest | None = None

    def commit(self, write: Write) -> GraphCommit:
        """Carry the write through the phases. A lost race raises, and leaves the locks held."""
        if self.if_commit is not None:
            write = require_exact_head(write, self.state)
        self.lock_request = LockRequest(
            frozenset(lock_names(self.workspace, write)), lock_purpose(write)
        )
        if self.held is not None:
            if not self.workspace.locks.extend(self.held, self.lock_request.names):
                raise MoreLocks
            return commit_under_locks(
                self.workspace, write, stage_early(self.workspace, write), self.held
            )
        staged = stage(self.workspace, write)
        self.held = self.workspace.locks.acquire(
            self.lock_request.names, self.patience, self.lock_request.purpose
        )
        return commit_under_locks(self.workspace, write, staged, self.held)

    def end(self) -> None:
        """Release the locks, if any are held."""
        if self.held is not None:
            self.held.release()
            self.held = None


class LockRequest(NamedTuple):
    """The locks an operation needs, and the purpose that other writers see while they wait."""

    names: frozenset[str]
    purpose: Purpose


@dataclass(frozen=True, slots=True)
class Attempts:
    """How often and under which conditions an operation on a branch is run.

    ``retries``: how many more attempts a lost race allows; None means as many as the waiting time
    permits. ``if_commit``: the branch must be at that commit, both before the operation prepares
    and again under the locks. ``branch_id``: the Lance identifier of the branch, for a caller that
    has already prepared something for it; another branch of the same name is refused.
    ``one_schema``: stop when the schema changed, because input that was read under one schema
    cannot be read again under another. ``first``: locks to take before anything is prepared, for a
    caller who sees that somebody else holds them, and would lose the race.
    """

    workspace: Workspace
    branch: str
    retries: int | None = None
    if_commit: str | None = None
    branch_id: str | None = None
    one_schema: bool = False
    first: LockRequest | None = None

    def run(self, work: Callable[[Attempt], Result]) -> Result:
        """Call ``work`` until it succeeds, and return its result.

        ``work`` prepares everything from the state of the attempt it is given, because the state of
        an earlier attempt is out of date.
        """
        with marked(self.workspace, "write"):
            return self._run(work)

    def _run(self, work: Callable[[Attempt], Result]) -> Result:
        patience = Patience()
        left = self.retries
        held: HeldLocks | None = None
        if self.first is not None:
            held = self.workspace.locks.acquire(self.first.names, patience, self.first.purpose)
        while True:
            attempt = self._begin(patience, held)
            try:
                return self._run_work(work, attempt)
            except MoreLocks:
                held = self._heal_and_relock(attempt)
            except HealFirst as first:
                held = self._heal_and_relock(attempt, str(first))
            # By class a lost race, but none: the row of the schema and the tables do not fit together.
            except ContractBroken:
                raise
            except LOST as lost:
                self.workspace.tally.count_lost_race()
                left = self._attempts_left(attempt, lost, left)
                if isinstance(lost, (Contention, SchemaApplyInProgress)):
                    # The locks were lost, or another writer is in the middle of something that may
                    # need them: two writers that kept theirs could wait for each other.
                    attempt.end()
                took_locks = attempt.held not in {None, held}
                if not took_locks:
                    # The next attempt would meet the same obstacle at once, so wait a moment.
                    if patience.left() <= 0:
                        raise
                    _pause(patience)
                held, attempt.held = attempt.held, None
            finally:
                attempt.end()
            if attempt.lock_request is not None:
                note_left_files(self.workspace)

    def _heal_and_relock(self, attempt: Attempt, blocked_by: str | None = None) -> HeldLocks | None:
        """Release the locks, finish what dead writers left, and take every lock the operation needs.

        Recovery takes the dead writer's locks, so it cannot run while this attempt holds them.
        ``blocked_by`` is the operation in the way, if there is one. If it must be rolled back, which
        only a read-write open may do, this operation is refused.
        """
        before = set() if attempt.held is None else set(attempt.held.names)
        attempt.end()
        report = heal(self.workspace)
        report.refuse_deferred(blocked_by)
        if any(one.operation_id == blocked_by for one in report.in_flight):
            if attempt.patience.left() <= 0:
                raise being_recovered(str(blocked_by))
            _pause(attempt.patience)
        if attempt.lock_request is None:
            return None
        names = attempt.lock_request.names | before
        return self.workspace.locks.acquire(names, attempt.patience, attempt.lock_request.purpose)

    def _begin(self, patience: Patience, held: HeldLocks | None) -> Attempt:
        try:
            return Attempt(self.workspace, self._read_branch(), patience, held, self.if_commit)
        except BaseException:
            if held is not None:
                held.release()
            raise

    def _read_branch(self) -> BranchState:
        state = self.workspace.manifest.state(self.branch)
        if self.branch_id is not None and state.identifier != self.branch_id:
            raise branch_remade(self.branch)
        check_precondition(self.workspace, state, self.if_commit)
        return state

    def _run_work(self, work: Callable[[Attempt], Result], attempt: Attempt) -> Result:
        """Run the work; an error that another operation caused becomes a lost race.

        Deleting a branch, a hard drop and a cleanup after another write remove files that this
        operation may still be reading. (One that holds its locks cannot meet them.)
        """
        PINNED.hit()
        try:
            return work(attempt)
        except (StorageError, HistoryReclaimed):
            now = self.workspace.manifest.state(self.branch)
            if now.identifier != attempt.state.identifier:
                raise branch_remade(self.branch) from None
            if now.head.ir_hash != attempt.state.head.ir_hash:
                raise schema_changed() from None
            pins = attempt.state.head.tables.values()
            # A pinned version that is gone was replaced and cleaned up: then the race explains the error.
            check_expected(now.head, [pin for pin in pins if not self.workspace.is_there(pin)])
            raise

    def _attempts_left(self, attempt: Attempt, lost: Exception, left: int | None) -> int | None:
        """Return how many attempts remain after a lost one; raise the caller's error if none do.

        An attempt that lost only to maintenance is not counted.
        """
        # Otherwise upkeep, which runs behind every write, could use up the attempts of a caller who allows
        # none.
        if self._only_maintenance(attempt):
            return left
        if self.if_commit is not None:
            self._refuse_precondition(attempt)
            raise lost
        if left == 0 or (self.one_schema and isinstance(lost, SchemaConflict)):
            raise lost
        return None if left is None else left - 1

    def _only_maintenance(self, attempt: Attempt) -> bool:
        """Return whether only maintenance commits came in between.

        They change no content, so what the operation read and validated still holds.
        """
        now = self.workspace.manifest.state(self.branch)
        before = attempt.state
        if now.identifier != before.identifier or now.head.ir_hash != before.head.ir_hash:
            return False
        then = before.head.commit.graph_commit_id
        return now.head.commit.graph_commit_id != then and is_same_content(
            self.workspace.manifest, now, then
        )

    def _refuse_precondition(self, attempt: Attempt) -> None:
        """Raise ``PreconditionFailed`` if the head moved or the branch was deleted and made again."""
        now = self.workspace.manifest.state(self.branch)
        if self.if_commit is not None and now.identifier != attempt.state.identifier:
            raise _precondition_failed(now, self.if_commit)
        check_precondition(self.workspace, now, self.if_commit)


def require_exact_head(write: Write, state: BranchState) -> Write:
    """Return the write with every table of the head among those it relies on.

    Any other commit that came first is then refused, whichever tables it changed.
    """
    known = {pin.table_key for pin in write.expected}
    others = (pin for key, pin in state.head.tables.items() if key not in known)
    return replace(write, relied_on=(*write.relied_on, *others), exact_head=True)


def check_precondition(workspace: Workspace, state: BranchState, if_commit: str | None) -> None:
    """Raise ``PreconditionFailed`` unless the branch is at the commit the caller knows.

    Maintenance commits count as their first parent: they change no content.
    """
    wanted = check_if_commit(if_commit)
    if wanted is not None and not is_same_content(workspace.manifest, state, wanted):
        raise _precondition_failed(state, wanted)


def _precondition_failed(state: BranchState, if_commit: str) -> PreconditionFailed:
    actual = state.head.commit.graph_commit_id
    return PreconditionFailed(
        f"branch `{state.name}` is at commit {actual}, not at {if_commit}; read again and decide anew",
        branch=state.name,
        expected=if_commit,
        actual=actual,
    )


def _pause(patience: Patience) -> None:
    """Sleep for a random moment, and count it as waiting so that attempts cannot go on forever."""
    pause = random.uniform(0.1, 1.0) * PAUSE_SECONDS
    time.sleep(pause)
    patience.spend(pause)
