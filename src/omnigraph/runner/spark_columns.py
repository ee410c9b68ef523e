"""Columns as Spark takes them: types it can hold, names it can tell apart, and the way back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from omnigraph.errors import InputError
from omnigraph.runner.runner import encoded
from omnigraph.types import portable_type, returned_type

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import DataType, StructType


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


def columns_of_frame(schema: StructType) -> pa.Schema:
    """Return the columns of a caller's frame as Arrow has them; refuse those that Python cannot be given."""
    import pyarrow as pa
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_type

    columns = []
    for field in schema:
        try:
            arrow = to_arrow_type(_nullable(field.dataType), timezone="UTC")
            columns.append(pa.field(field.name, arrow))
        except (PySparkException, pa.ArrowException) as error:
            raise InputError(
                f'the column "{field.name}" of the frame is of the type '
                f"{field.dataType.simpleString()}, which Spark does not hand over to Python; cast it, "
                "or drop it",
                column=field.name,
            ) from error
    return pa.schema(columns)


def _nullable(type: DataType) -> DataType:
    """Return a list with elements that may be null: those of an empty ``array()`` are, but say they are not."""
    from pyspark.sql.types import ArrayType

    return ArrayType(_nullable(type.elementType)) if isinstance(type, ArrayType) else type


def from_portable(table: pa.Table) -> pa.Table:
    """Return an answer of Spark with the stored types of instants and unsigned 64-bit numbers."""
    import pyarrow as pa

    fields, columns = list(table.schema), table.columns
    for at, field in enumerate(fields):
        wanted = returned_type(field.type)
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
