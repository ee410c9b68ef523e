"""What queries take and return, and which types they read and write: for lint and stored queries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from omnigraph.lang.query import ir
from omnigraph.lang.schema.catalog import Catalog

Access = tuple[str, str]


def describe_value(name: str, kind: ir.ValueType | ir.RecordList) -> dict[str, Any]:
    """`{name, kind, nullable, item_kind?, vector_dim?, fields?}` of a column or a parameter."""
    described: dict[str, Any] = {"name": name, "kind": "list", "nullable": kind.nullable}
    match kind:
        case ir.RecordList():
            return described | {"item_kind": "object", "fields": _fields(kind.fields)}
        case ir.ObjectList():
            return described | {"item_kind": "object", "fields": _fields(kind.item.fields)}
        case ir.ObjectType():
            return described | {"kind": "object", "fields": _fields(kind.fields)}
    if kind.dim is not None:
        return described | {"kind": "vector", "vector_dim": kind.dim}
    if kind.is_list:
        return described | {"item_kind": kind.scalar.traits.kind}
    return described | {"kind": kind.scalar.traits.kind}


def _fields(fields: tuple[tuple[str, Any], ...]) -> list[dict[str, Any]]:
    return [describe_value(name, kind) for name, kind in fields]


def describe_operation(plan: ir.Plan, catalog: Catalog) -> dict[str, Any]:
    """What a query returns, and which types it reads and writes."""
    columns: tuple[ir.Column, ...] = ()
    reads, writes = set(_types_of_steps(plan.steps)), set[Access]()
    if isinstance(plan, ir.ReadPlan):
        columns = plan.columns
        reads |= set(_types_of_output(columns, plan))
    else:
        writes = set(_written_types(plan, catalog))
        reads |= writes | set(_types_of_statements(plan, catalog))
        if plan.returned is not None:
            columns = plan.returned.columns
            reads |= set(_types_of_output(columns))
    result = [
        describe_value(column.name, column.type) | _metric(column, plan.variables, catalog)
        for column in columns
    ]
    return {"result": result, "reads": _listed(reads), "writes": _listed(writes)}


def _metric(
    column: ir.Column, variables: tuple[ir.Variable, ...], catalog: Catalog
) -> dict[str, str]:
    """By which distance a column of vectors is ranked, where it is a property of nodes."""
    expr = column.expr
    if not isinstance(expr, ir.PropertyOf) or expr.type.dim is None:
        return {}
    named = (one.type_name for one in variables if (one.name, one.kind) == (expr.var, "node"))
    found = catalog.nodes.get(next(named, ""))
    return {} if found is None else {"metric": found.properties[expr.property].metric}


def _listed(accesses: set[Access]) -> list[dict[str, str]]:
    return [{"kind": kind, "type_name": name} for kind, name in sorted(accesses)]


# ------------------------------------------------------------------ reads


def _types_of_steps(steps: tuple[ir.Step, ...]) -> Iterator[Access]:
    for step in steps:
        match step:
            case ir.NodeScan():
                yield "node", step.type_name
                yield from _types_of_conditions(step.filters)
            case ir.Expand():
                for edge_type in step.edge_types:
                    yield "edge", edge_type
                yield "node", step.src_type
                yield "node", step.dst_type
                yield from _types_of_conditions(step.dst_filters)
            case ir.Rows():
                yield from _types_of_steps(step.plan.steps)
                yield from _types_of_output(step.plan.columns, step.plan)
            case ir.Filter():
                yield from _types_inside(step.predicate)
            case ir.SemiJoin() | ir.AntiJoin() | ir.LeftJoin():
                yield from _types_of_steps(step.inner)


def _types_of_conditions(conditions: tuple[ir.Condition, ...]) -> Iterator[Access]:
    for condition in conditions:
        yield from _types_inside(condition)


def _types_inside(part: ir.Output | ir.Condition) -> Iterator[Access]:
    """The types that the blocks of `exists` read, wherever they stand in an expression."""
    if isinstance(part, ir.Exists):
        yield from _types_of_steps(part.inner)
    for inner in ir.parts_of(part):
        yield from _types_inside(inner)


def _types_of_output(
    columns: tuple[ir.Column, ...], plan: ir.ReadPlan | None = None
) -> Iterator[Access]:
    for column in columns:
        yield from _types_inside(column.expr)
    for key in plan.order if plan is not None else ():
        if key.expr is not None:
            yield from _types_inside(key.expr)


def _types_of_statements(plan: ir.MutationPlan, catalog: Catalog) -> Iterator[Access]:
    """What statements read beside the entities they change: ends of edges, blocks in values."""
    for statement in plan.statements:
        if isinstance(statement, ir.Insert | ir.Assert) and statement.kind == "edge":
            edge = catalog.edges[statement.type_name]
            yield "node", edge.from_type
            yield "node", edge.to_type
        yield from _types_of_values(statement)


def types_matched(plan: ir.MutationPlan) -> set[Access]:
    """The types that a mutation reads before it changes anything: those of its match, and of blocks in values."""
    found = set(_types_of_steps(plan.steps))
    for statement in plan.statements:
        found.update(_types_of_values(statement))
    return found | set(_types_of_output(() if plan.returned is None else plan.returned.columns))


def _types_of_values(statement: ir.Mutation) -> Iterator[Access]:
    for assignment in () if isinstance(statement, ir.Delete | ir.End) else statement.assignments:
        if assignment.value is not None:
            yield from _types_inside(assignment.value)
    if isinstance(statement, ir.End | ir.Assert):
        yield from _types_inside(statement.moment)


# ------------------------------------------------------------------ writes


def _written_types(plan: ir.MutationPlan, catalog: Catalog) -> Iterator[Access]:
    for statement in plan.statements:
        yield statement.kind, statement.type_name
        if isinstance(statement, ir.Delete) and statement.kind == "node":
            for edge in catalog.edges.values():
                if statement.type_name in (edge.from_type, edge.to_type):
                    yield "edge", edge.name
