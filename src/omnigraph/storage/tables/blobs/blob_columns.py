"""The Arrow form of Blob columns: what a value can be on its way into a table.

A value has exactly one of these, or is null:

* ``data``: the bytes themselves (empty bytes are a value, not a null);
* ``uri`` alone: the address of bytes kept elsewhere, which is stored as it is;
* ``uri`` with ``position`` and ``size``: a range of a file whose bytes the table takes in when the
  row is written. They are copied by Lance and never pass through Arrow.

Lance keeps packed and dedicated blobs in files of their own, in a directory named like the data file of
their row. The name of such a file is the number of the blob, as 32 binary digits from the lowest on.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from omnigraph.errors import StorageError
from omnigraph.storage.tables.lance_import import lance
from omnigraph.storage.tables.table import Table

if TYPE_CHECKING:
    import pyarrow as pa


_EXTENSION = "lance.blob.v2"


def blob_field(name: str, *, nullable: bool = True) -> pa.Field:
    """The Arrow field of a Blob property."""
    return lance().blob_field(name, nullable=nullable)


def is_blob(field: pa.Field) -> bool:
    """Whether a field of a table's schema is a Blob column."""
    return getattr(field.type, "extension_name", None) == _EXTENSION


def blob_columns(schema: pa.Schema) -> list[str]:
    """The names of the Blob columns of a table."""
    return [field.name for field in schema if is_blob(field)]


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """A table's schema with its Blob columns as plain structs, which Arrow's functions take."""
    import pyarrow as pa

    return pa.schema(
        [pa.field(f.name, f.type.storage_type, f.nullable) if is_blob(f) else f for f in schema]
    )


def blob_array(data: pa.Array, uris: pa.Array | None = None) -> pa.Array:
    """A Blob column from bytes (``large_binary``) and, row by row, addresses (``utf8``)."""
    import pyarrow as pa
    import pyarrow.compute as pc

    size = len(data)
    uris = pa.nulls(size, pa.utf8()) if uris is None else uris
    numbers = pa.nulls(size, pa.uint64())
    return as_blobs(
        pa.StructArray.from_arrays(
            [data.cast(pa.large_binary()), uris, numbers, numbers],
            names=["data", "uri", "position", "size"],
            mask=pc.and_(pc.is_null(data), pc.is_null(uris)),
        )
    )


def as_blobs(storage: pa.StructArray) -> pa.Array:
    """A Blob column from a struct of ``data``, ``uri``, ``position`` and ``size``."""
    import pyarrow as pa

    return pa.ExtensionArray.from_storage(blob_field("blob").type, storage)


def stored_form(data: pa.Table, schema: pa.Schema) -> pa.Table:
    """Turn every plain column (bytes, or structs) that the table keeps as a Blob into a Blob column."""
    import pyarrow as pa

    wanted = {field.name: field for field in schema if is_blob(field)}
    fields, columns = list(data.schema), data.columns
    for position, field in enumerate(fields):
        if field.name not in wanted or is_blob(field):
            continue
        fields[position] = wanted[field.name]
        make = as_blobs if pa.types.is_struct(field.type) else blob_array
        chunks = [make(chunk) for chunk in columns[position].chunks]
        columns[position] = pa.chunked_array(chunks, type=fields[position].type)
    metadata = data.schema.metadata
    return pa.Table.from_arrays(columns, schema=pa.schema(fields, metadata)) if wanted else data


_LOCAL_DRIVER = "file-object-store://"


class DataFilePlace(NamedTuple):
    """A data file: the address of its directory, its name without the suffix, the column's number."""

    directory: str
    stem: str
    field: int

    def blob_file(self, number: int) -> str:
        """The address of the file that holds a blob, as a URI."""
        digits = f"{number:032b}"[::-1]
        return f"{self.directory}/{self.stem}/{digits}.blob"


class BlobPlaces:
    """The data files of the Blob columns of one table version."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._found: dict[tuple[int, str], DataFilePlace] = {}

    def of(self, address: int, column: str) -> DataFilePlace:
        """The data file with a column of the row at that address."""
        fragment = address >> 32
        key = (fragment, column)
        if key not in self._found:
            self._found[key] = self._find(fragment, column)
        return self._found[key]

    @cached_property
    def _fields(self) -> dict[str, int]:
        return {field.name(): field.id() for field in self._table.dataset.lance_schema.fields()}

    def _find(self, fragment: int, column: str) -> DataFilePlace:
        found = self._table.dataset.get_fragment(fragment)
        number = self._fields[column]
        for file in () if found is None else found.metadata.files:
            if number in file.fields:
                return DataFilePlace(self._directory(file.base_id), Path(file.path).stem, number)
        raise StorageError(
            f"{self._table.ref} has no file with {column} of fragment {fragment}; reopen the graph"
        )

    def _directory(self, base: int | None) -> str:
        if base is None:
            return f"{_as_uri(self._table.ref.dataset_uri)}/data"
        place = self._table.dataset.base_paths()[base]
        address = _as_uri(place.path)
        return f"{address}/data" if place.is_dataset_root else address


def _as_uri(address: str) -> str:
    if address.startswith("/"):
        return Path(address).as_uri()
    # Its paths are percent-encoded already.
    return address.replace(_LOCAL_DRIVER, "file://", 1)
