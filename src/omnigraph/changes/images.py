"""Images of entities: whether two are the same, and how one is shown as JSON.

Null, ``""`` and ``[]`` are three values; NaN equals NaN and ``-0.0`` equals ``0.0``; lists and vectors
are compared element by element. Blobs in the table are equal if they have the same bytes, addresses of
blobs elsewhere if they are the same address.

In diffs, feeds, conflicts and exports a value has the form that loads take: dates and instants as ISO text,
a blob in the table as ``base64:…``, one elsewhere as its address, null as null.
"""

from __future__ import annotations

import base64
import json
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.changes.row_pairs import ROW_ID, AlignedRows
from omnigraph.changes.schemas.type_pairs import Compared, shown_properties
from omnigraph.changes.table_side import TableSide
from omnigraph.lang.schema.catalog import EdgeType, Entity, Property
from omnigraph.storage.tables.blobs.blob_columns import BlobPlaces
from omnigraph.storage.tables.blobs.carry import is_external
from omnigraph.storage.tables.blobs.reading import EXTERNAL, PIECE_BYTES, open_blob
from omnigraph.types import (
    TEXT,
    column_to_json,
    column_to_json_text,
    columns_equal,
    json_string_texts,
    widened_columns_equal,
)

Sides = tuple[TableSide, TableSide]
"""Where two ``AlignedRows`` that are compared were read from."""


def equal_rows(
    entity: Entity, left: AlignedRows, right: AlignedRows, sides: Sides | None = None
) -> pa.BooleanArray:
    """Row by row, whether both are absent, or both are present with equal images.

    ``sides`` are needed to compare the bytes of blobs, so for types without a Blob they may be None.
    """
    same = pc.equal(left.present, right.present)
    for name in (*entity.implicit_columns[1:], *entity.properties):
        if name not in entity.blob_properties:
            same = pc.and_(same, equal_column(entity, name, left, right))
    # Last, and only where all else is equal: bytes may have to be read.
    for name in entity.blob_properties:
        same = _and_equal_blobs(same, name, left, right, sides)
    return same


def equal_across(
    compared: Compared, left: AlignedRows, right: AlignedRows, sides: Sides
) -> pa.BooleanArray:
    """Like ``equal_rows``, for rows of two schemas: by the properties both declare, and those that one side added."""
    old, new = (side.entity for side in sides)
    same = pc.equal(left.present, right.present)
    for name in old.implicit_columns[1:]:
        same = pc.and_(same, equal_column(old, name, left, right))
    for name in compared.shared:
        if not old.properties[name].type.is_blob:
            kinds = [entity.properties[name].type for entity in (old, new)]
            values = [rows.table.column(name) for rows in (left, right)]
            equal = widened_columns_equal(kinds[0], values[0], kinds[1], values[1])
            same = pc.and_(same, equal)
    for entity, rows, names in (
        (old, left, compared.added_before),
        (new, right, compared.added_after),
    ):
        for name in names:
            same = pc.and_(same, _says_nothing(entity.properties[name], rows.table.column(name)))
    for name in compared.shared:
        if old.properties[name].type.is_blob:
            same = _and_equal_blobs(same, name, left, right, sides)
    return same


def _says_nothing(prop: Property, values: pa.ChunkedArray) -> pa.BooleanArray:
    """Where an added property has no value. A required one has that of all rows when it is added: its default."""
    absent = pc.is_null(values).combine_chunks()
    if prop.type.nullable or prop.default is None:
        return absent
    return pc.or_(absent, columns_equal(prop.type, values, prop.default_column(len(values))))


def equal_column(
    entity: Entity, name: str, left: AlignedRows, right: AlignedRows, sides: Sides | None = None
) -> pa.BooleanArray:
    """Row by row, whether one column has equal values; absent rows have nulls."""
    prop = entity.properties.get(name)
    if prop is not None and prop.type.is_blob:
        every = pa.array(np.ones(len(left.present), bool))
        return _and_equal_blobs(every, name, left, right, sides)
    kind = TEXT if prop is None else prop.type
    return columns_equal(kind, left.table.column(name), right.table.column(name))


def _and_equal_blobs(
    asked: pa.BooleanArray, name: str, left: AlignedRows, right: AlignedRows, sides: Sides | None
) -> pa.BooleanArray:
    """Where ``asked`` is true, whether the blobs are equal; else false."""
    places = pc.indices_nonzero(asked)
    pair = [_described(rows, name, places) for rows in (left, right)]
    same, unclear = _by_description(*pair)
    rows = np.flatnonzero(unclear)
    if len(rows):
        assert sides is not None, "the bytes of blobs must be compared"
        at = pa.array(rows)
        a, b = (_BlobReader(sides[n], name, pair[n].take(at)) for n in (0, 1))
        same[rows] = [
            a.place(row) == b.place(row) or _same_bytes(a, b, row) for row in range(len(rows))
        ]
    answer = np.zeros(len(asked), bool)
    answer[places.to_numpy()] = same
    return pa.array(answer)


def _described(rows: AlignedRows, name: str, places: pa.Array) -> pa.Table:
    """The parts of the descriptors in columns, and the row ids."""
    chosen = rows.table.select([name, ROW_ID]).take(places)
    column = chosen.column(name).combine_chunks()
    names = [column.type.field(i).name for i in range(column.type.num_fields)]
    parts = {part: pc.struct_field(column, part) for part in names}
    return pa.table({**parts, "valid": pc.is_valid(column), ROW_ID: chosen.column(ROW_ID)})


def _by_description(left: pa.Table, right: pa.Table) -> tuple[Any, Any]:
    """Where descriptions decide, and where bytes must: (equal, unclear)."""
    a, b = _arrays(left), _arrays(right)
    both = a["valid"] & b["valid"]
    external = a["kind"] == EXTERNAL
    kinds = external == (b["kind"] == EXTERNAL)
    same_address = (a["blob_uri"] == b["blob_uri"]) & (a["position"] == b["position"])
    same_size = a["size"] == b["size"]
    equal = ~a["valid"] & ~b["valid"]
    equal |= both & kinds & external & same_address & same_size
    managed = both & kinds & ~external & same_size
    equal |= managed & (a["size"] == 0)
    return equal, managed & (a["size"] > 0)


def _arrays(table: pa.Table) -> dict[str, Any]:
    arrays = {}
    for name in table.column_names:
        column = table.column(name)
        filler = "" if pa.types.is_string(column.type) else 0
        if not pa.types.is_boolean(column.type):
            column = column.fill_null(pa.scalar(filler, column.type))
        arrays[name] = column.to_numpy()
    return arrays


class _BlobReader:
    """The blobs of one property of some rows of one side."""

    def __init__(self, side: TableSide, name: str, rows: pa.Table) -> None:
        self._side = side
        column = side.pinned.column_of(name)
        assert column is not None, "a property without a column has no blobs"
        self.column = column
        self._rows = rows.to_pylist()
        self._places = BlobPlaces(side.table)
        with side.reading():
            self._addresses = side.addresses(rows.column(ROW_ID))

    def place(self, row: int) -> tuple[Any, ...]:
        """Where the bytes lie: data files have unique names and never change."""
        found = self._places.of(self._addresses[row], self.column)
        described = self._rows[row]
        return found.stem, found.field, *(described[k] for k in ("kind", "blob_id", "position"))

    def open(self, row: int) -> Any:
        """The bytes as a stream."""
        return open_blob(self._side.table, self.column, self._addresses[row], self._side.reading)


def _same_bytes(left: _BlobReader, right: _BlobReader, row: int) -> bool:
    with left.open(row) as a, right.open(row) as b:
        while piece := a.read(PIECE_BYTES):
            if piece != b.read(PIECE_BYTES):
                return False
        return not b.read(1)


_ENDS: Final = (("from", "src"), ("to", "dst"))


def images(
    side: TableSide, rows: AlignedRows, *, properties: bool = True
) -> list[dict[str, Any] | None]:
    """The image of every row: ``{properties, endpoints?}``; None for one that is absent.

    Without ``properties`` an image has only the endpoints of an edge.
    """
    return shown_images(side.entity, rows, json_columns(side, rows.table) if properties else None)


def shown_images(
    entity: Entity, rows: AlignedRows, columns: dict[str, list[Any]] | None
) -> list[dict[str, Any] | None]:
    """Put values of properties and the ends of edges together; None for a row that is absent."""
    shown: dict[str, list[Any]] = {}
    if columns is not None:
        shown["properties"] = _records(columns, rows.table.num_rows)
    if isinstance(entity, EdgeType):
        shown["endpoints"] = _records(
            {end: rows.table.column(column).to_pylist() for end, column in _ENDS},
            rows.table.num_rows,
        )
    found = _records(shown, rows.table.num_rows)
    return [
        image if present else None
        for image, present in zip(found, rows.present.to_pylist(), strict=True)
    ]


def image_texts(side: TableSide, rows: AlignedRows) -> pa.StringArray:
    """The image of every row as JSON text, made by Arrow; null for one that is absent.

    What ``json.dumps`` makes of ``images``, without blanks and with characters as they are.
    """
    parts: list[Any] = ['{"properties":{']
    for number, (name, prop) in enumerate(shown_properties(side.entity)):
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
        for name, prop in shown_properties(side.entity)
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
