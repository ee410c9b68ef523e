"""Comparisons over rows of a match.

Numbers compare by mathematical value whatever their types, text by its UTF-8 bytes, and a null never
satisfies anything.

    $a.age > $b.age   rows a [0, 1], b [1, 1], ages [36, 20]   ->   [T, F]

Text predicates (`search` and its kin) are answered elsewhere (``search.text_match``): they need an index.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.lang.query import ir
from omnigraph.read.kernels.arrays import Codes, Mask
from omnigraph.read.values.column import Column, Space
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
from omnigraph.storage.filters import OPERATORS, ComparisonOp
from omnigraph.types import TEXT, PropType

Numbers = npt.NDArray[Any]


_FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "member": operator.contains,
    "substring": operator.contains,
    "prefix": bytes.startswith,
}


@dataclass(frozen=True, slots=True)
class OperandRows:
    """What operands are read from. ``codes`` of a variable may be None: all of its space, in order.

    ``params`` are stored values by name, `now()` among them.
    """

    spaces: Mapping[str, Space]
    codes: Mapping[str, Codes | None]
    params: Mapping[str, Any]
    length: int


def mask_of(compares: Sequence[ir.Compare], space: Space, params: Mapping[str, Any]) -> Mask:
    """Which entities of a space satisfy all the comparisons; these mention no other variable."""
    mask: Mask | None = None
    for compare in compares:
        names = [
            operand.var
            for operand in (compare.left, compare.right)
            if isinstance(operand, ir.PropertyOf | ir.NodeId)
        ]
        rows = OperandRows(
            dict.fromkeys(names, space), dict.fromkeys(names, None), params, space.size
        )
        held = holds(compare, rows)
        mask = held if mask is None else mask & held
        if not mask.any():
            break
    return np.ones(space.size, np.bool_) if mask is None else mask


def holds(compare: ir.Compare, rows: OperandRows) -> Mask:
    """Which rows satisfy the comparison."""
    if isinstance(compare.left, ir.NodeId) and isinstance(compare.right, ir.NodeId):
        ids = _ids_by_rank(compare.left.var, compare.right.var, rows)
        if ids is not None:
            return compare_numbers(ids[0], cast("ComparisonOp", compare.op), ids[1])
    left, right = _operand(compare.left, rows), _operand(compare.right, rows)
    if _is_nothing(left) or _is_nothing(right):
        return np.zeros(rows.length, np.bool_)
    if isinstance(left, _Given) and isinstance(right, _Given):
        held = _values_compared(left.value, compare.op, right.value)
        return np.full(rows.length, held, np.bool_)
    if isinstance(right, _Given):
        assert isinstance(left, _Read)
        return left.spread(lambda column: _against_value(column, compare.op, right))
    if isinstance(left, _Given):
        return right.spread(lambda column: _value_against(left, compare.op, column))
    return _pairwise(left, compare.op, right)


@dataclass(frozen=True, slots=True)
class _Given:
    """A constant, parameter or `now()`."""

    value: Any
    type: PropType

    def beside(self, column: Column) -> Any:
        """The value as it is compared with a column: a float against F32 is rounded to it first."""
        rounded = column.type.scalar.traits.round
        if rounded is None or not self.type.scalar.is_float:
            return self.value
        if isinstance(self.value, list):
            return [rounded(item) for item in self.value if item is not None]
        return rounded(self.value)


@dataclass(frozen=True, slots=True)
class _Read:
    """A property or id of each row: ``column`` by code, or by row where ``codes`` is None."""

    column: Column
    codes: Codes | None

    def spread(self, test: Callable[[Column], Mask]) -> Mask:
        """A test of single values, made once per value where rows repeat them."""
        if self.codes is None:
            return test(self.column)
        if len(self.column) <= len(self.codes):
            held: Mask = test(self.column)[self.codes]
            return held
        return test(self.by_row())

    def by_row(self) -> Column:
        """The column with one value per row."""
        from omnigraph.read.values.column import Part

        return self.column if self.codes is None else Part(self.column, self.codes)

    @property
    def numbers(self) -> Numbers:
        numbers = self.column.numbers
        return numbers if self.codes is None else numbers[self.codes]

    @property
    def valid(self) -> Mask | None:
        valid = self.column.valid
        return valid if valid is None or self.codes is None else valid[self.codes]

    @property
    def ranks(self) -> Codes:
        ranks = self.column.codes
        return ranks if self.codes is None else ranks[self.codes]


def _operand(operand: ir.Operand, rows: OperandRows) -> _Given | _Read:
    match operand:
        case ir.Const() | ir.ParamRef():
            return _Given(ir.value_of(operand, rows.params), operand.type)
        case ir.PropertyOf():
            return _property(operand, rows)
        case ir.NodeId():
            return _id(operand, rows)


def _property(operand: ir.PropertyOf, rows: OperandRows) -> _Read:
    from omnigraph.read.values.column import Column

    space, codes = rows.spaces[operand.var], rows.codes[operand.var]
    name = operand.property
    if codes is None or is_worth_all(len(codes), space.size) or space.has_column(name):
        return _Read(space.column(name), codes)
    return _Read(Column(operand.type, space.values(name, codes)), None)


def is_worth_all(rows: int, size: int) -> bool:
    """Whether this number of rows justifies looking at a property of all entities of a space."""
    return rows * 8 >= size


def _id(operand: ir.NodeId, rows: OperandRows) -> _Read:
    from omnigraph.read.values.column import Column

    space, codes = rows.spaces[operand.var], rows.codes[operand.var]
    return _Read(Column(TEXT, space.ids(_all(space) if codes is None else codes)), None)


def _ids_by_rank(left: str, right: str, rows: OperandRows) -> tuple[Numbers, Numbers] | None:
    """Numbers that compare like the ids of two variables; None when these share no space."""
    space = rows.spaces[left]
    if space is not rows.spaces[right]:
        return None
    codes = [_all(space) if (by := rows.codes[var]) is None else by for var in (left, right)]
    ranks = space.ranks(np.concatenate(codes))
    return ranks[: rows.length], ranks[rows.length :]


def _all(space: Space) -> Codes:
    return np.arange(space.size, dtype=np.int32)


def _is_nothing(operand: _Given | _Read) -> bool:
    return isinstance(operand, _Given) and operand.value is None


def _values_compared(left: Any, op: ir.CompareOp, right: Any) -> bool:
    match op:
        case "member" | "substring" | "prefix":
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


def _against_value(column: Column, op: ir.CompareOp, given: _Given) -> Mask:
    """Which values of the column satisfy ``value op given``."""
    value = given.beside(column)
    match op:
        case "member":
            return lists_holding(column, value)
        case "substring" | "prefix":
            return texts_with(column, op, value)
        case _:
            return compared(column, op, value)


def _value_against(given: _Given, op: ir.CompareOp, column: Column) -> Mask:
    """Which values of the column satisfy ``given op value``."""
    value = given.beside(column)
    match op:
        case "member":
            return among(column, value)
        case "substring" | "prefix":
            return _text_pairs(op, value, column.array)
        case _:
            return compared(column, MIRRORED[op], value)


# ------------------------------------------------------------------ two columns


def _pairwise(left: _Read, op: ir.CompareOp, right: _Read) -> Mask:
    match op:
        case "member":
            return _rows_holding(left, right)
        case "substring" | "prefix":
            return _text_pairs(op, left.by_row().array, right.by_row().array)
        case _:
            return _rows_compared(left, op, right)


def _rows_compared(left: _Read, op: ComparisonOp, right: _Read) -> Mask:
    if left.column.type.scalar.is_text:
        return _text_rows_compared(left, op, right)
    held = compare_numbers(left.numbers, op, right.numbers)
    for valid in (left.valid, right.valid):
        if valid is not None:
            held &= valid
    return held


def _text_rows_compared(left: _Read, op: ComparisonOp, right: _Read) -> Mask:
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


def _is_worth_ranking(left: _Read, right: _Read) -> bool:
    assert left.codes is not None
    return len(left.codes) >= 2 * (len(left.column) + len(right.column))


def _joint_ranks(left: Column, right: Column) -> tuple[Codes, Codes]:
    """Codes of two text columns that compare with each other; null is -1."""
    from omnigraph.read.values.column import Column

    texts = [column.dictionary.cast(pa.large_string()) for column in (left, right)]
    ranks = Column(TEXT, pa.concat_arrays(texts)).codes
    middle = len(texts[0])
    # One place more, at the end: where a null (-1) looks its rank up.
    nothing = np.array([-1], np.int32)
    return (
        np.concatenate([ranks[:middle], nothing])[left.codes],
        np.concatenate([ranks[middle:], nothing])[right.codes],
    )


def _rows_holding(left: _Read, right: _Read) -> Mask:
    """Rows whose list on the left holds the value on the right."""
    items, lengths = items_of(left.by_row())
    rows = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
    wanted = _Read(right.column, rows if right.codes is None else right.codes[rows])
    return any_of(_rows_compared(_Read(items, None), "=", wanted), lengths)


def _text_pairs(op: ir.CompareOp, texts: pa.Array | str, needles: pa.Array) -> Mask:
    """Text and needle row by row. Containment of code points is that of UTF-8 bytes."""
    both = needles.is_valid()
    if not isinstance(texts, str):
        both = pc.and_(both, texts.is_valid())
        texts = texts.filter(both).to_pylist()
    else:
        texts = itertools.repeat(texts)
    held: Mask = both.to_numpy(zero_copy_only=False).copy()
    function = operator.contains if op == "substring" else str.startswith
    held[held] = np.fromiter(map(function, texts, needles.filter(both).to_pylist()), np.bool_)
    return held
