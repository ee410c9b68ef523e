"""What a schema change means for the tables of a graph, found by comparing two catalogs.

Types and properties are matched by identity, so a renamed one keeps its table or column. For
example, from ``node Boat { reg: String  len: F64? }`` to ``node Vessel { reg: String  crew: I32? }``
with Boat renamed: the table of Boat gets the key ``node:Vessel``, loses ``len`` and gains ``crew``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from omnigraph.commit.changes import NewDataset, StagedStep
from omnigraph.commit.stage_tables import needs_fork
from omnigraph.lang.schema.catalog import (
    FILL_METADATA,
    Catalog,
    EdgeType,
    Entity,
    Property,
    fill_text,
)
from omnigraph.manifest import rows
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.create import table_schema
from omnigraph.manifest.manifest import BranchState
from omnigraph.manifest.row_reads import former_keys
from omnigraph.manifest.rows import TableState
from omnigraph.manifest.workspace import Workspace
from omnigraph.storage import layout
from omnigraph.storage.columns.stage_schema import ColumnChanges, plan_columns
from omnigraph.storage.columns.without_columns import index_stages, rewrite_without
from omnigraph.storage.tables.table import Table, create_table, open_table

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class ChangedTables:
    """The tables a schema change creates, changes, renames and drops.

    ``created`` are new types with the state of their empty table, ``columns`` are column changes by
    the state of the table, ``renamed`` maps an incarnation to its new key.
    """

    created: tuple[tuple[Entity, TableState], ...] = ()
    columns: tuple[tuple[TableState, ColumnChanges], ...] = ()
    renamed: Mapping[int, str] = field(default_factory=dict)
    dropped: tuple[TableState, ...] = ()


def table_changes(
    workspace: Workspace,
    state: BranchState,
    accepted: Catalog,
    target: Catalog,
    *,
    by_merge: bool = False,
) -> ChangedTables:
    """Return what the change from one catalog to another does to the tables of a branch.

    Two branches may add types of one name; only what is applied on `main` can know that no other has it.
    """
    old, new = _by_incarnation(accepted), _by_incarnation(target)
    pins = {table.incarnation: table for table in state.head.tables.values()}
    columns = []
    for number in sorted(old.keys() & new.keys()):
        changes = column_changes(old[number], new[number])
        if not changes.is_empty:
            columns.append((pins[number], changes))
    added = [new[number] for number in sorted(new.keys() - old.keys())]
    used = _names_used(workspace, state) if added else set()
    apart = by_merge or state.name != MAIN
    return ChangedTables(
        created=tuple(
            (entity, _new_table(entity, numbered=apart or entity.table_key in used))
            for entity in added
        ),
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
            _with_fill(stored.field(prop.name), prop)
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


def _with_fill(field: pa.Field, prop: Property) -> pa.Field:
    """Return a new column that says what all rows get in it, if they get anything."""
    if not prop.fills:
        return field
    said = {FILL_METADATA: fill_text(prop.default_column(1)[0])}
    return field.with_metadata({**(field.metadata or {}), **said})


def _with_fills(columns: ColumnChanges, table: Table) -> ColumnChanges:
    """Return the changes with columns of larger types that say what the ones before them say."""
    if not columns.widened:
        return columns
    widened = {}
    for old, new in columns.widened.items():
        said = (table.schema.field(old).metadata or {}).get(FILL_METADATA.encode())
        metadata = {} if said is None else {FILL_METADATA: said}
        widened[old] = new.with_metadata({**(new.metadata or {}), **metadata})
    return replace(columns, widened=widened)


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


def _new_table(entity: Entity, *, numbered: bool) -> TableState:
    """Return the state of an empty table; ``numbered``: its place has its number, as that of no other table."""
    kind: layout.TableKind = "edge" if isinstance(entity, EdgeType) else "node"
    number = entity.table_incarnation_id
    location = layout.table_location(kind, entity.name, str(number), used_before=numbered)
    return TableState(entity.table_key, number, location, 1, None, 0)


def _names_used(workspace: Workspace, state: BranchState) -> set[str]:
    """Return every table key this graph has or ever had, those of dropped tables included."""
    registered = workspace.manifest.table_rows(state, [rows.TABLE])
    return {key for row in registered for key in (row.table_key, *former_keys(row)) if key}


def column_steps(
    workspace: Workspace,
    pin: TableState,
    columns: ColumnChanges,
    branch: str,
    *,
    hard: bool = False,
) -> Iterator[StagedStep]:
    """Yield the steps that give a table of a branch its new columns; ``hard``: without the data of dropped ones.

    The caller holds the locks of the branch.
    """
    table = open_table(workspace.pinned(pin))
    columns = _with_fills(columns, table)
    planned = plan_columns(table, columns, forks=needs_fork(pin, branch))
    yield from (StagedStep(stage) for stage in planned.stages())
    rewrite = rewrite_without(table, columns) if hard and columns.dropped else None
    if rewrite is not None:
        yield StagedStep(rewrite)
    for stage in index_stages(table, columns, rewritten=rewrite is not None):
        yield StagedStep(stage, best_effort=True)


def new_dataset(
    workspace: Workspace, entity: Entity, table: TableState, rows: StagedStep | None = None
) -> NewDataset:
    """Return the table of a new type, to be made at its place; ``rows`` writes its first rows."""
    ref = workspace.ref(table.location)

    def create() -> Table:
        return create_table(ref, table_schema(entity))

    return NewDataset(table, create, () if rows is None else (rows,))
