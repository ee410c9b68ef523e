"""Short images: vectors and blobs by their sizes, and whether another side has the very same.

    {"properties": {"title": "…", "vec": {"$vector": 768, "same": "before"},
                    "scan": {"$blob": {"size": 41287, "etag": "…"}}}}

A program that shows changes to people needs no more, and the values may be large. Texts stay whole.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.changes.images import equal_column, shown_images
from omnigraph.changes.row_pairs import ROW_ID, AlignedRows
from omnigraph.changes.schemas.type_pairs import HIDDEN, Compared, shown_properties
from omnigraph.changes.table_side import TableSide
from omnigraph.lang.schema.catalog import Entity
from omnigraph.storage.tables.blobs.blob_columns import BlobPlaces
from omnigraph.storage.tables.blobs.reading import blob_facts
from omnigraph.types import column_to_json

Image = dict[str, Any]


def long_properties(entity: Entity) -> list[str]:
    """Return the properties that a short image shows by their sizes."""
    types = {name: prop.type for name, prop in entity.properties.items()}
    return [name for name, kind in types.items() if kind.is_vector or kind.is_blob]


def short_images(side: TableSide, rows: AlignedRows) -> list[Image | None]:
    """Return the image of every row without what may be large; None for a row that is absent."""
    columns: dict[str, list[Any]] = {}
    for name, prop in shown_properties(side.entity):
        column = rows.table.column(name)
        if prop.type.is_vector:
            valid = column.is_valid().to_pylist()
            columns[name] = [{"$vector": prop.type.dim} if one else None for one in valid]
        elif prop.type.is_blob:
            columns[name] = _blobs(side, name, rows.table)
        else:
            columns[name] = column_to_json(prop.type, column)
    return shown_images(side.entity, rows, columns)


def paired_short_images(
    before: TableSide,
    was: AlignedRows,
    after: TableSide,
    now: AlignedRows,
    compared: Compared | None = None,
) -> tuple[list[Image | None], list[Image | None]]:
    """Return the short images of two sides, row by row; those after say what was the same before.

    ``compared`` are the properties of both, if the sides have two schemas.
    """
    old, new = short_images(before, was), short_images(after, now)
    for name in long_properties(after.entity):
        if (compared is not None and name not in compared.shared) or name.endswith(HIDDEN):
            continue
        equal = equal_column(after.entity, name, was, now, (before, after))
        for image, is_same in zip(new, equal.to_pylist(), strict=True):
            if is_same and image is not None:
                mark_same(image, name, "before")
    return old, new


def mark_same(image: Image, name: str, earlier: str) -> None:
    """Say of one value that an earlier side has the same; the first side that is named stays."""
    value = image["properties"][name]
    if value is not None:
        value.setdefault("same", earlier)


def _blobs(side: TableSide, name: str, rows: pa.Table) -> list[Any]:
    """Return the blobs of one property without their bytes; None where there is none."""
    described = rows.column(name).combine_chunks()
    there = pc.indices_nonzero(described.is_valid())
    shown: list[Any] = [None] * rows.num_rows
    column = None if side.state is None else side.pinned.column_of(name)
    if not len(there) or column is None:
        return shown
    addresses = side.addresses(rows.column(ROW_ID).take(there))
    places = BlobPlaces(side.table)
    for row, address in zip(there.to_pylist(), addresses, strict=True):
        with side.reading():
            facts = blob_facts(places, address, column, described[row].as_py())
        assert facts is not None, "a blob that is there has a description"
        known = {"size": facts.size, "etag": facts.etag, "uri": facts.external_uri}
        shown[row] = {"$blob": {key: value for key, value in known.items() if value is not None}}
    return shown
