"""Plain rows into a stored graph and back: what lets the oracle judge what writers wrote."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from omnigraph.clock import new_ulid, stamp_us
from omnigraph.commit.changes import StagedStep, TableChange, Write
from omnigraph.commit.protocol import commit
from omnigraph.graph import Graph
from omnigraph.lang.schema.catalog import Entity
from omnigraph.manifest.publisher import Intent
from omnigraph.storage.tables.blobs.blob_columns import blob_columns, is_blob
from omnigraph.storage.tables.staging import Staged, stage_append
from omnigraph.storage.tables.table import Table, open_table
from omnigraph.types import from_arrow
from tests.opened import workspace_of
from tests.oracle.graph import Graph as PlainGraph


def read_plain(table: Table) -> pa.Table:
    """Whole rows, with blobs as their bytes."""
    schema = pa.schema(
        [pa.field(f.name, pa.large_binary(), f.nullable) if is_blob(f) else f for f in table.schema]
    )
    blobs = {"blob_handling": "all_binary"} if blob_columns(table.schema) else {}
    found = table.read(None, None, **blobs)
    columns = [found.column(field.name).cast(field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def fill(graph: Graph, plain: PlainGraph) -> None:
    """Append every plain row to its table, as one commit."""
    catalog = graph.schema.catalog
    pins = graph.snapshot().tables
    changes = []
    for kind, rows in _rows(plain, catalog.nodes, catalog.edges):
        if rows:
            changes.append(TableChange(pins[kind.table_key], (_appending(rows),)))
    intent = Intent(new_ulid(), "load", stamp_us())
    commit(
        workspace_of(graph),
        Write("load", workspace_of(graph).manifest.state("main").pin, intent, tuple(changes)),
    )


def _rows(plain: PlainGraph, nodes: Any, edges: Any) -> Any:
    for name, kind in nodes.items():
        yield kind, [{"id": i, **values} for i, values in plain.nodes[name].items()]
    for name, kind in edges.items():
        yield (
            kind,
            [
                {"id": i, "src": src, "dst": dst, **values}
                for i, src, dst, values in plain.edges[name]
            ],
        )


def _appending(rows: list[dict[str, Any]]) -> StagedStep:
    def stage(table: Table) -> Staged:
        plain = read_plain(table).schema
        columns = [pa.array([row[f.name] for row in rows], f.type) for f in plain]
        return stage_append(table, pa.Table.from_arrays(columns, schema=plain))

    return StagedStep(stage)


def read_back(graph: Graph, branch: str = "main") -> PlainGraph:
    """Every row a reader of the branch sees, as plain rows."""
    catalog = graph.schema.catalog
    tables = graph.snapshot(branch=branch).tables

    def rows(kind: Entity) -> list[dict[str, Any]]:
        pin = tables[kind.table_key]
        table = open_table(workspace_of(graph).pinned(pin))
        found = read_plain(table)
        assert found.num_rows == pin.row_count
        columns = {name: found.column(name).to_pylist() for name in kind.implicit_columns}
        for name, prop in kind.properties.items():
            columns[name] = from_arrow(prop.type.as_nullable(), found.column(name))
        return [
            dict(zip(columns, values, strict=True))
            for values in zip(*columns.values(), strict=True)
        ]

    return PlainGraph(
        {name: {row.pop("id"): row for row in rows(kind)} for name, kind in catalog.nodes.items()},
        {
            name: [(row.pop("id"), row.pop("src"), row.pop("dst"), row) for row in rows(kind)]
            for name, kind in catalog.edges.items()
        },
    )
