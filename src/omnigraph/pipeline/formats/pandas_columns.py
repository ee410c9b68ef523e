"""Columns of pandas frames, whose types say less than those of Arrow.

In pandas, integers beside a missing value are floats, and a column of `object` may hold anything: dates
beside timestamps, texts beside bytes. Arrow would guess the type from the first rows and force the
others into it, so the values of such a column are read separately for each Python type in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.pipeline.formats.batch_pieces import PIECE_BYTES, Sizes, cuts, row_bytes
from omnigraph.pipeline.formats.casts import Cast
from omnigraph.pipeline.formats.typed_batch import stored_column
from omnigraph.types import PropType, Unfit, from_json, shown

Read = Callable[["pa.Array"], Cast]
"""Casts an Arrow column to the type of a property; ``Unfit`` when columns of its type never fit."""

# The largest float below which no integer is missing.
_EXACT = 2.0**53
_UNKNOWN_BYTES = 16
# What Arrow raises over objects it has no type for, or cannot fit in one.
_NO_COLUMN = (TypeError, ValueError, OverflowError, NotImplementedError)


def is_pandas(data: object) -> bool:
    """Whether this is a pandas frame; pandas is not imported to find out."""
    of_pandas = type(data).__module__.partition(".")[0] == "pandas"
    return of_pandas and hasattr(data, "iloc") and hasattr(data, "columns")


@dataclass(frozen=True, slots=True)
class PandasBatch:
    """Some rows of a pandas frame; the index is not a column."""

    frame: Any

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return len(self.frame)

    @property
    def names(self) -> list[str]:
        """The names of the columns, as texts."""
        return pandas_names(self.frame)

    def cast(self, place: int, t: PropType, read: Read, *, integers: bool) -> Cast:
        """Cast the column at a position with ``read``; with ``integers``, whole floats count as integers."""
        series = self.frame.iloc[:, place]
        if series.dtype == np.dtype(object):
            return _cast_objects(t, series, read)
        if isinstance(series.dtype, np.dtype) and series.dtype.kind == "f":
            floats = series.to_numpy()
            if np.isnan(floats).all():
                return read(pa.nulls(len(floats)))
            if integers:
                return _cast_whole(floats.astype(np.float64), read)
        try:
            array = pa.array(series, from_pandas=True)
        except _NO_COLUMN:
            return _cast_objects(t, series.astype(object), read)
        if isinstance(array, pa.ChunkedArray):
            array = array.combine_chunks()
        if getattr(array.type, "extension_name", "").startswith("pandas."):
            # Periods and intervals: what they are stored as is not what they mean.
            return _cast_objects(t, series.astype(object), read)
        return read(array)


def pandas_names(frame: Any) -> list[str]:
    """The names of the columns of a pandas frame, as texts."""
    return [str(label) for label in frame.columns]


def pandas_batches(frame: Any, rows: int, size: int = PIECE_BYTES) -> Iterator[PandasBatch]:
    """The rows of a pandas frame, at most ``rows`` and about ``size`` bytes of them at a time."""
    # Arrow looks for pandas once, and may have done so while it was hidden (`storage/tables/lance_import.py`);
    # then it would take a column for a sequence of its labels. This makes it look again.
    pa.Table.from_pandas(frame.iloc[:0, :0])
    for start in range(0, len(frame), rows):
        part = frame.iloc[start : start + rows]
        none = np.zeros(len(part), np.int64)
        sizes = sum((_sizes(part.iloc[:, at]) for at in range(part.shape[1])), none)
        for begin, end in cuts(sizes, size):
            yield PandasBatch(part.iloc[begin:end])


def _sizes(series: Any) -> Sizes:
    """About how many bytes each value of a column has in Arrow."""
    if isinstance(series.dtype, np.dtype) and series.dtype != np.dtype(object):
        return np.full(len(series), series.dtype.itemsize, np.int64)
    if series.dtype != np.dtype(object):
        try:
            array = pa.array(series, from_pandas=True)
        except _NO_COLUMN:
            return np.full(len(series), _UNKNOWN_BYTES, np.int64)
        chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
        return np.concatenate([np.zeros(0, np.int64), *map(row_bytes, chunks)])
    return np.fromiter(map(_cell_bytes, series.tolist()), np.int64, len(series))


def _cell_bytes(value: object) -> int:
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, np.ndarray) and value.dtype != np.dtype(object):
        return value.nbytes
    if isinstance(value, list | tuple | np.ndarray):
        return sum(map(_cell_bytes, value))
    return _UNKNOWN_BYTES


def _cast_whole(floats: NDArray[np.float64], read: Read) -> Cast:
    with np.errstate(invalid="ignore"):
        whole = (np.trunc(floats) == floats) & (np.abs(floats) <= _EXACT)
    integers = pa.array(np.where(whole, floats, 0).astype(np.int64), mask=~whole)
    column, unfit, _ = read(integers)
    for row in np.flatnonzero(~whole & ~np.isnan(floats)).tolist():
        unfit[row] = f"expected an integer, got {shown(float(floats[row]))}"
    return Cast(column, unfit)


def _cast_objects(t: PropType, series: Any, read: Read) -> Cast:
    values: list[Any] = series.tolist()
    groups: dict[type, list[int]] = {}
    absent = series.isna().tolist()
    for row, value in enumerate(values):
        if absent[row]:
            values[row] = None
        else:
            groups.setdefault(type(value), []).append(row)
    if len(groups) <= 1:
        return _cast_alike(t, values, read, alone=True)
    groups[type(None)] = [row for row, no in enumerate(absent) if no]
    columns: list[pa.Array] = []
    places: list[int] = []
    unfit: dict[int, str] = {}
    cut = 0
    for rows in groups.values():
        cast = _cast_alike(t, [values[row] for row in rows], read, alone=False)
        columns.append(cast.column)
        cut += cast.cut
        places += rows
        unfit.update((rows[at], reason) for at, reason in cast.unfit.items())
    back = pa.array(np.argsort(np.array(places, np.int64), kind="stable"))
    return Cast(pa.concat_arrays(columns).take(back), unfit, cut)


def _cast_alike(t: PropType, values: list[Any], read: Read, *, alone: bool) -> Cast:
    """Values of one Python type and nulls; if they are ``alone``, the column can be refused."""
    try:
        array = pa.array(values, from_pandas=True)
    except _NO_COLUMN:
        pass
    else:
        try:
            return read(array)
        except Unfit:
            if alone:
                raise
    columns: list[pa.Array] = [pa.nulls(0, stored_column(t, []).type)]
    unfit: dict[int, str] = {}
    for row, value in enumerate(values):
        try:
            columns.append(_cast_one(t, value, read))
        except Unfit as reason:
            columns.append(stored_column(t, [None]))
            unfit[row] = str(reason)
    return Cast(pa.concat_arrays(columns), unfit)


def _cast_one(t: PropType, value: Any, read: Read) -> pa.Array:
    try:
        cast = read(pa.array([value], from_pandas=True))
    except (Unfit, *_NO_COLUMN):
        plain = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
        return stored_column(t, [from_json(t, plain)])
    if cast.unfit:
        raise Unfit(cast.unfit[0])
    return cast.column
