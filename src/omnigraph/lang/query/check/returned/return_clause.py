"""Checks `return`: its columns, their names, and the keys that aggregates are grouped by (T9, T28, T31, T34)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from omnigraph.cancel import look
from omnigraph.lang.query import ir
from omnigraph.lang.query.check.returned.items import (
    GroupedItems,
    Items,
    Returned,
    shaped_variable,
    shown_properties,
)
from omnigraph.lang.query.check.scope import Context, Scope
from omnigraph.lang.query.functions import F64
from omnigraph.lang.query.syntax import ast
from omnigraph.types import PropType


@dataclass(frozen=True, slots=True)
class CheckedColumns:
    """The columns of an output, and the item behind each; a star has several columns."""

    columns: tuple[ir.Column, ...]
    items: tuple[ast.Item, ...]
    grouped: bool

    def at(self, name: str) -> int | None:
        """Where the column of that name is."""
        for at, column in enumerate(self.columns):
            if column.name == name:
                return at
        return None

    def unaliased(self, expr: ast.Expr) -> int | None:
        """Where the column is that is written like this and has no alias."""
        for at, item in enumerate(self.items):
            if item.alias is None and item.expr == expr:
                return at
        return None


def has_aggregate(expr: object) -> bool:
    """Whether an aggregate stands somewhere in an expression; blocks have none of their own."""
    if isinstance(expr, ast.Call):
        return expr.function in ast.AGGREGATES or any(map(has_aggregate, expr.args))
    if isinstance(expr, (ast.PropRef, ast.Var)):
        return False
    match expr:
        case ast.Arithmetic() | ast.Comparison():
            return has_aggregate(expr.left) or has_aggregate(expr.right)
        case ast.Minus() | ast.Nullness():
            return has_aggregate(expr.operand)
        case ast.Truth():
            return has_aggregate(expr.condition)
        case ast.Bare():
            return has_aggregate(expr.expr)
        case ast.And() | ast.Or():
            return any(map(has_aggregate, expr.parts))
        case ast.Negated():
            return has_aggregate(expr.part)
    return False


def column_name(item: ast.Item) -> str:
    """The name of a column: its alias, else what it is."""
    if item.alias is not None:
        return item.alias
    match item.expr:
        case ast.PropRef():
            return f"{item.expr.var}.{item.expr.name}"
        case ast.Var():
            return item.expr.name
        case ast.Shape():
            return item.expr.var
        case ast.Call():
            return item.expr.function
        case ast.Exists():
            return "exists"
        case ast.Now():
            return "now"
        case ast.Literal():
            return "literal"
        case _:
            return "expr"


# ------------------------------------------------------------------ columns


def columns_of(
    context: Context, scope: Scope, items: tuple[ast.Item, ...], distinct: bool = False
) -> CheckedColumns:
    """Resolve the items of `return`."""
    spread: list[ast.Item] = []
    for item in items:
        if isinstance(item.expr, ast.Star):
            spread += _spread(context, scope, item, item.expr)
        else:
            spread.append(item)
    if not spread:
        context.fail(
            "T28",
            "the query returns no column: its types have no property that can be shown",
            items[0].span,
            "return the node, or `id($x)`",
        )
    computed = [at for at, item in enumerate(spread) if has_aggregate(item.expr)]
    grouped = bool(computed)
    reader = Items(context, scope)
    found: dict[int, Returned] = {}
    keys: list[tuple[ast.Expr, ir.ColumnValue]] = []
    for at, item in enumerate(spread):
        look()
        if at in computed:
            continue
        found[at] = _plain(reader, item, grouped)
        if grouped:
            keys.append((item.expr, ir.ColumnValue(at, found[at][1])))
    for at in computed:
        found[at] = GroupedItems(context, scope, keys).returned(spread[at].expr)
    columns: dict[str, ir.Column] = {}
    for at, item in enumerate(spread):
        name = column_name(item)
        if name in columns:
            context.fail(
                "T28", f"two output columns are called `{name}`", item.span, "give one an alias"
            )
        columns[name] = ir.Column(name, *found[at])
    if distinct:
        _check_distinct(context, spread, tuple(columns.values()), grouped)
    return CheckedColumns(tuple(columns.values()), tuple(spread), grouped)


def _spread(context: Context, scope: Scope, item: ast.Item, star: ast.Star) -> Iterator[ast.Item]:
    """`$x.*` as an item for each property but Blobs and vectors."""
    variable = shaped_variable(context, scope, star.var, star.span)
    for name in shown_properties(context, variable):
        yield ast.Item(ast.PropRef(star.var, name, item.span), None, item.span)


def _plain(reader: Items, item: ast.Item, grouped: bool) -> Returned:
    """A column without aggregates; beside them it is a key, and must be of some variable (T9, T34)."""
    context = reader.context
    if isinstance(item.expr, ast.Call) and item.expr.function in ast.RANKINGS:
        if grouped:
            context.fail("T9", "a score cannot be returned next to an aggregate", item.span)
        return ir.Score(), F64
    expr, kind = reader.returned(item.expr)
    if grouped:
        if isinstance(expr, ir.PathValue) and not isinstance(kind, PropType):
            context.fail("T34", f"the path `${expr.var}` cannot be a key to group by", item.span)
        if next(ir.mentioned(expr), None) is None:
            context.fail(
                "T9",
                "next to an aggregate only what depends on a variable can be returned",
                item.span,
            )
    return expr, kind


def _check_distinct(
    context: Context, items: list[ast.Item], columns: tuple[ir.Column, ...], grouped: bool
) -> None:
    if grouped:
        at = next(at for at, item in enumerate(items) if has_aggregate(item.expr))
        context.fail(
            "T31",
            "`return distinct` cannot hold an aggregate, which groups already",
            items[at].span,
            "leave out `distinct`",
        )
    for item, column in zip(items, columns, strict=True):
        what = None
        if isinstance(column.expr, ir.Score):
            what = "a score"
        elif isinstance(column.type, PropType) and column.type.is_vector:
            what = f"the vector `{column.name}`"
        elif isinstance(column.expr, ir.PathValue) and not isinstance(column.type, PropType):
            what = f"the path `${column.expr.var}`"
        if what is not None:
            context.fail("T31", f"`return distinct` cannot tell apart {what}", item.span)
