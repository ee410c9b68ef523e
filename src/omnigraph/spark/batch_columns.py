"""Columns as Spark sees them, and exactly the Arrow types that it expects of a batch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from pyspark.sql import types
from pyspark.sql.types import ArrayType, DataType, StructField, StructType

from omnigraph.errors import BadRequest
from omnigraph.types import PropType

if TYPE_CHECKING:
    import pyarrow as pa


class TypedColumn(Protocol):
    """A column with a name and a property type."""

    @property
    def name(self) -> str:
        """What the column is called."""

    @property
    def type(self) -> PropType:
        """What its values are."""


def spark_schema(columns: Iterable[TypedColumn]) -> StructType:
    """Return the columns as Spark sees them."""
    return StructType(
        [StructField(column.name, spark_type(column.type), column.type.nullable)
         for column in columns]
    )  # fmt: skip


def spark_type(type: PropType) -> DataType:
    """Return the Spark type of a property, which holds all its values."""
    name, *arguments = type.scalar.traits.spark
    element = getattr(types, str(name))(*arguments)
    return ArrayType(element) if type.is_list or type.is_vector else element


def check_type(owner: str, column: TypedColumn, field: StructField) -> None:
    """Refuse a column of the caller's schema that has another type than ours."""
    wanted, given = spark_type(column.type).simpleString(), field.dataType.simpleString()
    if given != wanted:
        raise BadRequest(
            f"{owner}.{field.name} is {column.type} and comes as {wanted}, not as {given}; cast it "
            "afterwards",
            column=field.name,
        )


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return exactly the Arrow types that Spark expects."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timezone="UTC")
