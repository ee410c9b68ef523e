"""The picture of a query: the nodes that its named variables stand for, whatever it returns.

It is the query with these variables behind what it returns, of which only that stays which decides about rows:
keys of `order`, and what `having` looks at. Groups have no rows of their own whose order could be kept: the
matches of an aggregate or of `distinct` come in the order in which ties are broken.

    match { $a: Person  $a knows $b } return { $a.name, count($b) as n } order { n desc } limit 3
    ->  match { $a: Person  $a knows $b } return { $a, $b }, in the order of their ids
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from omnigraph.lang.query import ir
from omnigraph.read.output.window import Window
from omnigraph.types import TEXT


def picture_of(plan: ir.ReadPlan, params: Mapping[str, Any], most_rows: int) -> ir.ReadPlan:
    """Return the plan that finds the nodes of a picture, in at most that many rows."""
    nodes = [
        ir.Column(variable.name, ir.NodeId(variable.name), TEXT)
        for variable in node_variables(plan)
    ]
    if plan.is_aggregate or plan.distinct:
        # To order by a constant leaves everything to the ids of the variables.
        return replace(
            plan,
            columns=(_left_out(0), *nodes),
            order=(ir.SortKey(None, 0),),
            ranking=None,
            limit=most_rows,
            offset=None,
            distinct=False,
            having=(),
        )
    asked = {key.column for key in plan.order}
    shown = (
        replace(column, name=f"#{at}") if plan.having or at in asked else _left_out(at)
        for at, column in enumerate(plan.columns)
    )
    limit = Window.of(plan, params).limit
    most = most_rows if limit is None else min(limit, most_rows)
    return replace(plan, columns=(*shown, *nodes), limit=most)


def _left_out(at: int) -> ir.Column:
    """A constant in the place of a column that nobody asks for."""
    return ir.Column(f"#{at}", ir.Const("", TEXT), TEXT)


def node_variables(plan: ir.ReadPlan) -> list[ir.Variable]:
    """Return the named variables of the match that are nodes."""
    return [variable for variable in plan.variables if variable.kind == "node"]


def nodes_in_order(plan: ir.ReadPlan, rows: pa.Table) -> list[tuple[str, str]]:
    """Return the nodes of the rows of a picture, by type and id: row by row, each once."""
    variables = node_variables(plan)
    shown = range(rows.num_columns - len(variables), rows.num_columns)
    columns = [rows.column(at).to_pylist() for at in shown]
    found: dict[tuple[str, str], None] = {}
    for row in zip(*columns, strict=True):
        for variable, row_id in zip(variables, row, strict=True):
            if row_id is not None:
                found.setdefault((variable.type_name, row_id))
    return list(found)
