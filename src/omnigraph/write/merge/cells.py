"""How values of the three sides are compared and shown while a merge decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import pyarrow as pa

from omnigraph.changes.images import equal_column, images
from omnigraph.changes.row_pairs import ROW_ID, AlignedRows
from omnigraph.changes.short_images import short_images
from omnigraph.changes.table_side import TableSide
from omnigraph.lang.schema.catalog import Entity
from omnigraph.storage.tables.blobs.reading import EXTERNAL, open_blob
from omnigraph.write.merge.decided import Cells, Equal, ShowImages, Side
from omnigraph.write.merge.merged_table import Sides


def compare_cells(entity: Entity, sides: Sides) -> Equal:
    """Return the function that compares columns of two sides, row by row."""

    def equal(names: Sequence[str], left: Cells, right: Cells) -> pa.BooleanArray:
        same = np.ones(left.table.num_rows, bool)
        # Blobs come last, and only where all else is equal: their bytes may have to be read.
        for name in sorted(names, key=lambda name: name in entity.blob_properties):
            places = np.flatnonzero(same)
            if len(places):
                one, other = (_taken(cells, places) for cells in (left, right))
                same[places] = _equal_in(entity, sides, name, one, other)
        return pa.array(same)

    return equal


def show_cells(sides: Sides, *, short: bool = False) -> ShowImages:
    """Return the function that shows rows of a side as images, or as short ones."""
    shown = short_images if short else images

    def show(cells: Cells) -> Sequence[Mapping[str, Any]]:
        return cast("list[dict[str, Any]]", shown(sides.of(cells.side), _rows(cells)))

    return show


def _taken(cells: Cells, places: Any) -> Cells:
    if len(places) == cells.table.num_rows:
        return cells
    return Cells(cells.side, cells.table.take(pa.array(places)))


def _rows(cells: Cells) -> AlignedRows:
    return AlignedRows(pa.array(np.ones(cells.table.num_rows, bool)), cells.table)


def _equal_in(entity: Entity, sides: Sides, name: str, left: Cells, right: Cells) -> Any:
    if name in entity.blob_properties and left.side is Side.IMAGE:
        return _given_equal(sides.of(right.side), name, left.table, right.table)
    of = None
    if name in entity.blob_properties:
        of = (sides.of(left.side), sides.of(right.side))
    answer = equal_column(entity, name, _rows(left), _rows(right), of)
    return answer.to_numpy(zero_copy_only=False)


def _given_equal(side: TableSide, name: str, given: pa.Table, stored: pa.Table) -> list[bool]:
    """Return whether blobs that a resolution gives are those that are stored."""
    pairs = zip(given.column(name).to_pylist(), stored.column(name).to_pylist(), strict=True)
    row_ids = stored.column(ROW_ID).combine_chunks()
    return [_is_stored(side, name, row_ids.slice(row, 1), *pair) for row, pair in enumerate(pairs)]


def _is_stored(
    side: TableSide,
    name: str,
    row_id: pa.Array,
    given: Mapping[str, Any] | None,
    found: Mapping[str, Any] | None,
) -> bool:
    if given is None or found is None:
        return given is found
    if found["kind"] == EXTERNAL:
        whole = given["position"] is None and given["data"] is None
        return whole and given["uri"] == found["blob_uri"]
    data = given["data"]
    # A file that a resolution names is taken in again, without comparing it.
    if data is None or len(data) != found["size"]:
        return False
    column = side.pinned.column_of(name)
    assert column is not None, "a property without a column has no blobs"
    (address,) = side.addresses(row_id)
    with open_blob(side.table, column, address, side.reading) as stream:
        return bool(stream.read() == data)
