"""What a schema change means for the tables of a graph, found by comparing two catalogs.

Types and properties are matched by identity, so a renamed one keeps its table or column. For
example, from ``node Boat { reg: String  len: F64? }`` to ``node Vessel { reg: String  crew: I32? }``
with Boat renamed: the table of Boat gets the key ``node:Vessel``, loses ``len`` and gains ``crew``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.lang.schema.catalog import Catalog, EdgeType, Entity
from omnigraph.manifest import rows
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.create import table_schema
from omnigraph.manifest.manifest import BranchState
from omnigraph.manifest.row_reads import former_keys
from omnigraph.manifest.rows import TableState
from omnigraph.manifest.workspace import Workspace
from omnigraph.storage import layout
from omnigraph.storage.columns.stage_schema import ColumnChanges

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class TableChanges:
    """The tables a schema change creates, changes, renames and drops.

    ``created`` are new types with the state of their empty table, ``columns`` are column changes by
    the state of the table, ``renamed`` maps an incarnation to its new key.
    """

    created: tuple[tuple[Entity, TableState], ...]
    columns: tuple[tuple[TableState, ColumnChanges], ...]
    renamed: Mapping[int, str]
    dropped: tuple[TableState, ...]


def table_changes(
    workspace: Workspace, state: BranchState, accepted: Catalog, target: Catalog
) -> TableChanges:
    """Return what the change from one catalog to another does to the tables of a branch."""
    old, new = _by_incarnation(accepted), _by_incarnation(target)
    pins = {table.incarnation: table for table in state.head.tables.values()}
    columns = []
    for number in sorted(old.keys() & new.keys()):
        changes = column_changes(old[number], new[number])
        if not changes.is_empty:
            columns.append((pins[number], changes))
    added = [new[number] for number in sorted(new.keys() - old.keys())]
    used = _names_used(workspace, state) if added else set()
    return TableChanges(
        created=tuple((entity, _new_table(entity, state.name, used)) for entity in added),
        columns=tuple(columns),
        renamed={
            number: new[number].table_key
            for number in sorted(old.keys() & new.keys())
            if new[number].table_key != old[number].table_key
        },
        dropped=tuple(pins[number] for number in sorted(old.keys() - new.keys())),
    )


def column_changes(old: Entity, new: Entity) -> ColumnChanges:
    """Return what happens to the columns of a type that exists before and after."""
    before = {prop.property_id: prop for prop in old.properties.values()}
    after = {prop.property_id: prop for prop in new.properties.values()}
    widened = _widened(old, new)
    cleared = _cleared(old, new)
    stays = sorted(before.keys() & after.keys() - widened - cleared)
    # Reading the schema costs an import of Arrow, which most schema changes of no column do without.
    stored = table_schema(new) if (after.keys() - before.keys()) | widened | cleared else None

    def fields(numbers: set[int]) -> dict[str, pa.Field]:
        if stored is None:
            return {}
        return {before[number].name: stored.field(after[number].name) for number in sorted(numbers)}

    return ColumnChanges(
        added=tuple(
            stored.field(prop.name)
            for number, prop in after.items()
            if stored is not None and number not in before
        ),
        filled={
            prop.name: prop.default_column(1)[0]
            for number, prop in after.items()
            if number not in before and not prop.type.nullable
        },
        renamed={
            before[number].name: after[number].name
            for number in stays
            if before[number].name != after[number].name
        },
        relaxed=tuple(
            before[number].name
            for number in stays
            if after[number].type.nullable and not before[number].type.nullable
        ),
        dropped=tuple(prop.name for number, prop in before.items() if number not in after),
        widened=fields(widened),
        cleared=fields(cleared),
    )


def _widened(old: Entity, new: Entity) -> set[int]:
    """The ids of the properties whose values are stored in a larger type from now on."""
    before = {prop.property_id: prop.type.scalar for prop in old.properties.values()}
    return {
        prop.property_id
        for prop in new.properties.values()
        if before.get(prop.property_id, prop.type.scalar) != prop.type.scalar
    }


def _cleared(old: Entity, new: Entity) -> set[int]:
    """The ids of the vectors that are made of another text or by another model from now on."""
    before = _bindings(old)
    return {
        number
        for number, binding in _bindings(new).items()
        if number in before and binding != before[number]
    }


def _bindings(entity: Entity) -> dict[int, tuple[int, str | None]]:
    """What vectors are made of, by their ids: the id of the text, and the model."""
    properties = entity.properties
    return {
        properties[name].property_id: (properties[embed.source].property_id, embed.model)
        for name, embed in entity.embeds.items()
    }


def _by_incarnation(catalog: Catalog) -> dict[int, Entity]:
    entities: Iterator[Entity] = iter((*catalog.nodes.values(), *catalog.edges.values()))
    return {entity.table_incarnation_id: entity for entity in entities}


def _new_table(entity: Entity, branch: str, used: set[str]) -> TableState:
    kind: layout.TableKind = "edge" if isinstance(entity, EdgeType) else "node"
    number = entity.table_incarnation_id
    # Two branches may add types of one name; only on `main` is it known that no other has it.
    taken = branch != MAIN or entity.table_key in used
    location = layout.table_location(kind, entity.name, str(number), used_before=taken)
    return TableState(entity.table_key, number, location, 1, None, 0)


def _names_used(workspace: Workspace, state: BranchState) -> set[str]:
    """Return every table key this graph has or ever had, those of dropped tables included."""
    registered = workspace.manifest.table_rows(state, [rows.TABLE])
    return {key for row in registered for key in (row.table_key, *former_keys(row)) if key}
