"""Copy the blobs of stored rows into rows that are written again, without holding large ones.

A packed or dedicated blob becomes a range of the file it lies in, which Lance copies when the row is
written; one inside the data file (up to 64 KiB) becomes bytes; an address stays an address, and null
stays null. The old file must still be there when the rows are written: the version they were read from
has to be kept until then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from omnigraph.storage.filters.pushdown import Pushdown
from omnigraph.storage.tables.blobs.columns import blob_columns, plain_schema
from omnigraph.storage.tables.blobs.places import BlobPlaces
from omnigraph.storage.tables.blobs.reading import EXTERNAL, INLINE, read_at
from omnigraph.storage.tables.table import Table

if TYPE_CHECKING:
    import pyarrow as pa

ADDRESS = "_rowaddr"


def read_rows(table: Table, where: Pushdown | None = None) -> pa.Table:
    """Whole rows that can be written again, in the columns of ``plain_schema``."""
    import pyarrow as pa

    if not blob_columns(table.schema):
        return table.read(None, where)
    found = carried(table, table.read(None, where, with_row_address=True))
    schema = plain_schema(table.schema)
    return pa.Table.from_arrays([found.column(name) for name in schema.names], schema=schema)


def carried(table: Table, rows: pa.Table) -> pa.Table:
    """Rows as a scan of the table gives them, with ``_rowaddr``, as rows that can be written again.

    Their Blob columns become structs as ``columns.as_blobs`` takes them; ``_rowaddr`` is left out,
    all other columns stay as they are.
    """
    places = BlobPlaces(table)
    plain = plain_schema(table.schema)
    addresses = rows.column(ADDRESS).to_pylist()
    for name in blob_columns(table.schema):
        at = rows.schema.get_field_index(name)
        if at >= 0:
            values = _values(table, name, rows.column(at).to_pylist(), addresses, places)
            rows = rows.set_column(at, plain.field(name), _array(plain.field(name).type, values))
    return rows.drop_columns([ADDRESS])


def _array(kind: pa.DataType, values: list[dict[str, Any] | None]) -> pa.Array:
    import pyarrow as pa

    return pa.array(values, kind)


def _values(
    table: Table,
    column: str,
    descriptors: list[dict[str, Any] | None],
    addresses: list[int],
    places: BlobPlaces,
) -> list[dict[str, Any] | None]:
    inside = [
        address
        for address, found in zip(addresses, descriptors, strict=True)
        if found is not None and found["kind"] == INLINE
    ]
    content = iter(read_at(table, column, inside))
    values: list[dict[str, Any] | None] = []
    for address, found in zip(addresses, descriptors, strict=True):
        if found is None:
            values.append(None)
        elif found["kind"] == INLINE:
            values.append({"data": next(content)})
        elif found["kind"] == EXTERNAL:
            values.append({"uri": found["blob_uri"]})
        else:
            uri = places.of(address, column).blob_file(found["blob_id"])
            values.append({"uri": uri, "position": found["position"], "size": found["size"]})
    return values
