"""Typed columnar input for one type: frames of any library, Parquet, CSV and Arrow files.

Columns go by name: those of the properties, `id`, and for an edge the two that hold the ids of its
ends. Records are counted in rows, the first is row 1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import BadRequest, InputError, did_you_mean
from omnigraph.lang.schema.catalog import EdgeType
from omnigraph.pipeline.formats.casts import Cast, cast_column, plain
from omnigraph.pipeline.formats.csv_rows import BadRow, open_csv
from omnigraph.pipeline.formats.json_line import missing
from omnigraph.pipeline.formats.pandas_columns import PandasBatch, Read, is_pandas, pandas_batches
from omnigraph.pipeline.formats.typed_batch import (
    BadRecord,
    Entity,
    Parsed,
    Piece,
    TypedBatch,
    bad_batch,
    batch_schema,
    required_embeds,
    required_names,
)
from omnigraph.pipeline.sources.locations import LocalFile, Location, compression_of, readable
from omnigraph.pipeline.sources.sources import Source, files_named
from omnigraph.types import PropType, Scalar, Unfit, shown

BATCH_ROWS = 1 << 16
TASK_ROWS = 250_000

_FAULTS = 8
_NAME_LENGTH = 100

_PARQUET = (".parquet", ".pq")
_ARROW = (".arrow", ".feather", ".ipc")
_CSV = (".csv", ".csv.gz", ".csv.zst")
FRAME_FILES = (*_PARQUET, *_CSV, *_ARROW)
_STRING = PropType(Scalar.STRING)


@dataclass(frozen=True, slots=True)
class Layout:
    """How the columns of a frame are those of a type."""

    entity: Entity
    from_col: str = "from"
    to_col: str = "to"
    from_text: bool = False

    @property
    def ends(self) -> tuple[str, ...]:
        """The columns that hold the ids of an edge's ends."""
        return (self.from_col, self.to_col) if isinstance(self.entity, EdgeType) else ()

    def check(self, columns: Sequence[str], name: str) -> None:
        """Refuse columns that are none of the type's, come twice, or lack what is required."""
        wrong = list(self._faults(columns))
        if wrong:
            told = wrong[:_FAULTS] + ([f"and {len(wrong) - _FAULTS} more"] * (len(wrong) > _FAULTS))
            raise InputError(
                f"{name} cannot be read as {self.entity.name}: {'; '.join(told)}",
                type_name=self.entity.name,
                source=name,
            )

    def _faults(self, columns: Sequence[str]) -> Iterator[str]:
        entity = self.entity
        known = dict.fromkeys([*self.ends, "id", *entity.properties])
        times = Counter(columns)
        strange = 0
        for end in self.ends:
            if end in entity.properties:
                yield f'"{end}" is a property, name another column for the ends of the edge'
        for column in times:
            if column not in known:
                # Looking for what was meant takes long: it is done for those that are shown.
                strange += 1
                hint = did_you_mean(column[:_NAME_LENGTH], known) if strange <= _FAULTS else None
                yield f"there is no property {shown(column)}" + (f", {hint}" if hint else "")
            elif times[column] > 1:
                yield f'there are two columns "{column}"'
        needed = [*self.ends, *required_names(entity)]
        needed += [v for v, s in required_embeds(entity).items() if s not in times]
        for column in needed:
            if column not in times:
                yield f'the required column "{column}" is missing'


def typed_batches(
    entity: Entity,
    data: Any,
    from_col: str = "from",
    to_col: str = "to",
    *,
    source: int = 0,
    name: str = "the frame",
) -> Iterator[Parsed]:
    """The rows of a frame: an Arrow table, batch or reader, or what can become one.

    That is any object with ``__arrow_c_stream__`` (polars, DuckDB, recent pandas) or
    ``__dataframe__``, and pandas. Columns that never fit their property are refused at once.
    """
    pieces = frame_pieces(entity, data, from_col, to_col, source=source, name=name)
    return (piece() for piece in pieces)


def frame_pieces(
    entity: Entity,
    data: Any,
    from_col: str,
    to_col: str,
    *,
    source: int,
    name: str = "the frame",
) -> Iterator[Piece]:
    """The blocks of ``typed_batches``, yet to be read."""
    layout = Layout(entity, from_col, to_col)
    if is_pandas(data):
        layout.check(PandasBatch(data).names, name)
        return _pieces(layout, pandas_batches(data, BATCH_ROWS), source, name)
    reader = frame_reader(data)
    layout.check(reader.schema.names, name)
    return _pieces(layout, reader, source, name)


def read_batches(
    entity: Entity,
    batches: Iterable[pa.RecordBatch],
    from_col: str,
    to_col: str,
    *,
    source: int,
    first_row: int,
    name: str = "the frame",
) -> Iterator[Parsed]:
    """Rows of a frame that come as Arrow batches, counted from ``first_row`` on."""
    pieces = _pieces(Layout(entity, from_col, to_col), batches, source, name, first_row)
    return (piece() for piece in pieces)


def frame_reader(data: Any) -> pa.RecordBatchReader:
    """A frame of any library but pandas as a stream of Arrow batches."""
    if isinstance(data, pa.RecordBatchReader):
        return data
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if isinstance(data, pa.Table):
        return data.to_reader(BATCH_ROWS)
    _refuse_polars_only(data)
    try:
        if hasattr(data, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(data)
        if hasattr(data, "__dataframe__"):
            from pyarrow.interchange import from_dataframe

            return from_dataframe(data).to_reader(BATCH_ROWS)
    except pa.ArrowException as error:
        reason = f" ({error})"
    else:
        reason = ""
    raise BadRequest(
        f"a Python {type(data).__name__} is no frame{reason}; give an Arrow table, a pandas or "
        "polars frame, or the path of a Parquet, CSV or Arrow file"
    )


def _refuse_polars_only(data: Any) -> None:
    """Columns that polars has and Arrow has not; of Python objects it would hand out addresses."""
    if type(data).__module__.partition(".")[0] != "polars":
        return
    if hasattr(data, "collect"):
        raise BadRequest("a polars LazyFrame is no frame yet; load what its collect() gives")
    for column, kind in getattr(data, "schema", {}).items():
        if str(kind) in {"Object", "Int128", "UInt128"}:
            raise InputError(
                f'the column "{column}" of {kind} is known to polars alone; cast it first'
            )


def frame_sources(targets: str | Path | Iterable[str | Path], first: int = 0) -> list[Source]:
    """The Parquet, CSV and Arrow files that a call names, numbered from ``first`` on."""
    if isinstance(targets, str | Path):
        targets = [targets]
    found = [file for target in targets for file in files_named(target, FRAME_FILES)]
    for name, _, _ in found:
        if not name.lower().endswith(FRAME_FILES):
            raise BadRequest(
                f'"{name}" is no file of columns; its name must end in {", ".join(FRAME_FILES)}',
                source=name,
            )
    return [
        Source(index, name, location, size, compression_of(name), "row")
        for index, (name, location, size) in enumerate(found, start=first)
    ]


class RowGroups(NamedTuple):
    """Neighbouring row groups of a Parquet file; ``first_row`` counts from 1."""

    start: int
    stop: int
    first_row: int


def plan_row_groups(source: Source, rows: int = TASK_ROWS) -> list[RowGroups]:
    """The row groups of a Parquet file in portions of about that many rows; nothing of others."""
    from pyarrow import parquet

    if not source.name.lower().endswith(_PARQUET):
        return []
    with readable(source.name), _arrow_file(source.location) as file:
        meta = parquet.read_metadata(file)
    planned: list[RowGroups] = []
    start, first, row = 0, 1, 1
    for group in range(meta.num_row_groups):
        row += meta.row_group(group).num_rows
        if row - first >= rows or group + 1 == meta.num_row_groups:
            planned.append(RowGroups(start, group + 1, first))
            start, first = group + 1, row
    return planned


def read_frame_file(
    entity: Entity,
    source: Source,
    from_col: str = "from",
    to_col: str = "to",
    groups: RowGroups | None = None,
) -> Iterator[Parsed]:
    """The rows of a Parquet, CSV or Arrow file, or of some row groups of a Parquet file."""
    return (piece() for piece in file_pieces(entity, source, from_col, to_col, groups))


def file_pieces(
    entity: Entity, source: Source, from_col: str, to_col: str, groups: RowGroups | None
) -> Iterator[Piece]:
    """The blocks of ``read_frame_file``, yet to be read."""
    lowered = source.name.lower()
    layout = Layout(entity, from_col, to_col, from_text=lowered.endswith(_CSV))
    batches: Batches
    with readable(source.name, source.compression), ExitStack() as stack:
        if lowered.endswith(_CSV):
            known = [*layout.ends, "id", *entity.properties]
            names, batches = open_csv(known, source, stack)
        else:
            names, batches = _binary(source, stack, groups)
        layout.check(names, source.name)
        first = 1 if groups is None else groups.first_row
        for piece in _pieces(layout, batches, source.index, source.name, first):
            yield partial(_read_from, source, piece)


def _read_from(source: Source, piece: Piece) -> Parsed:
    with readable(source.name, source.compression):
        return piece()


Batches = Iterable["pa.RecordBatch | PandasBatch | BadRow"]


def _binary(
    source: Source, stack: ExitStack, groups: RowGroups | None
) -> tuple[list[str], Batches]:
    file = stack.enter_context(_arrow_file(source.location))
    if source.name.lower().endswith(_PARQUET):
        from pyarrow import parquet

        opened = stack.enter_context(parquet.ParquetFile(file))
        wanted = None if groups is None else list(range(groups.start, groups.stop))
        return opened.schema_arrow.names, opened.iter_batches(BATCH_ROWS, wanted)
    try:
        stored = pa.ipc.open_file(file)
    except pa.ArrowInvalid:
        file.seek(0)
        stream = pa.ipc.open_stream(file)
        return stream.schema.names, stream
    batches = (stored.get_batch(number) for number in range(stored.num_record_batches))
    return stored.schema.names, batches


def _arrow_file(location: Location) -> pa.NativeFile:
    if isinstance(location, LocalFile):
        return pa.OSFile(location.path)
    return pa.PythonFile(location.open(), mode="r")


def _pieces(
    layout: Layout, batches: Batches, source: int, name: str, first_row: int = 1
) -> Iterator[Piece]:
    row = first_row
    for batch in batches:
        yield partial(_parsed, layout, batch, source, name, row)
        row += 1 if isinstance(batch, BadRow) else batch.num_rows


def _parsed(
    layout: Layout, batch: pa.RecordBatch | PandasBatch | BadRow, source: int, name: str, row: int
) -> Parsed:
    if isinstance(batch, BadRow):
        return Parsed([], bad_batch([BadRecord(source, row, batch.reason)]))
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
    columns: list[pa.Array] = []
    bad: dict[int, str] = {}

    def take(cast: Cast, place: str) -> pa.Array:
        for at, reason in cast.unfit.items():
            bad.setdefault(at, f"{place}: {reason}")
        columns.append(cast.column)
        return cast.column

    take(_texts(batch, "id", layout), f"the id of {entity.name}")
    for end in layout.ends:
        column = take(_texts(batch, end, layout), f'"{end}" of {entity.name}')
        _note_nulls(bad, column, f'{entity.name} needs "{end}", the id of a node')
    for prop in entity.properties.values():
        place = f"{entity.name}.{prop.name} ({prop.type})"
        read = partial(cast_column, prop.type, from_text=layout.from_text)
        whole = prop.type.scalar.is_counted and not prop.type.is_list
        try:
            cast = _cast(batch, prop.name, prop.type, read, integers=whole)
        except Unfit as unfit:
            raise Unfit(f"{entity.name}.{prop.name}: {unfit}") from None
        take(cast, place)
    _note_missing(entity, columns[1 + len(layout.ends) :], bad)
    columns.append(pa.array(np.full(size, source, np.int32)))
    columns.append(pa.array(np.arange(row, row + size, dtype=np.int64)))
    typed = pa.RecordBatch.from_arrays(columns, schema=batch_schema(entity))
    if bad:
        keep = np.ones(size, np.bool_)
        keep[list(bad)] = False
        typed = typed.filter(pa.array(keep))
    records = (BadRecord(source, row + at, reason) for at, reason in bad.items())
    return Parsed([TypedBatch(entity.table_key, typed)] if len(typed) else [], bad_batch(records))


def _cast(
    batch: pa.RecordBatch | PandasBatch, name: str, t: PropType, read: Read, *, integers: bool
) -> Cast:
    if isinstance(batch, PandasBatch):
        place = batch.place(name)
        if place >= 0:
            return batch.cast(place, t, read, integers=integers)
    else:
        place = batch.schema.get_field_index(name)
        if place >= 0:
            return read(batch.column(place))
    return read(pa.nulls(batch.num_rows))


def _texts(batch: pa.RecordBatch | PandasBatch, name: str, layout: Layout) -> Cast:
    """A column of ids. The ends of an edge may be integers, which are the key text of themselves."""

    def read(array: pa.Array) -> Cast:
        array = plain(array)
        if name in layout.ends and pa.types.is_integer(array.type):
            array = array.cast(pa.utf8())
        return cast_column(_STRING, array)

    try:
        return _cast(batch, name, _STRING, read, integers=name in layout.ends)
    except Unfit as unfit:
        raise Unfit(f'the column "{name}": {unfit}') from None


def _note_missing(entity: Entity, columns: Sequence[pa.Array], bad: dict[int, str]) -> None:
    by_name = dict(zip(entity.properties, columns, strict=True))
    for name in required_names(entity):
        _note_nulls(bad, by_name[name], missing(entity, entity.properties[name]))
    for name, text in required_embeds(entity).items():
        absent = pc.and_(by_name[name].is_null(), by_name[text].is_null())
        _note(bad, absent, missing(entity, entity.properties[name]))


def _note_nulls(bad: dict[int, str], column: pa.Array, reason: str) -> None:
    if column.null_count:
        _note(bad, column.is_null(), reason)


def _note(bad: dict[int, str], mask: pa.Array, reason: str) -> None:
    for at in pc.indices_nonzero(mask).to_pylist():
        bad.setdefault(at, reason)
