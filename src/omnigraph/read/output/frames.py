"""Arrow tables in other forms: frames of the libraries people work with, if they are there, and rows of JSON."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import BadRequest
from omnigraph.lang.query.ir import Column
from omnigraph.types import column_to_json, column_to_json_text

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


class ArrowRows:
    """A result whose rows are an Arrow table, and what other libraries read them by."""

    if TYPE_CHECKING:

        @property
        def table(self) -> pa.Table:
            """The rows; a field or a property of the result."""

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table."""
        return self.table

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows as an Arrow C stream, by which pyarrow, polars, DuckDB and pandas read them."""
        stream: object = self.table.__arrow_c_stream__(requested_schema)
        return stream

    def to_pandas(self) -> pd.DataFrame:
        """The rows as a pandas frame; integers and booleans keep their type beside missing values."""
        return pandas_frame(self.table)

    def to_polars(self) -> pl.DataFrame:
        """The rows as a polars frame."""
        return polars_frame(self.table)


def pandas_frame(table: pa.Table) -> pd.DataFrame:
    """The table as a pandas frame; integers and booleans keep their type beside missing values.

    Objects are dicts of Python values: pandas would make floats of the integers in them where others are missing.
    """
    pandas = library("pandas", "to_pandas")
    kept = {
        "bool": pandas.BooleanDtype(),
        "int32": pandas.Int32Dtype(),
        "int64": pandas.Int64Dtype(),
        "uint32": pandas.UInt32Dtype(),
        "uint64": pandas.UInt64Dtype(),
    }
    frame: pd.DataFrame = table.to_pandas(types_mapper=lambda kind: kept.get(str(kind)))
    for at, kind in enumerate(table.schema.types):
        if _has_objects(kind):
            values = table.column(at).to_pylist()
            frame.isetitem(at, pandas.Series(values, index=frame.index, dtype=object))
    return frame


def _has_objects(kind: pa.DataType) -> bool:
    return pa.types.is_struct(kind) or (pa.types.is_list(kind) and _has_objects(kind.value_type))


def polars_frame(table: pa.Table) -> pl.DataFrame:
    """The table as a polars frame."""
    frame: pl.DataFrame = library("polars", "to_polars").from_arrow(table)
    return frame


def library(name: str, method: str, instead: str = "use to_arrow") -> Any:
    """Return a library that is not a dependency; refuse in words that say how to get it."""
    try:
        return import_module(name)
    except ImportError:
        raise BadRequest(
            f"{method} needs {name}, which is not installed; install it (pip install {name}), or "
            f"{instead}"
        ) from None


ROWS_A_PIECE = 8_192
_FEW_ROWS = 8
_ENCODE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
BYTES_A_PIECE = 1 << 20


def arrow_pieces(table: pa.Table, about: Mapping[str, str]) -> Iterator[bytes]:
    """Return a table as an Arrow stream, in pieces of about a mebibyte; ``about`` is its metadata."""
    described = table.schema.with_metadata(dict(about))
    row_bytes = table.nbytes / max(table.num_rows, 1)
    rows = max(1, min(ROWS_A_PIECE, int(BYTES_A_PIECE / max(row_bytes, 1))))
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, described) as out:
        for batch in table.to_batches(rows):
            out.write_batch(batch)
            yield _taken(sink)
    yield _taken(sink)


def _taken(sink: io.BytesIO) -> bytes:
    """Return what was written, and forget it."""
    data = sink.getvalue()
    sink.seek(0)
    sink.truncate()
    return data


def json_rows(table: pa.Table, columns: Sequence[Column]) -> Iterator[list[str]]:
    """Return each row as an object in JSON, in pieces.

    Integers that a JavaScript number cannot hold are texts.
    """
    if 0 < table.num_rows <= _FEW_ROWS:
        yield _few_json_rows(table, columns)
        return
    for start in range(0, table.num_rows, ROWS_A_PIECE):
        part = table.slice(start, ROWS_A_PIECE)
        parts: list[Any] = []
        for at, column in enumerate(columns):
            name = json.dumps(column.name, ensure_ascii=False)
            parts += [f"{',' if at else '{'}{name}:", _texts(column, part.column(at))]
        yield pc.binary_join_element_wise(*parts, "}", "").to_pylist()


def _few_json_rows(table: pa.Table, columns: Sequence[Column]) -> list[str]:
    """The same, one value at a time: for a row or two that takes a fifth of what whole columns take."""
    values = [
        column_to_json(column.type, table.column(at), js_safe=True)
        for at, column in enumerate(columns)
    ]
    names = [column.name for column in columns]
    return [_ENCODE(dict(zip(names, row, strict=True))) for row in zip(*values, strict=True)]


def _texts(column: Column, values: pa.ChunkedArray) -> pa.StringArray:
    if column.type.is_blob:
        shown = column_to_json(column.type, values)
        return pa.array([json.dumps(value, ensure_ascii=False) for value in shown], pa.utf8())
    return column_to_json_text(column.type, values, js_safe=True)
