"""Schema changes of a stored graph, for tests of what reads make of them."""

from __future__ import annotations

from omnigraph.clock import new_ulid, stamp_us
from omnigraph.commit.changes import NewDataset, StagedStep, TableChange, Write
from omnigraph.commit.protocol import commit
from omnigraph.graph import Graph
from omnigraph.graph.graph import state_of
from omnigraph.lang.schema import compile_schema
from omnigraph.lang.schema.catalog_of import catalog_of
from omnigraph.lang.schema.identity import evolve
from omnigraph.lang.schema.read_ir import read_ir
from omnigraph.manifest.create import table_schema
from omnigraph.manifest.publisher import Intent
from omnigraph.manifest.rows import SchemaRow, TableState
from omnigraph.storage import layout
from omnigraph.storage.columns.column_changes import ColumnChanges
from omnigraph.storage.columns.stage_schema import plan_columns
from omnigraph.storage.tables.table import create_table, open_table


def apply_schema(graph: Graph, source: str) -> None:
    workspace = state_of(graph).workspace
    state = workspace.manifest.state("main")
    accepted = state_of(graph).schemas.at(state)
    shape = compile_schema(source, None).shape
    new_ir, _ = evolve(read_ir(accepted.row.ir), shape)
    row = SchemaRow(source, new_ir.to_json(), shape.shape_hash, new_ir.ir_hash)
    before = _by_incarnation(accepted.catalog)
    after = _by_incarnation(catalog_of(new_ir))
    pins = {pin.incarnation: pin for pin in state.head.tables.values()}
    tables, created, renamed = [], [], {}
    for number, entity in after.items():
        if number not in before:
            kind = entity.table_key.partition(":")[0]
            where = layout.table_location(kind, entity.name, str(number), used_before=True)
            schema = table_schema(entity)
            created.append(
                NewDataset(
                    TableState(entity.table_key, number, where, 1, None, 0),
                    lambda where=where, schema=schema: create_table(workspace.ref(where), schema),
                )
            )
            continue
        if entity.table_key != before[number].table_key:
            renamed[number] = entity.table_key
        changes = _changes(before[number], entity)
        if not changes.is_empty:
            planned = plan_columns(open_table(workspace.pinned(pins[number])), changes)
            steps = tuple(StagedStep(stage) for stage in planned.stages())
            tables.append(TableChange(pins[number], steps))
    dropped = tuple(pins[number] for number in before if number not in after)
    write = Write(
        "schema_apply",
        state.pin,
        Intent(new_ulid(), "schema_apply", stamp_us()),
        tuple(tables),
        created=tuple(created),
        renamed=renamed,
        dropped=dropped,
        schema=row,
        exact_head=True,
    )
    commit(workspace, write)


def _by_incarnation(catalog):
    both = [*catalog.nodes.values(), *catalog.edges.values()]
    return {entity.table_incarnation_id: entity for entity in both}


def _changes(before, after) -> ColumnChanges:
    old = {prop.property_id: prop for prop in before.properties.values()}
    new = {prop.property_id: prop for prop in after.properties.values()}
    fields = table_schema(after)
    shared = old.keys() & new.keys()
    return ColumnChanges(
        added=tuple(fields.field(new[key].name) for key in new if key not in old),
        renamed={old[key].name: new[key].name for key in shared if old[key].name != new[key].name},
        relaxed=tuple(
            old[key].name for key in shared if new[key].type.nullable and not old[key].type.nullable
        ),
        dropped=tuple(old[key].name for key in old if key not in new),
    )
