"""Tables of Spark's catalog: `CREATE TABLE … USING omnigraph OPTIONS (…)`.

Spark gives the options of a table to `schema`, when the table is made, and never again: a query or an
INSERT gets only the columns that the catalog keeps. So the options are kept in the metadata of the
columns, where Spark carries them to every read and every write of the table.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from pyspark.sql.types import StructField, StructType

from omnigraph.errors import BadRequest
from omnigraph.pipeline.datasource.option_values import user_options
from omnigraph.pipeline.datasource.options import READ, WRITE

KEY = "omnigraph.options"


def is_table(options: Mapping[str, str]) -> bool:
    """Return whether these are the options of a table that is being made."""
    return "provider" in {name.lower() for name in options}


def table_schema(schema: StructType, options: Mapping[str, str]) -> StructType:
    """Return the columns of a table, with its options. Rows may be inserted without an `id`."""
    noted = {name: text for name, text in user_options(options).items() if name in {*READ, *WRITE}}
    return StructType(
        [
            StructField(
                field.name,
                field.dataType,
                field.nullable or field.name == "id",
                {**field.metadata, KEY: json.dumps(noted)},
            )
            for field in schema.fields
        ]
    )


def is_of_table(schema: StructType) -> bool:
    """Return whether these are columns of a table, with its options."""
    return any(KEY in field.metadata for field in schema.fields)


def options_with(given: Mapping[str, str], schema: StructType) -> dict[str, str]:
    """Return the options that were given, and those of the table whose columns these are."""
    options = user_options(given)
    if "graph" in options or "path" in options:
        return options
    for field in schema.fields:
        if KEY in field.metadata:
            noted: dict[str, str] = json.loads(field.metadata[KEY])
            return {**noted, **options}
    if not options:
        raise BadRequest(
            "Spark passes no options to a table whose columns are declared or made by a query; make "
            "it without them (CREATE TABLE t USING omnigraph OPTIONS (…)), or make a temporary view"
        )
    return options
