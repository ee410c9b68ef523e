"""CSV files as batches of texts, with bad rows reported in their place.

Rows are counted as they stand in the file, without the header and blank lines. A row with too few or
too many values is a bad record like any other; the rows after it keep their numbers.
"""

from __future__ import annotations

import codecs
import re
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa

from omnigraph.errors import InputError
from omnigraph.pipeline.frame_options import UTF_8, FrameOptions
from omnigraph.pipeline.sources.locations import open_plain
from omnigraph.pipeline.sources.sources import InputSource

BLOCK_BYTES = 16 << 20
"""The number of bytes read at once; no row can be longer."""
MAX_COLUMNS = 1 << 14
"""A file with more columns is refused: each of them takes memory, before any row is read."""

_PART_BYTES = 1 << 16
_SHOWN_TEXT = 1 << 12


class BadRow(NamedTuple):
    """A row that could not be split into columns, why, and the beginning of its text."""

    reason: str
    text: str | None = None


class _Ragged(NamedTuple):
    row: int
    bad: BadRow


def open_csv(
    columns: Sequence[str],
    source: InputSource,
    stack: ExitStack,
    block_bytes: int = BLOCK_BYTES,
    options: FrameOptions | None = None,
) -> tuple[list[str], Iterator[pa.RecordBatch | BadRow]]:
    """The header, and the rows in their order, bad ones between batches.

    All columns are texts: an empty cell is null, a quoted empty cell is the empty text. Whether a text
    is valid UTF-8 is not checked here. ``block_bytes`` are read at once, and no row can be longer.
    """
    options = FrameOptions() if options is None else options
    _check_width(source, options)
    with ExitStack() as trial:
        names, batches = _open(columns, source, trial, block_bytes, options)
        if set(names) <= set(columns) or not options.ignore_extra:
            stack.enter_context(trial.pop_all())
            return names, batches
    # Arrow guesses the type of a column that it is not told, and fails where a later row has another.
    return _open(names, source, stack, block_bytes, options)


def _check_width(source: InputSource, options: FrameOptions) -> None:
    """Refuse a file whose first row has too many columns; it is only counted, and never held."""
    with open_plain(source.location, source.compression, source.name) as stream:
        try:
            count = _count_cells(stream, options)
        except UnicodeError:
            return  # reported where the header is read
    if count > MAX_COLUMNS:
        raise InputError(
            f'"{source.name}" has more than {MAX_COLUMNS:,} columns; check the delimiter, or leave some out',
            source=source.name,
        )


def _count_cells(stream: BinaryIO, options: FrameOptions) -> int:
    """How many cells the first row has that is not blank, counted up to one more than there may be."""
    marks = re.compile(f'["\r\n{re.escape(options.delimiter)}]')
    decode = codecs.getincrementaldecoder(options.encoding)().decode
    count, quoted, blank = 1, False, True
    while data := stream.read(_PART_BYTES):
        piece, end = decode(data), 0
        for mark in marks.finditer(piece):
            blank, end = blank and mark.start() == end, mark.end()
            if mark[0] == '"':
                quoted, blank = not quoted, False
            elif not quoted and mark[0] == options.delimiter:
                count, blank = count + 1, False
                if count > MAX_COLUMNS:
                    return count
            elif not quoted and not blank:
                return count
        blank = blank and end == len(piece)
    return count


def _open(
    columns: Sequence[str],
    source: InputSource,
    stack: ExitStack,
    block_bytes: int,
    options: FrameOptions,
) -> tuple[list[str], Iterator[pa.RecordBatch | BadRow]]:
    from pyarrow import csv

    ragged: deque[_Ragged] = deque()
    header = 1 if options.header else 0

    def skip(row: Any) -> str:
        reason = f"{row.actual_columns} values for {row.expected_columns} columns; check its quotes"
        text = row.text if isinstance(row.text, str) else None
        bad = BadRow(reason, text if text is None else text[:_SHOWN_TEXT])
        ragged.append(_Ragged(row.number - header, bad))  # the header is row 1 to Arrow
        return "skip"

    stream = stack.enter_context(open_plain(source.location, source.compression, source.name))
    try:
        reader = csv.open_csv(
            stream,
            read_options=csv.ReadOptions(
                use_threads=False,
                block_size=block_bytes,
                column_names=options.names,
                encoding=options.encoding,
            ),
            parse_options=csv.ParseOptions(
                delimiter=options.delimiter, newlines_in_values=True, invalid_row_handler=skip
            ),
            convert_options=csv.ConvertOptions(
                column_types=dict.fromkeys(columns, pa.binary()),
                null_values=["", *options.null],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
        names = stack.enter_context(reader).schema.names
    except UnicodeDecodeError:
        if options.encoding != UTF_8:
            raise _not_text(source.name, options.encoding) from None
        raise InputError(
            f'the header of "{source.name}" is not UTF-8 text; save the file as UTF-8, or say what it '
            "is with encoding (--encoding)",
            source=source.name,
        ) from None
    return names, _in_order(_texts(reader, source.name, block_bytes, options.encoding), ragged)


def _not_text(name: str, encoding: str) -> InputError:
    return InputError(
        f'"{name}" is not {encoding} text; give the encoding that it was written in', source=name
    )


def _texts(reader: Any, name: str, block_bytes: int, encoding: str) -> Iterator[pa.RecordBatch]:
    try:
        for batch in reader:
            columns = [
                column.view(pa.utf8()) if pa.types.is_binary(column.type) else column
                for column in batch.columns
            ]
            yield pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
    except UnicodeDecodeError:
        raise _not_text(name, encoding) from None
    except pa.ArrowInvalid as error:
        if "straddling" not in str(error):
            raise
        raise InputError(
            f'"{name}" has a row of more than {block_bytes >> 20} MB; give such rows as JSON lines or '
            "Parquet",
            source=name,
        ) from None


def _in_order(
    batches: Iterator[pa.RecordBatch], ragged: deque[_Ragged]
) -> Iterator[pa.RecordBatch | BadRow]:
    """Insert the rows that Arrow skipped where they were in the file."""
    row = 1
    for whole in batches:
        rest = whole
        while ragged and ragged[0].row - row < rest.num_rows:
            before = ragged[0].row - row
            if before:
                yield rest.slice(0, before)
            yield ragged.popleft().bad
            rest = rest.slice(before)
            row += before + 1
        if rest.num_rows:
            yield rest
        row += rest.num_rows
    while ragged:
        yield ragged.popleft().bad
