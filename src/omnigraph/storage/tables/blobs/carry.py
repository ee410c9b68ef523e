"""Copy the blobs of stored rows into rows that are written again, without holding large ones.

A packed or dedicated blob becomes a range of the file it lies in, which Lance copies when the row is
written; one inside the data file (up to 64 KiB) becomes bytes; an address stays an address, and null
stays null. The old file must still be there when the rows are written: the version they were read from
has to be kept until then.

A compaction is left to Lance, which holds about twice the blobs of a batch while it rewrites. So a batch
has as few rows as keep its blobs within ``BATCH_BYTES``, and a fragment with a larger blob is left as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omnigraph.storage.filters import Pushdown
from omnigraph.storage.tables.blobs.blob_columns import BlobPlaces, blob_columns, plain_schema
from omnigraph.storage.tables.blobs.reading import EXTERNAL, INLINE, read_at
from omnigraph.storage.tables.table import Table

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
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


BATCH_BYTES = 128 << 20


@dataclass(frozen=True, slots=True)
class BlobSizes:
    """The bytes of the blobs in one fragment that the table keeps itself."""

    largest: int = 0
    """The most that any row has."""
    total: int = 0

    @property
    def too_large(self) -> bool:
        """Whether a row does not fit into a batch."""
        return self.largest > BATCH_BYTES


def blob_sizes(table: Table, fragment_ids: Sequence[int]) -> dict[int, BlobSizes]:
    """The sizes by fragment, from the descriptors; no blob is opened. Empty without blob columns."""
    import numpy as np

    columns = blob_columns(table.schema)
    found: dict[int, BlobSizes] = {}
    if not columns or not fragment_ids:
        return found
    for batch in table.scan(columns, with_row_address=True, fragment_ids=fragment_ids):
        sizes = sum((_sizes(batch.column(name)) for name in columns), np.zeros(1, np.uint64))
        numbers = batch.column("_rowaddr").to_numpy() >> np.uint64(32)
        for number in np.unique(numbers).tolist():
            here, before = sizes[numbers == number], found.get(number, BlobSizes())
            largest = max(int(here.max()), before.largest)
            found[number] = BlobSizes(largest, before.total + int(here.sum()))
    return found


def batch_rows(sizes: Iterable[BlobSizes]) -> int | None:
    """How many rows a batch of these fragments may have; None for any number."""
    largest = max((one.largest for one in sizes), default=0)
    return BATCH_BYTES // largest if largest else None


def _sizes(descriptors: pa.Array) -> npt.NDArray[np.uint64]:
    """The bytes that the table keeps for each value; none for an address."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kinds, sizes = (pc.struct_field(descriptors, part) for part in ("kind", "size"))
    is_stored = pc.not_equal(kinds, pa.scalar(EXTERNAL, kinds.type))
    managed = pc.if_else(is_stored, sizes, pa.scalar(0, sizes.type))
    found: npt.NDArray[np.uint64] = pc.fill_null(managed, 0).to_numpy(zero_copy_only=False)
    return found
