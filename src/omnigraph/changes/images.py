"""The one comparison of images: whether an entity is the same in two states of a table.

Null, ``""`` and ``[]`` are three values; NaN equals NaN and ``-0.0`` equals ``0.0``; lists and vectors
are compared element by element. Blobs in the table are equal if they have the same bytes, addresses of
blobs elsewhere if they are the same address.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.changes.row_changes import ROW_ID, Rows
from omnigraph.changes.table_side import TableSide
from omnigraph.lang.schema.catalog import Entity
from omnigraph.storage.tables.blobs.columns import BlobPlaces
from omnigraph.storage.tables.blobs.reading import EXTERNAL, PIECE_BYTES, open_blob
from omnigraph.types import TEXT, columns_equal

Sides = tuple[TableSide, TableSide]
"""Where two ``Rows`` that are compared were read from."""


def equal_rows(
    entity: Entity, left: Rows, right: Rows, sides: Sides | None = None
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


def equal_column(
    entity: Entity, name: str, left: Rows, right: Rows, sides: Sides | None = None
) -> pa.BooleanArray:
    """Row by row, whether one column has equal values; absent rows have nulls."""
    prop = entity.properties.get(name)
    if prop is not None and prop.type.is_blob:
        every = pa.array(np.ones(len(left.present), bool))
        return _and_equal_blobs(every, name, left, right, sides)
    kind = TEXT if prop is None else prop.type
    return columns_equal(kind, left.table.column(name), right.table.column(name))


def _and_equal_blobs(
    asked: pa.BooleanArray, name: str, left: Rows, right: Rows, sides: Sides | None
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


def _described(rows: Rows, name: str, places: pa.Array) -> pa.Table:
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
