"""Checks and lowers mutations: rows, statements and `return` (T10, T12, T26, T28, T36, T38)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Literal as OneOf

from omnigraph.lang.query import ir
from omnigraph.lang.query.check.assignments import ENDPOINTS, OverTarget, Purpose, assignments
from omnigraph.lang.query.check.blocks.naming import refuse_parameter
from omnigraph.lang.query.check.blocks.patterns import match_steps, scope_variables
from omnigraph.lang.query.check.returned.return_clause import columns_of
from omnigraph.lang.query.check.scope import BoundVariable, Context, Scope, leading
from omnigraph.lang.query.syntax import ast
from omnigraph.lang.schema.catalog import EdgeType, Entity, NodeType, Period
from omnigraph.spelling import did_you_mean


def mutation(
    context: Context, body: ast.WriteBody, params: tuple[ir.ParamSpec, ...]
) -> ir.MutationPlan:
    """Resolve a mutation: the rows it runs for, its statements, what it returns."""
    scope = Scope()
    steps: tuple[ir.Step, ...] = ()
    if body.each is not None or body.match is not None:
        steps = match_steps(context, scope, body)
    matched = frozenset(scope.variables)
    statements = tuple(
        _statement(context, scope, matched, statement) for statement in body.statements
    )
    return ir.MutationPlan(
        context.query.name,
        params,
        statements,
        steps,
        scope_variables(scope),
        _returned(context, scope, body),
        None if body.each is None else body.each.var,
    )


def _returned(context: Context, scope: Scope, body: ast.WriteBody) -> ir.Returned | None:
    if body.items is None:
        return None
    checked = columns_of(context, scope, body.items, body.distinct)
    for item, column in zip(checked.items, checked.columns, strict=True):
        if isinstance(column.expr, ir.Score):
            context.fail("T28", "a mutation has no ranking whose score it could return", item.span)
    return ir.Returned(checked.columns, body.distinct)


# ------------------------------------------------------------------ statements


def _statement(
    context: Context, scope: Scope, matched: frozenset[str], statement: ast.Statement
) -> ir.Mutation:
    if isinstance(statement, ast.Insert):
        return _insert(context, scope, statement)
    if isinstance(statement, ast.Assert):
        return _assert(context, scope, statement)
    var = None if statement.var is None else statement.var.name
    if statement.var is not None:
        entity = _entity_of(context, scope, matched, statement.var)
    else:
        entity = _target(context, statement)
    kind = _kind(entity)
    where = None
    if isinstance(statement, ast.Delete):
        if statement.where is not None:
            where = OverTarget(context, scope, entity, "where").condition(statement.where)
        return ir.Delete(kind, entity.name, where, var)
    if isinstance(statement, ast.End):
        _period(context, entity, statement)
        if statement.where is not None:
            where = OverTarget(context, scope, entity, "where").condition(statement.where)
        moment = OverTarget(context, scope, entity, "moment").moment(statement.moment)
        return ir.End(kind, entity.name, moment, where, var)
    frozen = (entity.key or ()) if isinstance(entity, NodeType) else ()
    reader = OverTarget(context, scope, entity, "update", var)
    assigned = assignments(reader, statement.entries, frozen)
    if statement.where is not None:
        where = OverTarget(context, scope, entity, "where").condition(statement.where)
    return ir.Update(kind, entity.name, assigned, where, var)


def _kind(entity: Entity) -> OneOf["node", "edge"]:
    return "edge" if isinstance(entity, EdgeType) else "node"


def _target(context: Context, statement: ast.Statement) -> Entity:
    """The type a statement means; a node type wins over an edge type unless endpoints are used."""
    name = statement.type_name or ""
    node, edge = context.catalog.nodes.get(name), context.catalog.edges.get(name)
    if node is not None and edge is not None:
        return edge if set(ENDPOINTS) & set(_bare_words(statement)) else node
    if node is not None:
        return node
    if edge is not None:
        return edge
    hint = did_you_mean(name, [*context.catalog.nodes, *context.catalog.edges])
    if name in context.catalog.interfaces:
        hint = "it is an interface; name a node type, or match it and change what is matched"
    context.fail("T10", f"there is no node or edge type {name}", statement.type_span, hint)


def _bare_words(part: object) -> Iterator[str]:
    """The bare words and assigned names anywhere in a statement."""
    if isinstance(part, ast.Name | ast.Entry):
        yield part.name
    if isinstance(part, tuple):
        for one in part:
            yield from _bare_words(one)
    elif dataclasses.is_dataclass(part):
        for field in dataclasses.fields(part):
            yield from _bare_words(getattr(part, field.name))


def _entity_of(context: Context, scope: Scope, matched: frozenset[str], var: ast.Var) -> Entity:
    """The type of the matched node or edge that a statement changes (T36)."""
    found = scope.variables.get(var.name)
    if found is None or var.name not in matched or found.kind not in ("node", "edge"):
        what = "is no node or edge of the match"
        if found is not None and found.kind not in ("node", "edge"):
            what = f"is a {found.kind}, not a node or an edge"
        context.fail(
            "T36",
            f"`${var.name}` {what}, and cannot be changed",
            var.span,
            did_you_mean(var.name, matched),
        )
    if found.other_types:
        context.fail(
            "T36",
            f"`${var.name}` is an edge of {' or '.join(found.types)}; a statement changes one type",
            var.span,
            "match the types one by one",
        )
    return context.entity(found)


# ------------------------------------------------------------------ insert and upsert


def _insert(context: Context, scope: Scope, statement: ast.Insert) -> ir.Insert:
    entity = _target(context, statement)
    word: Purpose = "upsert" if statement.is_upsert else "insert"
    if statement.is_upsert and isinstance(entity, NodeType) and entity.key is None:
        context.fail(
            "T36",
            f"upsert needs a @key to find the node by, and {entity.name} has none",
            statement.type_span,
            "match the node and `update` it, or `insert` another",
        )
    reader = OverTarget(context, scope, entity, word)
    assigned = assignments(reader, statement.entries)
    names = {one.property for one in assigned}
    _require_properties(context, statement, entity, names, word)
    var = _named(context, scope, statement, entity)
    unique = _unique(entity, names) if statement.is_upsert else ()
    return ir.Insert(_kind(entity), entity.name, assigned, var, statement.is_upsert, unique)


def _period(context: Context, entity: Entity, statement: ast.End | ast.Assert) -> Period:
    """The period of a type whose facts a statement begins or ends (T38)."""
    if entity.period is None:
        word = "end" if isinstance(statement, ast.End) else "assert"
        context.fail(
            "T38",
            f"{word} needs a period, and {entity.name} has none",
            statement.type_span,
            "declare one with `@valid(since, until)`, or "
            + ("`delete` it" if word == "end" else "`insert` it"),
        )
    return entity.period


def _assert(context: Context, scope: Scope, statement: ast.Assert) -> ir.Assert:
    entity = _target(context, statement)
    since = _period(context, entity, statement).since
    if isinstance(entity, NodeType) and entity.key is not None and since not in entity.key:
        context.fail(
            "T38",
            f"assert begins another {entity.name}, and the @key of {entity.name} has no `{since}`: "
            "it would be the same node",
            statement.type_span,
            f"take `{since}` into the @key, or `upsert` the node",
        )
    for entry in statement.entries:
        if entry.name == since:
            context.fail(
                "T38",
                f"`{since}` of an asserted {entity.name} is its moment and cannot be assigned",
                leading(entry.span, entry.name),
                "say when with `at`: `assert Type { … } at date(…)`",
            )
    assigned = assignments(OverTarget(context, scope, entity, "insert"), statement.entries)
    names = {one.property for one in assigned}
    _require_properties(context, statement, entity, names | {since}, "assert")
    moment = OverTarget(context, scope, entity, "moment").moment(statement.moment)
    var = _named(context, scope, statement, entity)
    return ir.Assert(_kind(entity), entity.name, assigned, moment, var)


def _require_properties(
    context: Context, statement: ast.Insert | ast.Assert, entity: Entity, names: set[str], word: str
) -> None:
    """Everything that is required and has no default must be assigned: an upsert may insert as well (T12)."""
    there = names | entity.defaults.keys()
    for end in ENDPOINTS if isinstance(entity, EdgeType) else ():
        if end not in names:
            context.fail(
                "T12", f"{word} of edge {entity.name} lacks its endpoint `{end}`", statement.span
            )
    for prop in entity.properties.values():
        if prop.name in there or prop.type.nullable:
            continue
        if prop.embed is not None and prop.embed.source in there:
            continue
        source = f" (or its @embed source `{prop.embed.source}`)" if prop.embed else ""
        context.fail(
            "T12",
            f"{word} of {entity.name} lacks the required property `{prop.name}`{source}",
            statement.span,
            "it may have to insert" if word == "upsert" else None,
        )


def _named(
    context: Context, scope: Scope, statement: ast.Insert | ast.Assert, entity: Entity
) -> str | None:
    if statement.var is None:
        return None
    name, span = statement.var.name, statement.var.span
    refuse_parameter(context, name, span)
    if scope.get(name) is not None:
        context.fail("T26", f"`${name}` is already bound", span, "choose another name")
    scope.variables[name] = BoundVariable(name, _kind(entity), entity.name)
    return name


def _unique(entity: Entity, names: set[str]) -> tuple[str, ...]:
    """The unique group by which an edge is found, if all members of one with both ends are assigned."""
    if not isinstance(entity, EdgeType):
        return ()
    assigned = {"src" if name == "from" else "dst" if name == "to" else name for name in names}
    groups = [
        group for group in entity.unique if {"src", "dst"} <= set(group) and set(group) <= assigned
    ]
    return min(groups, key=lambda group: (len(group), sorted(group)), default=())
