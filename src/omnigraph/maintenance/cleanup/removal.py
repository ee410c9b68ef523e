"""Remove versions of one lineage of a table, and trim `__manifest` and the audit table.

These two are trimmed from the oldest version on, without gaps. A handle that knows version n of a branch
notices news by looking for version n + 1. If n were there and n + 1 not, it would take n for the newest. So a
branch's manifest is cut at one point only: before the oldest commit whose tables are all still there, and before
everything else that must stay, such as the point where another branch begins.

For example, with versions 1 to 9 on `main`, where only the commits of versions 4, 8 and 9 can still be
read and branch `side` began at version 6, versions 1 to 3 go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from omnigraph import failpoints
from omnigraph.errors import OmniGraphError
from omnigraph.maintenance.cleanup.keep_set import Policy, Reasons, TableLineage
from omnigraph.maintenance.cleanup.survey import Survey
from omnigraph.maintenance.reports import CleanupRow
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.manifest import BranchState
from omnigraph.manifest.rows import TableState
from omnigraph.manifest.workspace import Workspace, lance_branch
from omnigraph.storage import layout
from omnigraph.storage.locks.locks import HeldLocks
from omnigraph.storage.tables.table import Table, open_table
from omnigraph.storage.tables.table_branches import list_branches
from omnigraph.storage.tables.table_errors import TableMissing
from omnigraph.storage.versions import (
    Chosen,
    lance_tags,
    plan_removal,
    remove_versions,
    version_times,
)

BEFORE_TABLE = failpoints.declare("cleanup.before_table")
AFTER_TABLE = failpoints.declare("cleanup.after_table")


def pass_point(held: HeldLocks | None, point: failpoints.Point) -> None:
    """Pass a point of a real cleanup, which stops here if it has lost its lock."""
    if held is not None:
        point.hit()
        held.check()


@dataclass(frozen=True, slots=True)
class CleanedLineage:
    """What became of versions that had no reason to stay; ``spared`` are those still there."""

    bytes_removed: int
    removed: int
    spared: tuple[int, ...] = ()
    error: str | None = None

    def row(self, table_key: str, branch: str | None, reasons: Reasons) -> CleanupRow:
        """Return the row of the lineage. Versions that only Lance keeps are marked so."""
        spared = "lance" if self.error is None else "not_removed"
        why = {**reasons, **dict.fromkeys(self.spared, (spared,))}
        shown = {version: tuple(why[version]) for version in sorted(why)}
        return CleanupRow(table_key, branch, self.bytes_removed, self.removed, shown, self.error)


def clean_lineage(
    table: Table,
    doomed: Sequence[int],
    held: HeldLocks | None,
    abandoned: Chosen | None = None,
) -> CleanedLineage:
    """Remove versions of a table's branch; without the lock, only say what that would remove.

    ``abandoned`` chooses among young files that no version names. What went is counted by listing the versions
    afterwards. A failure is part of the answer.
    """
    if held is None:
        try:
            return CleanedLineage(plan_removal(table, doomed, abandoned).bytes, len(doomed))
        except OmniGraphError as failure:
            return CleanedLineage(0, 0, tuple(doomed), str(failure))
    taken, error = 0, None
    try:
        BEFORE_TABLE.hit()
        taken = remove_versions(table, doomed, held.check, abandoned)
    except OmniGraphError as failure:
        error = str(failure)
    spared = _still_there(table, doomed)
    pass_point(held, AFTER_TABLE)
    return CleanedLineage(taken, len(doomed) - len(spared), spared, error)


def _still_there(table: Table, versions: Sequence[int]) -> tuple[int, ...]:
    """Return those of the versions that are listed; all of them if they cannot be listed."""
    if not versions:
        return ()
    try:
        listed = set(open_table(table.ref.at(None)).versions())
    except OmniGraphError:
        return tuple(versions)
    return tuple(version for version in versions if version in listed)


class Survivors:
    """The table states that are left: what decides whether a commit can still be read."""

    def __init__(self) -> None:
        self._versions: dict[tuple[TableLineage, str | None], frozenset[int]] = {}
        self._unknown: set[int] = set()

    def add(self, lineage: TableLineage, identifier: str | None, versions: Iterable[int]) -> None:
        """Say what is left of a lineage; ``identifier`` is that of its branch."""
        self._versions[lineage, identifier] = frozenset(versions)

    def add_unknown(self, incarnation: int) -> None:
        """Say that a table could not be looked at; all of it counts as left."""
        self._unknown.add(incarnation)

    def have(self, pin: TableState) -> bool:
        """Return whether a table state is left."""
        if pin.incarnation in self._unknown:
            return True
        place = TableLineage(pin.incarnation, pin.table_branch), pin.table_branch_id
        return pin.table_version in self._versions.get(place, ())


Needed = Mapping[str, Mapping[int, Sequence[str]]]
"""By branch: the versions of its manifest that must stay, with the reasons."""

HISTORY = "history"
"""Why a version of the manifest stays that is newer than one that is needed."""


def trim_manifest(
    workspace: Workspace, found: Survey, survivors: Survivors, held: HeldLocks | None
) -> list[CleanupRow]:
    """Trim the manifest of every live branch; return a row for each."""
    try:
        needed = _needed(workspace, found)
    except OmniGraphError as error:
        return [CleanupRow(layout.MANIFEST, None, error=str(error))]
    made = []
    for state in found.states.values():
        branch = lance_branch(state.name)
        try:
            versions = [v for v in state.table.versions() if v <= state.table.version]
            start = _cut(workspace, state, versions, needed[state.name], survivors)
        except OmniGraphError as error:
            made.append(CleanupRow(layout.MANIFEST, branch, error=str(error)))
            continue
        doomed = [version for version in versions if version < start]
        reasons = {
            version: needed[state.name].get(version, (HISTORY,))
            for version in versions
            if version >= start
        }
        made.append(clean_lineage(state.table, doomed, held).row(layout.MANIFEST, branch, reasons))
    return made


def _needed(workspace: Workspace, found: Survey) -> Needed:
    """Return what must stay whatever became of the tables."""
    needed: dict[str, dict[int, dict[str, None]]] = {name: {} for name in found.states}

    def need(branch: str | None, version: int, reason: str) -> None:
        of_branch = needed.get(branch or MAIN, {})
        of_branch.setdefault(version, {})[reason] = None

    for name, state in found.states.items():
        need(name, state.table.version, f"head:{name}")
        commit = state.head.commit
        need(commit.branch, commit.manifest_version, f"head:{name}")
    for pair, snapshots in found.bases.items():
        for snapshot in snapshots:
            commit = snapshot.commit
            need(commit.branch, commit.manifest_version, f"merge_base:{pair}")
    # Lance never removes the version that a branch was made from.
    for name, fork in list_branches(workspace.manifest.ref).items():
        need(fork.parent, fork.parent_version, f"fork:{name}")
    for tag in found.tags:
        need(tag.branch, tag.manifest_version, f"tag:{tag.name}")
    for lance_tag in lance_tags(workspace.manifest.ref):
        need(lance_tag.branch, lance_tag.version, f"lance_tag:{lance_tag.name}")
    return {
        name: {version: list(reasons) for version, reasons in versions.items()}
        for name, versions in needed.items()
    }


def _cut(
    workspace: Workspace,
    state: BranchState,
    versions: Sequence[int],
    needed: Mapping[int, Sequence[str]],
    survivors: Survivors,
) -> int:
    """Return the version before which everything may go.

    Every version that is looked at and cannot be read is removed, so each is looked at only once.
    """
    for version in _until(versions, min(needed)):
        head = workspace.manifest.at_version(state.name, version)
        if all(survivors.have(pin) for pin in head.tables.values()):
            return version
    return min(needed)


def _until(versions: Sequence[int], end: int) -> Iterator[int]:
    return (version for version in versions if version < end)


def trim_audit(
    workspace: Workspace, policy: Policy, now: float, held: HeldLocks | None
) -> list[CleanupRow]:
    """Trim the table of recoveries, of which only the newest version is ever read."""
    try:
        table = open_table(workspace.ref(layout.RECOVERY_AUDIT))
        versions = table.versions()
        times = {} if policy.older_than is None else version_times(table)
    except TableMissing:
        return []
    except OmniGraphError as error:
        return [CleanupRow(layout.RECOVERY_AUDIT, None, error=str(error))]
    reasons: dict[int, list[str]] = {}
    for place, version in enumerate(reversed(versions)):
        why = [f"head:{MAIN}"] if place == 0 else []
        if policy.keep_versions is not None and place < policy.keep_versions:
            why.append("keep")
        if policy.older_than is not None and times.get(version, now) > now - policy.older_than:
            why.append("younger")
        if not why:
            break
        reasons[version] = why
    doomed = [version for version in versions if version not in reasons]
    return [clean_lineage(table, doomed, held).row(layout.RECOVERY_AUDIT, None, reasons)]
