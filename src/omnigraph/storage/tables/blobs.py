"""Blob columns: build them, read their bytes, distinguish null, empty and external values.

A Lance blob value (format 2.2) is either bytes the table keeps, or the address of bytes kept
elsewhere. Ordinary scans give small descriptors; the bytes are read by row id.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omnigraph.errors import StorageError
from omnigraph.storage.filters.pushdown import Condition, filter_expression
from omnigraph.storage.tables.lance_import import lance
from omnigraph.storage.tables.table import Table
from omnigraph.storage.tables.table_errors import lance_errors

if TYPE_CHECKING:
    import pyarrow as pa

_EXTENSION = "lance.blob.v2"
_EXTERNAL = 3


def blob_field(name: str, *, nullable: bool = True) -> pa.Field:
    """The Arrow field of a Blob property."""
    return lance().blob_field(name, nullable=nullable)


def is_blob(field: pa.Field) -> bool:
    """Whether a field of a table's schema is a Blob column."""
    return getattr(field.type, "extension_name", None) == _EXTENSION


def blob_columns(schema: pa.Schema) -> list[str]:
    """The names of the Blob columns of a table."""
    return [field.name for field in schema if is_blob(field)]


def blob_array(data: pa.Array, uris: pa.Array | None = None) -> pa.Array:
    """A Blob column from bytes (``large_binary``) and, row by row, addresses (``utf8``).

    A row has bytes, or an address, or neither (null); empty bytes are a value, not a null.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    size = len(data)
    uris = pa.nulls(size, pa.utf8()) if uris is None else uris
    absent = pc.and_(pc.is_null(data), pc.is_null(uris))
    storage = pa.StructArray.from_arrays(
        [
            data.cast(pa.large_binary()),
            uris,
            pa.nulls(size, pa.uint64()),
            pa.nulls(size, pa.uint64()),
        ],
        names=["data", "uri", "position", "size"],
        mask=absent,
    )
    return pa.ExtensionArray.from_storage(blob_field("blob").type, storage)


def stored_form(data: pa.Table, schema: pa.Schema) -> pa.Table:
    """Turn every plain binary column that the table keeps as a Blob into a Blob column."""
    import pyarrow as pa

    wanted = {field.name: field for field in schema if is_blob(field)}
    fields, columns = list(data.schema), data.columns
    for position, field in enumerate(fields):
        if field.name not in wanted or is_blob(field):
            continue
        fields[position] = wanted[field.name]
        chunks = [blob_array(chunk) for chunk in columns[position].chunks]
        columns[position] = pa.chunked_array(chunks, type=fields[position].type)
    kept = data.schema.metadata
    return pa.Table.from_arrays(columns, schema=pa.schema(fields, kept)) if wanted else data


def has_external(data: pa.Table) -> bool:
    """Whether a Blob column of these rows contains an address."""
    import pyarrow.compute as pc

    return any(
        pc.struct_field(chunk.storage, "uri").null_count < len(chunk)
        for name in blob_columns(data.schema)
        for chunk in data.column(name).chunks
    )


@dataclass(frozen=True, slots=True)
class BlobFacts:
    """A blob without its bytes. ``size`` is None for an external one: only its place is known."""

    size: int | None
    external_uri: str | None = None


def describe_blobs(table: Table, column: str, row_ids: Sequence[int]) -> list[BlobFacts | None]:
    """Size or address of each row's blob, in the order asked for; None where the value is null."""
    rows = table.take(row_ids, [column]).column(column)
    return [_facts(item) for item in rows.to_pylist()]


def _facts(descriptor: dict[str, Any] | None) -> BlobFacts | None:
    if descriptor is None:
        return None
    if descriptor["kind"] == _EXTERNAL:
        return BlobFacts(None, descriptor["blob_uri"])
    return BlobFacts(descriptor["size"])


def read_blobs(table: Table, column: str, row_ids: Sequence[int]) -> list[bytes | None]:
    """The bytes of each row's blob, in the order asked for; external ones are fetched too."""
    with lance_errors(f"reading blobs {column} of {table.ref}"):
        # The first of each pair is the row's *address*, not the id asked for: only order is useful.
        pairs = table.dataset.read_blobs(column, ids=list(row_ids), preserve_order=True)
    if len(pairs) != len(row_ids):
        raise StorageError(
            f"{table.ref} has only {len(pairs)} of the {len(row_ids)} blobs asked for; "
            "reopen the graph and repeat the read"
        )
    return [data for _, data in pairs]


def open_blob(table: Table, column: str, row_id: int) -> Any:
    """One blob as a readable, seekable binary file; None where the value is null."""
    with lance_errors(f"opening a blob {column} of {table.ref}"):
        files = table.dataset.take_blobs(column, ids=[row_id])
    if len(files) != 1:
        raise StorageError(f"{table.ref} has no row {row_id}; reopen the graph and repeat the read")
    return files[0]


def row_id_of(table: Table, entity_id: str) -> int | None:
    """The row id of the entity with that id, or None."""
    where = filter_expression(table.schema, [Condition("id", "=", entity_id)])
    found = table.read([], where, with_row_id=True).column("_rowid").to_pylist()
    return found[0] if found else None
