"""The net difference of two snapshots: which entities were inserted, updated and deleted.

What happened in between does not matter. For example, from a snapshot with Ann to one with Ann (whose
age changed) and Bob:

    node Person Ann   update   before {age: 30}, after {age: 31}
    node Person Bob   insert                     after {age: 40}
"""

from __future__ import annotations

import functools
import heapq
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow.compute as pc

from omnigraph.changes.change_filter import KINDS, ChangeFilter, Kind, Op
from omnigraph.changes.compare import SparkFor, compare, nothing_on_spark
from omnigraph.changes.declared_types import (
    TypeId,
    all_names,
    property_ids,
    types_of,
    under_current_names,
)
from omnigraph.changes.image_json import images as images_of
from omnigraph.changes.row_changes import RowChanges, Rows
from omnigraph.changes.stats import Meter
from omnigraph.changes.table_side import CHUNK_ROWS, TableSide
from omnigraph.display.panel import Panel, Shown
from omnigraph.display.text import cell_text, printable
from omnigraph.errors import SchemaBoundary
from omnigraph.lang.schema.catalog import Catalog, Entity
from omnigraph.manifest.history.past_schemas import catalog_at
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.manifest.workspace import Workspace

Image = dict[str, Any]

EVERYTHING = ChangeFilter()


@dataclass(frozen=True, slots=True, repr=False)
class Change(Shown):
    """One entity that differs. An insert has no ``before``, a delete no ``after``.

    An image is ``{"properties": {…}}``, of an edge with ``"endpoints": {"from": …, "to": …}``.
    """

    kind: Kind
    type: str
    id: str
    op: Op
    before: Image | None = None
    after: Image | None = None

    @property
    def position(self) -> Position:
        """Where the change is in the order of a diff."""
        return Position(self.kind, self.type, self.id)

    def to_json(self) -> dict[str, Any]:
        """Return the public form, without the image of a side that has none."""
        shown: dict[str, Any] = {
            "kind": self.kind,
            "type": self.type,
            "id": self.id,
            "op": self.op,
        }
        if self.before is not None:
            shown["before"] = self.before
        if self.after is not None:
            shown["after"] = self.after
        return shown

    def _panel(self) -> Panel:
        sides = before, after = image_values(self.before), image_values(self.after)
        title = f"{self.op} of {self.kind} {self.type} {self.id}"
        rows = [
            (name, *(None if side.get(name) is None else cell_text(side[name]) for side in sides))
            for name in {**before, **after}
        ]
        return Panel.of_rows(title, ("", "before", "after"), rows) if rows else Panel(title)

    def __repr__(self) -> str:
        return f"<omnigraph.Change {printable(f'{self.op} of {self.kind} {self.type} {self.id}')}>"


def image_values(image: Image | None) -> dict[str, Any]:
    """What an image shows, with the ends of an edge first."""
    return {} if image is None else {**image.get("endpoints", {}), **image.get("properties", {})}


class Position(NamedTuple):
    """A place in the order of a diff: nodes before edges, then names of types, then ids."""

    kind: Kind
    type: str
    id: str


class _Table(NamedTuple):
    """A type to compare, under its current names."""

    type_id: TypeId
    entity: Entity


def diff_chunks(
    workspace: Workspace,
    before: Snapshot,
    after: Snapshot,
    current: Catalog,
    filter: ChangeFilter = EVERYTHING,
    *,
    images: bool = True,
    start_after: Position | None = None,
    meter: Meter | None = None,
    spark_for: SparkFor = nothing_on_spark,
) -> Iterator[Sequence[Change]]:
    """Yield the changes from one snapshot to another, in order, a few thousand at a time.

    ``current`` is the accepted schema, whose names are used. ``spark_for`` gives executors for tables
    that must be read as a whole. Without ``images`` only the endpoints of
    edges are shown. With ``start_after`` the changes after that place; a type that was dropped and
    added again has two changes of an entity there, which belong together.

    Raises, before the first change, ``BadRequest`` for a type nobody knows, and ``SchemaBoundary``
    where the declared properties of a type differ.
    """
    meter = Meter(workspace) if meter is None else meter
    tables = _tables(workspace, before, after, current, filter, meter)
    return _chunks(
        workspace, (before, after), tables, filter, images, start_after, meter, spark_for
    )


def _chunks(
    workspace: Workspace,
    snapshots: tuple[Snapshot, Snapshot],
    tables: list[_Table],
    filter: ChangeFilter,
    images: bool,
    start_after: Position | None,
    meter: Meter,
    spark_for: SparkFor,
) -> Iterator[Sequence[Change]]:
    by_name: dict[tuple[int, str], list[_Table]] = {}
    for table in tables:
        by_name.setdefault(_rank(table.type_id[0], table.entity.name), []).append(table)
    for rank in sorted(by_name):
        after_id = None
        if start_after is not None:
            reached = _rank(start_after.kind, start_after.type)
            if rank < reached:
                continue
            after_id = start_after.id if rank == reached else None
        streams = []
        for kind_and_id, entity in by_name[rank]:
            before, after = (TableSide(workspace, one, entity, meter) for one in snapshots)
            found = compare(
                before, after, after_id=after_id, spark=spark_for(before.state, after.state)
            )
            streams.append(_table_changes(kind_and_id[0], before, after, filter, images, found))
        yield from streams[0] if len(streams) == 1 else _merged(streams)


def _merged(streams: Sequence[Iterator[Sequence[Change]]]) -> Iterator[Sequence[Change]]:
    """Changes of several tables of one name: of a type that was dropped and added again."""
    flat = [itertools.chain.from_iterable(stream) for stream in streams]
    # A delete comes before an insert with the same id.
    ordered = heapq.merge(*flat, key=lambda change: (change.id, change.op))
    while chunk := list(itertools.islice(ordered, CHUNK_ROWS)):
        yield chunk


def _rank(kind: Kind, name: str) -> tuple[int, str]:
    return KINDS.index(kind), name


def _tables(
    workspace: Workspace,
    before: Snapshot,
    after: Snapshot,
    current: Catalog,
    filter: ChangeFilter,
    meter: Meter,
) -> list[_Table]:
    """The types that may differ and are shown."""
    catalogs = [catalog_at(workspace.manifest, snapshot) for snapshot in (before, after)]
    filter.refuse_unknown_types(current, *catalogs)
    old, new, now = (types_of(catalog) for catalog in (*catalogs, current))
    states = [_states(snapshot) for snapshot in (before, after)]
    newest_first = (new, old) if _is_newer(after, before) else (old, new)
    tables = []
    for type_id in states[0].keys() | states[1].keys():
        names = all_names(type_id, old, new, now)
        if not (filter.shows_kind(type_id[0]) and filter.shows_type(names)):
            continue
        if states[0].get(type_id) == states[1].get(type_id):
            meter.tables_skipped += 1
            continue
        declared = [one[type_id] for one in newest_first if type_id in one]
        if len({property_ids(entity) for entity in declared}) > 1:
            raise _boundary(after, under_current_names(declared[0], now.get(type_id)))
        tables.append(_Table(type_id, under_current_names(declared[0], now.get(type_id))))
    return tables


def _states(snapshot: Snapshot) -> dict[TypeId, tuple[object, ...]]:
    return {
        ("node" if key.startswith("node:") else "edge", state.incarnation): state.identity
        for key, state in snapshot.tables.items()
    }


def _is_newer(one: Snapshot, other: Snapshot) -> bool:
    return (one.commit.created_at, one.graph_commit_id) >= (
        other.commit.created_at,
        other.graph_commit_id,
    )


def _boundary(after: Snapshot, entity: Entity) -> SchemaBoundary:
    return SchemaBoundary(
        f"{entity.table_key} has other properties on one side than on the other, so its rows cannot be "
        "compared; choose two sides with the same properties, or leave the type out",
        graph_commit_id=after.graph_commit_id,
        type_name=entity.name,
    )


def _table_changes(
    kind: Kind,
    before: TableSide,
    after: TableSide,
    filter: ChangeFilter,
    images: bool,
    found: Iterator[RowChanges],
) -> Iterator[Sequence[Change]]:
    for chunk in found:
        shown = _shown(chunk, filter)
        if len(shown.ids):
            yield _chunk_changes(kind, before, after, shown, images)


def _shown(chunk: RowChanges, filter: ChangeFilter) -> RowChanges:
    """The changes of a chunk whose operations are shown."""
    if not filter.ops:
        return chunk
    was, now = chunk.before.present, chunk.after.present
    masks = {"insert": pc.invert(was), "update": pc.and_(was, now), "delete": pc.invert(now)}
    wanted = functools.reduce(pc.or_, (masks[op] for op in filter.ops))
    before, after = (Rows(r.present.filter(wanted), r.table.filter(wanted)) for r in chunk[1:])
    return RowChanges(chunk.ids.filter(wanted), before, after)


def _chunk_changes(
    kind: Kind, before: TableSide, after: TableSide, chunk: RowChanges, images: bool
) -> list[Change]:
    name, changes = after.entity.name, []
    for key, was, now, old, new in zip(
        chunk.ids.to_pylist(),
        chunk.before.present.to_pylist(),
        chunk.after.present.to_pylist(),
        images_of(before, chunk.before, properties=images),
        images_of(after, chunk.after, properties=images),
        strict=True,
    ):
        op: Op = "insert" if not was else "update" if now else "delete"
        after.meter.count(op)
        # Without its properties the image of a node has nothing to show.
        changes.append(Change(kind, name, key, op, old or None, new or None))
    return changes
