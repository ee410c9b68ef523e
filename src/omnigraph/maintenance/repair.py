"""Take over what another program committed to a table: the graph pins the newest version again.

A table is drifted if its newest version is not the one that the graph pins and no operation of ours
explains it. Writers refuse such a table, because a commit on top would publish changes that nobody has
judged. ``repair`` judges each by its transactions after the pin (``repair_report``) and, if it may, moves
the pin there: one commit for each branch, and no row is written. Or it undoes what was found: the pinned
content is put on top as a new version, which is pinned.

A preview takes no lock. A table may be in the middle of a commit while it is looked at, so what looks
like drift counts only if, a moment later, no operation covers it and its pin is still the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from omnigraph.clock import new_ulid, stamp_us
from omnigraph.commit.drift import covers, rollback_needed
from omnigraph.commit.forks import pin_at
from omnigraph.commit.heal import dead_writers, heal
from omnigraph.commit.phases.publishing import publish_under_locks
from omnigraph.commit.sidecar import Sidecar, list_sidecars
from omnigraph.commit.stage_tables import needs_fork
from omnigraph.commit.unpublished import restore_pinned
from omnigraph.commit.whole_branch import WholeBranch, hold_as_it_is
from omnigraph.errors import BadRequest, BranchNotFound, OmniGraphError, RecoveryRequired
from omnigraph.maintenance.reports import RepairReport, RepairRow, choose_action, classify_drift
from omnigraph.manifest.actors import MAINTENANCE_ACTOR
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.history.version_marks import ANY_GONE
from omnigraph.manifest.manifest import BranchState
from omnigraph.manifest.publisher import Intent, ManifestChanges
from omnigraph.manifest.rows import GraphCommit, TableState
from omnigraph.manifest.workspace import Workspace
from omnigraph.storage.full_disk import with_reserve
from omnigraph.storage.locks.waiting import Purpose
from omnigraph.storage.tables.table import Table, open_table
from omnigraph.storage.tables.transactions import TransactionKind, transaction_at


def check_repair(confirm: object, force: object, undo: object) -> None:
    """Refuse arguments of a repair that do not go together."""
    for name, value in (("confirm", confirm), ("force", force), ("undo", undo)):
        if not isinstance(value, bool):
            raise BadRequest(f"{name} is True or False, not {value!r}")
    if force and undo:
        raise BadRequest("force=True takes over what was found and undo=True undoes it: give one")
    if force and not confirm:
        raise BadRequest("force=True repairs whatever was found: give confirm=True as well")
    if undo and not confirm:
        raise BadRequest("undo=True undoes whatever was found: give confirm=True as well")


def repair(
    workspace: Workspace, *, confirm: bool = False, force: bool = False, undo: bool = False
) -> RepairReport:
    """Pin again what other programs committed; without ``confirm``, only say what that would be.

    With ``confirm`` this is done where only maintenance happened, and with ``force`` everywhere;
    ``undo`` undoes it everywhere. It is refused while an operation of a dead writer is pending: that one's
    recovery comes first.
    """
    workspace.manifest.ensure_settled()
    if not confirm:
        return RepairReport(tuple(_preview(workspace)))
    for left in heal(workspace).deferred:
        raise rollback_needed(left.operation_id)
    rows: list[RepairRow] = []
    commits = []
    for branch in _branches(workspace):
        try:
            found, commit = with_reserve(
                workspace.root, partial(_repair_branch, workspace, branch, force=force, undo=undo)
            )
        except BranchNotFound:
            continue  # deleted meanwhile
        rows += found
        if commit is not None:
            commits.append(commit)
    return RepairReport(tuple(rows), confirm, force, tuple(commits))


def _branches(workspace: Workspace) -> list[str]:
    return [MAIN, *workspace.manifest.branch_names()]


# ------------------------------------------------------------------ looking


@dataclass(frozen=True, slots=True)
class _Judged:
    """A table with its row. ``pin`` is what the graph pinned, ``head`` what is there, if it opened."""

    pin: TableState
    row: RepairRow
    head: Table | None = None

    @property
    def is_drifted(self) -> bool:
        return self.row.classification != "no_drift"


def _preview(workspace: Workspace) -> Iterator[RepairRow]:
    _refuse_dead_writers(workspace)
    for branch in _branches(workspace):
        try:
            state = workspace.manifest.state(branch)
            judged = _judge_branch(workspace, state)
            if any(one.is_drifted for one in judged):
                judged = _without_live_writes(workspace, state, judged)
        except BranchNotFound:
            continue  # deleted meanwhile
        for one in judged:
            yield replace(one.row, action=choose_action(one.row, confirm=False, force=False))


def _refuse_dead_writers(workspace: Workspace) -> None:
    for sidecar in dead_writers(workspace):
        raise RecoveryRequired(
            f"operation {sidecar.operation_id} stopped half way: reopen the graph read-write, "
            "which finishes or undoes it",
            operation_id=sidecar.operation_id,
        )


def _judge_branch(workspace: Workspace, state: BranchState) -> list[_Judged]:
    """Judge the tables that a branch commits to; inherited ones are judged with the parent.

    For `main` every table has a row, also one of which it pins a state that a branch made.
    """
    judged = []
    for pin in state.head.tables.values():
        if not needs_fork(pin, state.name):
            judged.append(_judge(workspace, pin))
        elif state.name == MAIN:
            judged.append(_Judged(pin, _undrifted(pin)))
    return judged


def _undrifted(pin: TableState) -> RepairRow:
    return RepairRow(pin.table_key, pin.table_branch, pin.table_version, pin.table_version)


def _judge(workspace: Workspace, pin: TableState) -> _Judged:
    """Compare the pin of a table with what is there. What cannot be read is part of the answer."""
    row = _undrifted(pin)
    try:
        head = open_table(workspace.pinned(pin).at(None))
    except OmniGraphError as error:
        return _Judged(pin, replace(row, lance_head_version=0, **_broken(str(error))))
    if head.version == pin.table_version:
        return _Judged(pin, row)
    row = replace(row, lance_head_version=head.version)
    if head.version < pin.table_version:
        return _Judged(pin, replace(row, **_broken("it is not there any more")))
    found = [_operation(head, number) for number in range(pin.table_version + 1, head.version + 1)]
    row = replace(
        row,
        classification=classify_drift(found),
        operations=tuple("unreadable" if one is None else one.value for one in found),
        error=_unfit(workspace, pin, head),
    )
    return _Judged(pin, row, head)


def _broken(why: str) -> dict[str, Any]:
    error = f"the pinned version cannot be read ({why}); restore the table from a copy"
    return {"classification": "unverifiable", "error": error}


def _operation(table: Table, version: int) -> TransactionKind | None:
    try:
        return transaction_at(table, version).operation
    except OmniGraphError:
        return None


def _unfit(workspace: Workspace, pin: TableState, head: Table) -> str | None:
    """Return why the graph could not work with the newest version of a table; None if it can."""
    why = None
    if not _has_pinned_columns(workspace, pin, head):
        why = "its columns are not those of the accepted schema any more"
    if why is None:
        return None
    return f"{why}: a repair with undo restores version {pin.table_version}"


def _has_pinned_columns(workspace: Workspace, pin: TableState, head: Table) -> bool:
    """Return whether the columns are those of the pinned version.

    If that one is gone there is nothing to compare with, and nothing else to read either.
    """
    try:
        pinned = open_table(workspace.pinned(pin))
    except OmniGraphError:
        return True
    before, now = ({field.name: field for field in table.schema} for table in (pinned, head))
    return before.keys() == now.keys() and all(
        field.equals(now[name], check_metadata=True) for name, field in before.items()
    )


def _without_live_writes(
    workspace: Workspace, before: BranchState, judged: Sequence[_Judged]
) -> list[_Judged]:
    """Count a table as not drifted if a writer works on it or just committed: they refuse drifted tables."""
    _refuse_dead_writers(workspace)
    sidecars = list_sidecars(workspace, before.head.graph_id)
    tables = workspace.manifest.state(before.name).head.tables.values()
    now = {pin.incarnation: pin for pin in tables}

    def is_live(one: _Judged) -> bool:
        return now.get(one.pin.incarnation) != one.pin or _is_covered(
            sidecars, before.name, one.pin
        )

    return [
        _Judged(one.pin, _undrifted(one.pin)) if one.is_drifted and is_live(one) else one
        for one in judged
    ]


def _is_covered(sidecars: Sequence[Sidecar], branch: str, pin: TableState) -> bool:
    return any(one.branch == branch and covers(one, pin.location) for one in sidecars)


# ------------------------------------------------------------------ repairing


def _repair_branch(
    workspace: Workspace, branch: str, *, force: bool, undo: bool
) -> tuple[list[RepairRow], GraphCommit | None]:
    """Judge the tables of a branch under its locks, and pin anew those that may be."""
    with hold_as_it_is(workspace, branch, Purpose("repair")) as whole:
        state = whole.state
        judged = []
        for one in _judge_branch(workspace, state):
            row = _undoable(workspace, one) if undo else one.row
            action = choose_action(row, confirm=True, force=force, undo=undo)
            judged.append(replace(one, row=replace(row, action=action)))
        wanted = [one for one in judged if one.row.action in {"healed", "forced", "undone"}]
        commit = _publish(workspace, whole, wanted) if wanted else None
        return [one.row for one in judged], commit


def _undoable(workspace: Workspace, judged: _Judged) -> RepairRow:
    """Return the row of a table that is to be put back: only a pinned version that is gone prevents it."""
    if judged.head is None:
        return judged.row
    try:
        open_table(workspace.pinned(judged.pin))
    except OmniGraphError as error:
        return replace(judged.row, **_broken(str(error)))
    return replace(judged.row, error=None)


def _publish(workspace: Workspace, whole: WholeBranch, wanted: Sequence[_Judged]) -> GraphCommit:
    """Move the pins of these tables to their newest versions, of which an undoing makes one more."""
    state = whole.state
    for sidecar in list_sidecars(workspace, state.head.graph_id):
        # Under the locks of the branch its writer is dead, and recovery will look at the pins.
        if any(_is_covered([sidecar], state.name, one.pin) for one in wanted):
            raise rollback_needed(sidecar.operation_id)
    pins = [
        restore_pinned(workspace, one.pin, whole.held)
        if one.row.action == "undone"
        else pin_at(one.pin, one.head)
        for one in wanted
        if one.head is not None
    ]
    return publish_under_locks(
        workspace,
        whole.held,
        state.name,
        state.identifier,
        # What another program removed is not known here.
        ManifestChanges(tables=tuple(pins), gone={pin.incarnation: ANY_GONE for pin in pins}),
        [one.pin for one in wanted],
        Intent(new_ulid(), "repair", stamp_us(), MAINTENANCE_ACTOR),
    )
