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
    import pyarrow as pa

    addresses = rows.column(ADDRESS)
    plain = plain_schema(table.schema)
    for name in blob_columns(table.schema):
        at = rows.schema.get_field_index(name)
        if at >= 0:
            values = carried_blobs(table, name, rows.column(at), addresses)
            rows = rows.set_column(at, plain.field(name), pa.chunked_array([values]))
    return rows.select([name for name in rows.column_names if name != ADDRESS])


def carried_blobs(table: Table, column: str, descriptors: Any, addresses: Any) -> pa.Array:
    """The values of one Blob column, of rows at these addresses, as structs that can be written."""
    import pyarrow as pa

    values = _values(table, column, descriptors.to_pylist(), addresses.to_pylist())
    return pa.array(values, table.schema.field(column).type.storage_type)


def is_external(descriptors: pa.Array) -> pa.BooleanArray:
    """Row by row, whether the value is the address of bytes kept elsewhere."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kinds = pc.struct_field(descriptors, "kind")
    return pc.fill_null(pc.equal(kinds, pa.scalar(EXTERNAL, kinds.type)), False)


def _values(
    table: Table,
    column: str,
    descriptors: list[dict[str, Any] | None],
    addresses: list[int],
) -> list[dict[str, Any] | None]:
    places = BlobPlaces(table)
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
