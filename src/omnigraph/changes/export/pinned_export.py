"""What an export reads, fixed before its first byte: a snapshot, its types, and a read lease on them.

At a past snapshot the types and properties are those declared there, under the names they have now
where they still exist.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from typing import Self

from omnigraph.changes.change_filter import KINDS, Kind
from omnigraph.changes.schemas.type_pairs import TypeId, types_of, under_current_names
from omnigraph.errors import BadRequest
from omnigraph.lang.schema.catalog import Catalog, Entity
from omnigraph.manifest.history.resolve import catalog_at
from omnigraph.manifest.rows import TableState
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.manifest.workspace import Workspace
from omnigraph.read.view.pinned_table import PinnedTable, pin_table
from omnigraph.spelling import did_you_mean
from omnigraph.storage.locks.read_leases import HeldLease, LeasedTable, put_lease
from omnigraph.storage.locks.waiting import Purpose
from omnigraph.storage.objects.store_errors import PermissionDenied
from omnigraph.storage.remains import leaving_nothing

Resolve = Callable[[], tuple[Snapshot, Catalog]]
"""Returns the snapshot to export and the schema that is accepted now."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The types to export, by name and by kind; an empty tuple means all."""

    types: Sequence[str] = ()
    kinds: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class ExportedType:
    """One type of an export, under the names its records show."""

    kind: Kind
    entity: Entity
    pinned: PinnedTable

    @property
    def state(self) -> TableState:
        """The table that is read."""
        return self.pinned.state

    def reading(self) -> AbstractContextManager[None]:
        """Turn the error of a missing file into one that says which branch or version was deleted."""
        return self.pinned.reading()


class PinnedExport:
    """A snapshot and the types of it that are exported, in order. It holds the lease until it ends."""

    def __init__(
        self, snapshot: Snapshot, types: Sequence[ExportedType], lease: HeldLease | None
    ) -> None:
        self.snapshot = snapshot
        self.types = tuple(types)
        self._lease = lease

    @property
    def has_lease(self) -> bool:
        """Whether cleanup and branch deletes know about this read."""
        return self._lease is not None

    @property
    def row_count(self) -> int:
        """How many records there will be."""
        return sum(one.state.row_count for one in self.types)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._lease is not None:
            self._lease.end()


def pin_export(
    workspace: Workspace,
    resolve: Resolve,
    selection: Selection,
    *,
    operation: str = "export",
    may_write: bool = True,
) -> PinnedExport:
    """Resolve the snapshot and put a lease on its tables, under the graph lock.

    Without the right to write there is no lease, and the export runs all the same.
    """
    if may_write:
        with suppress(PermissionDenied):
            return _pin_with_lease(workspace, resolve, selection, operation)
    return _opened(*_planned(workspace, resolve, selection), None)


def _pin_with_lease(
    workspace: Workspace, resolve: Resolve, selection: Selection, operation: str
) -> PinnedExport:
    lock, purpose = workspace.locks.graph_lock(), Purpose(operation)
    with (
        leaving_nothing(workspace.root, workspace.store),
        workspace.locks.acquire(lock, purpose=purpose),
    ):
        snapshot, types = _planned(workspace, resolve, selection)
        tables = [_leased(one.state) for one in types]
        lease = put_lease(workspace.store, snapshot.graph_id, operation, tables)
    try:
        return _opened(snapshot, types, lease)
    except BaseException:
        lease.end()
        raise


def _opened(
    snapshot: Snapshot, types: Sequence[ExportedType], lease: HeldLease | None
) -> PinnedExport:
    """Open every table now, so that what cannot be read is refused before the first byte."""
    for one in types:
        one.pinned.check()
    return PinnedExport(snapshot, types, lease)


def _leased(state: TableState) -> LeasedTable:
    return LeasedTable(
        state.table_key,
        state.location,
        state.table_version,
        state.table_branch,
        state.table_branch_id,
    )


def _planned(
    workspace: Workspace, resolve: Resolve, selection: Selection
) -> tuple[Snapshot, list[ExportedType]]:
    snapshot, current = resolve()
    declared = types_of(catalog_at(workspace.manifest, snapshot))
    shown = _shown_types(declared, types_of(current))
    _refuse_unknown(selection.types, (entity.name for entity in shown.values()))
    planned = []
    for (kind, incarnation), entity in shown.items():
        if selection.types and entity.name not in selection.types:
            continue
        if selection.kinds and kind not in selection.kinds:
            continue
        state = snapshot.tables[declared[kind, incarnation].table_key]
        pinned = pin_table(workspace, snapshot, entity, state)
        planned.append(ExportedType(kind, entity, pinned))
    return snapshot, sorted(planned, key=lambda one: (KINDS.index(one.kind), one.entity.name))


def _shown_types(
    declared: dict[TypeId, Entity], current: dict[TypeId, Entity]
) -> dict[TypeId, Entity]:
    """The declared types under their current names.

    A name that a dropped type had, and another type has now, cannot mean both: in an export where that
    happens, types keep the names of then.
    """
    shown = {
        type_id: under_current_names(entity, current.get(type_id))
        for type_id, entity in declared.items()
    }
    counts = Counter((kind, entity.name) for (kind, _), entity in shown.items())
    if max(counts.values(), default=0) > 1:
        shown = {
            type_id: replace(entity, name=declared[type_id].name)
            for type_id, entity in shown.items()
        }
    return shown


def _refuse_unknown(types: Sequence[str], known: Iterable[str]) -> None:
    names = sorted(set(known))
    for name in types:
        if name not in names:
            hint = did_you_mean(name, names) or f"its types are {', '.join(names)}"
            raise BadRequest(f"there is no type `{name}` to export; {hint}", type=name)
