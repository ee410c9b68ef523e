"""Checks predicates: comparisons, `contains`, `starts_with`, text predicates, inline entries."""

from __future__ import annotations

from omnigraph.lang.query import ir
from omnigraph.lang.query.check.operands import (
    NOW,
    check_enum,
    compatible,
    constant,
    date_hint,
    describe,
    describe_one,
    integer_argument,
    operand,
    text_field,
    text_query,
)
from omnigraph.lang.query.check.scope import Context, Scope, leading
from omnigraph.lang.query.syntax import ast
from omnigraph.lang.schema.catalog import NodeType
from omnigraph.spelling import did_you_mean
from omnigraph.types import PropType


def comparison(context: Context, scope: Scope, clause: ast.Comparison) -> ir.Predicate:
    """Check and resolve `left op right`."""
    text = _compared_text_call(context, clause)
    if text is not None:
        return text_match(context, scope, text)
    left, left_type = operand(context, scope, clause.left)
    right, right_type = operand(context, scope, clause.right)
    if clause.op == "contains":
        return ir.Compare(left, _contains(context, clause, left_type, right_type), right)
    if clause.op == "starts_with":
        _require_text(context, clause, left_type, right_type)
        return ir.Compare(left, "prefix", right)
    for kind, expr in ((left_type, clause.left), (right_type, clause.right)):
        _require_scalar(context, kind, expr, clause.op)
    if not compatible(left_type, right_type):
        context.fail(
            "T7",
            f"{_show(clause.left)} is {left_type.display} and {_show(clause.right)} is "
            f"{right_type.display}: they cannot be compared with `{clause.op}`",
            clause.span,
            _date_hint(clause.left, right_type) or _date_hint(clause.right, left_type),
        )
    return ir.Compare(left, clause.op, right)


def _require_scalar(context: Context, kind: PropType, expr: ast.Expr, op: str) -> None:
    """Raise T7 for a vector or a list where a scalar is compared."""
    if kind.is_vector:
        context.fail(
            "T7",
            f"{_show(expr)} is a vector and cannot be compared with `{op}`",
            expr.span,
            "rank by it with nearest() in `order`",
        )
    if kind.is_list:
        context.fail(
            "T7",
            f"{_show(expr)} is a list and cannot be compared with `{op}`; use `contains`",
            expr.span,
        )


def _contains(
    context: Context, clause: ast.Comparison, left: PropType, right: PropType
) -> ir.CompareOp:
    if left.is_list:
        if right.is_list or right.is_vector:
            context.fail(
                "T7", "`contains` on a list looks for a scalar, not a list", clause.right.span
            )
        if not compatible(left.element, right):
            context.fail(
                "T7",
                f"{_show(clause.left)} is {left.display}; `contains` cannot look for "
                f"{right.display} in it",
                clause.span,
            )
        return "member"
    if left.is_text:
        if not right.is_text:
            context.fail(
                "T7", f"`contains` on text needs a String, got {right.display}", clause.right.span
            )
        return "substring"
    context.fail(
        "T7",
        f"`contains` needs a list or a String on its left, got {left.display}",
        clause.left.span,
    )


def _require_text(
    context: Context, clause: ast.Comparison, left: PropType, right: PropType
) -> None:
    for kind, expr in ((left, clause.left), (right, clause.right)):
        if not kind.is_text:
            context.fail(
                "T7", f"`starts_with` needs a String on both sides, got {kind.display}", expr.span
            )


def _compared_text_call(context: Context, clause: ast.Comparison) -> ast.Call | None:
    """The text call in `search(…) = true`, the one comparison that may contain a text predicate."""
    for call, other in ((clause.left, clause.right), (clause.right, clause.left)):
        if isinstance(call, ast.Call) and call.function in ast.TEXT_CALLS:
            is_true = isinstance(other, ast.Literal) and other.value is True
            if clause.op == "=" and is_true:
                return call
            context.fail(
                "T19",
                f"`{call.function}(…)` stands alone; it can be compared only as `= true`",
                clause.span,
                "put it inside `not { … }` to negate it",
            )
    return None


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


def inline_entry(
    context: Context, scope: Scope, var: str, node: NodeType, entry: ast.Entry
) -> ir.Compare:
    """`p: v` of a binding: an equality, or membership where `p` is a list (T2, T3, T7, T14)."""
    prop = node.properties.get(entry.name)
    if prop is None:
        context.fail(
            "T2",
            f"node type {node.name} has no property `{entry.name}`",
            leading(entry.span, entry.name),
            did_you_mean(entry.name, node.properties),
        )
    if prop.type.is_blob:
        context.fail(
            "T3",
            f"property `{entry.name}` is a Blob and cannot be matched",
            leading(entry.span, entry.name),
        )
    right: ir.Operand
    if isinstance(entry.value, ast.Literal):
        right = _inline_literal(context, entry.name, prop.type, entry.value)
    else:
        _refuse_match_variable(context, scope, entry.name, entry.value)
        right = _inline_parameter(context, entry.name, prop.type, entry.value)
    left = ir.PropertyOf(var, entry.name, prop.type)
    return ir.Compare(left, "member" if prop.type.is_list else "=", right)


def _inline_literal(context: Context, name: str, kind: PropType, literal: ast.Literal) -> ir.Const:
    if literal.kind == "list" and kind.is_list:
        context.fail(
            "T3",
            f"property `{name}` is a list: an inline entry tests membership of one value",
            literal.span,
        )
    const = constant(context, literal)
    if kind.is_vector or not compatible(kind.element, const.type):
        context.fail(
            "T3",
            f"property `{name}` is {kind.display}; {describe_one(literal)} cannot match it",
            literal.span,
            date_hint(literal, kind),
        )
    check_enum(context, name, kind, literal)
    return const


def _refuse_match_variable(
    context: Context, scope: Scope, name: str, value: ast.Var | ast.Now
) -> None:
    """Refuse a match variable as a value; the usual hint of T14 would suggest to declare it."""
    if isinstance(value, ast.Var) and scope.get(value.name) is not None:
        context.fail(
            "T14",
            f"`${value.name}` is a match variable, not a declared parameter, and cannot be the "
            f"value of `{name}`",
            value.span,
            f"compare properties in a clause of its own, as in `$a.{name} = $b.{name}`",
        )


def _inline_parameter(
    context: Context, name: str, kind: PropType, value: ast.Var | ast.Now
) -> ir.ParamRef:
    param = NOW if isinstance(value, ast.Now) else context.parameter(value, "a value")
    if kind.is_list and (param.type.is_list or param.type.is_vector):
        context.fail(
            "T7",
            f"property `{name}` is a list: an inline entry tests membership of one value, "
            f"not {param.type.display}",
            value.span,
        )
    if kind.is_vector or not compatible(kind.element, param.type):
        context.fail(
            "T7",
            f"property `{name}` is {kind.display} and cannot be matched with "
            f"{_show(value)} of type {param.type.display}",
            value.span,
        )
    return param


def _date_hint(expr: ast.Expr, other: PropType) -> str | None:
    return date_hint(expr, other) if isinstance(expr, ast.Literal) else None


def _show(expr: ast.Expr) -> str:
    if isinstance(expr, ast.PropRef):
        return f"`${expr.var}.{expr.name}`"
    if isinstance(expr, ast.Var):
        return f"`${expr.name}`"
    if isinstance(expr, ast.Now):
        return "now()"
    if isinstance(expr, ast.Literal):
        return f"the {describe(expr)}"
    return "the expression"
