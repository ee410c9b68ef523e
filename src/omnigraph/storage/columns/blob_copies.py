"""Blob values of stored rows, in the form in which they are written to another file of the table.

Bytes that Lance keeps outside the data file (packed: over 64 KiB, dedicated: over 4 MiB) are not
read here: the new value names the old file, and Lance copies from it in pieces while it writes
(``external_blob_mode="ingest"``). Only values inside the data file pass through memory.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from omnigraph.errors import StorageError
from omnigraph.storage.tables.blobs import blob_field
from omnigraph.storage.tables.table import Table
from omnigraph.storage.tables.table_errors import lance_errors

if TYPE_CHECKING:
    import pyarrow as pa

INLINE: Final = 0
EXTERNAL: Final = 3


def is_external(descriptors: pa.Array) -> pa.BooleanArray:
    """Row by row, whether the value is the address of bytes kept elsewhere."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kinds = pc.struct_field(descriptors, "kind")
    return pc.fill_null(pc.equal(kinds, pa.scalar(EXTERNAL, kinds.type)), False)


def copies(table: Table, fragment: Any, column: str, batch: pa.RecordBatch) -> pa.Array:
    """The Blob values of a batch read from a fragment with its row ids, ready to be written.

    Values are either all external, to be written as references, or none is.
    """
    import pyarrow as pa

    entries = batch.column(column).to_pylist()
    bytes_of = _inline(table, column, batch.column("_rowid").to_pylist(), entries)
    place = _blob_directory(table, fragment, column)
    data: list[bytes | None] = []
    addresses: list[tuple[str, int | None, int | None] | None] = []
    for at, entry in enumerate(entries):
        data.append(bytes_of.get(at))
        addresses.append(None if entry is None or at in bytes_of else _address(entry, place))
    absent = [entry is None for entry in entries]
    storage = pa.StructArray.from_arrays(
        [
            pa.array(data, pa.large_binary()),
            pa.array([one and one[0] for one in addresses], pa.utf8()),
            pa.array([one and one[1] for one in addresses], pa.uint64()),
            pa.array([one and one[2] for one in addresses], pa.uint64()),
        ],
        names=["data", "uri", "position", "size"],
        mask=pa.array(absent),
    )
    return pa.ExtensionArray.from_storage(blob_field(column).type, storage)


def _inline(
    table: Table, column: str, row_ids: list[int], entries: list[dict[str, Any] | None]
) -> dict[int, bytes]:
    """The bytes of the values inside the data file, by their position in the batch."""
    places = [at for at, entry in enumerate(entries) if entry and entry["kind"] == INLINE]
    wanted = [row_ids[at] for at in places]
    if not wanted:
        return {}
    with lance_errors(f"reading blobs {column} of {table.ref}"):
        pairs = table.dataset.read_blobs(column, ids=wanted, preserve_order=True)
    return {at: data for at, (_, data) in zip(places, pairs, strict=True)}


def _address(entry: dict[str, Any], directory: str) -> tuple[str, int | None, int | None]:
    """(address, first byte, number of bytes) of a value that is not in the data file."""
    if entry["kind"] == EXTERNAL:
        whole = not entry["position"] and not entry["size"]
        return (
            (entry["blob_uri"], None, None)
            if whole
            else (
                entry["blob_uri"],
                entry["position"],
                entry["size"],
            )
        )
    # Lance 14 names the file by the bits of its number, lowest first.
    name = f"{entry['blob_id']:032b}"[::-1]
    return f"{directory}/{name}.blob", entry["position"], entry["size"]


def _blob_directory(table: Table, fragment: Any, column: str) -> str:
    """The address of the directory with the packed and dedicated values of a column."""
    number = table.dataset.lance_schema.field(column).id()
    for file in fragment.files:
        if number in file.fields:
            if file.base_id is not None:
                raise StorageError(
                    f"the blobs {column} of {table.ref} belong to another branch of the table"
                )
            root = table.ref.dataset_uri.replace("file-object-store://", "file://")
            root = Path(root).as_uri() if root.startswith("/") else root
            return f"{root}/data/{file.path.removesuffix('.lance')}"
    return ""  # added after the fragment was written: every value is null
