"""Text on columns, counted in code points and mapped as Python does.

    upper(["straße", null])          ->   ["STRASSE", null]
    substring(["über", "a"], 1, 2)   ->   ["be", ""]

Arrow maps and trims ASCII only as Python does; texts with other characters are mapped by Python, each
distinct one once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.read.values.column import Column
from omnigraph.read.values.derived import Computed
from omnigraph.read.values.number_functions import Argument, valid_of, without
from omnigraph.read.values.operands import Given
from omnigraph.types import Family, PropType, column_to_json_text

Offsets = npt.NDArray[np.int64]
# What `str.strip` takes for white space among the ASCII characters.
_BLANKS = "".join(chr(code) for code in range(128) if chr(code).isspace())
_MOST_BYTES = 2**31 - 1
_CONTINUED, _CONTINUATION = 0xC0, 0x80


def _mapped(
    ascii_only: Callable[[pa.Array], pa.Array], exactly: Callable[[str], str]
) -> Callable[[PropType, Column], Column]:
    """A function of single texts: by Arrow where they are ASCII, else by Python."""

    def kernel(type: PropType, arg: Column) -> Column:
        array = arg.array
        if _is_ascii(array):
            return Column(type, ascii_only(array))
        plain = pc.string_is_ascii(array).fill_null(True)
        other = array.filter(pc.invert(plain)).dictionary_encode()
        texts = pa.array(map(exactly, other.dictionary.to_pylist()), array.type)
        return Column(
            type,
            pc.replace_with_mask(ascii_only(array), pc.invert(plain), texts.take(other.indices)),
        )

    return kernel


def _is_ascii(array: pa.Array) -> bool:
    """Whether no byte of the texts is beyond ASCII: one look at all bytes, not at each text."""
    data, bounds = _bytes_of(array)
    return not len(bounds) or not (data[bounds[0] : bounds[-1]] & 0x80).any()


def _bytes_of(array: pa.Array) -> tuple[npt.NDArray[np.uint8], Offsets]:
    """The bytes of texts, and where each begins and the last one ends."""
    _, offsets, data = array.buffers()
    width = np.int64 if pa.types.is_large_string(array.type) else np.int32
    if offsets is None or not len(array):
        return np.zeros(0, np.uint8), np.zeros(len(array) + 1, np.int64)
    bounds = np.frombuffer(offsets, width)[array.offset : array.offset + len(array) + 1]
    found = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return found, bounds.astype(np.int64, copy=False)


lower = _mapped(pc.ascii_lower, str.lower)
upper = _mapped(pc.ascii_upper, str.upper)
trim = _mapped(lambda array: pc.ascii_trim(array, _BLANKS), str.strip)


def concat(type: PropType, left: Argument, right: Argument) -> Column:
    """One text after the other."""
    sides = [_texts(one) for one in (left, right)]
    size = sum(_size(one, left, right) for one in (left, right))
    if size > _MOST_BYTES or sides[0].type != sides[1].type:
        sides = [one.cast(pa.large_string()) for one in sides]
    return Column(type, pc.binary_join_element_wise(*sides, pa.scalar("", sides[0].type)))


def _texts(arg: Argument) -> Any:
    """Texts as Arrow takes them: an array, or one scalar for all rows."""
    return pa.scalar(arg.value, pa.string()) if isinstance(arg, Given) else arg.array


def _size(arg: Argument, *args: Argument) -> int:
    """The bytes of all texts of an argument beside the others."""
    if isinstance(arg, Given):
        rows = max(len(one) for one in args if isinstance(one, Column))
        return rows * len(arg.value.encode())
    return int(arg.array.nbytes)


def length(type: PropType, arg: Column) -> Column:
    """The code points of a text, or the elements of a list."""
    array = arg.array
    is_list = arg.type.is_list or arg.type.is_vector
    found = pc.list_value_length(array) if is_list else pc.utf8_length(array)
    return Computed(type, found.fill_null(0).to_numpy().astype(np.int64), arg.valid)


def substring(
    type: PropType, arg: Argument, start: Argument, size: Argument | None = None
) -> Column:
    """From a code point on, at most some of them; null where a number is negative."""
    if isinstance(arg, Column) and isinstance(start, Given) and not isinstance(size, Column):
        if start.value < 0 or (size is not None and size.value < 0):
            return Column(type, pa.nulls(len(arg), arg.kind))
        # Beyond 31 bits no text has a code point, and Arrow would wrap.
        first = min(start.value, _MOST_BYTES)
        stop = None if size is None else min(first + size.value, _MOST_BYTES)
        return Column(type, pc.utf8_slice_codeunits(arg.array, first, stop))
    rows = max(len(one) for one in (arg, start, size) if isinstance(one, Column))
    array = pa.repeat(_texts(arg), rows) if isinstance(arg, Given) else arg.array
    numbers = [start] if size is None else [start, size]
    wanted = [np.broadcast_to(_places(one), rows) for one in numbers]
    negative = np.logical_or.reduce([one < 0 for one in wanted])
    sizes = wanted[1] if size is not None else np.full(rows, _MOST_BYTES)
    cut = _cut(array, np.maximum(wanted[0], 0), np.maximum(sizes, 0))
    parts = [one for one in (arg, start, size) if one is not None]
    valid = without(valid_of(*parts), negative if negative.any() else None)
    if valid is not None:
        cut = pc.if_else(pa.array(valid), cut, pa.scalar(None, cut.type))
    return Column(type, cut)


def _places(arg: Argument) -> npt.NDArray[np.int64]:
    """Integers cut to 31 bits, beyond which no text has a code point."""
    numbers = np.array(arg.value) if isinstance(arg, Given) else arg.numbers
    least = -1 if numbers.dtype.kind == "i" else 0
    places: Offsets = np.clip(numbers, least, _MOST_BYTES).astype(np.int64)
    return places


def _cut(array: pa.Array, start: Offsets, size: Offsets) -> pa.Array:
    """A part of each text, by code points: the bytes of all parts are gathered at once."""
    data, bounds = _bytes_of(array)
    data = data[: bounds[-1]] if len(bounds) else data
    begins = np.flatnonzero((data & _CONTINUED) != _CONTINUATION)
    first = np.searchsorted(begins, bounds)
    last = first[1:]
    from_point = np.minimum(first[:-1] + start, last)
    to_point = np.minimum(from_point + size, last)
    # One place more, at the end: where the last text stops.
    begins = np.append(begins, len(data))
    low, high = begins[from_point], begins[to_point]
    lengths = np.maximum(high - low, 0)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    places = np.repeat(low - offsets[:-1], lengths) + np.arange(offsets[-1])
    parts = [None, pa.py_buffer(offsets.astype(np.int64)), pa.py_buffer(data[places].tobytes())]
    found = pa.Array.from_buffers(pa.large_string(), len(array), parts)
    return found if offsets[-1] > _MOST_BYTES else found.cast(pa.string())


def replace(type: PropType, arg: Argument, old: Argument, new: Argument) -> Column:
    """The text with every occurrence replaced, from left to right; an empty one is never found."""
    if isinstance(arg, Column) and isinstance(old, Given) and isinstance(new, Given):
        if not old.value:
            return arg
        return Column(type, pc.replace_substring(arg.array, old.value, new.value))
    parts = [arg, old, new]
    rows = max(len(one) for one in parts if isinstance(one, Column))
    columns = [
        [one.value] * rows if isinstance(one, Given) else one.array.to_pylist() for one in parts
    ]
    found = [
        None if None in each else each[0].replace(each[1], each[2]) if each[1] else each[0]
        for each in zip(*columns, strict=True)
    ]
    return Column(type, pa.array(found, pa.large_string()).cast(pa.string()))


def text(type: PropType, arg: Column) -> Column:
    """Any value in the words of an answer; floats as Python writes them."""
    kind, array = arg.type, arg.array
    match kind.scalar.traits.family:
        case Family.TEXT:
            return Column(type, array)
        case Family.TEMPORAL:
            return Column(type, next(kind.scalar.time.texts(array)))
        case Family.FLOAT:
            written = pc.replace_substring(column_to_json_text(kind, array), '"', "")
            return Column(type, pc.if_else(array.is_valid(), written, None))
    return Column(type, array.cast(pa.string()))
