"""Checks text predicates and rankings: `search`, `nearest`, `rrf` and the others (T15, T17, T19 to T21, T23, T30)."""

from __future__ import annotations

from omnigraph.lang.query import ir
from omnigraph.lang.query.check.scope import (
    BoundVariable,
    Context,
    Scope,
    found_variable,
    property_of,
)
from omnigraph.lang.query.check.terms.literals import constant, vector_constant
from omnigraph.lang.query.syntax import ast
from omnigraph.types import TEXT, PropType, Scalar

DEFAULT_K = ir.Const(60, PropType(Scalar.I64))


def text_match(context: Context, scope: Scope, call: ast.Call) -> ir.TextMatch:
    """`search`, `match_text` or `fuzzy` (T19, T20, T23)."""
    rule = "T20" if call.function == "match_text" else "T19"
    field = text_field(context, scope, call, rule)
    query = text_query(context, scope, call, rule)
    edits: ir.Operand | None = None
    if len(call.args) == 3:
        edits = integer_argument(context, scope, call.args[2], rule, "the edit distance of fuzzy()")
        if isinstance(edits, ir.Const) and isinstance(edits.value, int) and edits.value < 0:
            context.fail(rule, "the edit distance of fuzzy() cannot be negative", call.args[2].span)
    return ir.TextMatch(call.function, field, query, edits)


def text_field(context: Context, scope: Scope, call: ast.Call, rule: str) -> ir.PropertyOf:
    """The first argument of a text function: a String property of a node variable."""
    field = call.args[0]
    asked = scope.get(field.var) if isinstance(field, ast.PropRef) else None
    if not isinstance(field, ast.PropRef) or (asked and asked.kind not in ("node", "edge")):
        context.fail(
            rule, f"{call.function}() searches a String property of a node variable", field.span
        )
    variable, prop = property_of(context, scope, field)
    if variable.kind == "edge":
        context.fail(
            "T23",
            f"{call.function}() cannot search the edge property `${field.var}.{field.name}`",
            field.span,
        )
    if not prop.type.is_text:
        context.fail(
            rule,
            f"{call.function}() needs a String property; `${field.var}.{field.name}` is "
            f"{prop.type.display}",
            field.span,
        )
    return ir.PropertyOf(field.var, field.name, prop.type)


def text_query(context: Context, scope: Scope, call: ast.Call, rule: str) -> ir.Operand:
    """The second argument of a text function: a String literal or parameter."""
    arg = call.args[1]
    if isinstance(arg, ast.Literal) and arg.kind == "string":
        return ir.Const(arg.value, TEXT)
    if isinstance(arg, ast.Var) and scope.get(arg.name) is None:
        param = context.parameter(arg, f"the text of {call.function}()")
        if param.type.as_nullable(False) == TEXT:
            return param
    context.fail(
        rule, f"{call.function}() needs a String literal or parameter as its text", arg.span
    )


def integer_argument(
    context: Context, scope: Scope, arg: ast.Expr, rule: str, what: str
) -> ir.Const | ir.ParamRef:
    """An integer literal or a parameter of an integer type."""
    if isinstance(arg, ast.Literal) and arg.kind == "int":
        return constant(context, arg)
    if isinstance(arg, ast.Var) and scope.get(arg.name) is None:
        param = context.parameter(arg, what)
        if param.type.is_integer and not param.type.is_list:
            return param
    context.fail(rule, f"{what} must be an integer", arg.span)


# ------------------------------------------------------------------ rankings


def ranking(context: Context, scope: Scope, call: ast.Call, limit: ir.Count | None) -> ir.Ranking:
    """A ranking as the first sort key; `nearest` and `rrf` need a limit (T17, T21)."""
    if call.function == "rrf":
        fused = _rrf(context, scope, call)
        if limit is None:
            context.fail("T21", "rrf() needs a `limit`", call.span)
        return fused
    arm = _arm(context, scope, call)
    if isinstance(arm, ir.Nearest) and limit is None:
        context.fail("T17", "ordering by nearest() needs a `limit`", call.span)
    return arm


def _arm(context: Context, scope: Scope, call: ast.Call) -> ir.Nearest | ir.Bm25:
    if call.function == "nearest":
        return _nearest(context, scope, call)
    field = text_field(context, scope, call, "T20")
    _refuse_optional(context, found_variable(context, scope, field.var, call.span), call)
    return ir.Bm25(field, text_query(context, scope, call, "T20"))


def _nearest(context: Context, scope: Scope, call: ast.Call) -> ir.Nearest:
    target = call.args[0]
    if not isinstance(target, ast.PropRef):
        context.fail("T15", "nearest() ranks by a vector property of a variable", target.span)
    variable, prop = property_of(context, scope, target, rule="T15")
    if variable.kind == "edge":
        context.fail(
            "T23",
            f"nearest() cannot rank by the edge property `${target.var}.{target.name}`",
            target.span,
        )
    if prop.type.dim is None:
        context.fail(
            "T15",
            f"nearest() needs a vector property; `${target.var}.{target.name}` is "
            f"{prop.type.display}",
            target.span,
        )
    _refuse_optional(context, variable, call)
    query = _vector_query(context, scope, call.args[1], prop.type.dim)
    given = query.value if isinstance(query, ir.Const) else None
    if prop.metric == "cosine" and isinstance(given, list) and not any(given):
        context.fail("T15", "a zero vector has no direction to compare by", call.args[1].span)
    model = prop.embed.model if prop.embed is not None else None
    ranked = ir.PropertyOf(target.var, target.name, prop.type)
    return ir.Nearest(ranked, query, model, prop.metric)


def _vector_query(context: Context, scope: Scope, arg: ast.Expr, dim: int) -> ir.Operand:
    if isinstance(arg, ast.Literal) and arg.kind == "string":
        return ir.Const(arg.value, TEXT)
    if isinstance(arg, ast.Literal) and arg.kind == "list":
        return vector_constant(context, arg, dim, "T15", "nearest()")
    if isinstance(arg, ast.Var) and scope.get(arg.name) is None:
        param = context.parameter(arg, "the query of nearest()")
        kind = param.type.as_nullable(False)
        if kind in (TEXT, PropType.vector(dim)):
            return param
        if kind.dim is not None:
            context.fail(
                "T15",
                f"the property has {dim} dimensions and `${arg.name}` has {kind.dim}",
                arg.span,
            )
    context.fail(
        "T15",
        f"nearest() compares with a Vector({dim}), a list of {dim} numbers or a String",
        arg.span,
    )


def _rrf(context: Context, scope: Scope, call: ast.Call) -> ir.Rrf:
    k: ir.Const | ir.ParamRef = DEFAULT_K
    args, last = call.args, call.args[-1]
    if not isinstance(last, ast.Call):
        args = args[:-1]
        k = integer_argument(context, scope, last, "T21", "k of rrf()")
        if isinstance(k, ir.Const) and isinstance(k.value, int) and k.value <= 0:
            context.fail("T21", f"k of rrf() must be positive, got {k.value}", last.span)
    arms: list[ir.Nearest | ir.Bm25] = []
    for arg in args:
        if not isinstance(arg, ast.Call) or arg.function not in ("nearest", "bm25"):
            context.fail("T21", "rrf() fuses rankings by nearest() and bm25()", arg.span)
        arm = _arm(context, scope, arg)
        if arms and arm.field.var != arms[0].field.var:
            context.fail(
                "T21",
                f"all arms of rrf() must rank one variable, not `${arms[0].field.var}` and "
                f"`${arm.field.var}`",
                call.span,
            )
        arms.append(arm)
    return ir.Rrf(tuple(arms), k)


def _refuse_optional(context: Context, variable: BoundVariable, call: ast.Call) -> None:
    if variable.nullable:
        context.fail(
            "T30",
            f"{call.function}() ranks `${variable.name}`, which an `optional` block introduces",
            call.span,
            "rank a variable that every row has",
        )
