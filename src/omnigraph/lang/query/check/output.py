"""Checks `return`, `order` and `limit`: columns, aggregates, sort keys and the ranking."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.cancel import look
from omnigraph.lang.query import ir
from omnigraph.lang.query.aggregates import AGGREGATES
from omnigraph.lang.query.check.operands import (
    INSTANT,
    NOW,
    constant,
    readable_parameter,
    readable_property,
)
from omnigraph.lang.query.check.rankings import ranking
from omnigraph.lang.query.check.scope import Context, Scope
from omnigraph.lang.query.syntax import ast
from omnigraph.lang.query.syntax.foreign import for_bare_word
from omnigraph.spelling import did_you_mean
from omnigraph.types import TEXT, PropType, Scalar

F64 = PropType(Scalar.F64)


@dataclass(frozen=True, slots=True)
class CheckedOutput:
    """Everything after the match."""

    columns: tuple[ir.Column, ...]
    ranking: ir.Ranking | None
    order: tuple[ir.SortKey, ...]
    limit: int | None


def output(context: Context, scope: Scope, body: ast.ReadBody) -> CheckedOutput:
    """Resolve the output of a read query (T6, T8, T9, T17, T18, T23, T24, T28)."""
    columns = _columns(context, scope, body.items)
    first = _first_key_ranking(body)
    rank, keys = _order(context, scope, body, columns, first)
    for item in body.items:
        if _is_ranking(item.expr) and item.expr != first:
            context.fail(
                "T28",
                "a score can be returned only when the same call is the first sort key",
                item.span,
            )
    return CheckedOutput(columns, rank, keys, body.limit)


# ------------------------------------------------------------------ columns


def _columns(context: Context, scope: Scope, items: tuple[ast.Item, ...]) -> tuple[ir.Column, ...]:
    grouped = any(_is_aggregate(item.expr) for item in items)
    columns: dict[str, ir.Column] = {}
    for item in items:
        look()
        expr, kind = _value(context, scope, item.expr)
        if grouped and not isinstance(expr, ir.Aggregate | ir.PropertyOf | ir.NodeId):
            context.fail(
                "T9",
                "next to an aggregate only properties and node variables can be returned",
                item.span,
            )
        name = item.alias if item.alias is not None else _column_name(item.expr)
        if name in columns:
            context.fail(
                "T28", f"two output columns are called `{name}`", item.span, "give one an alias"
            )
        columns[name] = ir.Column(name, expr, kind)
    return tuple(columns.values())


def _column_name(expr: ast.Expr) -> str:
    if isinstance(expr, ast.PropRef):
        return f"{expr.var}.{expr.name}"
    if isinstance(expr, ast.Var):
        return expr.name
    if isinstance(expr, ast.Call):
        return expr.function
    return "now" if isinstance(expr, ast.Now) else "literal"


def _value(context: Context, scope: Scope, expr: ast.Expr) -> tuple[ir.Output, PropType]:
    if isinstance(expr, ast.PropRef):
        return readable_property(context, scope, expr)
    if isinstance(expr, ast.Var):
        return _variable(context, scope, expr)
    if isinstance(expr, ast.Literal):
        const = constant(context, expr)
        return const, const.type
    if isinstance(expr, ast.Now):
        return NOW, INSTANT
    if isinstance(expr, ast.Name):
        context.fail(
            "T28",
            f"`{expr.name}` is a bare word and cannot be returned",
            expr.span,
            for_bare_word(expr.name),
        )
    if expr.function in ast.AGGREGATES:
        aggregate = _aggregate(context, scope, expr)
        return aggregate, aggregate.type
    if expr.function in ast.RANKINGS:
        return ir.Score(), F64
    context.fail("T28", f"`{expr.function}(…)` is a predicate and cannot be returned", expr.span)


def _variable(context: Context, scope: Scope, var: ast.Var) -> tuple[ir.Output, PropType]:
    variable = scope.get(var.name)
    if variable is None and var.name in context.params:
        param = readable_parameter(context, var)
        return param, param.type
    if variable is None:
        context.fail(
            "T26",
            f"`${var.name}` is neither a bound variable nor a declared parameter",
            var.span,
            did_you_mean(var.name, [*scope.names(), *context.params]),
        )
    if variable.kind == "edge":
        context.fail(
            "T23",
            f"edge variable `${var.name}` cannot be used bare",
            var.span,
            f"return one of its properties: `${var.name}.<property>`",
        )
    return ir.NodeId(var.name), TEXT


def _aggregate(context: Context, scope: Scope, call: ast.Call) -> ir.Aggregate:
    arg = call.args[0]
    if isinstance(arg, ast.Call | ast.Name):
        context.fail("T8", f"{call.function}() cannot take this argument", arg.span)
    value, kind = _value(context, scope, arg)
    assert not isinstance(value, ir.Aggregate | ir.Score)  # calls were refused above
    function = AGGREGATES[call.function]
    is_node = isinstance(value, ir.NodeId)
    if not (function.takes.allows_nodes if is_node else function.takes.allows(kind)):
        got = "a node" if is_node else kind.display
        context.fail("T8", f"{function.name}() takes {function.takes.words}, not {got}", arg.span)
    return ir.Aggregate(function.name, value, function.result(kind))


# ------------------------------------------------------------------ order


def _is_aggregate(expr: ast.Expr) -> bool:
    return isinstance(expr, ast.Call) and expr.function in ast.AGGREGATES


def _is_ranking(expr: ast.Expr) -> bool:
    return isinstance(expr, ast.Call) and expr.function in ast.RANKINGS


def _aliased_ranking(body: ast.ReadBody, key: ast.SortKey) -> ast.Call | None:
    """The ranking behind a sort key that is the alias (or name) of a returned score."""
    if not isinstance(key.expr, ast.Name):
        return None
    for item in body.items:
        name = item.alias if item.alias is not None else _column_name(item.expr)
        if name == key.expr.name and _is_ranking(item.expr) and isinstance(item.expr, ast.Call):
            return item.expr
    return None


def _first_key_ranking(body: ast.ReadBody) -> ast.Call | None:
    if not body.order:
        return None
    key = body.order[0]
    if isinstance(key.expr, ast.Call) and _is_ranking(key.expr):
        return key.expr
    return _aliased_ranking(body, key)


def _order(
    context: Context,
    scope: Scope,
    body: ast.ReadBody,
    columns: tuple[ir.Column, ...],
    first: ast.Call | None,
) -> tuple[ir.Ranking | None, tuple[ir.SortKey, ...]]:
    grouped = any(isinstance(column.expr, ir.Aggregate) for column in columns)
    rank: ir.Ranking | None = None
    rest = body.order
    if first is not None:
        key, rest = body.order[0], body.order[1:]
        if grouped:
            context.fail("T28", "an aggregate query cannot be ordered by a ranking", key.span)
        _check_direction(context, key, first)
        rank = ranking(context, scope, first, body.limit)
    keys: list[ir.SortKey] = []
    for key in rest:
        if _is_ranking(key.expr) or _aliased_ranking(body, key) is not None:
            context.fail("T28", "a ranking must be the first sort key", key.span)
        if isinstance(rank, ir.Nearest) and isinstance(key.expr, ast.Name):
            context.fail(
                "T18",
                "ordering by nearest() cannot be combined with alias sort keys",
                key.span,
                "break ties by a property instead",
            )
        keys.append(_sort_key(context, scope, body, columns, key, grouped))
    return rank, tuple(keys)


def _check_direction(context: Context, key: ast.SortKey, call: ast.Call) -> None:
    """Rankings are best first: `asc` contradicts bm25 and rrf, `desc` contradicts a distance."""
    wrong = "desc" if call.function == "nearest" else "asc"
    if key.direction == wrong:
        context.fail(
            "T28",
            f"{call.function}() is always best first and cannot be ordered `{wrong}`",
            key.span,
        )


def _sort_key(
    context: Context,
    scope: Scope,
    body: ast.ReadBody,
    columns: tuple[ir.Column, ...],
    key: ast.SortKey,
    grouped: bool,
) -> ir.SortKey:
    descending = key.direction == "desc"
    if isinstance(key.expr, ast.Name):
        at = _column_index(context, columns, key.expr)
        _require_orderable(context, columns[at].type, key)
        return ir.SortKey(None, at, descending)
    if not isinstance(key.expr, ast.PropRef):
        context.fail(
            "T28",
            "a sort key is a property, an output alias or a ranking",
            key.span,
            "give the expression an alias in `return` and order by that",
        )
    prop, kind = readable_property(context, scope, key.expr)
    _require_orderable(context, kind, key)
    if not grouped:
        assert isinstance(prop, ir.PropertyOf)
        return ir.SortKey(prop, None, descending)
    for at, item in enumerate(body.items):
        if item.expr == key.expr and item.alias is None:
            return ir.SortKey(None, at, descending)
    context.fail(
        "T28",
        "an aggregate query can be ordered only by its output columns",
        key.span,
        "return the property, or order by the alias it is returned under",
    )


def _column_index(context: Context, columns: tuple[ir.Column, ...], name: ast.Name) -> int:
    for at, column in enumerate(columns):
        if column.name == name.name:
            return at
    context.fail(
        "T28",
        f"there is no output column `{name.name}` to order by",
        name.span,
        did_you_mean(name.name, [column.name for column in columns]),
    )


def _require_orderable(context: Context, kind: PropType, key: ast.SortKey) -> None:
    if kind.is_list or kind.is_vector:
        what = "a vector" if kind.is_vector else "a list"
        context.fail("T28", f"{what} cannot be ordered by", key.span)
