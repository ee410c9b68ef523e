"""Write whole Arrow columns as JSON texts: what `json.dumps` makes of every value, byte for byte.

Arrow and NumPy process the rows, as in ``columns``; the few values that need Python (floats with an
exponent, non-finite ones) are found with a mask and patched afterwards. For example, the texts of an
I32 column with 7 and null are ``7`` and ``null``; those of a String column are quoted and escaped.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from omnigraph.types.columns import as_array, beyond_javascript, checked_temporal_text
from omnigraph.types.objects import ObjectList, ObjectType, ValueType
from omnigraph.types.scalar import Family
from omnigraph.types.unfit import Unfit, shown_float

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

NULL = "null"

# Between these, Arrow and Python both write the shortest digits of a float without an exponent.
_PLAIN_FROM, _PLAIN_BELOW = 1e-4, 1e10
# Python writes whole numbers up to here without an exponent, Arrow does so if they are integers.
_WHOLE_BELOW = 1e15


def column_to_json_text(
    t: ValueType, array: pa.Array | pa.ChunkedArray, js_safe: bool = False
) -> pa.StringArray:
    """Write the JSON text of every value of a column; null is ``null``.

    Like ``json.dumps`` with ``ensure_ascii=False`` and no blanks. ``js_safe`` writes integers that a
    JavaScript number cannot hold as texts. A Blob column has no texts: its bytes are not in it.
    """
    if t.is_blob:
        raise Unfit(f"a column of type {t} has no JSON text")
    return _texts(t, as_array(t, array), js_safe).fill_null(NULL)


def json_string_texts(array: pa.Array) -> pa.StringArray:
    """Write a column of texts as JSON strings; null stays null."""
    import pyarrow.compute as pc

    return pc.binary_join_element_wise('"', _escaped(array), '"', "")


def _texts(t: ValueType, array: pa.Array, js_safe: bool) -> pa.StringArray:
    """The texts; null stays null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(t, ObjectType):
        return _object_texts(t, array, js_safe)
    if isinstance(t, ObjectList):
        return _list_texts(array, _texts(t.item, array.flatten(), js_safe))
    if t.is_vector:
        return _list_texts(array, _float_texts(array.flatten(), lambda _: NULL))
    if t.is_list:
        return _list_texts(array, _texts(t.item, array.flatten(), js_safe))
    match t.scalar.traits.family:
        case Family.TEXT:
            return json_string_texts(array)
        case Family.TEMPORAL:
            return pc.binary_join_element_wise('"', checked_temporal_text(t, array), '"', "")
        case Family.FLOAT:
            return _float_texts(array, lambda value: json.dumps(shown_float(value)))
        case Family.INTEGER if js_safe and t.scalar.exceeds_javascript:
            texts = array.cast(pa.utf8())
            quoted = pc.binary_join_element_wise('"', texts, '"', "")
            return pc.if_else(beyond_javascript(array), quoted, texts)
    return array.cast(pa.utf8())


def _object_texts(t: ObjectType, array: pa.Array, js_safe: bool) -> pa.StringArray:
    import pyarrow as pa
    import pyarrow.compute as pc

    parts: list[Any] = []
    if not t.fields:
        parts.append(pa.repeat("{", len(array)))
    for at, (name, kind) in enumerate(t.fields):
        opening = f"{',' if at else '{'}{json.dumps(name, ensure_ascii=False)}:"
        parts += [opening, _texts(kind, array.field(at), js_safe).fill_null(NULL)]
    joined = pc.binary_join_element_wise(*parts, "}", "")
    return joined if array.null_count == 0 else pc.if_else(array.is_valid(), joined, None)


def _list_texts(array: pa.Array, texts: pa.StringArray) -> pa.StringArray:
    """The texts of lists, given the texts of their items."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    lengths = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    lists = pa.ListArray.from_arrays(offsets, texts.fill_null(NULL))
    joined = pc.binary_join_element_wise("[", pc.binary_join(lists, ","), "]", "")
    return joined if array.null_count == 0 else pc.if_else(array.is_valid(), joined, None)


# ------------------------------------------------------------------ floats


def _float_texts(array: pa.Array, other: Any) -> pa.StringArray:
    """Write floats as Python does; ``other`` writes those that are not finite. Null stays null."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    # A float of single precision has the digits of the double it equals, as everywhere else in JSON.
    doubles = array.cast(pa.float64())
    texts = doubles.cast(pa.utf8())
    numbers = doubles.fill_null(0.5).to_numpy(zero_copy_only=False)
    sizes = np.abs(numbers)
    whole = (np.trunc(numbers) == numbers) & (sizes < _WHOLE_BELOW)
    # No integer is -0.0.
    whole &= ~(np.signbit(numbers) & (sizes == 0))
    if whole.any():
        integers = pa.array(np.where(whole, numbers, 0).astype(np.int64)).cast(pa.utf8())
        integers = pc.binary_join_element_wise(integers, ".0", "")
        texts = pc.if_else(pa.array(whole), integers, texts)
    odd = ~whole & ~((sizes >= _PLAIN_FROM) & (sizes < _PLAIN_BELOW))
    return _patched(texts, odd, [_float_text(number, other) for number in numbers[odd].tolist()])


def _float_text(number: float, other: Any) -> str:
    text = repr(number)
    return str(other(number)) if text in {"nan", "inf", "-inf"} else text


def _patched(
    texts: pa.StringArray, mask: npt.NDArray[np.bool_], others: list[str]
) -> pa.StringArray:
    import pyarrow as pa
    import pyarrow.compute as pc

    if not others:
        return texts
    return pc.replace_with_mask(texts, pa.array(mask), pa.array(others, pa.utf8()))


# ------------------------------------------------------------------ strings


def _escaped(array: pa.Array) -> pa.StringArray:
    import pyarrow.compute as pc

    # The backslash first: the escapes of the others contain it.
    for character in sorted(_special_characters(array), key=lambda one: one != "\\"):
        array = pc.replace_substring(array, character, json.dumps(character)[1:-1])
    return array


def _special_characters(array: pa.Array) -> list[str]:
    """The characters of a column that JSON escapes, found in its bytes: all of them are ASCII."""
    import numpy as np

    _, offsets, data = array.buffers()
    if data is None or not len(array):
        return []
    bounds = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1]
    text = np.frombuffer(data, np.uint8)[bounds[0] : bounds[-1]]
    special = (text < ord(" ")) | (text == ord('"')) | (text == ord("\\"))
    return [chr(byte) for byte in np.unique(text[special]).tolist()]
