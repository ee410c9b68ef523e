"""Files of rows of one type, recognised by their suffix: Parquet, CSV and Arrow are read here.

Parquet is read as batches that take little memory, whatever is in them. The file says how many bytes its columns have
as they are stored. Where a text is stored once for all rows that have it (in a dictionary) that is far less than
what its rows are, so the longest text of the dictionary decides: the column is read without decoding it, or few rows
at a time.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from omnigraph.errors import BadRequest
from omnigraph.pipeline.formats.batch_pieces import PIECE_BYTES, PIECE_ROWS, row_bytes
from omnigraph.pipeline.formats.csv_rows import BadRow, open_csv
from omnigraph.pipeline.formats.frame_blocks import Batches, blocks_of
from omnigraph.pipeline.formats.frame_layout import Layout
from omnigraph.pipeline.formats.typed_batch import Parsed, ReadBlock
from omnigraph.pipeline.sources.locations import LocalFile, Location, readable
from omnigraph.pipeline.sources.sources import (
    ARROW,
    COLUMN_FILES,
    CSV,
    JSON_LINES,
    PARQUET,
    InputSource,
    files_named,
)
from omnigraph.storage.objects.output_files import compression_of
from omnigraph.storage.store_kinds.store_kind import StoreOptions

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


def frame_sources(
    targets: str | Path | Iterable[str | Path], first: int = 0, store: StoreOptions | None = None
) -> list[InputSource]:
    """The files of rows of one type that a call names, numbered from ``first`` on.

    They are Parquet, CSV and Arrow files, and JSON lines where these are named themselves.
    """
    if isinstance(targets, str | Path):
        targets = [targets]
    found = [file for target in targets for file in files_named(target, COLUMN_FILES, store)]
    for name, *_ in found:
        if not name.lower().endswith((*COLUMN_FILES, *JSON_LINES)):
            raise BadRequest(
                f'"{name}" is no file of rows of one type; its name must end in '
                f"{', '.join((*COLUMN_FILES, *JSON_LINES))}",
                source=name,
            )
    sources = [
        InputSource(index, name, location, size, compression_of(name), "row", folders=folders)
        for index, (name, location, size, folders) in enumerate(found, start=first)
    ]
    return [replace(one, unit="line") if is_json(one) else one for one in sources]


def is_json(source: InputSource) -> bool:
    """Whether a source has JSON lines."""
    return source.ends_in(JSON_LINES)


def is_csv(source: InputSource) -> bool:
    """Whether a source is a CSV file."""
    return source.ends_in(CSV)


def plan_row_groups(source: InputSource) -> list[RowGroups]:
    """The row groups of a Parquet file in portions that tasks read apart; none for other files."""
    if not source.ends_in(PARQUET):
        return []
    with readable(source.name), _arrow_file(source.location) as file:
        return plan_groups(file)


def file_blocks(
    layout: Layout, source: InputSource, groups: RowGroups | None = None
) -> Iterator[ReadBlock]:
    """The rows of a Parquet, CSV or Arrow file, or of some row groups of a Parquet file.

    They come in blocks, each as a function that reads it.
    """
    batches: Batches
    with readable(source.name, source.compression), ExitStack() as stack:
        if is_csv(source):
            names, batches = open_csv(layout.known, source, stack, options=layout.options)
        else:
            names, batches = _open_batches(source, stack, groups)
        added = [(name, value) for name, value in source.folders if name not in names]
        if added:
            names = [*names, *(name for name, _ in added)]
            batches = map(partial(_with_folders, added), batches)
        layout.check(names, source.name)
        first = 1 if groups is None else groups.first_row
        for block in blocks_of(layout, batches, source.index, source.name, first):
            yield partial(_read_from, source, block)


def _with_folders(
    added: Sequence[tuple[str, str | None]], batch: pa.RecordBatch | BadRow
) -> pa.RecordBatch | BadRow:
    """The rows with the columns that the folders of their file give them."""
    if isinstance(batch, BadRow):
        return batch
    for name, value in added:
        column = pa.repeat(pa.scalar(value, pa.utf8()), batch.num_rows)
        batch = batch.append_column(pa.field(name, pa.utf8()), column)
    return batch


def _read_from(source: InputSource, block: ReadBlock) -> Parsed:
    with readable(source.name, source.compression):
        return block()


def _open_batches(
    source: InputSource, stack: ExitStack, groups: RowGroups | None
) -> tuple[list[str], Batches]:
    """The column names, and the rows in batches.

    Batches of any size may come, and are cut later; a reader must not decode more at once than fits in
    memory. Arrow files are read by the batches that they were written with.
    """
    file = stack.enter_context(_arrow_file(source.location))
    if source.ends_in(PARQUET):
        return open_parquet(file, stack, groups)
    assert source.ends_in(ARROW), "a suffix of COLUMN_FILES has no reader"
    try:
        stored = pa.ipc.open_file(file)
    except pa.ArrowInvalid:
        file.seek(0)
        stream = pa.ipc.open_stream(file)
        return stream.schema.names, map(_checked, stream)
    batches = (stored.get_batch(number) for number in range(stored.num_record_batches))
    return stored.schema.names, map(_checked, batches)


def _checked(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Raise ``ArrowInvalid`` for a damaged batch: Arrow trusts the offsets in a file, beyond its memory.

    Whether texts are UTF-8 is left to those who know the row.
    """
    for column in batch.columns:
        column.view(_without_texts(column.type)).validate(full=True)
    return batch


def _without_texts(kind: pa.DataType) -> pa.DataType:
    """The type that holds the same bytes, without the promise that they are UTF-8."""
    if pa.types.is_string(kind):
        return pa.binary()
    if pa.types.is_large_string(kind):
        return pa.large_binary()
    if pa.types.is_list(kind):
        return pa.list_(_without_texts(kind.value_type))
    if pa.types.is_large_list(kind):
        return pa.large_list(_without_texts(kind.value_type))
    return kind


def _arrow_file(location: Location) -> pa.NativeFile:
    if isinstance(location, LocalFile):
        return pa.OSFile(location.path)
    return pa.PythonFile(location.open(), mode="r")


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
    """How row groups are read: how many rows at a time, and which columns without decoding them."""

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
