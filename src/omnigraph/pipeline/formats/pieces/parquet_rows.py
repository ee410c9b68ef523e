"""Parquet files as batches that take little memory, whatever is in them.

The file says how many bytes its columns have as they are stored. Where a text is stored once for all rows
that have it (in a dictionary) that is far less than what its rows are, so the longest text of the dictionary
decides: the column is read without decoding it, or few rows at a time.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from omnigraph.pipeline.formats.pieces.batch_pieces import PIECE_BYTES, PIECE_ROWS, row_bytes

if TYPE_CHECKING:
    from pyarrow import parquet

TASK_ROWS = 250_000

_SHORT = PIECE_BYTES // PIECE_ROWS
"""Texts that are no longer cannot make a batch too large."""
_HELD_BYTES = 128 << 20
"""Reading a column without decoding it holds all its texts: done up to this size."""
_LARGE_CHUNK = 64 << 20
_PORTION = 4 << 20
_PREFIXED_ROWS = 1 << 10
"""Rows read at a time where texts are stored by what differs from the text before: no one knows their size."""
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "INT96": 12}


class RowGroups(NamedTuple):
    """Consecutive row groups of a Parquet file; ``first_row`` counts from 1."""

    start: int
    stop: int
    first_row: int


def plan_groups(file: pa.NativeFile, rows: int = TASK_ROWS) -> list[RowGroups]:
    """The row groups of a file in portions of about that many rows."""
    from pyarrow import parquet

    meta = parquet.read_metadata(file)
    planned: list[RowGroups] = []
    start, first, row = 0, 1, 1
    for group in range(meta.num_row_groups):
        row += meta.row_group(group).num_rows
        if row - first >= rows or group + 1 == meta.num_row_groups:
            planned.append(RowGroups(start, group + 1, first))
            start, first = group + 1, row
    return planned


def open_parquet(
    file: pa.NativeFile, stack: ExitStack, groups: RowGroups | None = None
) -> tuple[list[str], Iterator[pa.RecordBatch]]:
    """The column names, and the rows of a file, or of some of its row groups, in batches."""
    from pyarrow import parquet

    opened = stack.enter_context(parquet.ParquetFile(file))
    meta = opened.metadata
    wanted = range(meta.num_row_groups) if groups is None else range(groups.start, groups.stop)
    return opened.schema_arrow.names, _batches(file, meta, wanted, stack)


class _Way(NamedTuple):
    """How row groups are read: so many rows at a time, and these columns without decoding them."""

    rows: int
    undecoded: tuple[str, ...] = ()
    portions: bool = False


def _batches(
    file: pa.NativeFile, meta: parquet.FileMetaData, wanted: Sequence[int], stack: ExitStack
) -> Iterator[pa.RecordBatch]:
    from pyarrow import parquet

    for way, groups in itertools.groupby(wanted, key=lambda group: _way(file, meta, group)):
        opened = stack.enter_context(
            parquet.ParquetFile(
                file,
                metadata=meta,
                read_dictionary=list(way.undecoded),
                buffer_size=_PORTION if way.portions else 0,
            )
        )
        yield from opened.iter_batches(way.rows, list(groups))


def _way(file: pa.NativeFile, meta: parquet.FileMetaData, group: int) -> _Way:
    """How a row group is read in bounded memory."""
    stored = meta.row_group(group)
    if not stored.num_rows:
        return _Way(PIECE_ROWS)
    _try_columns(file, meta, group)
    rows, row_size = PIECE_ROWS, 0.0
    undecoded: list[str] = []
    portions = False
    for place in range(stored.num_columns):
        chunk = stored.column(place)
        values = chunk.num_values / stored.num_rows
        width = _width(meta, place)
        row_size += max(chunk.total_uncompressed_size / stored.num_rows, values * width)
        portions |= chunk.total_compressed_size > _LARGE_CHUNK
        if chunk.physical_type != "BYTE_ARRAY" or chunk.total_uncompressed_size <= _SHORT:
            continue
        if "DELTA_BYTE_ARRAY" in chunk.encodings:
            rows = min(rows, _PREFIXED_ROWS)
        if chunk.has_dictionary_page:
            longest = _longest(file, meta, group, place)
            if longest > _SHORT and chunk.total_uncompressed_size <= _HELD_BYTES:
                undecoded.append(chunk.path_in_schema)
            elif longest * values > _SHORT:
                rows = min(rows, _fitting(longest * values))
    return _Way(min(rows, _fitting(row_size)), tuple(undecoded), portions)


def _try_columns(file: pa.NativeFile, meta: parquet.FileMetaData, group: int) -> None:
    """Raise for a row group whose columns are damaged where it describes them.

    pyarrow ends the process when it is asked for such a description, and raises an error when it reads by it.
    """
    from pyarrow import parquet

    with parquet.ParquetFile(file, metadata=meta, buffer_size=_PORTION) as opened:
        next(opened.iter_batches(1, [group]), None)


def _fitting(row_size: float) -> int:
    """How many rows of that size make a batch: a power of two, so that most row groups are read alike."""
    fitting = int(PIECE_BYTES / max(row_size, 1.0))
    return min(PIECE_ROWS, 1 << max(0, fitting.bit_length() - 1))


def _width(meta: parquet.FileMetaData, place: int) -> int:
    column: Any = meta.schema.column(place)
    if column.physical_type == "FIXED_LEN_BYTE_ARRAY":
        return int(column.length)
    return 0 if column.physical_type == "BYTE_ARRAY" else _WIDTHS.get(column.physical_type, 8)


def _longest(file: pa.NativeFile, meta: parquet.FileMetaData, group: int, place: int) -> int:
    """The number of bytes of the longest text in the dictionary of a column."""
    from pyarrow import parquet

    path = meta.row_group(group).column(place).path_in_schema
    with parquet.ParquetFile(
        file, metadata=meta, read_dictionary=[path], buffer_size=_PORTION
    ) as opened:
        # The first row brings the whole dictionary with it.
        first = next(opened.iter_batches(1, [group], columns=[path]), None)
    return 0 if first is None else max(map(_longest_in, first.columns), default=0)


def _longest_in(array: pa.Array) -> int:
    while not pa.types.is_dictionary(array.type):
        if pa.types.is_struct(array.type):
            return max(map(_longest_in, array.flatten()), default=0)
        if not pa.types.is_nested(array.type):
            return 0
        array = array.values
    return int(row_bytes(array.dictionary).max(initial=0))
