"""Checks rankings: `nearest`, `bm25` and `rrf` (T15, T20, T21, T23)."""

from __future__ import annotations

from omnigraph.lang.query import ir
from omnigraph.lang.query.check.operands import (
    integer_argument,
    text_field,
    text_query,
    vector_constant,
)
from omnigraph.lang.query.check.scope import Context, Scope, property_of
from omnigraph.lang.query.syntax import ast
from omnigraph.types import TEXT, PropType, Scalar

DEFAULT_K = ir.Const(60, PropType(Scalar.I64))


def ranking(context: Context, scope: Scope, call: ast.Call, limit: int | None) -> ir.Ranking:
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
    query = _vector_query(context, scope, call.args[1], prop.type.dim)
    model = prop.embed.model if prop.embed is not None else None
    return ir.Nearest(ir.PropertyOf(target.var, target.name, prop.type), query, model)


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
    arms: list[ir.Nearest | ir.Bm25] = []
    for arg in call.args[:2]:
        assert isinstance(arg, ast.Call)  # the grammar allows nothing else
        arms.append(_arm(context, scope, arg))
    if arms[0].field.var != arms[1].field.var:
        context.fail(
            "T21",
            f"both arms of rrf() must rank one variable, not `${arms[0].field.var}` and "
            f"`${arms[1].field.var}`",
            call.span,
        )
    k: ir.Const | ir.ParamRef = DEFAULT_K
    if len(call.args) == 3:
        if isinstance(call.args[2], ast.Call):
            context.fail(
                "T21",
                "rrf() fuses two rankings, and a third one is given",
                call.args[2].span,
                "its third argument is its constant k, a whole number",
            )
        k = integer_argument(context, scope, call.args[2], "T21", "k of rrf()")
        if isinstance(k, ir.Const) and isinstance(k.value, int) and k.value <= 0:
            context.fail("T21", f"k of rrf() must be positive, got {k.value}", call.args[2].span)
    return ir.Rrf(arms[0], arms[1], k)
