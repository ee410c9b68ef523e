"""One entity at many states of the graph: its row, with the versions in which it was made and last changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from omnigraph.changes.images import equal_column, images
from omnigraph.changes.row_pairs import ROW_ID, AlignedRows
from omnigraph.changes.short_images import paired_short_images, short_images
from omnigraph.changes.stats import Meter
from omnigraph.changes.table_side import TableSide, state_of
from omnigraph.lang.schema.catalog import EdgeType, Entity
from omnigraph.manifest.rows import TableState
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.manifest.workspace import Workspace
from omnigraph.storage.columns.without_columns import CHANGED, CREATED

PRESENCE: Final = "\0"
"""Stands among the names of what differs for one side being absent."""
ENDS: Final = {"src": "from", "dst": "to"}
"""The columns of the ends of an edge, and what images call them."""

Image = dict[str, Any]


@dataclass(frozen=True, slots=True)
class EntityState:
    """The entity at one state of its table. ``table`` is None where its type has none.

    ``created`` and ``changed`` are the versions of the table in which its row was made and last changed, or
    where they are only known roughly: one before, and one after it.
    """

    table: TableState | None
    side: TableSide
    rows: AlignedRows
    is_there: bool
    row_id: int | None = None
    created: int = 0
    changed: int = 0


class EntityStates:
    """Reads one entity at states of the graph; each state of its table is read once.

    Properties have the names that ``entity`` gives them, whatever they were called at the time.
    """

    def __init__(self, workspace: Workspace, entity: Entity, id: str) -> None:
        self.workspace = workspace
        self.entity = entity
        self.id = id
        self._ids = pa.array([id], pa.utf8())
        self._seen: dict[object, EntityState] = {}
        self._differing: dict[tuple[object, object], frozenset[str]] = {}
        self._row_id: int | None = None

    def at(self, snapshot: Snapshot) -> EntityState:
        """Return the entity as a snapshot has it; raises ``HistoryReclaimed`` if its table is gone."""
        state = state_of(snapshot, self.entity)
        key = None if state is None else state.identity
        found = self._seen.get(key)
        if found is None:
            side = TableSide(
                self.workspace, snapshot, self.entity, Meter(None), defaults=True, stamps=True
            )
            found = self._seen[key] = self._read(side)
        return found

    def _read(self, side: TableSide) -> EntityState:
        if side.state is not None:
            with side.reading():
                side.table.version  # noqa: B018 - opens it: a table without rows may be gone, too
        # A row keeps its row id for as long as it is there, so that of a later state is tried first.
        hint = None if self._row_id is None else pa.array([self._row_id], pa.uint64())
        rows = side.aligned(self._ids, hint)
        if not rows.present[0].as_py():
            return EntityState(side.state, side, rows, is_there=False)
        row_id, created, changed = (
            rows.table.column(name)[0].as_py() for name in (ROW_ID, CREATED, CHANGED)
        )
        self._row_id = row_id
        return EntityState(
            side.state, side, rows, is_there=True, row_id=row_id, created=created, changed=changed
        )

    @property
    def names(self) -> list[str]:
        """The names of everything that can differ between two images: ends, then properties."""
        return [*self._ends, *self.entity.properties]

    @property
    def _ends(self) -> list[str]:
        return list(ENDS.values()) if isinstance(self.entity, EdgeType) else []

    def differing(self, one: EntityState, other: EntityState) -> frozenset[str]:
        """Return the names of what differs between two images, with ``PRESENCE`` if one is absent."""
        if one is other or not (one.is_there or other.is_there):
            return frozenset()
        if not (one.is_there and other.is_there):
            return frozenset({PRESENCE, *self.names})
        key = (id(one), id(other))
        found = self._differing.get(key)
        if found is None:
            found = self._differing[key] = frozenset(self._compare(one, other))
        return found

    def _compare(self, one: EntityState, other: EntityState) -> list[str]:
        columns = {column: name for column, name in ENDS.items() if name in self._ends}
        columns |= {name: name for name in self.entity.properties}
        sides = (one.side, other.side)
        return [
            name
            for column, name in columns.items()
            if not equal_column(self.entity, column, one.rows, other.rows, sides)[0].as_py()
        ]


def image_pair(
    before: EntityState | None, after: EntityState, *, properties: bool, short: bool
) -> tuple[Image | None, Image | None]:
    """Return the images before and after a change, in the form of a diff; None where there is none."""
    old: list[Image | None] = [None]
    if short and properties and before is not None:
        old, new = paired_short_images(before.side, before.rows, after.side, after.rows)
    elif short and properties:
        new = short_images(after.side, after.rows)
    else:
        new = images(after.side, after.rows, properties=properties)
        if before is not None:
            old = images(before.side, before.rows, properties=properties)
    # Without its properties the image of a node has nothing to show.
    return old[0] or None, new[0] or None
