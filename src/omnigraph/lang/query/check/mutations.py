"""Checks and lowers insert, update and delete statements (T10 to T16)."""

from __future__ import annotations

from omnigraph.errors import ConstraintError
from omnigraph.lang.query import ir
from omnigraph.lang.query.check.operands import NOW, assigned_constant, compatible, constant
from omnigraph.lang.query.check.scope import Context, leading
from omnigraph.lang.query.syntax import ast
from omnigraph.lang.schema.catalog import EdgeType, Entity, NodeType
from omnigraph.spelling import did_you_mean
from omnigraph.types import TEXT, PropType

ENDPOINTS = ("from", "to")


def mutation(context: Context, body: ast.WriteBody) -> tuple[ir.Mutation, ...]:
    """Resolve the statements of a mutation; mixed kinds are refused first."""
    _refuse_mixture(context, body)
    return tuple(_statement(context, statement) for statement in body.statements)


def _refuse_mixture(context: Context, body: ast.WriteBody) -> None:
    deletes = [isinstance(statement, ast.Delete) for statement in body.statements]
    if any(deletes) and not all(deletes):
        raise ConstraintError(
            f"query `{context.query.name}` mixes insert or update with delete: split it, run the "
            "writes first and then the deletes (use a branch and merge for one commit)",
            query=context.query.name,
            violation="mixed_mutation",
        )


def _statement(context: Context, statement: ast.Statement) -> ir.Mutation:
    if isinstance(statement, ast.Insert):
        used = {entry.name for entry in statement.entries}
        entity = _target(context, statement, bool(used & set(ENDPOINTS)))
        if isinstance(entity, EdgeType):
            return _insert_edge(context, statement, entity)
        return _insert_node(context, statement, entity)
    if isinstance(statement, ast.Delete):
        entity = _target(context, statement, statement.where.property in ENDPOINTS)
        kind = "edge" if isinstance(entity, EdgeType) else "node"
        where = _condition(context, entity, statement.where)
        return ir.Delete("edge" if kind == "edge" else "node", entity.name, where)
    return _update(context, statement)


def _target(context: Context, statement: ast.Statement, uses_endpoints: bool) -> Entity:
    """The type a statement means; a node type wins over an edge type unless endpoints are used."""
    name = statement.type_name
    node, edge = context.catalog.nodes.get(name), context.catalog.edges.get(name)
    if node is not None and (edge is None or not uses_endpoints):
        return node
    if edge is not None:
        return edge
    known = [*context.catalog.nodes, *context.catalog.edges]
    context.fail(
        "T10",
        f"there is no node or edge type {name}",
        statement.type_span,
        did_you_mean(name, known),
    )


# ------------------------------------------------------------------ statements


def _insert_node(context: Context, statement: ast.Insert, node: NodeType) -> ir.Insert:
    assigned = _assignments(context, node, statement.entries)
    names = {assignment.property for assignment in assigned}
    for prop in node.properties.values():
        if prop.name in names or prop.type.nullable:
            continue
        if prop.embed is not None and prop.embed.source in names:
            continue
        source = f" (or its @embed source `{prop.embed.source}`)" if prop.embed else ""
        context.fail(
            "T12",
            f"insert of {node.name} lacks the required property `{prop.name}`{source}",
            statement.span,
        )
    return ir.Insert("node", node.name, assigned)


def _insert_edge(context: Context, statement: ast.Insert, edge: EdgeType) -> ir.Insert:
    assigned = _assignments(context, edge, statement.entries)
    names = {assignment.property for assignment in assigned}
    for end in ENDPOINTS:
        if end not in names:
            context.fail(
                "T12", f"insert of edge {edge.name} lacks its endpoint `{end}`", statement.span
            )
    for prop in edge.properties.values():
        if prop.name not in names and not prop.type.nullable:
            context.fail(
                "T12",
                f"insert of {edge.name} lacks the required property `{prop.name}`",
                statement.span,
            )
    return ir.Insert("edge", edge.name, assigned)


def _update(context: Context, statement: ast.Update) -> ir.Update:
    entity = _target(context, statement, uses_endpoints=False)
    if isinstance(entity, EdgeType):
        context.fail(
            "T16",
            f"edge type {entity.name} cannot be updated",
            statement.type_span,
            "delete the edge and insert it again",
        )
    assigned = _assignments(context, entity, statement.entries, frozen=entity.key or ())
    return ir.Update(entity.name, assigned, _condition(context, entity, statement.where))


# ------------------------------------------------------------------ parts


def _assignments(
    context: Context,
    entity: Entity,
    entries: tuple[ast.Entry, ...],
    frozen: tuple[str, ...] = (),
) -> tuple[ir.Assignment, ...]:
    done: dict[str, ir.Assignment] = {}
    for entry in entries:
        if entry.name in frozen:
            context.fail(
                None,
                f"`{entry.name}` is part of the @key of {entity.name} and cannot be changed",
                leading(entry.span, entry.name),
                "delete the node and insert it again",
            )
        if entry.name in done:
            context.fail(
                "T13", f"property `{entry.name}` is assigned twice", leading(entry.span, entry.name)
            )
        kind = _property_type(context, entity, entry)
        value = _integer_id(context, entity, entry.name, entry.value)
        done[entry.name] = ir.Assignment(entry.name, value or _assigned(context, entry, kind))
    return tuple(done.values())


def _property_type(context: Context, entity: Entity, entry: ast.Entry | ast.Condition) -> PropType:
    name = entry.name if isinstance(entry, ast.Entry) else entry.property
    if isinstance(entity, EdgeType) and name in ENDPOINTS:
        return TEXT
    prop = entity.properties.get(name)
    if prop is None:
        ends = ENDPOINTS if isinstance(entity, EdgeType) else ()
        context.fail(
            "T11",
            f"type {entity.name} has no property `{name}`",
            leading(entry.span, name),
            did_you_mean(name, [*entity.properties, *ends]),
        )
    return prop.type


def _integer_id(
    context: Context, entity: Entity, name: str, value: ast.Value
) -> ir.Const | ir.ParamRef | None:
    """The node id for an integer at an end whose nodes have an integer key."""
    if name not in context.catalog.integer_ends(entity):
        return None
    if isinstance(value, ast.Literal) and value.kind == "int":
        return ir.Const(str(value.value), TEXT)
    if isinstance(value, ast.Var):
        param = context.parameter(value, "a value")
        return param if param.type.is_integer else None
    return None


def _assigned(context: Context, entry: ast.Entry, kind: PropType) -> ir.Const | ir.ParamRef:
    if isinstance(entry.value, ast.Literal):
        return assigned_constant(context, entry.name, kind, entry.value)
    param = NOW
    if isinstance(entry.value, ast.Var):
        param = context.parameter(entry.value, "a value")
    if not _assignable(param.type, kind):
        what = "now()" if isinstance(entry.value, ast.Now) else f"`${entry.value.name}`"
        context.fail(
            "T7",
            f"property `{entry.name}` is {kind.display} and cannot take {what} of type "
            f"{param.type.display}",
            entry.value.span,
        )
    return param


def _assignable(source: PropType, target: PropType) -> bool:
    if target.is_blob:
        return not source.is_list and (source.is_blob or source.is_text)
    if source.is_list != target.is_list or source.dim != target.dim:
        return False
    if source.scalar == target.scalar:
        return True
    if source.element.is_integer:
        return target.element.is_numeric
    return source.element.is_float and target.element.is_float


def _condition(context: Context, entity: Entity, where: ast.Condition) -> ir.Condition:
    kind = _property_type(context, entity, where)
    if kind.is_blob:
        context.fail(
            "T11",
            f"property `{where.property}` is a Blob and cannot stand in a `where`",
            where.span,
        )
    if kind.is_list or kind.is_vector:
        context.fail(
            "T7",
            f"property `{where.property}` is {kind.display}; a `where` compares scalars only",
            where.span,
        )
    integer_id = _integer_id(context, entity, where.property, where.value)
    if integer_id is not None:
        if where.op not in ("=", "!="):
            context.fail(
                "T7",
                f"`{where.property}` is a node id, which is a text: it has no order of integers",
                where.span,
                "compare it with `=` or `!=`",
            )
        return ir.Condition(where.property, where.op, integer_id)
    value: ir.Const | ir.ParamRef = NOW
    if isinstance(where.value, ast.Literal):
        value = constant(context, where.value)
    elif isinstance(where.value, ast.Var):
        value = context.parameter(where.value, "a value")
    if not compatible(kind, value.type):
        context.fail(
            "T7",
            f"property `{where.property}` is {kind.display} and cannot be compared with "
            f"{value.type.display}",
            where.span,
        )
    return ir.Condition(where.property, where.op, value)
