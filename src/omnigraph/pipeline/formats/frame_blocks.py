"""Frames of any library, as typed batches of one type.

Which columns a frame may have is said by `frame_layout`; files of columns are opened by `frame_files`
and read here as well. Records are counted in rows; the first is row 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import BadRequest, InputError
from omnigraph.lang.schema.catalog import Entity
from omnigraph.pipeline.formats.batch_pieces import PIECE_ROWS, arrow_pieces
from omnigraph.pipeline.formats.casts import Cast, cast_column, plain
from omnigraph.pipeline.formats.csv_rows import BadRow
from omnigraph.pipeline.formats.frame_layout import EdgeEnd, Layout
from omnigraph.pipeline.formats.json_line import missing
from omnigraph.pipeline.formats.pandas_columns import (
    PandasBatch,
    Read,
    is_pandas,
    pandas_batches,
    pandas_names,
)
from omnigraph.pipeline.formats.reject_lines import end_names, reject_of_row
from omnigraph.pipeline.formats.typed_batch import (
    Cuts,
    Parsed,
    ReadBlock,
    TypedBatch,
    UnreadableRecord,
    bad_batch,
    batch_schema,
    given_column,
    required_embeds,
    required_names,
    shown_value,
)
from omnigraph.types import TEXT, PropType, Unfit, blob_to_text, derive_id_column


def frame_blocks(
    layout: Layout,
    data: Any,
    *,
    source: int,
    name: str = "the frame",
    batch_rows: int = PIECE_ROWS,
) -> Iterator[ReadBlock]:
    """The rows of a frame in blocks, each as a function that reads it.

    A frame is an Arrow table, batch or reader, or anything that can become one: any object with
    ``__arrow_c_stream__`` (polars, DuckDB, recent pandas) or ``__dataframe__``, and pandas. Columns that
    never fit their property are refused at once.
    """
    if is_pandas(data):
        layout.check(pandas_names(data), name)
        return blocks_of(layout, pandas_batches(data, batch_rows), source, name)
    reader = frame_reader(data, batch_rows)
    layout.check(reader.schema.names, name)
    return blocks_of(layout, reader, source, name)


def read_batches(
    layout: Layout,
    batches: Iterable[pa.RecordBatch],
    *,
    source: int,
    first_row: int,
    name: str = "the frame",
) -> Iterator[Parsed]:
    """Rows of a frame that come as Arrow batches, counted from ``first_row`` on."""
    return (read() for read in blocks_of(layout, batches, source, name, first_row))


def frame_reader(data: Any, batch_rows: int = PIECE_ROWS) -> pa.RecordBatchReader:
    """A stream of Arrow batches from a frame of any library but pandas."""
    if isinstance(data, pa.RecordBatchReader):
        return data
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if isinstance(data, pa.Table):
        return data.to_reader(batch_rows)
    _refuse_polars_only(data)
    try:
        if hasattr(data, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(data)
        if hasattr(data, "__dataframe__"):
            from pyarrow.interchange import from_dataframe

            return from_dataframe(data).to_reader(batch_rows)
    except pa.ArrowException as error:
        reason = f" ({error})"
    else:
        reason = ""
    raise BadRequest(
        f"a Python {type(data).__name__} is no frame{reason}; give an Arrow table, a pandas or "
        "polars frame, rows as dicts, or the path of a Parquet, CSV, Arrow or JSON lines file"
    )


def _refuse_polars_only(data: Any) -> None:
    """Refuse polars columns that Arrow cannot hold; of Python objects polars would export addresses."""
    if type(data).__module__.partition(".")[0] != "polars":
        return
    if hasattr(data, "collect"):
        raise BadRequest("a polars LazyFrame is no frame yet; load what its collect() gives")
    for column, kind in getattr(data, "schema", {}).items():
        if str(kind) in {"Object", "Int128", "UInt128"}:
            raise InputError(
                f'the column "{column}" of {kind} is known to polars alone; cast it first'
            )


Batches = Iterable["pa.RecordBatch | PandasBatch | BadRow"]


def blocks_of(
    layout: Layout, batches: Batches, source: int, name: str, first_row: int = 1
) -> Iterator[ReadBlock]:
    """Blocks of rows that take little memory once they are read, numbered from ``first_row`` on."""
    row = first_row
    for batch in batches:
        for piece in arrow_pieces(batch) if isinstance(batch, pa.RecordBatch) else (batch,):
            yield partial(_parse, layout, piece, source, name, row)
            row += 1 if isinstance(piece, BadRow) else piece.num_rows


def _parse(
    layout: Layout, batch: pa.RecordBatch | PandasBatch | BadRow, source: int, name: str, row: int
) -> Parsed:
    if isinstance(batch, BadRow):
        text = None if batch.text is None else reject_of_row(layout.entity, batch.text)
        return Parsed([], bad_batch([UnreadableRecord(source, row, batch.reason, record=text)]))
    try:
        return _read_batch(layout, batch, source, row)
    except Unfit as unfit:
        raise InputError(
            f"{name} cannot be read as {layout.entity.name}: {unfit}",
            type_name=layout.entity.name,
            source=name,
        ) from None


def _read_batch(
    layout: Layout, batch: pa.RecordBatch | PandasBatch, source: int, row: int
) -> Parsed:
    entity, size = layout.entity, batch.num_rows
    places = layout.places(_names(batch))
    columns: list[pa.Array] = []
    bad: dict[int, tuple[str, str]] = {}
    cut = Cuts()

    def take(cast: Cast, place: str, name: str) -> pa.Array:
        if cast.cut:
            cut[f"{entity.name}.{name}"] += cast.cut
        for at, reason in cast.unfit.items():
            bad.setdefault(at, (f"{place}: {reason}", name))
        columns.append(cast.column)
        return cast.column

    take(_texts(batch, EdgeEnd("id"), places, integers=False), f"the id of {entity.name}", "id")
    ends = layout.ends
    for end in ends:
        read_end = _key_texts if end.members else _texts
        column = take(read_end(batch, end, places), f'"{end.name}" of {entity.name}', end.name)
        if not layout.patch:
            reason = f'{entity.name} needs "{end.name}", the id of a node'
            _note_nulls(bad, column, reason, end.name)
    for prop in entity.properties.values():
        place = f"{entity.name}.{prop.name} ({prop.type})"
        read = partial(cast_column, prop.type)
        whole = prop.type.scalar.is_counted and not prop.type.is_list
        if prop.default is not None and prop.name not in places and not layout.patch:
            columns.append(prop.default_column(size))
            continue
        try:
            cast = _cast(batch, places.get(prop.name, -1), prop.type, read, integers=whole)
        except Unfit as unfit:
            raise Unfit(f"{entity.name}.{prop.name}: {unfit}") from None
        take(cast, place, prop.name)
    if not layout.patch:
        _note_missing(entity, columns[1 + len(ends) :], bad)
    columns.append(pa.array(np.full(size, source, np.int32)))
    columns.append(pa.array(np.arange(row, row + size, dtype=np.int64)))
    if layout.patch:
        there = [_has(end, places) for end in ends]
        there += [name in places for name in entity.properties]
        columns.append(given_column(entity, [np.full(size, has) for has in there], size))
    typed = pa.RecordBatch.from_arrays(columns, schema=batch_schema(entity, patch=layout.patch))
    if bad:
        keep = np.ones(size, np.bool_)
        keep[list(bad)] = False
        typed = typed.filter(pa.array(keep))
    readable = dict(
        zip(["id", *(end.name for end in ends), *entity.properties], columns, strict=False)
    )
    records = (
        UnreadableRecord(
            source, row + at, reason, name, _shown_row(layout, batch, readable, places, at)
        )
        for at, (reason, name) in bad.items()
    )
    batches = [TypedBatch(entity.table_key, typed)] if len(typed) else []
    return Parsed(batches, bad_batch(records), cut)


def _cast(
    batch: pa.RecordBatch | PandasBatch, place: int, t: PropType, read: Read, *, integers: bool
) -> Cast:
    """Read the column at a place; -1 stands for one that the frame does not have."""
    if place < 0:
        return read(pa.nulls(batch.num_rows))
    if isinstance(batch, PandasBatch):
        return batch.cast(place, t, read, integers=integers)
    return read(batch.column(place))


def _names(batch: pa.RecordBatch | PandasBatch) -> list[str]:
    names: list[str] = batch.names if isinstance(batch, PandasBatch) else batch.schema.names
    return names


def _has(end: EdgeEnd, places: dict[str, int]) -> bool:
    return all(column in places for column in end.columns)


def _texts(
    batch: pa.RecordBatch | PandasBatch,
    end: EdgeEnd,
    places: dict[str, int],
    *,
    integers: bool = True,
) -> Cast:
    """Read a column of ids. The ends of an edge may be ``integers``, whose text is that of the key."""

    def read(array: pa.Array) -> Cast:
        array = plain(array)
        if integers and pa.types.is_integer(array.type):
            return Cast(array.cast(pa.utf8()), {})
        return cast_column(TEXT, array)

    try:
        return _cast(batch, places.get(end.name, -1), TEXT, read, integers=integers)
    except Unfit as unfit:
        raise Unfit(f'the column "{end.name}": {unfit}') from None


def _key_texts(batch: pa.RecordBatch | PandasBatch, end: EdgeEnd, places: dict[str, int]) -> Cast:
    """Make the ids of an end from the columns of the members of its key; null where one is missing."""
    unfit: dict[int, str] = {}
    members: list[tuple[PropType, pa.Array]] = []
    for name, t, column in end.members:
        read = partial(cast_column, t)
        try:
            cast = _cast(batch, places.get(column, -1), t, read, integers=t.is_integer)
        except Unfit as reason:
            raise Unfit(f'the column "{column}": {reason}') from None
        for row, why in cast.unfit.items():
            unfit.setdefault(row, f"{name} ({t}): {why}")
        members.append((t, cast.column))
    whole = np.logical_and.reduce(
        [column.is_valid().to_numpy(zero_copy_only=False) for _, column in members]
    )
    mask = pa.array(whole)
    ids = derive_id_column([(t, column.filter(mask)) for t, column in members])
    none = pa.nulls(batch.num_rows, pa.utf8())
    return Cast(pc.replace_with_mask(none, mask, ids), unfit)


def _shown_row(
    layout: Layout,
    batch: pa.RecordBatch | PandasBatch,
    columns: dict[str, pa.Array],
    places: dict[str, int],
    at: int,
) -> str:
    """The values of a row for a reject: as they were read, and those that do not fit as they stand."""
    entity = layout.entity
    ends = dict(zip(layout.ends, end_names(entity).values(), strict=True))
    names = {end.name: name for end, name in ends.items()}
    whole = {end.name for end in ends if end.members and _has(end, places)}
    values: dict[str, Any] = {}
    for name, column in columns.items():
        if name in whole:
            values[names[name]] = column[at].as_py()
            continue
        if name not in places or (name == "id" and column[at].as_py() is None):
            continue
        prop = entity.properties.get(name)
        stored = shown_value(TEXT if prop is None else prop.type, column.slice(at, 1))
        values[names.get(name, name)] = _cell(batch, places[name], at) if stored is None else stored
    return reject_of_row(entity, values)


def _cell(batch: pa.RecordBatch | PandasBatch, place: int, at: int) -> Any:
    """A value as the frame has it; what JSON has no form for is shown as text."""
    if isinstance(batch, PandasBatch):
        value = batch.frame.iloc[at, place]
        return _shown_cell(value.item() if isinstance(value, np.generic) else value)
    scalar = batch.column(place)[at]
    try:
        return _shown_cell(scalar.as_py())
    except UnicodeDecodeError:
        return "not UTF-8 text"
    except (ValueError, OverflowError):  # an instant that Python cannot hold
        return str(scalar.cast(pa.int64(), safe=False))


def _shown_cell(value: Any) -> Any:
    if isinstance(value, bytes):
        return blob_to_text(value)
    # JSON has no NaN.
    return str(value) if isinstance(value, float) and value != value else value  # noqa: PLR0124


def _note_missing(
    entity: Entity, columns: Sequence[pa.Array], bad: dict[int, tuple[str, str]]
) -> None:
    by_name = dict(zip(entity.properties, columns, strict=True))
    for name in required_names(entity):
        _note_nulls(bad, by_name[name], missing(entity, entity.properties[name]), name)
    for name, text in required_embeds(entity).items():
        absent = pc.and_(by_name[name].is_null(), by_name[text].is_null())
        _note(bad, absent, missing(entity, entity.properties[name]), name)


def _note_nulls(bad: dict[int, tuple[str, str]], column: pa.Array, reason: str, name: str) -> None:
    if column.null_count:
        _note(bad, column.is_null(), reason, name)


def _note(bad: dict[int, tuple[str, str]], mask: pa.Array, reason: str, name: str) -> None:
    for at in pc.indices_nonzero(mask).to_pylist():
        bad.setdefault(at, (reason, name))
