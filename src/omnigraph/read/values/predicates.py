"""Comparisons of operands, row by row.

Numbers compare by mathematical value whatever their types, text by its UTF-8 bytes, and a null never
satisfies anything.

    $a.age > $b.age   rows a [0, 1], b [1, 1], ages [36, 20]   ->   [T, F]
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.lang.query import ir
from omnigraph.read.kernels.arrays import Codes, Mask
from omnigraph.read.values.column import Column
from omnigraph.read.values.comparison import (
    ARROW,
    among,
    any_of,
    as_mask,
    compared,
    items_of,
    lists_holding,
    texts_with,
)
from omnigraph.read.values.numbers import MIRRORED, compare_numbers
from omnigraph.read.values.operands import Given, Operand, Read
from omnigraph.storage.filters import OPERATORS, ComparisonOp
from omnigraph.types import TEXT

_FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "member": operator.contains,
    "substring": operator.contains,
    "prefix": bytes.startswith,
    "suffix": bytes.endswith,
}
_OF_TEXTS: dict[str, Callable[[str, str], bool]] = {
    "substring": operator.contains,
    "prefix": str.startswith,
    "suffix": str.endswith,
}


def satisfied(left: Operand, op: ir.CompareOp, right: Operand, length: int) -> Mask:
    """Which of the rows satisfy ``left op right``."""
    if _is_nothing(left) or _is_nothing(right):
        return np.zeros(length, np.bool_)
    if isinstance(left, Given) and isinstance(right, Given):
        return np.full(length, _values_compared(left.value, op, right.value), np.bool_)
    if isinstance(right, Given):
        assert isinstance(left, Read)
        return left.spread(lambda column: _against_value(column, op, right))
    if isinstance(left, Given):
        return right.spread(lambda column: _value_against(left, op, column))
    return _pairwise(left, op, right)


def _is_nothing(operand: Operand) -> bool:
    return isinstance(operand, Given) and operand.value is None


def _values_compared(left: Any, op: ir.CompareOp, right: Any) -> bool:
    match op:
        case "member" | "substring" | "prefix" | "suffix":
            return bool(_FUNCTIONS[op](_bytes(left), _bytes(right)))
        case _:
            return bool(OPERATORS[op](_bytes(left), _bytes(right)))


def _bytes(value: Any) -> Any:
    """Text as the bytes it is compared by; half a surrogate pair has some too."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if isinstance(value, list):
        return [_bytes(item) for item in value if item is not None]
    return value


# ------------------------------------------------------------------ a column and a value


def _against_value(column: Column, op: ir.CompareOp, given: Given) -> Mask:
    """Which values of the column satisfy ``value op given``."""
    value = given.beside(column)
    match op:
        case "member":
            return lists_holding(column, value)
        case "substring" | "prefix" | "suffix":
            return texts_with(column, op, value)
        case _:
            return compared(column, op, value)


def _value_against(given: Given, op: ir.CompareOp, column: Column) -> Mask:
    """Which values of the column satisfy ``given op value``."""
    value = given.beside(column)
    match op:
        case "member":
            return among(column, value)
        case "substring" | "prefix" | "suffix":
            return _text_pairs(op, value, column.array)
        case _:
            return compared(column, MIRRORED[op], value)


# ------------------------------------------------------------------ two columns


def _pairwise(left: Read, op: ir.CompareOp, right: Read) -> Mask:
    match op:
        case "member":
            return _rows_holding(left, right)
        case "substring" | "prefix" | "suffix":
            return _text_pairs(op, left.by_row().array, right.by_row().array)
        case _:
            return _rows_compared(left, op, right)


def _rows_compared(left: Read, op: ComparisonOp, right: Read) -> Mask:
    if left.column.type.scalar.is_text:
        return _text_rows_compared(left, op, right)
    held = compare_numbers(left.numbers, op, right.numbers)
    for valid in (left.valid, right.valid):
        if valid is not None:
            held &= valid
    return held


def _text_rows_compared(left: Read, op: ComparisonOp, right: Read) -> Mask:
    if left.column is right.column and left.codes is not None:
        lefts, rights = left.ranks, right.ranks
        held: Mask = OPERATORS[op](lefts, rights)
        return held & (lefts >= 0) & (rights >= 0)
    if left.codes is not None and right.codes is not None and _is_worth_ranking(left, right):
        lefts, rights = _joint_ranks(left.column, right.column)
        lefts, rights = lefts[left.codes], rights[right.codes]
        held = OPERATORS[op](lefts, rights)
        return held & (lefts >= 0) & (rights >= 0)
    texts = [side.by_row().array.cast(pa.large_string()) for side in (left, right)]
    return as_mask(pc.call_function(ARROW[op], texts))


def _is_worth_ranking(left: Read, right: Read) -> bool:
    assert left.codes is not None
    return len(left.codes) >= 2 * (len(left.column) + len(right.column))


def _joint_ranks(left: Column, right: Column) -> tuple[Codes, Codes]:
    """Codes of two text columns that compare with each other; null is -1."""
    texts = [column.dictionary.cast(pa.large_string()) for column in (left, right)]
    ranks = Column(TEXT, pa.concat_arrays(texts)).codes
    middle = len(texts[0])
    # One place more, at the end: where a null (-1) looks its rank up.
    nothing = np.array([-1], np.int32)
    return (
        np.concatenate([ranks[:middle], nothing])[left.codes],
        np.concatenate([ranks[middle:], nothing])[right.codes],
    )


def _rows_holding(left: Read, right: Read) -> Mask:
    """Rows whose list on the left holds the value on the right."""
    items, lengths = items_of(left.by_row())
    rows = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
    wanted = Read(right.column, rows if right.codes is None else right.codes[rows])
    return any_of(_rows_compared(Read(items, None), "=", wanted), lengths)


def _text_pairs(op: ir.CompareOp, texts: pa.Array | str, needles: pa.Array) -> Mask:
    """Text and needle row by row. Containment of code points is that of UTF-8 bytes."""
    both = needles.is_valid()
    if not isinstance(texts, str):
        both = pc.and_(both, texts.is_valid())
        texts = texts.filter(both).to_pylist()
    else:
        texts = itertools.repeat(texts)
    held: Mask = both.to_numpy(zero_copy_only=False).copy()
    held[held] = np.fromiter(map(_OF_TEXTS[op], texts, needles.filter(both).to_pylist()), np.bool_)
    return held
