"""One column against one value: which of its values satisfy a comparison. A null never does.

    ["b", null, "a"] > "a"   ->   [T, F, F]

Where the column's codes exist, integers are compared instead of texts, and each distinct text is looked
at once.
"""

from __future__ import annotations

import bisect
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.read.kernels.arrays import Mask
from omnigraph.read.values.column import Column
from omnigraph.storage.filters import OPERATORS, ComparisonOp, settle
from omnigraph.types import is_unicode

# Equality and order of Arrow text are those of its bytes.
ARROW: dict[ComparisonOp, str] = {
    "=": "equal",
    "!=": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}


def compared(column: Column, op: ComparisonOp, value: Any) -> Mask:
    """Which values of a column stand in this relation to a stored value; a null never does."""
    if value is None:
        return _where_valid(column, held=False)
    settled = op == "!=" if _is_unstorable(value) else settle(column.kind, op, value)
    if isinstance(settled, bool):
        return _where_valid(column, settled)
    op, value = settled
    if isinstance(value, str):
        return _texts_compared(column, op, value)
    held: Mask = OPERATORS[op](column.numbers, value)
    return held if column.valid is None else held & column.valid


def _is_unstorable(value: Any) -> bool:
    """Whether this is a text with half a surrogate pair, which no stored text holds."""
    return isinstance(value, str) and not is_unicode(value)


def _where_valid(column: Column, held: bool) -> Mask:
    if held and column.valid is not None:
        return column.valid.copy()
    return np.full(len(column), held, np.bool_)


def _texts_compared(column: Column, op: ComparisonOp, value: str) -> Mask:
    if column.is_worth_codes():
        return _ranks_compared(column, op, value)
    return as_mask(pc.call_function(ARROW[op], [column.array, pa.scalar(value, column.array.type)]))


def _ranks_compared(column: Column, op: ComparisonOp, value: str) -> Mask:
    """Text by its rank: the value is looked up in the dictionary, the rest compares integers."""
    codes, dictionary = column.codes, column.dictionary
    wanted = value.encode()
    place = bisect.bisect_left(
        range(len(dictionary)), wanted, key=lambda at: dictionary[at].as_py().encode()
    )
    if place == len(dictionary) or dictionary[place].as_py() != value:
        if op in {"=", "!="}:
            return _where_valid(column, op == "!=")
        # The value lies just before the one at its place.
        op = "<" if op in {"<", "<="} else ">="
    held: Mask = OPERATORS[op](codes, place)
    return held if op in {"=", ">", ">="} or column.valid is None else held & column.valid


def as_mask(array: pa.BooleanArray) -> Mask:
    """An Arrow verdict as a mask; null is false."""
    mask: Mask = array.fill_null(False).to_numpy(zero_copy_only=False)
    return mask


_TEXT_FUNCTIONS = {
    "substring": pc.match_substring,
    "prefix": pc.starts_with,
    "suffix": pc.ends_with,
}


def texts_with(column: Column, op: Literal["substring", "prefix", "suffix"], needle: str) -> Mask:
    """Which texts hold the needle, start or end with it; each distinct text is looked at once."""
    if _is_unstorable(needle):
        return _where_valid(column, held=False)
    function = _TEXT_FUNCTIONS[op]
    if column.has_codes and 2 * len(column.dictionary) <= len(column):
        # One place more, at the end: where a null (-1) looks its verdict up.
        verdicts = np.append(as_mask(function(column.dictionary, needle)), False)
        held: Mask = verdicts[column.codes]
        return held
    return as_mask(function(column.array, needle))


def lists_holding(column: Column, value: Any) -> Mask:
    """Which lists of the column hold the value."""
    items, lengths = items_of(column)
    return any_of(compared(items, "=", value), lengths)


def items_of(column: Column) -> tuple[Column, npt.NDArray[np.int64]]:
    """The items of all lists one after another, and how many each list has; a null has none."""
    lengths = pc.list_value_length(column.array).fill_null(0).to_numpy(zero_copy_only=False)
    return Column(column.type.element, column.array.flatten()), lengths.astype(np.int64)


def any_of(hits: Mask, lengths: npt.NDArray[np.int64]) -> Mask:
    """Whether any of the hits of each stretch is one."""
    seen = np.concatenate([[0], np.cumsum(hits)])
    ends = np.cumsum(lengths)
    held: Mask = seen[ends] > seen[ends - lengths]
    return held


def among(column: Column, values: list[Any]) -> Mask:
    """Which values of the column are among the given ones."""
    kind = column.kind
    exact = _all_of_kind(values, kind)
    if exact is None:
        exact = pa.array(
            [
                settled[1]
                for item in values
                if item is not None
                and not _is_unstorable(item)
                and isinstance(settled := settle(kind, "=", item), tuple)
            ],
            kind,
        )
    if not len(exact):
        return _where_valid(column, held=False)
    if not column.type.is_float:
        # Arrow's table of values is made some times as fast as NumPy's.
        return as_mask(pc.is_in(column.array, value_set=exact))
    # Zeros of both signs are equal here, and no NaN equals another.
    held = np.isin(column.numbers, Column(column.type, exact).numbers)
    return held if column.valid is None else held & column.valid


def _all_of_kind(values: list[Any], kind: pa.DataType) -> pa.Array | None:
    """The values as an array, where each of them is exactly a value of that kind; else None."""
    if pa.types.is_integer(kind):
        wanted: type = int
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        wanted = str
    else:
        return None
    if set(map(type, values)) != {wanted}:
        return None
    try:
        return pa.array(values, kind)
    except (pa.ArrowInvalid, OverflowError, UnicodeEncodeError):
        return None
