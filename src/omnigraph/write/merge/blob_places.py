"""Where the blobs of merged rows come from.

A merge decides about whole rows and never holds their blobs. So a Blob column of the rows that it
wants to write holds places: on which side a blob lies and under which row id, or the value itself
where a resolution gives one. The blobs are read when the rows are written.

For example, a row whose text came from the source (row id 17 there) and whose photo stays as the
target has it (row id 4) holds ``{side: "target", row: 4}`` in the column of its photo.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from omnigraph.changes.row_changes import ROW_ID

if TYPE_CHECKING:
    import pyarrow as pa

    from omnigraph.changes.row_changes import Rows

Side = Literal["source", "target", "given"]


def place_type() -> pa.DataType:
    """Return the type of a Blob column of merged rows; null stands for a blob that is null.

    ``side`` and ``row`` name a stored blob. With side ``given``, ``data`` has the bytes, or ``uri``
    the address of bytes that are kept elsewhere.
    """
    import pyarrow as pa

    return pa.struct(
        [
            pa.field("side", pa.string()),
            pa.field("row", pa.uint64()),
            pa.field("data", pa.large_binary()),
            pa.field("uri", pa.string()),
        ]
    )


def places_on(side: Literal["source", "target"], rows: Rows, column: str) -> pa.StructArray:
    """Return the places of one Blob column, for rows as that side has them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    count = rows.table.num_rows
    row_ids = rows.table.column(ROW_ID).cast(pa.uint64())
    fields = list(place_type())
    columns = [
        pa.array([side] * count, pa.string()),
        row_ids.combine_chunks(),
        pa.nulls(count, pa.large_binary()),
        pa.nulls(count, pa.string()),
    ]
    absent = pc.is_null(rows.table.column(column)).combine_chunks()
    return pa.StructArray.from_arrays(columns, fields=fields, mask=absent)


def given_place(data: bytes | None = None, uri: str | None = None) -> dict[str, object]:
    """Return the place of a blob that a resolution gives: its bytes, or their address."""
    return {"side": "given", "row": None, "data": data, "uri": uri}
