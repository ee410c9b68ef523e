"""The rows of an answer as JSON texts, made by Arrow a few thousand rows at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.lang.query.ir import Column
from omnigraph.types import column_to_json, column_to_json_text

ROWS_A_PIECE = 8_192


def json_rows(table: pa.Table, columns: Sequence[Column]) -> Iterator[list[str]]:
    """Return each row as an object in JSON, in pieces.

    Integers that a JavaScript number cannot hold are texts.
    """
    for start in range(0, table.num_rows, ROWS_A_PIECE):
        part = table.slice(start, ROWS_A_PIECE)
        parts: list[Any] = []
        for at, column in enumerate(columns):
            name = json.dumps(column.name, ensure_ascii=False)
            parts += [f"{',' if at else '{'}{name}:", _texts(column, part.column(at))]
        yield pc.binary_join_element_wise(*parts, "}", "").to_pylist()


def _texts(column: Column, values: pa.ChunkedArray) -> pa.StringArray:
    if column.type.is_blob:
        shown = column_to_json(column.type, values)
        return pa.array([json.dumps(value, ensure_ascii=False) for value in shown], pa.utf8())
    return column_to_json_text(column.type, values, js_safe=True)
