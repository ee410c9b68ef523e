"""Files of rows of one type, recognised by their suffix: Parquet, CSV and Arrow are read here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa

from omnigraph.errors import BadRequest
from omnigraph.pipeline.formats.csv_rows import BadRow, open_csv
from omnigraph.pipeline.formats.frame_layout import Layout
from omnigraph.pipeline.formats.frames import Batches, blocks_of
from omnigraph.pipeline.formats.pieces.parquet_rows import RowGroups, open_parquet, plan_groups
from omnigraph.pipeline.formats.typed_batch import Parsed, ReadBlock
from omnigraph.pipeline.sources.locations import LocalFile, Location, readable
from omnigraph.pipeline.sources.sources import (
    ARROW,
    COLUMN_FILES,
    CSV,
    JSON_LINES,
    PARQUET,
    Source,
    files_named,
)
from omnigraph.storage.objects.output_files import compression_of
from omnigraph.storage.store_kinds.store_kind import StoreOptions


def frame_sources(
    targets: str | Path | Iterable[str | Path], first: int = 0, store: StoreOptions | None = None
) -> list[Source]:
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
        Source(index, name, location, size, compression_of(name), "row", folders=folders)
        for index, (name, location, size, folders) in enumerate(found, start=first)
    ]
    return [replace(one, unit="line") if is_json(one) else one for one in sources]


def is_json(source: Source) -> bool:
    """Whether a source has JSON lines."""
    return source.name.lower().endswith(JSON_LINES)


def is_csv(source: Source) -> bool:
    """Whether a source is a CSV file."""
    return source.name.lower().endswith(CSV)


def plan_row_groups(source: Source) -> list[RowGroups]:
    """The row groups of a Parquet file in portions that tasks read apart; none for other files."""
    if not source.name.lower().endswith(PARQUET):
        return []
    with readable(source.name), _arrow_file(source.location) as file:
        return plan_groups(file)


def file_blocks(
    layout: Layout, source: Source, groups: RowGroups | None = None
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


def _read_from(source: Source, block: ReadBlock) -> Parsed:
    with readable(source.name, source.compression):
        return block()


def _open_batches(
    source: Source, stack: ExitStack, groups: RowGroups | None
) -> tuple[list[str], Batches]:
    """The column names, and the rows in batches.

    Batches of any size may come, and are cut later; a reader must not decode more at once than fits in
    memory. Arrow files are read by the batches that they were written with.
    """
    file = stack.enter_context(_arrow_file(source.location))
    if source.name.lower().endswith(PARQUET):
        return open_parquet(file, stack, groups)
    assert source.name.lower().endswith(ARROW), "a suffix of COLUMN_FILES has no reader"
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
