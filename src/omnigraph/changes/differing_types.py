"""The types whose tables differ between two snapshots, and which of their changes a filter shows.

A type and its properties are what their ids say. At a past snapshot a type has the properties that
were declared there; where one still exists, it goes by its current name.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.changes.change_filter import KINDS, ChangeFilter, Kind
from omnigraph.changes.row_pairs import AlignedRows, ChangedRows
from omnigraph.changes.stats import Meter
from omnigraph.errors import SchemaBoundary
from omnigraph.lang.schema.catalog import Catalog, EdgeType, Entity, NodeType
from omnigraph.manifest.history.resolve import catalog_at
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.manifest.workspace import Workspace

Type = TypeVar("Type", NodeType, EdgeType)

TypeId = tuple[Kind, int]
"""`node` or `edge`, and the incarnation of the table: one type for ever, whatever its name is."""


def types_of(catalog: Catalog) -> dict[TypeId, Entity]:
    """Return the types of a schema by their identity."""
    found: dict[TypeId, Entity] = {}
    for node in catalog.nodes.values():
        found["node", node.table_incarnation_id] = node
    for edge in catalog.edges.values():
        found["edge", edge.table_incarnation_id] = edge
    return found


def type_names(catalog: Catalog) -> list[str]:
    """Return which type has which name: the order of changes, and so a page of them, rests on it."""
    types = types_of(catalog).items()
    return sorted(f"{kind}:{number}:{one.name}" for (kind, number), one in types)


def property_ids(entity: Entity) -> frozenset[int]:
    """Return the ids of the declared properties."""
    return frozenset(prop.property_id for prop in entity.properties.values())


def under_current_names(then: Entity, now: Entity | None) -> Entity:
    """Return a type with the properties it had then, under the names it and they have now.

    A name that a dropped property had, and another one has now, cannot mean both: such a type keeps
    the names of then for all its properties.
    """
    if now is None or now is then:
        return then
    if isinstance(then, EdgeType):
        assert isinstance(now, EdgeType)
        return _renamed(then, now)
    assert isinstance(now, NodeType)
    return _renamed(then, now)


def _renamed(then: Type, now: Type) -> Type:
    current = {prop.property_id: name for name, prop in now.properties.items()}
    names = {name: current.get(prop.property_id, name) for name, prop in then.properties.items()}
    if len(set(names.values())) < len(names):
        return replace(then, name=now.name)
    return replace(
        then,
        name=now.name,
        properties={
            names[name]: replace(prop, name=names[name]) for name, prop in then.properties.items()
        },
    )


def all_names(type_id: TypeId, *types: dict[TypeId, Entity]) -> Iterator[str]:
    """Yield every name a type has in these schemas."""
    for one in types:
        if type_id in one:
            yield one[type_id].name


class DifferingType(NamedTuple):
    """A type whose two tables may have different rows, under its current names."""

    type_id: TypeId
    entity: Entity

    @property
    def kind(self) -> Kind:
        """`node` or `edge`."""
        return self.type_id[0]

    @property
    def rank(self) -> tuple[int, str]:
        """Where the type is in the order of a diff; one that was dropped and added again is there twice."""
        return rank_of(self.kind, self.entity.name)


def rank_of(kind: Kind, name: str) -> tuple[int, str]:
    """Return where a type is in the order of a diff: nodes before edges, then by name."""
    return KINDS.index(kind), name


def differing_types(
    workspace: Workspace,
    before: Snapshot,
    after: Snapshot,
    current: Catalog,
    filter: ChangeFilter,
    meter: Meter,
) -> list[DifferingType]:
    """Return the types that may differ and are shown, in no particular order.

    Raises ``BadRequest`` for an unknown type, and ``SchemaBoundary`` where the declared properties
    of a type differ.
    """
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
        tables.append(DifferingType(type_id, under_current_names(declared[0], now.get(type_id))))
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


def shown_changes(chunk: ChangedRows, filter: ChangeFilter) -> ChangedRows:
    """Return the changes of a chunk whose operations are shown."""
    if not filter.ops:
        return chunk
    wanted = shown_mask(chunk.before.present, chunk.after.present, filter)
    before, after = (
        AlignedRows(r.present.filter(wanted), r.table.filter(wanted)) for r in chunk[1:]
    )
    return ChangedRows(chunk.ids.filter(wanted), before, after)


def shown_mask(was: pa.BooleanArray, now: pa.BooleanArray, filter: ChangeFilter) -> pa.BooleanArray:
    """Return which entities are shown, by whether each was there before and is there now."""
    masks = {"insert": pc.invert(was), "update": pc.and_(was, now), "delete": pc.invert(now)}
    return functools.reduce(pc.or_, (masks[op] for op in filter.ops or masks))
