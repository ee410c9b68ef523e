"""Expressions and conditions over rows, a whole column at a time.

No expression fails: what has no value is null. A condition is satisfied or not, never unknown.

    $a.age + 1 > 30             ages [36, null]   ->   [T, F]
    not ($a.age + 1 > 30)       ages [36, null]   ->   [F, T]

``evaluate`` gives an expression row by row, ``column_of`` one over a single variable as a column of that
variable, by code, which serves wherever a stored property does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import pyarrow as pa

from omnigraph.cancel import look
from omnigraph.lang.query import ir
from omnigraph.read.kernels.arrays import Mask
from omnigraph.read.values.column import Column, Space
from omnigraph.read.values.derived import Computed, Mapped
from omnigraph.read.values.function_kernels import KERNELS, SEES_NULLS, chosen
from omnigraph.read.values.numbers import compare_numbers
from omnigraph.read.values.operands import Given, Judge, Operand, OperandRows, Read, is_worth_all
from omnigraph.read.values.other_spaces import OptionalSpace
from omnigraph.read.values.periods import entities_hold
from omnigraph.read.values.predicates import satisfied
from omnigraph.storage.filters import ComparisonOp
from omnigraph.types import TEXT, PropType, Scalar, stored_items

TRUTH = PropType(Scalar.BOOL)
_POSITION = PropType(Scalar.I64).as_nullable()


def evaluate(expr: ir.Expr, rows: OperandRows) -> Column:
    """The value of an expression in each row; null where it has none."""
    found = _operand(expr, rows)
    if isinstance(found, Given):
        return repeated(found.value, found.type, rows.length)
    return found.by_row()


def column_of(
    expr: ir.Expr, space: Space, params: Mapping[str, Any], judge: Judge | None = None
) -> Column:
    """An expression over one variable as a column of that variable: a value for each code of its space."""
    if isinstance(expr, ir.PropertyOf):
        return space.column(expr.property)
    names = set(variables_of(expr))
    everything: dict[str, None] = dict.fromkeys(names)
    return evaluate(
        expr, OperandRows(dict.fromkeys(names, space), everything, params, space.size, judge)
    )


def mask_of(
    conditions: Sequence[ir.Condition],
    space: Space,
    params: Mapping[str, Any],
    judge: Judge | None = None,
) -> Mask:
    """Which entities of a space satisfy all the conditions; these mention no other variable."""
    mask: Mask | None = None
    for condition in conditions:
        names = set(variables_of(condition))
        everything: dict[str, None] = dict.fromkeys(names)
        rows = OperandRows(dict.fromkeys(names, space), everything, params, space.size, judge)
        held = holds(condition, rows)
        mask = held if mask is None else mask & held
        if not mask.any():
            break
    return np.ones(space.size, np.bool_) if mask is None else mask


def holds(condition: ir.Condition, rows: OperandRows) -> Mask:
    """Which rows satisfy the condition."""
    look()
    match condition:
        case ir.Compare():
            return _compared(condition, rows)
        case ir.And():
            return _all_hold(condition.parts, rows)
        case ir.Or():
            return _any_holds(condition.parts, rows)
        case ir.Not():
            return ~holds(condition.part, rows)
        case ir.IsNull():
            return _is_null(condition.operand, rows)
        case ir.IsTrue():
            return _is_true(condition.operand, rows)
        case ir.Holds():
            return entities_hold(condition, rows, lambda expr: _operand(expr, rows))
        case ir.TextMatch() | ir.Exists():
            assert rows.judge is not None, "whoever has text or blocks to judge says how"
            return rows.judge(condition, rows)


def variables_of(expr: ir.Output | ir.Condition) -> set[str]:
    """The variables that an expression or a condition looks at; a score belongs to none."""
    found: set[str] = set()
    waiting: list[ir.Output | ir.Condition] = [expr]
    while waiting:
        one = waiting.pop()
        match one:
            case ir.PropertyOf() | ir.NodeId() | ir.EdgeId() | ir.TypeName() | ir.RowNode():
                found.add(one.var)
            case ir.RowNumber() | ir.Shape():
                found.add(one.var)
            case ir.PathValue():
                found.update(one.ends)
                found.update(one.moments)
                found.update([] if one.guard is None else [one.guard])
            case ir.Exists():
                found.update(one.outer)
            case _:
                waiting.extend(ir.parts_of(one))
    return found


def has_path(expr: ir.Output | ir.Condition) -> bool:
    """Whether a path is asked for: it is no value of one entity, even where both of its ends are one variable."""
    return isinstance(expr, ir.PathValue) or any(map(has_path, ir.parts_of(expr)))


def type_of(expr: ir.Expr) -> PropType:
    """The type of the values of an expression."""
    match expr:
        case ir.Truth():
            return TRUTH
        case ir.NodeId() | ir.EdgeId() | ir.TypeName() | ir.RowNode():
            return TEXT
        case ir.RowNumber():
            return PropType(Scalar.I64)
        case _:
            assert isinstance(expr.type, PropType), "an object is no operand"
            return expr.type


def value_of(expr: ir.Expr, params: Mapping[str, Any]) -> Any:
    """The stored value of an expression that looks at no variable."""
    array = evaluate(expr, OperandRows({}, {}, params, 1)).array
    (value,) = stored_items(array.to_pylist(), array.type)
    return value


def repeated(value: Any, type: PropType, length: int) -> Column:
    """A column that has the same value everywhere."""
    kind = type.arrow_type()
    if pa.types.is_nested(kind) or not length or value is None:
        # `repeat` copies lists one by one, and no list at all is an error to it (pyarrow 26).
        one = pa.array([value], kind)
        return Column(type, one.take(pa.array(np.zeros(length, np.int32))))
    return Column(type, pa.repeat(pa.scalar(value, kind), length))


# ------------------------------------------------------------------ conditions


def _all_hold(parts: Sequence[ir.Condition], rows: OperandRows) -> Mask:
    held = np.ones(rows.length, np.bool_)
    for part in parts:
        held &= holds(part, rows)
        if not held.any():
            break
    return held


def _any_holds(parts: Sequence[ir.Condition], rows: OperandRows) -> Mask:
    held = np.zeros(rows.length, np.bool_)
    for part in parts:
        held |= holds(part, rows)
        if held.all():
            break
    return held


def _compared(compare: ir.Compare, rows: OperandRows) -> Mask:
    same = _same_entities(compare, rows)
    if same is not None:
        return same
    return satisfied(
        _operand(compare.left, rows), compare.op, _operand(compare.right, rows), rows.length
    )


def _same_entities(compare: ir.Compare, rows: OperandRows) -> Mask | None:
    """Two nodes or two edges compared by identity or id; None where these are not of one space."""
    left, right = compare.left, compare.right
    if not isinstance(left, ir.NodeId | ir.EdgeId) or type(left) is not type(right):
        return None
    assert isinstance(right, ir.NodeId | ir.EdgeId)
    space = rows.spaces[left.var]
    if space is not rows.spaces[right.var]:
        return None
    lefts, rights = rows.codes_of(left.var), rows.codes_of(right.var)
    if compare.op in {"=", "!="}:
        held: Mask = lefts == rights if compare.op == "=" else lefts != rights
        if isinstance(space, OptionalSpace):
            held &= space.is_there(lefts) & space.is_there(rights)
        return held
    ranks = space.ranks(np.concatenate([lefts, rights]))
    op = cast("ComparisonOp", compare.op)
    return compare_numbers(ranks[: rows.length], op, ranks[rows.length :])


def _is_null(expr: ir.Expr, rows: OperandRows) -> Mask:
    found = _operand(expr, rows)
    if isinstance(found, Given):
        return np.full(rows.length, found.value is None, np.bool_)
    valid = found.valid
    return np.zeros(rows.length, np.bool_) if valid is None else ~valid


def _is_true(expr: ir.Expr, rows: OperandRows) -> Mask:
    if isinstance(expr, ir.Truth):
        return holds(expr.condition, rows)
    found = _operand(expr, rows)
    if isinstance(found, Given):
        return np.full(rows.length, found.value is True, np.bool_)
    # A null is false among the numbers of a column.
    return found.numbers.astype(np.bool_, copy=True)


# ------------------------------------------------------------------ expressions


def _operand(expr: ir.Expr, rows: OperandRows) -> Operand:
    match expr:
        case ir.Const() | ir.ParamRef():
            return Given(ir.value_of(expr, rows.params), expr.type)
        case ir.PropertyOf():
            return _property(expr, rows)
        case ir.NodeId() | ir.EdgeId():
            return Read(Column(TEXT, rows.spaces[expr.var].ids(rows.codes_of(expr.var))))
        case ir.TypeName():
            return Read(Column(TEXT, rows.spaces[expr.var].type_names(rows.codes_of(expr.var))))
        case ir.RowNumber():
            return Read(_positions(expr, rows))
        case ir.RowNode():
            return _property(ir.PropertyOf(expr.var, expr.column, TEXT), rows)
        case ir.Truth():
            return Read(Computed(TRUTH, holds(expr.condition, rows)))
        case ir.Apply():
            return _applied(expr, rows)
        case _:
            assert rows.supply is not None, (
                "whoever has other values than those of entities gives them"
            )
            return Read(rows.supply(expr, rows))


def _positions(expr: ir.RowNumber, rows: OperandRows) -> Column:
    """The positions of rows of a source; nothing has none."""
    space, codes = rows.spaces[expr.var], rows.codes_of(expr.var)
    missing = codes == space.nothing if isinstance(space, OptionalSpace) else None
    return Column(_POSITION, pa.array(space.ranks(codes).astype(np.int64), mask=missing))


def _property(operand: ir.PropertyOf, rows: OperandRows) -> Read:
    space, codes = rows.spaces[operand.var], rows.codes[operand.var]
    name = operand.property
    if codes is None or is_worth_all(len(codes), space.size) or space.has_column(name):
        return Read(space.column(name), codes)
    return Read(Column(operand.type, space.values(name, codes)))


def _applied(expr: ir.Apply, rows: OperandRows) -> Operand:
    if expr.function == "if":
        return _chosen(expr, rows)
    operands = [_operand(arg, rows) for arg in expr.args]
    if expr.function not in SEES_NULLS and any(
        isinstance(one, Given) and one.value is None for one in operands
    ):
        return Given(None, expr.type)
    reads = [one for one in operands if isinstance(one, Read)]
    if not reads:
        return _folded(expr, operands)
    codes = reads[0].codes
    if len(reads) == 1 and expr.function not in SEES_NULLS:
        column = reads[0].column
        if _has_few_values(column):
            distinct = Column(column.type, column.dictionary)
            values = _kernel(expr, [distinct if isinstance(one, Read) else one for one in operands])
            return Read(Mapped(values, column.codes), codes)
    by_code = codes is not None and all(one.codes is codes for one in reads)
    if by_code and codes is not None and len(reads[0].column) <= len(codes):
        columns = [one.column if isinstance(one, Read) else one for one in operands]
        return Read(_kernel(expr, columns), codes)
    by_row = [one.by_row() if isinstance(one, Read) else one for one in operands]
    return Read(_kernel(expr, by_row))


def _has_few_values(column: Column) -> bool:
    """Whether a function is worked out for the distinct values; zeros of both signs are one of these."""
    if not column.has_codes or column.type.is_float:
        return False
    return 2 * len(column.dictionary) <= len(column)


def _kernel(expr: ir.Apply, args: Sequence[Column | Given]) -> Column:
    look()
    with np.errstate(all="ignore"):
        return KERNELS[expr.function](expr.type, *args)


def _folded(expr: ir.Apply, operands: Sequence[Operand]) -> Given:
    """A function of values that are the same for all rows is one itself."""
    args: list[Column | Given] = [one for one in operands if isinstance(one, Given)]
    first = args[0]
    assert isinstance(first, Given)
    args[0] = repeated(first.value, first.type, 1)
    array = _kernel(expr, args).array
    (value,) = stored_items(array.to_pylist(), array.type)
    return Given(value, expr.type)


def _chosen(expr: ir.Apply, rows: OperandRows) -> Operand:
    test, *values = expr.args
    assert isinstance(test, ir.Truth), "the first argument of `if` is a condition"
    held = holds(test.condition, rows)
    then, *otherwise = [evaluate(one, rows) for one in values]
    return Read(chosen(expr.type, held, then, otherwise[0] if otherwise else None))
