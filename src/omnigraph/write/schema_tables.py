"""What a schema change means for the tables of a graph, found by comparing two catalogs.

Types and properties are matched by identity, so a renamed one keeps its table or column. For
example, from ``node Boat { reg: String  len: F64? }`` to ``node Vessel { reg: String  crew: I32? }``
with Boat renamed: the table of Boat gets the key ``node:Vessel``, loses ``len`` and gains ``crew``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from omnigraph.lang.schema.catalog import Catalog, EdgeType, Entity
from omnigraph.manifest import rows
from omnigraph.manifest.create import table_schema
from omnigraph.manifest.manifest import BranchState
from omnigraph.manifest.row_reads import former_keys
from omnigraph.manifest.rows import TableState
from omnigraph.manifest.workspace import Workspace
from omnigraph.storage import layout
from omnigraph.storage.columns.stage_schema import ColumnChanges


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
        created=tuple((entity, _new_table(entity, used)) for entity in added),
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
    in_both = before.keys() & after.keys()
    # Reading the schema costs an import of Arrow, which most schema changes of no column do without.
    stored = table_schema(new) if after.keys() - before.keys() else None
    return ColumnChanges(
        added=tuple(
            stored.field(prop.name)
            for number, prop in after.items()
            if stored is not None and number not in before
        ),
        renamed={
            before[number].name: after[number].name
            for number in sorted(in_both)
            if before[number].name != after[number].name
        },
        relaxed=tuple(
            before[number].name
            for number in sorted(in_both)
            if after[number].type.nullable and not before[number].type.nullable
        ),
        dropped=tuple(prop.name for number, prop in before.items() if number not in after),
    )


def _by_incarnation(catalog: Catalog) -> dict[int, Entity]:
    entities: Iterator[Entity] = iter((*catalog.nodes.values(), *catalog.edges.values()))
    return {entity.table_incarnation_id: entity for entity in entities}


def _new_table(entity: Entity, used: set[str]) -> TableState:
    kind: layout.TableKind = "edge" if isinstance(entity, EdgeType) else "node"
    number = entity.table_incarnation_id
    location = layout.table_location(
        kind, entity.name, str(number), used_before=entity.table_key in used
    )
    return TableState(entity.table_key, number, location, 1, None, 0)


def _names_used(workspace: Workspace, state: BranchState) -> set[str]:
    """Return every table key this graph has or ever had, those of dropped tables included."""
    registered = workspace.manifest.table_rows(state, [rows.TABLE])
    return {key for row in registered for key in (row.table_key, *former_keys(row)) if key}
