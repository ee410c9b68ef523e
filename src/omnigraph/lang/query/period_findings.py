"""What lint finds about valid time: `when` without a period (L206), and conditions on the end of what holds (L207)."""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph.lang.query import ir
from omnigraph.lang.query.syntax import ast
from omnigraph.lang.schema.catalog import Catalog, Entity

WHEN_IN_VAIN = "L206"
END_OF_WHAT_HOLDS = "L207"


def whens_in_vain(catalog: Catalog, query: ast.Query) -> Iterator[str]:
    """L206: clauses that say when something must hold although none of their types has a period."""
    body = query.body
    clauses = body.match or ()
    types = [entity for clause in clauses for entity in _types(catalog, clause)]
    if body.when is not None and not _has_period(types):
        yield "its match"
    yield from _clauses_in_vain(catalog, clauses)


def _clauses_in_vain(catalog: Catalog, clauses: tuple[ast.Clause, ...]) -> Iterator[str]:
    for clause in clauses:
        if isinstance(clause, ast.Binding | ast.Traversal) and clause.when is not None:
            if not _has_period(_types(catalog, clause)):
                yield _shown(clause)
        elif isinstance(clause, ast.Not | ast.Exists | ast.Optional):
            yield from _clauses_in_vain(catalog, clause.clauses)


def _shown(clause: ast.Binding | ast.Traversal) -> str:
    if isinstance(clause, ast.Binding):
        return f"`${clause.var}: {clause.type_name}`"
    return f"`${clause.src.name} {clause.word} ${clause.dst.name}`"


def _has_period(types: list[Entity]) -> bool:
    return any(entity.period is not None for entity in types)


def _types(catalog: Catalog, clause: ast.Clause) -> list[Entity]:
    """The types that a clause is about, and those of the blocks inside of it."""
    match clause:
        case ast.Binding():
            node = catalog.nodes.get(clause.type_name)
            return [] if node is None else [node]
        case ast.Traversal():
            edges = [edge for word in clause.words if (edge := catalog.edge(word)) is not None]
            ends = [
                catalog.nodes[name] for edge in edges for name in (edge.from_type, edge.to_type)
            ]
            return [*edges, *ends]
        case ast.Not() | ast.Exists() | ast.Optional():
            return [one for inner in clause.clauses for one in _types(catalog, inner)]
        case ast.And() | ast.Or():
            return [one for inner in clause.parts for one in _types(catalog, inner)]
        case ast.Negated():
            return _types(catalog, clause.part)
        case ast.Bare(expr=ast.Exists() as block):
            return _types(catalog, block)
        case _:
            return []


def ends_looked_at(steps: tuple[ir.Step, ...]) -> Iterator[ir.Period]:
    """L207: conditions on the end of a period, although the match shows only what holds at its moment."""
    tests = [one for step in steps for condition in _conditions(step) for one in _parts(condition)]
    held = {
        (period.until.var, period.until.property): period
        for one in tests
        if isinstance(one, ir.Holds)
        for period in one.periods
    }
    for one in tests:
        if isinstance(one, ir.Holds):
            continue
        for found in _properties(one):
            if (found.var, found.property) in held:
                yield held[found.var, found.property]


def _conditions(step: ir.Step) -> Iterator[ir.Condition]:
    match step:
        case ir.NodeScan():
            yield from step.filters
        case ir.Expand():
            yield from step.dst_filters
            if step.edge_filter is not None:
                yield step.edge_filter
                if step.edge_var is not None:
                    yield from _named(step.edge_filter, step.edge_var)
        case ir.Filter():
            yield step.predicate
        case _:
            return


def _named(condition: ir.Condition, var: str) -> Iterator[ir.Holds]:
    """The periods of edges under the name of their variable."""
    for one in _parts(condition):
        if isinstance(one, ir.Holds):
            periods = tuple(
                ir.Period(
                    it.type_name,
                    ir.PropertyOf(var, it.since.property, it.since.type),
                    ir.PropertyOf(var, it.until.property, it.until.type),
                )
                for it in one.periods
            )
            yield ir.Holds(var, periods, one.when, one.by_type)


def _parts(condition: ir.Condition) -> tuple[ir.Condition, ...]:
    return condition.parts if isinstance(condition, ir.And) else (condition,)


def _properties(tree: ir.Output | ir.Condition) -> Iterator[ir.PropertyOf]:
    if isinstance(tree, ir.PropertyOf):
        yield tree
    for part in ir.parts_of(tree):
        yield from _properties(part)
