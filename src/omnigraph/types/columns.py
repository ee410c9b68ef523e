"""Convert and compare whole Arrow columns: stored values, JSON, key text, equality.

Each function does for a column what the function of the same name in ``values`` or ``keys`` does for
one value. Arrow and NumPy process the rows; the few rows that need Python (non-finite floats,
exponents, integers beyond JavaScript's range) are found with a mask and patched afterwards.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from omnigraph.types.arrow import as_integers
from omnigraph.types.keys import composite_id, positional
from omnigraph.types.objects import ObjectList, ObjectType, ValueType
from omnigraph.types.proptype import PropType
from omnigraph.types.scalar import JS_SAFE, Family
from omnigraph.types.unfit import Unfit, shown, shown_float
from omnigraph.types.values import BlobAddress, blob_to_text

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa


def to_arrow(t: PropType, values: Iterable[Any]) -> pa.Array:
    """Build the Arrow column of stored values; ``Unfit`` for an external Blob, which has no bytes."""
    import pyarrow as pa

    values = values if isinstance(values, list) else list(values)
    if t.is_blob:
        for value in values:
            if isinstance(value, BlobAddress):
                raise Unfit(f"the external blob {shown(value.uri)} has no bytes of its own")
    return pa.array(values, type=t.arrow_type())


def from_arrow(t: PropType, array: pa.Array | pa.ChunkedArray) -> list[Any]:
    """List the stored values of an Arrow column."""
    return _stored(t, as_array(t, array))


def column_to_json(
    t: ValueType, array: pa.Array | pa.ChunkedArray, js_safe: bool = False
) -> list[Any]:
    """List the JSON forms of the values of an Arrow column."""
    return _json(t, as_array(t, array), js_safe)


def as_array(t: ValueType, array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return the column as one array in the storage type of ``t``."""
    import pyarrow as pa

    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    storage = t.arrow_type()
    return array if array.type == storage else array.cast(storage)


def _stored(t: PropType, array: pa.Array) -> list[Any]:
    if t.is_list or t.is_vector:
        return _rows(array, _stored(t.item, array.flatten()))
    if t.is_blob:
        values: list[Any] = array.to_pylist()
        return values
    return _plain(as_integers(array))


def _json(t: ValueType, array: pa.Array, js_safe: bool) -> list[Any]:
    import pyarrow.compute as pc

    if isinstance(t, ObjectType):
        return _objects(t, array, js_safe)
    if isinstance(t, ObjectList):
        return _rows(array, _json(t.item, array.flatten(), js_safe))
    if t.is_list:
        return _rows(array, _json(t.element, array.flatten(), js_safe))
    if t.is_vector:
        items = array.flatten()
        nulled = pc.if_else(pc.is_finite(items), items, None)
        return _rows(array, _plain(nulled))
    match t.scalar.traits.family:
        case Family.FLOAT:
            return _patched(_plain(array), pc.invert(pc.is_finite(array)), shown_float)
        case Family.INTEGER if js_safe and t.scalar.exceeds_javascript:
            return _patched(_plain(array), beyond_javascript(array), str)
        case Family.TEMPORAL:
            return _plain(checked_temporal_text(t, array))
        case Family.BLOB:
            return [None if value is None else blob_to_text(value) for value in array.to_pylist()]
    return _plain(array)


def _objects(t: ObjectType, array: pa.Array, js_safe: bool) -> list[Any]:
    names = [name for name, _ in t.fields]
    values = [_json(kind, array.field(at), js_safe) for at, (_, kind) in enumerate(t.fields)]
    # Without fields there is nothing to zip.
    rows = zip(*values, strict=True) if names else itertools.repeat((), len(array))
    objects: list[Any] = [dict(zip(names, row, strict=True)) for row in rows]
    return _patched(objects, array.is_null(), lambda _: None)


def beyond_javascript(array: pa.Array) -> pa.BooleanArray:
    """Mark the integers that a JavaScript number cannot hold."""
    import pyarrow as pa
    import pyarrow.compute as pc

    # The bound needs the column's own type: U64 against a plain int is compared as I64 and fails.
    beyond = pc.greater(array, pa.scalar(JS_SAFE, type=array.type))
    if pa.types.is_signed_integer(array.type):
        beyond = pc.or_(beyond, pc.less(array, pa.scalar(-JS_SAFE, type=array.type)))
    return beyond


def _plain(array: pa.Array) -> list[Any]:
    """List the Python values of a column of strings, booleans or numbers, converted in bulk."""
    import pyarrow as pa
    import pyarrow.compute as pc

    values: list[Any]
    if array.null_count == 0 or pa.types.is_string(array.type):
        values = array.to_numpy(zero_copy_only=False).tolist()
        return values
    filler = pa.scalar(False if pa.types.is_boolean(array.type) else 0, type=array.type)
    values = array.fill_null(filler).to_numpy(zero_copy_only=False).tolist()
    return _patched(values, pc.is_null(array), lambda _: None)


def _patched(values: list[Any], mask: pa.Array, patch: Callable[[Any], Any]) -> list[Any]:
    import pyarrow.compute as pc

    for row in pc.indices_nonzero(mask).to_numpy().tolist():
        values[row] = patch(values[row])
    return values


def _rows(array: pa.Array, items: list[Any]) -> list[Any]:
    """Cut the items of a list or vector column into its rows; null rows hold no items."""
    import pyarrow.compute as pc

    rows: list[Any] = []
    start = 0
    for length in _plain(pc.list_value_length(array)):
        if length is None:
            rows.append(None)
        else:
            rows.append(items[start : start + length])
            start += length
    return rows


def checked_temporal_text(t: PropType, array: pa.Array) -> pa.Array:
    """Write the ISO text of every date or instant; ``Unfit`` for one that has none."""
    import pyarrow.compute as pc

    time = t.scalar.time
    for extreme in pc.min_max(as_integers(array)).as_py().values():
        if extreme is not None:
            time.check(extreme)
    return next(time.texts(array))


def key_text_column(t: PropType, array: pa.Array | pa.ChunkedArray) -> pa.StringArray:
    """Write the canonical key text of every value; null stays null."""
    import pyarrow as pa

    if t.is_list or t.is_vector or t.is_blob:
        raise Unfit(f"a key cannot be of type {t}")
    array = as_array(t, array)
    return _float_texts(array) if t.is_float else as_integers(array).cast(pa.utf8())


def _float_texts(array: pa.Array) -> pa.StringArray:
    import pyarrow as pa
    import pyarrow.compute as pc

    bad = pc.indices_nonzero(pc.invert(pc.is_finite(array)))
    if len(bad):
        raise Unfit(f"a key must be a finite number, got {shown(array[bad[0].as_py()].as_py())}")
    # Arrow prints the shortest text that round-trips at the column's width, some with an exponent.
    texts = array.cast(pa.utf8())
    texts = pc.if_else(pc.equal(array, pa.scalar(0, type=array.type)), "0", texts)
    exponent = pc.match_substring(texts, "e")
    if not pc.any(exponent).as_py():
        return texts
    rewritten = [positional(text) for text in texts.filter(exponent).to_pylist()]
    return pc.replace_with_mask(texts, exponent.fill_null(False), pa.array(rewritten, pa.utf8()))


def derive_id_column(
    members: Sequence[tuple[PropType, pa.Array | pa.ChunkedArray]],
) -> pa.StringArray:
    """Derive the id of every keyed node from its key columns, given in stable property id order."""
    import pyarrow as pa

    texts = [key_text_column(t, array) for t, array in members]
    if any(text.null_count for text in texts):
        raise Unfit("a key cannot be null")
    if len(texts) == 1:
        return texts[0]
    return pa.array(map(composite_id, zip(*map(_plain, texts), strict=True)), type=pa.utf8())


def columns_equal(
    t: PropType, a: pa.Array | pa.ChunkedArray, b: pa.Array | pa.ChunkedArray
) -> pa.BooleanArray:
    """Tell for every row whether two columns of one type hold the same value; never null.

    Null, ``""`` and ``[]`` differ from one another; NaN equals NaN and ``-0.0`` equals ``0.0``; lists and
    vectors are compared element by element.
    """
    return _equal(t, as_array(t, a), as_array(t, b))


def widened_columns_equal(
    left: PropType,
    a: pa.Array | pa.ChunkedArray,
    right: PropType,
    b: pa.Array | pa.ChunkedArray,
) -> pa.BooleanArray:
    """Tell likewise of two columns of a property that was widened: a value equals the one it was made of."""
    a, b = as_array(left, a), as_array(right, b)
    if a.type != b.type:
        common = _common(a.type, b.type)
        a, b = a.cast(common), b.cast(common)
    return _equal(left, a, b)


def cast_what_fits(
    values: pa.Array | pa.ChunkedArray, wanted: pa.DataType
) -> tuple[pa.Array, pa.BooleanArray]:
    """Cast 64-bit integers with a sign to those without, or the other way round, in lists too.

    A value that the wanted type does not hold becomes null. The second tells for every row whether it fits.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if pa.types.is_list(wanted):
        _, fitting = cast_what_fits(values.flatten(), wanted.value_type)
        fits = np.ones(len(values), np.bool_)
        fits[pc.list_parent_indices(values).filter(pc.invert(fitting)).to_numpy()] = False
        told = pa.array(fits)
        return pc.if_else(told, values, None).cast(wanted), told
    signed = (
        values if pa.types.is_signed_integer(values.type) else values.cast(pa.int64(), safe=False)
    )
    told = pc.fill_null(pc.greater_equal(signed, 0), True)
    return pc.if_else(told, values, None).cast(wanted), told


def _common(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    """The narrowest type that holds the values of two numeric types, or of lists of them."""
    import pyarrow as pa

    if pa.types.is_list(a):
        return pa.list_(_common(a.value_type, b.value_type))
    if pa.types.is_floating(a):
        return pa.float64()
    if pa.types.is_unsigned_integer(a) and pa.types.is_unsigned_integer(b):
        return pa.uint64()
    # 64 bits without a sign and 64 bits with one: two branches widened U32 differently.
    return pa.decimal128(20, 0) if pa.uint64() in (a, b) else pa.int64()


def _equal(t: PropType, a: pa.Array, b: pa.Array) -> pa.BooleanArray:
    if len(a) != len(b):
        raise ValueError(f"columns of {len(a)} and {len(b)} rows cannot be compared row by row")
    return _lists_equal(a, b) if t.is_list or t.is_vector else _scalars_equal(a, b)


def _scalars_equal(a: pa.Array, b: pa.Array) -> pa.BooleanArray:
    import pyarrow as pa
    import pyarrow.compute as pc

    same = pc.equal(a, b)
    if pa.types.is_floating(a.type):
        same = pc.or_(same, pc.and_(pc.is_nan(a), pc.is_nan(b)))
    return pc.if_else(pc.is_valid(same), same, pc.and_(pc.is_null(a), pc.is_null(b)))


def _lists_equal(a: pa.Array, b: pa.Array) -> pa.BooleanArray:
    """Compare the items of all rows of equal length at once, then combine the results per row."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    lengths = pc.list_value_length(a)
    same_shape = _scalars_equal(lengths, pc.list_value_length(b))
    a, b, lengths = (column.filter(same_shape) for column in (a, b, lengths))
    differs = pc.invert(_scalars_equal(a.flatten(), b.flatten())).to_numpy(zero_copy_only=False)
    ends = np.cumsum(lengths.fill_null(0).to_numpy())
    counts = np.concatenate([[0], np.cumsum(differs)])[np.concatenate([[0], ends])]
    same = same_shape.to_numpy(zero_copy_only=False).copy()
    same[same] = np.diff(counts) == 0
    return pa.array(same)


def vector_column(matrix: npt.NDArray[np.float32], kind: pa.DataType) -> pa.Array:
    """Return the rows of a matrix as a column of that vector type."""
    import pyarrow as pa

    return pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel(), kind.value_type), type=kind)


def put_values(column: pa.Array, places: npt.NDArray[np.int64], values: pa.Array) -> pa.Array:
    """Return the column with these values at these places; values may be null."""
    import numpy as np
    import pyarrow as pa

    order = np.arange(len(column))
    order[places] = np.arange(len(column), len(column) + len(values))
    return pa.concat_arrays([column, values]).take(pa.array(order))
