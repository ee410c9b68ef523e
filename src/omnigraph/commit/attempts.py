"""Lost races are run again: an operation is prepared anew on the new head until it is committed.

The first attempt prepares without locks, which is all there is to it where nobody else writes. One that
finds under its locks that somebody was faster keeps them and prepares again, so nobody who takes locks can
come first a second time. Those who wait are served about in order of arrival. Waiting is bounded over all
attempts together (OMNIGRAPH_LOCK_WAIT_MS), work is not.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

from omnigraph.commit.changes import Write
from omnigraph.commit.drift import HealFirst, rollback_needed
from omnigraph.commit.heal import heal
from omnigraph.commit.protocol import MoreLocks, commit_held, lock_names, purpose_of, stage
from omnigraph.commit.staging import stage_early
from omnigraph.errors import (
    Contention,
    ExpectedVersionMismatch,
    PreconditionFailed,
    SchemaConflict,
    StorageError,
)
from omnigraph.manifest.commits import is_same_content
from omnigraph.manifest.manifest import BranchPin, BranchState
from omnigraph.manifest.publisher import branch_remade
from omnigraph.manifest.rows import GraphCommit
from omnigraph.manifest.workspace import Workspace
from omnigraph.storage.locks.locks import HeldLocks
from omnigraph.storage.locks.waiting import Patience, Purpose
from omnigraph.storage.objects.store_errors import LockLost

Result = TypeVar("Result")

LOST = (ExpectedVersionMismatch, Contention, SchemaConflict)
PAUSE_SECONDS = 0.02


@dataclass(slots=True)
class Attempt:
    """One attempt: the branch as it stands, and the way to commit what was prepared on it."""

    workspace: Workspace
    state: BranchState
    patience: Patience
    held: HeldLocks | None = None
    """The locks: of an earlier attempt, or those that this one took for its commit."""
    if_commit: str | None = None
    wanted: Wanted | None = None

    def commit(self, write: Write) -> GraphCommit:
        """Carry the write through the phases; a lost race ends the attempt, and keeps its locks."""
        if self.if_commit is not None:
            write = on_exact_head(write, self.state)
        self.wanted = Wanted(frozenset(lock_names(self.workspace, write)), purpose_of(write))
        if self.held is not None:
            if not self.wanted.names <= set(self.held.names):
                raise MoreLocks
            return commit_held(self.workspace, write, stage_early(self.workspace, write), self.held)
        staged = stage(self.workspace, write)
        self.held = self.workspace.locks.acquire(
            self.wanted.names, self.patience, self.wanted.purpose
        )
        return commit_held(self.workspace, write, staged, self.held)

    def end(self) -> None:
        """Give the locks back."""
        if self.held is not None:
            self.held.release()
            self.held = None


class Wanted(NamedTuple):
    """The locks that an operation needs, and what it says it needs them for."""

    names: frozenset[str]
    purpose: Purpose


@dataclass(frozen=True, slots=True)
class Attempts:
    """How an operation on a branch is run: as often as its caller allows.

    ``retries`` None runs every lost race again while there is patience; a number allows so many more
    attempts. With ``if_commit`` the branch must be at that commit, before the operation prepares and
    again under the locks. ``branch_id`` names the only branch of that name it is meant for, where the
    caller has prepared something for it already. ``one_schema``: what was read under one schema cannot
    be read again under another.
    """

    workspace: Workspace
    branch: str
    retries: int | None = None
    if_commit: str | None = None
    branch_id: str | None = None
    one_schema: bool = False

    def run(self, work: Callable[[Attempt], Result]) -> Result:
        """Call ``work`` until it is through; it prepares everything from the attempt's state."""
        patience = Patience()
        left = self.retries
        deferred: str | None = None
        held: HeldLocks | None = None
        while True:
            attempt = self._begin(patience, held)
            try:
                return self._worked(work, attempt)
            except MoreLocks:
                held = self._locked_anew(attempt)
            except HealFirst as first:
                if deferred == str(first):
                    raise rollback_needed(deferred) from None
                deferred = str(first)
                held = self._locked_anew(attempt)
            except LOST as lost:
                left = self._left_after(attempt, lost, left)
                if isinstance(lost, LockLost):
                    attempt.end()
                has_come_first = attempt.held not in {None, held}
                if not has_come_first:
                    # There is something to wait for, or it would not have lost under its locks.
                    if patience.left() <= 0:
                        raise
                    _pause(patience)
                held, attempt.held = attempt.held, None
            finally:
                attempt.end()

    def _locked_anew(self, attempt: Attempt) -> HeldLocks | None:
        """Give the locks back, finish what dead writers left, and take all that are needed."""
        before = set() if attempt.held is None else set(attempt.held.names)
        attempt.end()
        heal(self.workspace)
        if attempt.wanted is None:
            return None
        names = attempt.wanted.names | before
        return self.workspace.locks.acquire(names, attempt.patience, attempt.wanted.purpose)

    def _begin(self, patience: Patience, held: HeldLocks | None) -> Attempt:
        try:
            return Attempt(self.workspace, self._pinned(), patience, held, self.if_commit)
        except BaseException:
            if held is not None:
                held.release()
            raise

    def _pinned(self) -> BranchState:
        state = self.workspace.manifest.state(self.branch)
        if self.branch_id is not None and state.identifier != self.branch_id:
            raise branch_remade(self.branch)
        check_precondition(self.workspace, state, self.if_commit)
        return state

    def _worked(self, work: Callable[[Attempt], Result], attempt: Attempt) -> Result:
        """A branch that is deleted takes its files away from under whoever prepares on it."""
        try:
            return work(attempt)
        except StorageError:
            if self._is_remade(attempt.state.pin):
                raise branch_remade(self.branch) from None
            raise

    def _is_remade(self, pin: BranchPin) -> bool:
        """Whether the branch is another one by now; ``BranchNotFound`` when it is gone."""
        return self.workspace.manifest.state(self.branch).identifier != pin.identifier

    def _left_after(self, attempt: Attempt, lost: Exception, left: int | None) -> int | None:
        """How many more attempts there are after a lost one; raises what its caller gets when none."""
        if self._only_maintenance(attempt):
            return left
        if self.if_commit is not None:
            self._refuse_precondition(attempt)
            raise lost
        if left == 0 or (self.one_schema and isinstance(lost, SchemaConflict)):
            raise lost
        return None if left is None else left - 1

    def _only_maintenance(self, attempt: Attempt) -> bool:
        """Whether nothing but maintenance came between: what was read and validated still stands."""
        now = self.workspace.manifest.state(self.branch)
        before = attempt.state
        if now.identifier != before.identifier or now.head.ir_hash != before.head.ir_hash:
            return False
        then = before.head.commit.graph_commit_id
        return now.head.commit.graph_commit_id != then and is_same_content(
            self.workspace.manifest, now, then
        )

    def _refuse_precondition(self, attempt: Attempt) -> None:
        """A head that moved is the caller's precondition, and so is a branch that was made again."""
        now = self.workspace.manifest.state(self.branch)
        if self.if_commit is not None and now.identifier != attempt.state.identifier:
            raise _precondition_failed(now, self.if_commit)
        check_precondition(self.workspace, now, self.if_commit)


def on_exact_head(write: Write, state: BranchState) -> Write:
    """The write as it rests on the very head it was prepared on: it relies on every table."""
    known = {pin.table_key for pin in write.expected}
    others = (pin for key, pin in state.head.tables.items() if key not in known)
    return replace(write, relied_on=(*write.relied_on, *others), exact_head=True)


def check_precondition(workspace: Workspace, state: BranchState, if_commit: str | None) -> None:
    """Refuse when the branch is not at the commit the caller knows.

    Maintenance commits count as their first parent: they change no content.
    """
    if if_commit is not None and not is_same_content(workspace.manifest, state, if_commit):
        raise _precondition_failed(state, if_commit)


def _precondition_failed(state: BranchState, if_commit: str) -> PreconditionFailed:
    actual = state.head.commit.graph_commit_id
    return PreconditionFailed(
        f"branch `{state.name}` is at commit {actual}, not at {if_commit}; read again and decide anew",
        branch=state.name,
        expected=if_commit,
        actual=actual,
    )


def _pause(patience: Patience) -> None:
    """A moment before the next attempt, which counts as waiting: nothing is tried for ever."""
    pause = random.uniform(0.1, 1.0) * PAUSE_SECONDS
    time.sleep(pause)
    patience.spend(pause)
