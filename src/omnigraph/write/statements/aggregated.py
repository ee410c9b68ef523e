"""Aggregates over the rows of a mutation: in `update $v set`, and in `return`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.lang.query import ir
from omnigraph.read.limits import NO_LIMITS
from omnigraph.read.match.bindings import Bindings
from omnigraph.read.output.aggregate import Aggregator
from omnigraph.read.output.aggregate_functions import UnsureError
from omnigraph.read.output.projection import project
from omnigraph.read.output.row_values import RowSource
from omnigraph.read.thresholds import DEFAULTS
from omnigraph.read.values.column import Column, one_array
from omnigraph.read.values.operands import OperandRows, Supply
from omnigraph.types import TEXT
from omnigraph.write.statements.asked import ROWS
from omnigraph.write.statements.rows import SourceRows, TableOf


def returned(
    wanted: ir.Returned, rows: SourceRows, table_of: TableOf, params: Mapping[str, Any]
) -> pa.Table:
    """The answer of `return`: a row for each row of the mutation, or groups of them."""
    plan = _plan(wanted.columns, rows, distinct=wanted.distinct)
    if wanted.distinct or plan.is_aggregate:
        return _grouped(plan, rows, table_of, params)
    return _listed(plan, rows, table_of, params)


def _plan(columns: Iterable[ir.Column], rows: SourceRows, *, distinct: bool = False) -> ir.ReadPlan:
    return ir.ReadPlan(None, (), (), tuple(columns), rows.variables, distinct=distinct)


def _listed(
    plan: ir.ReadPlan, rows: SourceRows, table_of: TableOf, params: Mapping[str, Any]
) -> pa.Table:
    """Every row in order. What the match answered is there already."""
    rest = tuple(one for one in plan.columns if not _is_answer(one.expr))
    operands = rows.operands(_names(rest), table_of, params)
    nullable = frozenset(one.name for one in rows.variables if one.nullable)
    source = RowSource(operands.spaces, params, nullable)
    codes = {name: rows.codes(name) for name in operands.spaces}
    made = project(
        replace(plan, columns=tuple(replace(one, name=str(at)) for at, one in enumerate(rest))),
        source,
        codes,
        rows.length,
        scores=None,
        thresholds=DEFAULTS.output,
        limits=NO_LIMITS,
    )
    columns, others = [], iter(made.columns)
    for one in plan.columns:
        if _is_answer(one.expr):
            assert isinstance(one.expr, ir.PropertyOf)
            columns.append(rows.columns[one.expr.property].cast(one.type.arrow_type()))
        else:
            columns.append(next(others))
    fields = [pa.field(one.name, one.type.arrow_type()) for one in plan.columns]
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def _is_answer(expr: ir.Output) -> bool:
    return isinstance(expr, ir.PropertyOf) and expr.var == ROWS


def _names(columns: Iterable[ir.Column]) -> set[str]:
    return {name for one in columns for name in ir.mentioned(one.expr)}


def _grouped(
    plan: ir.ReadPlan, rows: SourceRows, table_of: TableOf, params: Mapping[str, Any]
) -> pa.Table:
    operands = rows.operands(_names(plan.columns), table_of, params)
    codes = {name: rows.codes(name) for name in operands.spaces}

    def answer(*, wide: bool) -> pa.Table:
        aggregator = Aggregator(plan, operands.spaces, params, wide=wide)
        if rows.length:
            aggregator.add(Bindings(rows.length, codes))
        return aggregator.finish()

    try:
        return answer(wide=False)
    except UnsureError:
        return answer(wide=True)


def aggregates_by(
    statement: ir.Update, rows: SourceRows, table_of: TableOf, params: Mapping[str, Any]
) -> Supply:
    """Gives aggregates over the rows of each entity that an update changes."""
    var = statement.var
    assert var is not None
    key = ir.NodeId(var) if statement.kind == "node" else ir.EdgeId(var)

    def supply(expr: ir.Expr, at: OperandRows) -> Column:
        assert isinstance(expr, ir.Aggregate), "the match has answered everything else"
        columns = (ir.Column("of", key, TEXT.as_nullable()), ir.Column("is", expr, expr.type))
        groups = _grouped(_plan(columns, rows), rows, table_of, params)
        ids = at.spaces[var].ids(at.codes_of(var))
        place = pc.index_in(ids, one_array(groups.column("of")))
        return Column(expr.type, one_array(groups.column("is")).take(place))  # type: ignore[arg-type]

    return supply
