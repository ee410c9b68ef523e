"""Who may be called what: the names that clauses introduce (T23, T26, T30, T34)."""

from __future__ import annotations

from omnigraph.lang.query.check.scope import BoundVariable, Context, Judged, Scope
from omnigraph.spans import Span


def introduce(context: Context, scope: Scope, var: str, type_name: str, span: Span) -> None:
    """Bind a node variable, or confirm the type it already has (T23, T26, T30, T34)."""
    refuse_parameter(context, var, span)
    known = scope.get(var)
    if known is None:
        refuse_used_inside(context, scope, var, span)
        scope.variables[var] = new_node(context, var, type_name)
    elif known.kind == "edge":
        context.fail("T23", f"`${var}` is an edge variable and cannot be bound as a node", span)
    elif known.kind == "path":
        context.fail("T34", f"`${var}` is a path and cannot be bound as a node", span)
    elif known.kind == "row":
        context.fail("T26", f"`${var}` is a row and cannot be a {type_name} as well", span)
    elif known.type_name != type_name:
        context.fail(
            "T26", f"`${var}` is a {known.type_name} and cannot be a {type_name} as well", span
        )
    else:
        refuse_optional(context, scope, known, span)


def new_node(context: Context, name: str, type_name: str) -> BoundVariable:
    """A node variable; of a type with a period, the clauses about it decide when it must hold."""
    if context.catalog.nodes[type_name].period is None:
        return BoundVariable(name, "node", type_name)
    context.has_periods = True
    variable = BoundVariable(name, "node", type_name, judged=Judged())
    context.judged.append(variable)
    return variable


def refuse_optional(context: Context, scope: Scope, variable: BoundVariable, span: Span) -> None:
    """What makes rows outside any optional block cannot start from what an optional block introduced."""
    if variable.nullable and scope.kind == "match":
        context.fail(
            "T30",
            f"`${variable.name}` comes from an `optional` block, and every row must have it here",
            span,
            "put this clause into that block, or into an `optional` block of its own",
        )


def refuse_parameter(context: Context, var: str, span: Span) -> None:
    """A parameter and a variable share one namespace (T26)."""
    if var in context.params:
        context.fail(
            "T26",
            f"`${var}` is a parameter and cannot be a match variable as well",
            span,
            "rename one of the two",
        )


def refuse_used_inside(context: Context, scope: Scope, var: str, span: Span) -> None:
    """A name local to an earlier `not` block must not turn into an outer variable afterwards:
    which of the two the block means would depend on clause order."""
    if scope.local_elsewhere(var):
        context.fail(
            "T26",
            f"`${var}` is introduced after a `not` or `exists` block that already uses the name for itself",
            span,
            f"put that block after this clause, or rename `${var}` inside it",
        )
