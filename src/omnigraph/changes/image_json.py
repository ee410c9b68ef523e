"""Images as JSON: the values that diffs, feeds, conflicts and exports show.

A value has the form that loads take: dates and instants as ISO text, a blob in the table as
``base64:…``, one elsewhere as its address, null as null.
"""

from __future__ import annotations

import base64
import json
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.changes.row_changes import ROW_ID, Rows
from omnigraph.changes.table_side import TableSide
from omnigraph.lang.schema.catalog import EdgeType
from omnigraph.storage.tables.blobs.carry import is_external
from omnigraph.storage.tables.blobs.reading import open_blob
from omnigraph.types import (
    TEXT,
    column_to_json,
    column_to_json_text,
    json_string_texts,
)

_ENDS: Final = (("from", "src"), ("to", "dst"))


def images(side: TableSide, rows: Rows, *, properties: bool = True) -> list[dict[str, Any] | None]:
    """The image of every row: ``{properties, endpoints?}``; None for one that is absent.

    Without ``properties`` an image has only the endpoints of an edge.
    """
    shown: dict[str, list[Any]] = {}
    if properties:
        shown["properties"] = _records(json_columns(side, rows.table), rows.table.num_rows)
    if isinstance(side.entity, EdgeType):
        shown["endpoints"] = _records(
            {end: rows.table.column(column).to_pylist() for end, column in _ENDS},
            rows.table.num_rows,
        )
    found = _records(shown, rows.table.num_rows)
    return [
        image if present else None
        for image, present in zip(found, rows.present.to_pylist(), strict=True)
    ]


def image_texts(side: TableSide, rows: Rows) -> pa.StringArray:
    """The image of every row as JSON text, made by Arrow; null for one that is absent.

    What ``json.dumps`` makes of ``images``, without blanks and with characters as they are.
    """
    parts: list[Any] = ['{"properties":{']
    for number, (name, prop) in enumerate(side.entity.properties.items()):
        parts.append(f"{',' if number else ''}{json.dumps(name, ensure_ascii=False)}:")
        if prop.type.is_blob:
            texts = pa.array(blob_texts(side, name, rows.table), pa.utf8())
            parts.append(json_string_texts(texts).fill_null("null"))
        else:
            parts.append(column_to_json_text(prop.type, rows.table.column(name)))
    parts.append("}")
    if isinstance(side.entity, EdgeType):
        for opening, column in ((',"endpoints":{"from":', "src"), (',"to":', "dst")):
            parts += [opening, column_to_json_text(TEXT, rows.table.column(column))]
        parts.append("}")
    every = pc.if_else(rows.present, "", "")  # a text for each row, also where there is no property
    joined = pc.binary_join_element_wise(every, *parts, "}", "")
    return pc.if_else(rows.present, joined, None)


def _records(columns: dict[str, list[Any]], count: int) -> list[dict[str, Any]]:
    names = tuple(columns)
    if not names:
        return [{} for _ in range(count)]
    return [dict(zip(names, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def json_columns(side: TableSide, rows: pa.Table) -> dict[str, list[Any]]:
    """The JSON forms of every property, column by column, in the order of the schema."""
    return {
        name: (
            blob_texts(side, name, rows)
            if prop.type.is_blob
            else column_to_json(prop.type, rows.column(name))
        )
        for name, prop in side.entity.properties.items()
    }


def blob_texts(side: TableSide, name: str, rows: pa.Table) -> list[str | None]:
    """The text forms of one Blob column: bytes as base64, an address as it is."""
    described = rows.column(name).combine_chunks()
    texts: list[str | None] = pc.if_else(
        is_external(described), pc.struct_field(described, "blob_uri"), None
    ).to_pylist()
    managed = pc.indices_nonzero(pc.and_(pc.is_valid(described), pc.invert(is_external(described))))
    column = None if side.state is None else side.pinned.column_of(name)
    if not len(managed) or column is None:
        return texts
    addresses = side.addresses(rows.column(ROW_ID).take(managed))
    for row, address in zip(managed.to_pylist(), addresses, strict=True):
        with open_blob(side.table, column, address, side.reading) as stream:
            texts[row] = "base64:" + base64.b64encode(stream.read()).decode()
    return texts
