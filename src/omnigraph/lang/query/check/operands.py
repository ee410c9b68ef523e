"""Resolves the operands of predicates and the arguments of functions, and checks their kinds."""

from __future__ import annotations

from omnigraph.lang.query import ir
from omnigraph.lang.query.check.literals import constant
from omnigraph.lang.query.check.scope import Context, Scope, property_of
from omnigraph.lang.query.syntax import ast
from omnigraph.lang.query.syntax.foreign import for_bare_word
from omnigraph.types import PropType, Scalar

TEXT = PropType(Scalar.STRING)
INSTANT = PropType(Scalar.DATETIME)
NOW = ir.ParamRef(ir.NOW_PARAM, INSTANT)

Typed = tuple[ir.Operand, PropType]


def operand(context: Context, scope: Scope, expr: ast.Expr) -> Typed:
    """Resolve one side of a comparison: a property, literal, parameter or `now()`; else raise T7."""
    if isinstance(expr, ast.Literal):
        const = constant(context, expr)
        return const, const.type
    if isinstance(expr, ast.Now):
        return NOW, INSTANT
    if isinstance(expr, ast.PropRef):
        return readable_property(context, scope, expr)
    if isinstance(expr, ast.Var):
        return _bare_variable(context, scope, expr)
    if isinstance(expr, ast.Name):
        context.fail(
            "T28",
            f"`{expr.name}` is a bare word, and a match knows no output aliases",
            expr.span,
            for_bare_word(expr.name),
        )
    if expr.function in ast.AGGREGATES:
        why = "an aggregate is not a scalar of one row; there is no having"
    elif expr.function in ast.RANKINGS:
        why = "a ranking stands in `order`, it is not a scalar to compare"
    else:
        why = "a text predicate stands alone"
    context.fail("T7", f"`{expr.function}(…)` cannot be compared: {why}", expr.span)


def readable_property(context: Context, scope: Scope, ref: ast.PropRef) -> Typed:
    """Resolve `$x.p` as a value; a Blob is refused (T24)."""
    _, prop = property_of(context, scope, ref)
    if prop.type.is_blob:
        context.fail(
            "T24",
            f"`${ref.var}.{ref.name}` is a Blob and cannot be read by a query",
            ref.span,
            "read blobs through the blob API",
        )
    return ir.PropertyOf(ref.var, ref.name, prop.type), prop.type


def readable_parameter(context: Context, var: ast.Var) -> ir.ParamRef:
    """Resolve a declared parameter as a value; a Blob parameter is refused (T24)."""
    param = context.parameter(var, "a value")
    if param.type.is_blob:
        context.fail("T24", f"parameter `${var.name}` is a Blob and cannot be read", var.span)
    return param


def _bare_variable(context: Context, scope: Scope, var: ast.Var) -> Typed:
    variable = scope.get(var.name)
    if variable is None:
        param = readable_parameter(context, var)
        return param, param.type
    if variable.kind == "edge":
        context.fail(
            "T23",
            f"edge variable `${var.name}` cannot be used bare",
            var.span,
            f"read one of its properties: `${var.name}.<property>`",
        )
    context.fail(
        "T7",
        f"`${var.name}` is a node, not a scalar; whole nodes cannot be compared",
        var.span,
        "compare keys, as in `$a.key != $b.key`",
    )


def text_field(context: Context, scope: Scope, call: ast.Call, rule: str) -> ir.PropertyOf:
    """The first argument of a text function: a String property of a node variable."""
    field = call.args[0]
    if not isinstance(field, ast.PropRef):
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
