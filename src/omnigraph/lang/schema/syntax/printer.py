"""Prints a syntax tree in one canonical layout: `parse(render(tree)) == tree`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from omnigraph.lang.schema.syntax import ast
from omnigraph.lang.source import escape


def render(schema: ast.Schema) -> str:
    """The source text of a tree: declarations in their order, properties before constraints."""
    return "\n".join(_declaration(declaration) for declaration in schema.declarations)


def _declaration(declaration: ast.Declaration) -> str:
    if isinstance(declaration, ast.Interface):
        return _with_body(f"interface {declaration.name.text}", _members(declaration.properties))
    if isinstance(declaration, ast.Node):
        head = [f"node {declaration.name.text}", *map(_annotation, declaration.annotations)]
        if declaration.implements:
            head.append("implements " + ", ".join(name.text for name in declaration.implements))
        members = _members(declaration.properties, declaration.constraints)
        return _with_body(" ".join(head), members)
    ends = f"{declaration.from_type.text} -> {declaration.to_type.text}"
    head = [
        f"edge {declaration.name.text}: {ends}",
        *_cardinality(declaration.cardinality),
        *map(_annotation, declaration.annotations),
    ]
    members = _members(declaration.properties, declaration.constraints)
    return _with_body(" ".join(head), members) if members else " ".join(head) + "\n"


def _with_body(head: str, members: Sequence[str]) -> str:
    if not members:
        return f"{head} {{}}\n"
    return "\n".join([f"{head} {{", *(f"  {member}" for member in members), "}", ""])


def _members(
    properties: Sequence[ast.Property], constraints: Sequence[ast.Constraint] = ()
) -> list[str]:
    return [*map(_property, properties), *map(_constraint, constraints)]


def _cardinality(cardinality: ast.Cardinality | None) -> Iterator[str]:
    if cardinality is not None:
        top = "" if cardinality.max is None else cardinality.max
        yield f"@card({cardinality.min}..{top})"


def _property(prop: ast.Property) -> str:
    declared = f"{prop.name.text}: {prop.type.display}"
    return " ".join([declared, *map(_annotation, prop.annotations)])


def _annotation(annotation: ast.Annotation) -> str:
    if annotation.value is None:
        return f"@{annotation.name}"
    arguments = [_literal(annotation.value)]
    arguments += [f"{name.text}={_literal(value)}" for name, value in annotation.keywords]
    return f"@{annotation.name}({', '.join(arguments)})"


def _literal(literal: ast.Literal) -> str:
    if literal.kind == "list":
        return f"[{', '.join(map(_literal, literal.items))}]"
    return escape(literal.text) if literal.kind == "string" else literal.text


def _constraint(constraint: ast.Constraint) -> str:
    if isinstance(constraint, ast.Group):
        return f"@{constraint.kind}({', '.join(member.text for member in constraint.members)})"
    if isinstance(constraint, ast.Valid):
        return f"@valid({', '.join(member.text for member in constraint.members)})"
    if isinstance(constraint, ast.Check):
        return f"@check({constraint.property.text}, {escape(constraint.pattern)})"
    low = constraint.min.text if constraint.min is not None else ""
    high = constraint.max.text if constraint.max is not None else ""
    return f"@range({constraint.property.text}, {low}..{high})"
