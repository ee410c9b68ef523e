"""Types of a schema text, and frames of plain rows for the rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from omnigraph.lang.schema import compile_schema
from omnigraph.lang.schema.catalog import Catalog, Entity, NodeType
from omnigraph.types import from_json, to_arrow

TEXT_COLUMNS = ("id", "src", "dst")


def catalog_of(text: str) -> Catalog:
    return compile_schema(text).catalog


def only_node(text: str) -> NodeType:
    (node,) = catalog_of(text).nodes.values()
    return node


def table_of(entity: Entity, rows: Iterable[Mapping[str, Any]], names: Iterable[str]) -> pa.Table:
    """Rows of JSON values as their table stores them; what a row leaves out is null."""
    rows = list(rows)
    columns = {}
    for name in names:
        given = [row.get(name) for row in rows]
        if name in TEXT_COLUMNS:
            columns[name] = pa.array(given, pa.utf8())
        else:
            kind = entity.properties[name].type.as_nullable()
            columns[name] = to_arrow(kind, [from_json(kind, value) for value in given])
    return pa.table(columns)
