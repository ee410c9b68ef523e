"""The values that statements assign, as columns store them; what does not fit is refused.

In a read an expression without a value is null. Where the result would be stored, it is an error that says why:
a number out of range (`overflow`), or a division by zero (`zero`). A null that was there already stays one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import ConstraintError
from omnigraph.lang.query import ir
from omnigraph.lang.schema.catalog import EdgeType, Entity
from omnigraph.read.kernels.arrays import Mask
from omnigraph.read.values.expressions import evaluate, holds
from omnigraph.read.values.operands import OperandRows
from omnigraph.storage.blob_policy import BlobPolicy
from omnigraph.types import (
    BlobAddress,
    PropType,
    Unfit,
    blob_from_text,
    from_arrow,
    from_json,
)
from omnigraph.write.statements.spaces import ENDPOINT_COLUMNS, property_type

_DIVISIONS = frozenset({"/", "%"})


def stored_column(
    entity: Entity,
    assignment: ir.Assignment,
    rows: OperandRows,
    kind: pa.DataType,
    blobs: BlobPolicy,
) -> pa.Array:
    """Return what an assignment gives in each row, as the column of that type stores it."""
    value = assignment.value
    if value is None or isinstance(value, ir.Value):
        one = pa.array([constant(entity, assignment, rows.params, blobs)], kind)
        return one if rows.length == 1 else one.take(pa.array(np.zeros(rows.length, np.int32)))
    column = _fitting(entity, assignment.property, value, rows, kind)
    if column.null_count and not _may_be_null(entity, assignment.property):
        raise null_error(entity, assignment.property)
    return column


def _may_be_null(entity: Entity, name: str) -> bool:
    if isinstance(entity, EdgeType) and name in ENDPOINT_COLUMNS:
        return False
    return entity.properties[name].type.nullable


def null_error(entity: Entity, name: str) -> ConstraintError:
    """Return the error for a required property without a value."""
    return ConstraintError(
        f"{entity.name}.{name} is required and cannot be null", property=name, violation="null"
    )


# ------------------------------------------------------------------ one value for all rows


def constant(
    entity: Entity, assignment: ir.Assignment, params: Mapping[str, Any], blobs: BlobPolicy
) -> Any:
    """Return the value of an assignment that is the same for all rows, as its column stores it."""
    value, stored = assignment.value, None
    if value is not None:
        assert isinstance(value, ir.Value)
        stored = _stored_value(entity, assignment.property, value, params, blobs)
    if stored is None and not _may_be_null(entity, assignment.property):
        raise null_error(entity, assignment.property)
    return stored


def _stored_value(
    entity: Entity, name: str, operand: ir.Value, params: Mapping[str, Any], blobs: BlobPolicy
) -> Any:
    """Return the value as its column stores it; refuse a parameter value that does not fit.

    Literals were checked with the query, so only values of parameters can fail here.
    """
    value = ir.value_of(operand, params)
    if isinstance(entity, EdgeType) and name in ENDPOINT_COLUMNS:
        # A node id is text; a parameter may give it as an integer.
        return str(value) if isinstance(value, int) else value
    prop = entity.properties[name]
    if value is None or isinstance(operand, ir.Const):
        return _column_value(name, value, blobs)
    try:
        if prop.type.is_blob:
            value = blob_from_text(value) if isinstance(value, str) else value
        elif prop.type.element.is_numeric or prop.type.is_vector:
            value = from_json(prop.type.as_nullable(False), value)
    except Unfit as unfit:
        raise _unfit(name, prop.type, unfit) from None
    return _column_value(name, value, blobs)


def _column_value(name: str, value: Any, blobs: BlobPolicy) -> Any:
    """Return the value as its pending column holds it; refuse a blob from a place not allowed."""
    if isinstance(value, bytes):
        return {"data": value}
    if not isinstance(value, BlobAddress):
        return value
    try:
        address = blobs.allowed_address(value.uri)
    except Unfit as unfit:
        raise ConstraintError(
            f"property `{name}`: {unfit}", property=name, violation="blob"
        ) from None
    return {"uri": address}


def _unfit(name: str, kind: PropType, unfit: Unfit) -> ConstraintError:
    return ConstraintError(
        f"overflow: property `{name}` is {kind.display}: {unfit}",
        property=name,
        violation="overflow",
    )


# ------------------------------------------------------------------ a value of each row


def _fitting(
    entity: Entity, name: str, expr: ir.Expr, rows: OperandRows, kind: pa.DataType
) -> pa.Array:
    """The values of an expression in the type of their column."""
    array = evaluate(expr, rows).array
    if array.null_count:
        _refuse_undefined(name, expr, rows, array.is_null().to_numpy(zero_copy_only=False))
    if array.type == kind and not pa.types.is_floating(kind):
        return array
    wanted = property_type(entity, name)
    try:
        column = array.cast(kind, safe=not pa.types.is_floating(kind))
    except pa.ArrowInvalid:
        raise _misfit(name, wanted, expr, rows) from None
    if pa.types.is_floating(kind):
        finite = pc.is_finite(column).fill_null(True)
        if not pc.all(finite).as_py():
            raise _misfit(name, wanted, expr, rows)
    return column


def _misfit(name: str, wanted: PropType, expr: ir.Expr, rows: OperandRows) -> ConstraintError:
    """The error about the first value that does not fit."""
    column = evaluate(expr, rows)
    for value in from_arrow(column.type, column.array):
        try:
            from_json(wanted.as_nullable(), value)
        except Unfit as unfit:
            return _unfit(name, wanted, unfit)
    raise AssertionError("some value does not fit")


def _refuse_undefined(name: str, expr: ir.Expr, rows: OperandRows, nulls: Mask) -> None:
    """Refuse values that are missing because an operation has no result, not because they were missing."""
    at = np.flatnonzero(nulls)
    codes = {
        var: (np.arange(rows.spaces[var].size, dtype=np.int32) if by is None else by)[at]
        for var, by in rows.codes.items()
    }
    violation = _undefined(expr, replace(rows, codes=codes, length=len(at)))
    if violation is None:
        return
    why = "divides by zero" if violation == "zero" else "is out of range"
    raise ConstraintError(
        f"{violation}: the value of property `{name}` {why}, and cannot be stored",
        property=name,
        violation=violation,
    )


def _undefined(expr: ir.Expr, rows: OperandRows) -> str | None:
    """Why an expression that is null in all of these rows has no value in one; None where nulls made it null."""
    if not isinstance(expr, ir.Apply) or not rows.length:
        return None
    if expr.function == "if":
        return _undefined_choice(expr, rows)
    inside = [found for arg in expr.args if (found := _undefined(arg, _null_in(arg, rows)))]
    if inside or expr.function == "coalesce":
        return inside[0] if inside else None
    known = np.ones(rows.length, np.bool_)
    for arg in expr.args:
        known &= evaluate(arg, rows).array.is_valid().to_numpy(zero_copy_only=False)
    if not known.any():
        return None
    if expr.function in _DIVISIONS:
        divisor = evaluate(expr.args[1], _at(rows, known)).numbers
        return "zero" if (divisor == 0).any() else "overflow"
    return "overflow"


def _undefined_choice(expr: ir.Apply, rows: OperandRows) -> str | None:
    test, *values = expr.args
    assert isinstance(test, ir.Truth), "the first argument of `if` is a condition"
    held = holds(test.condition, rows)
    for value, chosen in zip(values, (held, ~held), strict=False):
        found = _undefined(value, _at(rows, chosen))
        if found is not None:
            return found
    return None


def _null_in(expr: ir.Expr, rows: OperandRows) -> OperandRows:
    """The rows in which an expression is null."""
    return _at(rows, evaluate(expr, rows).array.is_null().to_numpy(zero_copy_only=False))


def _at(rows: OperandRows, mask: Mask) -> OperandRows:
    at = np.flatnonzero(mask)
    codes = {var: None if by is None else by[at] for var, by in rows.codes.items()}
    return replace(rows, codes=codes, length=len(at))
