"""Rows as JSON lines, a batch at a time.

The line of a type without blobs is one text per row. The bytes of a blob are read when the line is
written, so a line with blobs comes in parts: for a type with one Blob property `scan`,

    line0   {"type":"Plate","data":{"id":"P1","tag":"P1","scan":
    size0   4, the bytes to be put there; null where the value is null or an address, which is in line0
    line1   ,"caption":"harbour"}}
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.changes.export.pinned_export import ExportedType
from omnigraph.lang.schema.catalog import EdgeType
from omnigraph.runner.runner import Through
from omnigraph.storage.tables.blobs.carry import is_external
from omnigraph.types import TEXT, PropType, column_to_json_text, json_string_texts

ADDRESS: Final = "_rowaddr"
"""Where a row is in its table, by which its blobs are read."""


@dataclass(frozen=True, slots=True)
class _Field:
    """The text before a value, and the column the value is in; None where all values are null."""

    before: str
    column: str | None
    type: PropType


@dataclass(frozen=True, slots=True)
class LineEncoder:
    """Turns batches of one table into lines. It is sent to executors, so it holds plain values only."""

    fields: tuple[_Field, ...]
    end: str

    @classmethod
    def of(cls, exported: ExportedType) -> LineEncoder:
        """Return the encoder of a type: `id`, the ends of an edge, the properties in schema order."""
        entity = exported.entity
        opening = f'{{"{"edge" if isinstance(entity, EdgeType) else "type"}":{_quoted(entity.name)}'
        fields = []
        if isinstance(entity, EdgeType):
            fields += [_Field(f'{opening},"from":', "src", TEXT), _Field(',"to":', "dst", TEXT)]
            opening = ""
        fields.append(_Field(f'{opening},"data":{{"id":', "id", TEXT))
        for name, prop in entity.properties.items():
            column = exported.pinned.column_of(name)
            fields.append(_Field(f",{_quoted(name)}:", column, prop.type))
        return cls(tuple(fields), "}}\n")

    @property
    def blob_columns(self) -> list[str]:
        """The columns whose bytes are put between the parts of a line."""
        return [f.column for f in self.fields if f.type.is_blob and f.column is not None]

    @property
    def columns(self) -> list[str]:
        """The columns of the table that are read."""
        read = dict.fromkeys(field.column for field in self.fields if field.column is not None)
        return [*read, ADDRESS] if self.blob_columns else list(read)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the batches that are returned."""
        found: list[tuple[str, pa.DataType]] = [("id", pa.utf8())]
        for number in range(len(self.blob_columns)):
            found += [(f"line{number}", pa.utf8()), (f"size{number}", pa.int64())]
        found.append((f"line{len(self.blob_columns)}", pa.utf8()))
        return pa.schema([*found, (ADDRESS, pa.uint64())] if self.blob_columns else found)

    @property
    def through(self) -> Through:
        """This function and the schema of what it returns, for a scan."""
        return Through(self, self.schema)

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the ids and the lines of a batch."""
        columns: list[pa.Array] = [batch.column("id")]
        parts: list[Any] = []
        for field in self.fields:
            parts.append(field.before)
            if field.column is None:
                parts.append("null")
            elif field.type.is_blob:
                texts, sizes = _blobs(batch.column(field.column))
                columns += [_joined([*parts, texts], batch.num_rows), sizes]
                parts = []
            else:
                parts.append(column_to_json_text(field.type, batch.column(field.column)))
        columns.append(_joined([*parts, self.end], batch.num_rows))
        if self.blob_columns:
            columns.append(batch.column(ADDRESS).cast(pa.uint64()))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _quoted(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


def _joined(parts: list[Any], rows: int) -> pa.StringArray:
    """The texts of every row one after another; texts that are the same for all rows stand alone."""
    if all(isinstance(part, str) for part in parts):
        return pa.array(["".join(parts)] * rows, pa.utf8())
    return pc.binary_join_element_wise(*parts, "")


def _blobs(described: pa.Array) -> tuple[pa.StringArray, pa.Int64Array]:
    """The texts of blobs without bytes of their own, and the sizes of those that have some."""
    if isinstance(described, pa.ExtensionArray):
        described = described.storage
    external, present = is_external(described), pc.is_valid(described)
    addresses = json_string_texts(pc.struct_field(described, "blob_uri"))
    texts = pc.if_else(present, pc.if_else(external, addresses, ""), "null")
    managed = pc.and_(present, pc.invert(external))
    sizes = pc.struct_field(described, "size").cast(pa.int64())
    return texts, pc.if_else(managed, sizes, None)
