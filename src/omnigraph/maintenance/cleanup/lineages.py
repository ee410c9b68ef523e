"""Remove versions of one lineage of a table, and remember what is left of all of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from omnigraph import failpoints
from omnigraph.errors import OmniGraphError
from omnigraph.maintenance.cleanup.keep_set import Lineage, Reasons
from omnigraph.maintenance.cleanup.report import CleanupRow
from omnigraph.manifest.rows import TableState
from omnigraph.storage.locks.locks import HeldLocks
from omnigraph.storage.tables.table import Table, open_table
from omnigraph.storage.versions import Chosen, plan_removal, remove_versions

BEFORE_TABLE = failpoints.declare("cleanup.before_table")
AFTER_TABLE = failpoints.declare("cleanup.after_table")


def pass_point(held: HeldLocks | None, point: failpoints.Point) -> None:
    """Pass a point of a real cleanup, which stops here if it has lost its lock."""
    if held is not None:
        point.hit()
        held.check()


@dataclass(frozen=True, slots=True)
class Cleaned:
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
) -> Cleaned:
    """Remove versions of a table's branch; without the lock, only say what that would remove.

    ``abandoned`` chooses among young files that no version names. What went is counted by listing the versions
    afterwards. A failure is part of the answer.
    """
    if held is None:
        try:
            return Cleaned(plan_removal(table, doomed, abandoned).bytes, len(doomed))
        except OmniGraphError as failure:
            return Cleaned(0, 0, tuple(doomed), str(failure))
    taken, error = 0, None
    try:
        BEFORE_TABLE.hit()
        taken = remove_versions(table, doomed, held.check, abandoned)
    except OmniGraphError as failure:
        error = str(failure)
    spared = _still_there(table, doomed)
    pass_point(held, AFTER_TABLE)
    return Cleaned(taken, len(doomed) - len(spared), spared, error)


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
        self._versions: dict[tuple[Lineage, str | None], frozenset[int]] = {}
        self._unknown: set[int] = set()

    def add(self, lineage: Lineage, identifier: str | None, versions: Iterable[int]) -> None:
        """Say what is left of a lineage; ``identifier`` is that of its branch."""
        self._versions[lineage, identifier] = frozenset(versions)

    def add_unknown(self, incarnation: int) -> None:
        """Say that a table could not be looked at; all of it counts as left."""
        self._unknown.add(incarnation)

    def have(self, pin: TableState) -> bool:
        """Return whether a table state is left."""
        if pin.incarnation in self._unknown:
            return True
        place = Lineage(pin.incarnation, pin.table_branch), pin.table_branch_id
        return pin.table_version in self._versions.get(place, ())
