"""Columns of other people's frames as columns of a property: strict, but sensible.

Integers, and decimals without a scale, fit any integer or float type that can hold them, texts are
dates when written like dates, timestamps lose what is finer than a millisecond, and without a zone
are UTC. A float never becomes an integer. A text is read as the value that it spells, and the
integers 0 and 1 are the values of a Bool.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.pipeline.formats.json_columns import Doubt, stored_form
from omnigraph.pipeline.formats.typed_batch import (
    bytes_column,
    column_type,
    cut_texts,
    stored_column,
)
from omnigraph.types import (
    Family,
    PropType,
    Scalar,
    Unfit,
    as_integers,
    from_integers,
    from_json,
    shown,
)
from omnigraph.types.temporal import MS_PER_DAY

_PER_MS = {"ms": 1, "us": 1_000, "ns": 1_000_000}
_BITS = {0: False, 1: True}
_TRUTH = {"true": True, "false": False, "1": True, "0": False}
_INTEGER = r"^[+-]?[0-9]+$"
_NUMBER = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$"


class Cast(NamedTuple):
    """A column in the type of its property, and why single rows, null there, do not fit."""

    column: pa.Array
    unfit: dict[int, str]
    cut: int = 0
    """How many values were finer than they are stored."""


def cast_column(t: PropType, array: pa.Array) -> Cast:
    """A column as one of a property; ``Unfit`` when columns of its type never fit."""
    array, broken = _valid_texts(plain(array))
    if pa.types.is_null(array.type):
        return Cast(pa.nulls(len(array), column_type(t)), {})
    if pa.types.is_string(array.type):
        cast = _read_texts(t, array)
    elif t.is_vector or t.is_list:
        cast = _cast_lists(t, array)
    else:
        cast = _cast_scalars(t, array)
    return cast._replace(unfit={**cast.unfit, **broken}) if broken else cast


def _valid_texts(array: pa.Array) -> tuple[pa.Array, dict[int, str]]:
    """The column with null for texts that are not UTF-8, and what is wrong with those.

    No reader of Arrow's looks at the texts of a file.
    """
    if not pa.types.is_string(array.type):
        return array, {}
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        pass
    else:
        return array, {}
    texts: list[str | None] = []
    broken: dict[int, str] = {}
    for row, data in enumerate(array.view(pa.binary()).to_pylist()):
        try:
            texts.append(None if data is None else data.decode())
        except UnicodeDecodeError as error:
            texts.append(None)
            broken[row] = f"not UTF-8 text ({error.reason} at byte {error.start + 1})"
    return pa.array(texts, pa.utf8()), broken


def plain(array: pa.Array) -> pa.Array:
    """The column decoded: no dictionary, run-length, view or extension type."""
    if isinstance(array, pa.ExtensionArray):
        return plain(array.storage)
    kind = array.type
    if pa.types.is_dictionary(kind):
        # The values first: Arrow cannot decode a dictionary of views.
        values = plain(array.dictionary)
        return pa.DictionaryArray.from_arrays(array.indices, values).dictionary_decode()
    if pa.types.is_run_end_encoded(kind):
        return plain(pc.run_end_decode(array))
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return array.cast(pa.utf8())
    if pa.types.is_binary_view(kind):
        return array.cast(pa.large_binary())
    return array


def _refuse(t: PropType, kind: pa.DataType) -> Unfit:
    return Unfit(f"a column of {kind} does not fit {t}; cast it first")


def _cast_scalars(t: PropType, array: pa.Array) -> Cast:
    types, kind = pa.types, array.type
    match t.scalar.traits.family:
        case Family.TEXT if types.is_string(kind):
            return Cast(array, {})
        case Family.BOOLEAN if types.is_boolean(kind):
            return Cast(array, {})
        case Family.BOOLEAN if types.is_integer(kind):
            return _cast_bits(t, array)
        case Family.INTEGER if types.is_integer(kind):
            return _whole_or_each(t, array, lambda: array.cast(t.arrow_type()))
        case Family.INTEGER if _is_whole_decimal(kind):
            # What engines without unsigned integers use instead.
            try:
                return Cast(array.cast(t.arrow_type()), {})
            except pa.ArrowException:
                return _each(t, array.to_pylist(), lambda value: from_json(t, int(value)))
        case Family.FLOAT if _is_number(kind):
            return _whole_or_each(t, array.cast(pa.float64(), safe=False), None)
        case Family.TEMPORAL if types.is_string(kind):
            return _whole_or_each(t, array, None)._replace(cut=cut_texts(t, array))
        case Family.TEMPORAL if types.is_integer(kind) or types.is_temporal(kind):
            return _cast_times(t, array)
        case Family.BLOB if types.is_string(kind):
            return _whole_or_each(t, array, None)
        case Family.BLOB if _is_binary(kind):
            data = array.cast(pa.large_binary())
            return Cast(bytes_column(data), {})
    raise _refuse(t, kind)


def _is_number(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_floating(kind) or types.is_integer(kind) or types.is_decimal(kind))


def _is_whole_decimal(kind: pa.DataType) -> bool:
    return bool(pa.types.is_decimal(kind)) and kind.scale == 0


def _is_binary(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind)
    )


def _whole_or_each(t: PropType, array: pa.Array, cast: Callable[[], pa.Array] | None) -> Cast:
    """The column at once if all rows fit, else row by row to find those that do not."""
    try:
        return Cast(stored_form(t, array) if cast is None else cast(), {})
    except (Doubt, pa.ArrowException):
        return _each(t, array.to_pylist(), lambda value: from_json(t, value))


def _each(t: PropType, values: list[Any], read: Callable[[Any], Any]) -> Cast:
    stored: list[Any] = []
    unfit: dict[int, str] = {}
    for row, value in enumerate(values):
        try:
            stored.append(None if value is None else read(value))
        except Unfit as reason:
            stored.append(None)
            unfit[row] = str(reason)
    return Cast(stored_column(t, stored), unfit)


def _cast_bits(t: PropType, array: pa.Array) -> Cast:
    """The integers 0 and 1 as false and true."""
    if pc.all(pc.is_in(array, pa.array([0, 1, None], array.type)), min_count=0).as_py():
        return Cast(array.cast(pa.bool_()), {})
    return _each(t, array.to_pylist(), lambda number: from_json(t, _BITS.get(number, number)))


def _cast_times(t: PropType, array: pa.Array) -> Cast:
    if pa.types.is_integer(array.type):
        return _whole_or_each(t, array, lambda: _checked(t, array.cast(pa.int64())))
    if array.type == t.arrow_type() and _all_in_years(t, array):
        return Cast(array, {})
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    unfit: dict[int, str] = {}
    ms, odd = _milliseconds(t, array)
    if t.scalar.counts_days:
        for row in np.flatnonzero(odd & valid).tolist():
            unfit[row] = f"expected a date, got the time of day of {shown(str(array[row]))}"
    numbers, (low, high) = ms // t.scalar.time.unit_ms, _years(t)
    outside = ((numbers < low) | (numbers > high)) & valid
    for row in np.flatnonzero(outside).tolist():
        unfit.setdefault(row, "the value leaves the years 0001 to 9999")
    if unfit:
        valid = valid.copy()
        valid[list(unfit)] = False
    stored = pa.array(numbers, pa.int64(), mask=~valid)
    return Cast(from_integers(stored, t.arrow_type()), unfit, _finer(t, array, valid))


def _finer(t: PropType, array: pa.Array, valid: NDArray[np.bool_]) -> int:
    """How many instants have a part below the millisecond."""
    per_ms = _PER_MS.get(getattr(array.type, "unit", "ms"), 1)
    if per_ms == 1 or not pa.types.is_timestamp(array.type) or t.scalar.counts_days:
        return 0
    ticks = array.cast(pa.int64()).fill_null(0).to_numpy()
    return int(((ticks % per_ms != 0) & valid).sum())


def _years(t: PropType) -> tuple[int, int]:
    """The stored integers at the ends of the years 0001 to 9999."""
    assert t.scalar.traits.range is not None
    return t.scalar.traits.range


def _all_in_years(t: PropType, array: pa.Array) -> bool:
    """Whether dates or instants in their stored type all lie in the years 0001 to 9999."""
    low, high = _years(t)
    extremes = pc.min_max(as_integers(array)).as_py()
    return extremes["min"] is None or (extremes["min"] >= low and extremes["max"] <= high)


def _checked(t: PropType, numbers: pa.Array) -> pa.Array:
    """Integers as days or milliseconds, if all lie in the years 0001 to 9999."""
    low, high = _years(t)
    inside = pc.and_(pc.greater_equal(numbers, low), pc.less_equal(numbers, high))
    if not pc.all(inside, min_count=0).as_py():
        raise Doubt
    return from_integers(numbers, t.arrow_type())


def _milliseconds(t: PropType, array: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Milliseconds since the epoch, 0 for null, and which rows are not midnight sharp."""
    kind = array.type
    if pa.types.is_date(kind):
        days = as_integers(array.cast(pa.date32(), safe=False)).cast(pa.int64())
        return days.fill_null(0).to_numpy() * MS_PER_DAY, np.zeros(len(array), np.bool_)
    if not pa.types.is_timestamp(kind):
        raise _refuse(t, kind)
    ticks = array.cast(pa.int64()).fill_null(0).to_numpy()
    if kind.unit == "s":
        # Clipped beyond any year that fits, so that nothing wraps round into one that does.
        ms = np.clip(ticks, -(10**15), 10**15) * 1000
        return ms, ms % MS_PER_DAY != 0
    per_ms = _PER_MS[kind.unit]
    return ticks // per_ms, ticks % (per_ms * MS_PER_DAY) != 0


def _cast_lists(t: PropType, array: pa.Array) -> Cast:
    types, kind = pa.types, array.type
    if not (types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)):
        raise _refuse(t, kind)
    # Components are rounded once, from float64, as in JSON.
    element = t.element if t.is_list else PropType(Scalar.F64)
    if t.is_vector and not _is_number(kind.value_type):
        raise _refuse(t, kind)
    lengths = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)
    bounds = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    try:
        items = cast_column(element, array.flatten())
    except Unfit:
        raise _refuse(t, kind) from None
    mask = array.is_null() if array.null_count else None
    lists = pa.ListArray.from_arrays(pa.array(bounds), items.column, mask=mask)
    if t.is_vector:
        if items.unfit:
            return _each(t, array.to_pylist(), lambda value: from_json(t, value))
        return _whole_or_each(t, lists, None)
    unfit: dict[int, str] = {}
    for place, reason in items.unfit.items():
        row = int(np.searchsorted(bounds, place, side="right")) - 1
        unfit.setdefault(row, f"element {place - int(bounds[row]) + 1}: {reason}")
    column = lists.cast(column_type(t))
    cut = items.cut
    if unfit:
        bad = np.zeros(len(array), np.bool_)
        bad[list(unfit)] = True
        column = pc.if_else(pa.array(bad), pa.scalar(None, column.type), column)
    return Cast(column, unfit, cut)


def _read_texts(t: PropType, array: pa.Array) -> Cast:
    if t.is_integer or t.is_float:
        pattern = _INTEGER if t.is_integer else _NUMBER
        if pc.all(pc.match_substring_regex(array, pattern), min_count=0).as_py():
            try:
                numbers = array.cast(t.arrow_type() if t.is_integer else pa.float64())
            except pa.ArrowException:
                pass
            else:
                return _cast_scalars(t, numbers)
    elif not (t.is_list or t.is_vector or t.scalar.is_boolean):
        return _cast_scalars(t, array)
    cast = _each(t, array.to_pylist(), lambda text: from_json(t, json_of_cell(t, text)))
    return cast._replace(cut=cut_texts(t.element, array)) if t.is_list else cast


def json_of_cell(t: PropType, text: str) -> object:
    """The JSON value that a text in a cell stands for."""
    if t.is_list or t.is_vector:
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise Unfit(f"expected a JSON array, got {shown(text)}") from None
    if t.scalar.is_boolean:
        return _TRUTH.get(text.lower(), text)
    if t.is_integer and re.fullmatch(_INTEGER, text) and len(text) <= 40:
        return int(text)
    if t.is_float and re.fullmatch(_NUMBER, text):
        return float(text)
    return text
