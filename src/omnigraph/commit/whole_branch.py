"""Hold a whole branch: the locks of an operation that rests on its exact head.

With the head lock and the lock of every table nobody else can move the head, so what is checked
here stays true until the operation is published. The graph lock keeps branches from coming and
going.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from omnigraph.commit.drift import open_undrifted
from omnigraph.commit.stage_tables import needs_fork
from omnigraph.errors import ExpectedVersionMismatch
from omnigraph.manifest.history.equal_content import is_same_content
from omnigraph.manifest.lost_races import MANIFEST_KEY, branch_remade, schema_changed
from omnigraph.manifest.manifest import BranchState
from omnigraph.manifest.migrations import refuse_newer
from omnigraph.manifest.workspace import Workspace
from omnigraph.storage.locks.locks import HeldLocks
from omnigraph.storage.locks.waiting import Patience, Purpose

_TRIES = 5


@dataclass(frozen=True, slots=True)
class WholeBranch:
    """A branch that nobody else can move: its state as read under the locks, and the locks."""

    state: BranchState
    held: HeldLocks


@contextmanager
def hold_branch(
    workspace: Workspace,
    before: BranchState,
    purpose: Purpose,
    new_locations: Iterable[str] = (),
    patience: Patience | None = None,
) -> Iterator[WholeBranch]:
    """Take the graph lock, the head lock and every table lock of a branch; release them at the end.

    ``before`` is the branch as the operation found it. Under the locks the schema must be that one
    and the head must have the same content (maintenance changes none); otherwise the lost race is
    raised. Every table must be at its pin: ``HealFirst`` or ``Drift`` says why one is not.
    ``new_locations`` are those of tables that the operation will create.
    """
    locks = workspace.locks
    wanted = {locks.graph_lock(), *_branch_locks(workspace, before, new_locations)}
    with locks.acquire(wanted, patience, purpose) as held:
        state = _check_unmoved(workspace, before)
        for pin in state.head.tables.values():
            # A table without a fork of its own belongs to the parent branch, which may move it.
            if not needs_fork(pin, state.name):
                open_undrifted(workspace, pin, state.head.graph_id, state.name, held)
        yield WholeBranch(state, held)


@contextmanager
def hold_as_it_is(workspace: Workspace, branch: str, purpose: Purpose) -> Iterator[WholeBranch]:
    """Take the head lock and every table lock of a branch, whatever state it is in.

    Its tables may be ahead of their pins: under these locks, no live writer can be the reason.
    """
    for _ in range(_TRIES):
        before = workspace.manifest.state(branch)
        refuse_newer(before.table)
        with workspace.locks.acquire(_branch_locks(workspace, before), None, purpose) as held:
            state = workspace.manifest.state(branch)
            if state.identifier == before.identifier and _places(state) == _places(before):
                yield WholeBranch(state, held)
                return
    raise schema_changed()


def _branch_locks(
    workspace: Workspace, state: BranchState, new_locations: Iterable[str] = ()
) -> set[str]:
    """Return the names of the head lock of a branch and of the locks of all its tables."""
    places = (*_places(state), *new_locations)
    names = {workspace.lock_name(place, state.name) for place in places}
    return {workspace.locks.head_lock(state.name), *names}


def _places(state: BranchState) -> list[str]:
    return [table.location for table in state.head.tables.values()]


def _check_unmoved(workspace: Workspace, before: BranchState) -> BranchState:
    """Return the branch as it is now; refuse if it is not what the operation was prepared on."""
    state = workspace.manifest.state(before.name)
    refuse_newer(state.table)
    if state.identifier != before.identifier:
        raise branch_remade(before.name)
    if state.head.ir_hash != before.head.ir_hash:
        raise schema_changed()
    then = before.head.commit.graph_commit_id
    if not is_same_content(workspace.manifest, state, then):
        raise ExpectedVersionMismatch(
            f"branch `{before.name}` moved on from commit {then} while this waited for its locks; "
            "run it again",
            table_key=MANIFEST_KEY,
            expected=before.head.commit.manifest_version,
            actual=state.head.commit.manifest_version,
        )
    return state
