"""Plans told to others: as text, one step a line (`explain`), and what they take and return (lint, stored queries)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from omnigraph.lang.query import ir
from omnigraph.lang.schema.catalog import Catalog
from omnigraph.types import PropType, to_json

Access = tuple[str, str]


def describe_value(name: str, kind: PropType) -> dict[str, Any]:
    """`{name, kind, nullable, item_kind?, vector_dim?}` of a column or a parameter."""
    described: dict[str, Any] = {
        "name": name,
        "kind": kind.scalar.traits.kind,
        "nullable": kind.nullable,
    }
    if kind.dim is not None:
        described |= {"kind": "vector", "vector_dim": kind.dim}
    elif kind.is_list:
        described |= {"kind": "list", "item_kind": kind.scalar.traits.kind}
    return described


def describe_operation(plan: ir.Plan, catalog: Catalog) -> dict[str, Any]:
    """What a query returns, and which types it reads and writes."""
    if isinstance(plan, ir.ReadPlan):
        result = [describe_value(column.name, column.type) for column in plan.columns]
        reads, writes = set(_read_types(plan.steps)), set[Access]()
    else:
        result, writes = [], set(_written_types(plan, catalog))
        reads = writes | set(_endpoint_types(plan, catalog))
    return {"result": result, "reads": _listed(reads), "writes": _listed(writes)}


def _listed(accesses: set[Access]) -> list[dict[str, str]]:
    return [{"kind": kind, "type_name": name} for kind, name in sorted(accesses)]


def _read_types(steps: tuple[ir.Step, ...]) -> Iterator[Access]:
    for step in steps:
        if isinstance(step, ir.NodeScan):
            yield "node", step.type_name
        elif isinstance(step, ir.Expand):
            yield "edge", step.edge_type
            yield "node", step.src_type
            yield "node", step.dst_type
        elif isinstance(step, ir.AntiJoin):
            yield from _read_types(step.inner)


def _written_types(plan: ir.MutationPlan, catalog: Catalog) -> Iterator[Access]:
    for statement in plan.statements:
        kind = "node" if isinstance(statement, ir.Update) else statement.kind
        yield kind, statement.type_name
        if isinstance(statement, ir.Delete) and kind == "node":
            for edge in catalog.edges.values():
                if statement.type_name in (edge.from_type, edge.to_type):
                    yield "edge", edge.name


def _endpoint_types(plan: ir.MutationPlan, catalog: Catalog) -> Iterator[Access]:
    for statement in plan.statements:
        if isinstance(statement, ir.Insert) and statement.kind == "edge":
            edge = catalog.edges[statement.type_name]
            yield "node", edge.from_type
            yield "node", edge.to_type


ARROWS = {
    ir.Direction.OUT: ("-", "->"),
    ir.Direction.IN: ("<-", "-"),
    ir.Direction.BOTH: ("<-", "->"),
}


def show(plan: ir.Plan) -> str:
    """Render the plan as text, without leaving anything out."""
    lines = _read(plan) if isinstance(plan, ir.ReadPlan) else _mutation(plan)
    return "\n".join(lines)


def _read(plan: ir.ReadPlan) -> Iterator[str]:
    yield from _steps(plan.steps, "")
    for column in plan.columns:
        yield f"return {column.name}: {column.type.display} = {_output(column.expr)}"
    keys = [_ranking(plan.ranking)] if plan.ranking is not None else []
    for key in plan.order:
        what = _operand(key.expr) if key.expr is not None else plan.columns[key.column or 0].name
        keys.append(f"{what} {'desc' if key.descending else 'asc'}")
    if keys:
        yield f"order {', '.join(keys)}"
    if plan.limit is not None:
        yield f"limit {plan.limit}"


def _steps(steps: tuple[ir.Step, ...], indent: str) -> Iterator[str]:
    for step in steps:
        if isinstance(step, ir.NodeScan):
            yield f"{indent}scan ${step.var}: {step.type_name}{_filters(step.filters)}"
        elif isinstance(step, ir.Expand):
            yield indent + _expand(step)
        elif isinstance(step, ir.Filter):
            yield f"{indent}filter {predicate_text(step.predicate)}"
        else:
            yield f"{indent}anti join on {', '.join('$' + name for name in step.outer)}"
            yield from _steps(step.inner, indent + "  ")


def _expand(step: ir.Expand) -> str:
    left, right = ARROWS[step.direction]
    edge = f"${step.edge_var}:{step.edge_type}" if step.edge_var else step.edge_type
    hops = (
        f"{{{step.min_hops},{step.max_hops}}}" if (step.min_hops, step.max_hops) != (1, 1) else ""
    )
    inverse = " inverse" if step.inverse else ""
    return (
        f"expand ${step.src} {left}{edge}{hops}{right} ${step.dst}: {step.dst_type}"
        f"{_filters(step.dst_filters)}{inverse}"
    )


def _filters(filters: tuple[ir.Predicate, ...]) -> str:
    return f" [{' and '.join(predicate_text(item) for item in filters)}]" if filters else ""


def predicate_text(predicate: ir.Predicate) -> str:
    """One predicate as text."""
    if isinstance(predicate, ir.Compare):
        return f"{_operand(predicate.left)} {predicate.op} {_operand(predicate.right)}"
    args = [_operand(predicate.field), _operand(predicate.query)]
    if predicate.max_edits is not None:
        args.append(_operand(predicate.max_edits))
    return f"{predicate.function}({', '.join(args)})"


def _ranking(ranking: ir.Ranking) -> str:
    if isinstance(ranking, ir.Rrf):
        arms = f"{_ranking(ranking.first)}, {_ranking(ranking.second)}"
        return f"rrf({arms}, {_operand(ranking.k)})"
    name = "nearest" if isinstance(ranking, ir.Nearest) else "bm25"
    return f"{name}({_operand(ranking.field)}, {_operand(ranking.query)})"


def _output(expr: ir.Output) -> str:
    if isinstance(expr, ir.Aggregate):
        return f"{expr.function}({_operand(expr.arg)})"
    return "score" if isinstance(expr, ir.Score) else _operand(expr)


def _operand(expr: ir.Operand) -> str:
    if isinstance(expr, ir.Const):
        return json.dumps(to_json(expr.type, expr.value), ensure_ascii=False)
    if isinstance(expr, ir.ParamRef):
        return "now()" if expr.name == ir.NOW_PARAM else f"${expr.name}"
    if isinstance(expr, ir.NodeId):
        return f"id(${expr.var})"
    return f"${expr.var}.{expr.property}"


def _mutation(plan: ir.MutationPlan) -> Iterator[str]:
    for statement in plan.statements:
        if isinstance(statement, ir.Delete):
            yield f"delete {statement.kind} {statement.type_name} where {_where(statement.where)}"
            continue
        values = ", ".join(f"{a.property}: {_operand(a.value)}" for a in statement.assignments)
        if isinstance(statement, ir.Insert):
            yield f"insert {statement.kind} {statement.type_name} {{{values}}}"
        else:
            where = _where(statement.where)
            yield f"update node {statement.type_name} {{{values}}} where {where}"


def _where(condition: ir.Condition) -> str:
    return f"{condition.property} {condition.op} {_operand(condition.value)}"
