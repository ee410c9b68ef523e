"""The types whose tables differ between two snapshots, and which of their changes a filter shows."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.changes.change_filter import ChangeFilter
from omnigraph.changes.row_pairs import AlignedRows, ChangedRows
from omnigraph.changes.schemas.two_schemas import two_schemas
from omnigraph.changes.schemas.type_pairs import (
    TypeId,
    TypePair,
    one_schema,
    two_sided,
    types_of,
)
from omnigraph.changes.stats import Meter
from omnigraph.lang.schema.catalog import Catalog, Entity
from omnigraph.lang.schema.joins import Joins
from omnigraph.manifest.history.resolve import catalog_at
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.manifest.workspace import Workspace


def type_names(catalog: Catalog) -> list[str]:
    """Return which type has which name: the order of changes, and so a page of them, rests on it."""
    types = types_of(catalog).items()
    return sorted(f"{kind}:{number}:{one.name}" for (kind, number), one in types)


def all_names(type_id: TypeId, *types: dict[TypeId, Entity]) -> Iterator[str]:
    """Yield every name a type has in these schemas."""
    for one in types:
        if type_id in one:
            yield one[type_id].name


def differing_types(
    workspace: Workspace,
    before: Snapshot,
    after: Snapshot,
    current: Catalog,
    filter: ChangeFilter,
    meter: Meter,
) -> list[TypePair]:
    """Return the types that may differ and are shown, in no particular order.

    ``current`` is the schema whose names are used. Raises ``BadRequest`` for an unknown type.
    """
    manifest = workspace.manifest
    schemas = two_schemas(manifest, before, after)
    joins = None
    if schemas is not None:
        schemas.learn(current)
        joins = schemas.joins
    catalogs = [catalog_at(manifest, snapshot) for snapshot in (before, after)]
    filter.refuse_unknown_types(current, *catalogs)
    old, new, now = (types_of(catalog, joins) for catalog in (*catalogs, current))
    states = [_states(snapshot, joins) for snapshot in (before, after)]
    found = []
    for type_id in states[0].keys() | states[1].keys():
        names = all_names(type_id, old, new, now)
        if not (filter.shows_kind(type_id[0]) and filter.shows_type(names)):
            continue
        if states[0].get(type_id) == states[1].get(type_id):
            meter.tables_skipped += 1
        elif schemas is None:
            found.append(one_schema(type_id, new[type_id], now.get(type_id)))
        else:
            sides = old.get(type_id), new.get(type_id), now.get(type_id)
            found.append(two_sided(type_id, *sides, schemas))
    return found


def _states(snapshot: Snapshot, joins: Joins | None) -> dict[TypeId, tuple[object, ...]]:
    found: dict[TypeId, tuple[object, ...]] = {}
    for key, state in snapshot.tables.items():
        number = state.incarnation if joins is None else joins.one(state.incarnation)
        found["node" if key.startswith("node:") else "edge", number] = state.identity
    return found


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
