"""Descriptions of columns, parameters and table accesses, for lint and for stored queries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from omnigraph.lang.query import ir
from omnigraph.lang.schema.catalog import Catalog
from omnigraph.types import PropType

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
