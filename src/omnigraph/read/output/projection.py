"""The columns of an answer, fetched for its rows.

For example:

    return { $a.name, $b }   codes a [2, 0], b [1, 1]   ->   name ["cy", "ada"], b ["bob", "bob"]
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, TypeGuard

import numpy as np
import pyarrow as pa

from omnigraph.cancel import aside, look
from omnigraph.lang.query import ir
from omnigraph.read.kernels.arrays import Codes, Floats
from omnigraph.read.limits import ReadLimits
from omnigraph.read.match.bindings import Bindings
from omnigraph.read.output.row_values import RowSource, RowValues
from omnigraph.read.thresholds import OutputThresholds
from omnigraph.read.values.column import Space
from omnigraph.read.values.expressions import evaluate, variables_of
from omnigraph.read.values.operands import is_worth_all


def project(
    plan: ir.ReadPlan,
    source: RowSource,
    codes: Mapping[str, Codes],
    length: int,
    *,
    scores: Floats | None,
    thresholds: OutputThresholds,
    limits: ReadLimits,
) -> pa.Table:
    """The output columns for rows given by the codes of their entities."""
    whole: dict[str, bool] = {}
    arrays: list[pa.Array | pa.ChunkedArray] = []
    size = 0
    for column in plan.columns:
        look()
        kind, expr = column.type.arrow_type(), column.expr
        match expr:
            case ir.Const() | ir.ParamRef():
                arrays.append(_repeated(ir.value_of(expr, source.params), kind, length))
            case _ if not length:
                arrays.append(pa.nulls(0, kind))
            case ir.PropertyOf() | ir.NodeId():
                space, by = source.spaces[expr.var], codes[expr.var]
                if expr.var not in whole:
                    whole[expr.var] = _is_everything(space, by)
                arrays.append(_fetched(space, expr, by, kind, whole[expr.var], thresholds))
            case ir.Score():
                arrays.append(pa.array(scores, kind))
            case ir.EdgeId() | ir.Shape():
                arrays.append(_entities(expr, source, codes, kind, thresholds))
            case _:
                arrays.append(_computed(expr, source, codes, kind, length, thresholds))
        size += arrays[-1].nbytes
        limits.check_bytes(size)
    fields = [pa.field(column.name, column.type.arrow_type()) for column in plan.columns]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _entities(
    expr: ir.EdgeId | ir.Shape,
    source: RowSource,
    codes: Mapping[str, Codes],
    kind: pa.DataType,
    thresholds: OutputThresholds,
) -> pa.ChunkedArray:
    """Ids or objects of entities, a part of the rows at a time."""
    coder = RowValues(source).coder(expr)
    every = coder.codes(Bindings(len(codes[expr.var]), codes), few=True)
    step = thresholds.fetched_rows
    chunks: list[pa.Array] = []
    for at in range(0, len(every), step):
        look()
        chunks.append(aside(partial(coder.values, every[at : at + step], kind), items=step))
    return pa.chunked_array(chunks, kind)


def _computed(
    expr: ir.Expr,
    source: RowSource,
    codes: Mapping[str, Codes],
    kind: pa.DataType,
    length: int,
    thresholds: OutputThresholds,
) -> pa.ChunkedArray:
    """The values of an expression, a part of the rows at a time."""
    names = variables_of(expr)
    step = thresholds.fetched_rows
    chunks: list[pa.Array] = []
    for at in range(0, length, step):
        look()
        part = {name: codes[name][at : at + step] for name in names}
        array = evaluate(expr, source.rows(part, min(step, length - at))).array
        chunks.append(array if array.type == kind else array.cast(kind))
    return pa.chunked_array(chunks, kind)


def _repeated(value: Any, kind: pa.DataType, length: int) -> pa.Array:
    if pa.types.is_nested(kind) or not length:
        # `repeat` copies lists one by one, and no list at all is an error to it (pyarrow 26).
        return pa.array([value], kind).take(pa.array(np.zeros(length, np.int32)))
    return pa.repeat(pa.scalar(value, kind), length)


def _is_everything(space: Space, codes: Codes) -> bool:
    """Whether these are all entities of the space, in order."""
    if len(codes) != space.size or codes[0] != 0 or codes[-1] != space.size - 1:
        return False
    return bool((codes[1:] > codes[:-1]).all())


def _fetched(
    space: Space,
    expr: ir.PropertyOf | ir.NodeId,
    codes: Codes,
    kind: pa.DataType,
    is_everything: bool,
    thresholds: OutputThresholds,
) -> pa.ChunkedArray:
    if is_everything and _is_held(expr, space, thresholds):
        # Exactly what a column holds, so it is not copied.
        array = space.column(expr.property).array
        if array.type == kind:
            return pa.chunked_array([array], kind)
    step = thresholds.fetched_rows
    chunks: list[pa.Array] = []
    for at in range(0, len(codes), step):
        look()
        part = codes[at : at + step]
        fetch = partial(_chunks, space, expr, part, kind, thresholds)
        chunks.extend(aside(fetch, items=len(part)))
    return pa.chunked_array(chunks, kind)


def _is_held(
    expr: ir.PropertyOf | ir.NodeId, space: Space, thresholds: OutputThresholds
) -> TypeGuard[ir.PropertyOf]:
    """Whether this is a property of which a whole column may well be held in memory."""
    if not isinstance(expr, ir.PropertyOf):
        return False
    return expr.type.dim is None or expr.type.dim * space.size <= thresholds.held_floats


def _chunks(
    space: Space,
    expr: ir.PropertyOf | ir.NodeId,
    codes: Codes,
    kind: pa.DataType,
    thresholds: OutputThresholds,
) -> list[pa.Array]:
    """The values as one array, or as two halves if one array would be too long for its offsets."""
    try:
        if isinstance(expr, ir.NodeId):
            array = space.ids(codes)
        elif (
            (expr.type.is_list or expr.type.is_vector)
            and is_worth_all(len(codes), space.size)
            and _is_held(expr, space, thresholds)
        ):
            array = space.column(expr.property).array.take(pa.array(codes))
        else:
            array = space.values(expr.property, codes)
        return [array if array.type == kind else array.cast(kind)]
    except (pa.ArrowInvalid, pa.ArrowCapacityError):
        if len(codes) < 2:
            raise
        middle = len(codes) // 2
        return [
            *_chunks(space, expr, codes[:middle], kind, thresholds),
            *_chunks(space, expr, codes[middle:], kind, thresholds),
        ]
