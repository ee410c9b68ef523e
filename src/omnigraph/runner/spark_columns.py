"""Columns as Spark takes them: types it can hold, names it can tell apart, and the way back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from omnigraph.runner.names import encoded

if TYPE_CHECKING:
    import pyarrow as pa


def portable_type(kind: pa.DataType) -> pa.DataType:
    """Return the type in which Spark takes a column without losing anything."""
    import pyarrow as pa

    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", "UTC")
    if pa.types.is_uint32(kind):
        return pa.int64()
    if pa.types.is_uint64(kind):
        return pa.decimal128(20, 0)
    return kind


def portable(batch: pa.RecordBatch, columns: Sequence[str] | None = None) -> pa.RecordBatch:
    """Return columns of a batch in types that Spark takes, under encoded names."""
    import pyarrow as pa

    names = batch.schema.names if columns is None else list(columns)
    arrays = [batch.column(name) for name in names]
    cast = [
        array if array.type == (wanted := portable_type(array.type)) else array.cast(wanted)
        for array in arrays
    ]
    return pa.RecordBatch.from_arrays(cast, names=[encoded(name) for name in names])


def portable_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema of ``portable`` batches."""
    import pyarrow as pa

    return pa.schema([(encoded(field.name), portable_type(field.type)) for field in schema])


def spark_schema(schema: pa.Schema) -> Any:
    """Return the schema of a DataFrame with these columns, all of them nullable."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(pa.schema([field.with_nullable(True) for field in schema]))


def from_portable(table: pa.Table) -> pa.Table:
    """Return an answer of Spark with the stored types of instants and unsigned 64-bit numbers."""
    import pyarrow as pa

    fields, columns = list(table.schema), table.columns
    for at, field in enumerate(fields):
        wanted = field.type
        if pa.types.is_timestamp(field.type):
            wanted = pa.timestamp("ms", "UTC")
        elif pa.types.is_decimal(field.type) and (field.type.precision, field.type.scale) == (
            20,
            0,
        ):
            wanted = pa.uint64()
        if wanted != field.type:
            fields[at], columns[at] = field.with_type(wanted), columns[at].cast(wanted)
    return pa.Table.from_arrays(columns, schema=pa.schema(fields, table.schema.metadata))


def signed_places(rows: Any) -> Any:
    """Return row ids and addresses as signed integers, which Spark has; none uses the highest bit."""
    import pyarrow as pa

    for at, name in enumerate(rows.schema.names):
        if name in {"_rowid", "_rowaddr"}:
            rows = rows.set_column(at, name, rows.column(at).cast(pa.int64()))
    return rows
