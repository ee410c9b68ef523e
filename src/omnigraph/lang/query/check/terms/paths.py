"""What a path may be asked: its length and cost, its nodes and edges, one property of each (T6, T24, T34)."""

from __future__ import annotations

from omnigraph.lang.query import ir
from omnigraph.lang.query.check.scope import BoundVariable, Context, Scope
from omnigraph.lang.query.functions import F64, I64
from omnigraph.lang.query.syntax import ast
from omnigraph.spelling import did_you_mean
from omnigraph.types import TEXT, PropType, Scalar


def path_value(context: Context, scope: Scope, call: ast.Call) -> ir.PathValue:
    """`length`, `cost`, `nodes` or `edges` of a path, or one property of each of its parts (T6, T24, T34)."""
    word = call.function
    if len(call.args) != 1:
        context.fail("T29", f"{word}() takes 1 argument, and {len(call.args)} are given", call.span)
    arg = call.args[0]
    name = arg.name if isinstance(arg, ast.Var) else arg.var if isinstance(arg, ast.PropRef) else ""
    path = scope.get(name)
    if path is None or path.kind != "path":
        context.fail("T34", f"{word}() takes a path variable", arg.span)
    if isinstance(arg, ast.PropRef):
        if word not in ("nodes", "edges"):
            context.fail("T34", f"{word}() takes the path `${name}` itself", arg.span)
        return _of_each(context, path, word, arg)
    if word == "length":
        return ir.PathValue(
            name, "length", I64.as_nullable(path.nullable), ends=path.between, moments=path.moments
        )
    if word == "cost":
        if path.weight is None:
            context.fail(
                "T34",
                f"cost(${name}) needs a path that was found by a weight",
                call.span,
                f"write `$a ${name}:edge by property $b`",
            )
        return ir.PathValue(
            name, "cost", F64.as_nullable(path.nullable), ends=path.between, moments=path.moments
        )
    if word == "nodes":
        ids = PropType(Scalar.STRING, nullable=path.nullable, is_list=True)
        return ir.PathValue(name, "nodes", ids, ends=path.between, moments=path.moments)
    listed = ir.ObjectList(edge_object(context, path), path.nullable)
    return ir.PathValue(name, "edges", listed, ends=path.between, moments=path.moments)


def _of_each(context: Context, path: BoundVariable, word: str, ref: ast.PropRef) -> ir.PathValue:
    names = path.ends if word == "nodes" else path.types
    entities = context.catalog.nodes if word == "nodes" else context.catalog.edges
    kinds = []
    for type_name in names:
        prop = entities[type_name].properties.get(ref.name)
        if prop is None:
            known = entities[type_name].properties
            context.fail(
                "T6",
                f"type {type_name} on the path `${path.name}` has no property `{ref.name}`",
                ref.span,
                did_you_mean(ref.name, known),
            )
        kinds.append(prop.type.as_nullable(False))
    if len(set(kinds)) > 1:
        context.fail("T6", f"`{ref.name}` has no one type on the path `${path.name}`", ref.span)
    kind = kinds[0]
    if kind.is_blob:
        context.fail("T24", f"`{ref.name}` is a Blob and cannot be read by a query", ref.span)
    if kind.is_list or kind.is_vector:
        context.fail(
            "T34", f"`{ref.name}` is {kind.display}; a list of lists cannot be returned", ref.span
        )
    items = PropType(kind.scalar, nullable=path.nullable, is_list=True)
    if word == "nodes":
        return ir.PathValue(path.name, "nodes", items, ref.name, path.between, path.moments)
    return ir.PathValue(path.name, "edges", items, ref.name, path.between, path.moments)


def edge_object(context: Context, path: BoundVariable) -> ir.ObjectType:
    """One edge of a path: its type, its stored ends, and the properties every listed type declares."""
    first = context.catalog.edges[path.type_name]
    fields: list[tuple[str, ir.ValueType]] = [("type", TEXT), ("from", TEXT), ("to", TEXT)]
    for name, prop in first.properties.items():
        kinds = [
            context.catalog.edges[other].properties[name].type
            for other in path.types
            if name in context.catalog.edges[other].properties
        ]
        same = len({kind.as_nullable(False) for kind in kinds}) == 1
        if (
            len(kinds) == len(path.types)
            and same
            and not (prop.type.is_blob or prop.type.is_vector)
        ):
            fields.append((name, prop.type.as_nullable(any(kind.nullable for kind in kinds))))
    return ir.ObjectType(tuple(fields))


def whole_path(context: Context, path: BoundVariable) -> ir.PathValue:
    """The path itself: an object of its nodes, its edges, its length, and its cost if it has one."""
    fields: list[tuple[str, ir.ValueType]] = [
        ("nodes", PropType(Scalar.STRING, is_list=True)),
        ("edges", ir.ObjectList(edge_object(context, path))),
        ("length", I64),
    ]
    if path.weight is not None:
        fields.append(("cost", F64))
    kind = ir.ObjectType(tuple(fields), path.nullable)
    return ir.PathValue(path.name, "path", kind, ends=path.between, moments=path.moments)
