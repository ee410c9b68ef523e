"""Checks what follows `return`: `having`, `order`, `limit` and `offset` (T17, T21, T28, T31, T32, T34, T37)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from omnigraph.lang.query import ir
from omnigraph.lang.query.check.returned.items import Items
from omnigraph.lang.query.check.returned.return_clause import (
    CheckedColumns,
    column_name,
    columns_of,
)
from omnigraph.lang.query.check.scope import BoundVariable, Context, Scope
from omnigraph.lang.query.check.terms.applying import Typed
from omnigraph.lang.query.check.terms.conditions import Block, Conditions, conjuncts, word_of
from omnigraph.lang.query.check.terms.expressions import shown
from omnigraph.lang.query.check.terms.searches import ranking
from omnigraph.lang.query.syntax import ast
from omnigraph.spans import Span
from omnigraph.spelling import did_you_mean
from omnigraph.types import PropType


@dataclass(frozen=True, slots=True)
class CheckedOutput:
    """Everything after the match."""

    columns: tuple[ir.Column, ...]
    ranking: ir.Ranking | None
    order: tuple[ir.SortKey, ...]
    limit: ir.Count | None
    offset: ir.Count | None
    having: tuple[ir.Condition, ...]


def output(context: Context, scope: Scope, body: ast.ReadBody) -> CheckedOutput:
    """Resolve the output of a read query."""
    checked = columns_of(context, scope, body.items, body.distinct)
    having = tuple(
        part
        for condition in body.having
        for part in conjuncts(_Having(context, scope, checked).condition(condition))
    )
    limit = _count(context, scope, body.limit, "limit")
    offset = _count(context, scope, body.offset, "offset")
    scores = _scores(body)
    first = _ranking_key(body.order[0], scores) if body.order else None
    rank, keys = _order(context, scope, body, checked, first, limit=limit)
    for score in scores.values():
        if score != first:
            context.fail(
                "T28",
                "a score can be returned only when the same call is the first sort key",
                score.span,
            )
    return CheckedOutput(checked.columns, rank, keys, limit, offset, having)


def _count(
    context: Context, scope: Scope, count: int | ast.Var | None, word: str
) -> ir.Count | None:
    """`limit` and `offset`: a number, or a required integer parameter (T32)."""
    if not isinstance(count, ast.Var):
        return count
    if scope.get(count.name) is not None:
        context.fail("T32", f"`{word} ${count.name}` needs a parameter, not a variable", count.span)
    if isinstance(context.params.get(count.name), ir.RecordList):
        context.fail("T32", f"`{word} ${count.name}` needs an integer parameter", count.span)
    param = context.parameter(count, f"the {word}")
    if not param.type.is_integer or param.type.nullable:
        context.fail(
            "T32",
            f"`{word} ${count.name}` needs a required integer parameter, not {param.type.display}",
            count.span,
            f"declare it as `${count.name}: I64`",
        )
    return param


# ------------------------------------------------------------------ order


def _scores(body: ast.ReadBody) -> dict[str, ast.Call]:
    """The rankings that are returned, by the names of their columns."""
    return {
        column_name(item): item.expr
        for item in body.items
        if isinstance(item.expr, ast.Call) and item.expr.function in ast.RANKINGS
    }


def _ranking_key(key: ast.SortKey, scores: dict[str, ast.Call]) -> ast.Call | None:
    """The ranking that a sort key is, or whose score it names."""
    if isinstance(key.expr, ast.Name):
        return scores.get(key.expr.name)
    if isinstance(key.expr, ast.Call) and key.expr.function in ast.RANKINGS:
        return key.expr
    return None


def _order(
    context: Context,
    scope: Scope,
    body: ast.ReadBody,
    checked: CheckedColumns,
    first: ast.Call | None,
    *,
    limit: ir.Count | None,
) -> tuple[ir.Ranking | None, tuple[ir.SortKey, ...]]:
    rank: ir.Ranking | None = None
    rest = body.order
    if first is not None:
        key, rest = body.order[0], body.order[1:]
        if body.distinct:
            context.fail("T31", "`return distinct` cannot be ordered by a ranking", key.span)
        if checked.grouped:
            context.fail("T28", "an aggregate query cannot be ordered by a ranking", key.span)
        _check_direction(context, key, first)
        rank = ranking(context, scope, first, limit)
    keys: list[ir.SortKey] = []
    scores = _scores(body) if rest else {}
    for key in rest:
        if _ranking_key(key, scores) is not None:
            context.fail("T28", "a ranking must be the first sort key", key.span)
        keys.append(_sort_key(context, scope, checked, key, body.distinct))
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
    context: Context, scope: Scope, checked: CheckedColumns, key: ast.SortKey, distinct: bool
) -> ir.SortKey:
    descending = key.direction == "desc"
    if isinstance(key.expr, ast.Name):
        at = _column_index(context, checked.columns, key.expr)
        _require_orderable(context, checked.columns[at].expr, checked.columns[at].type, key)
        return ir.SortKey(None, at, descending)
    if checked.grouped or distinct:
        found = checked.unaliased(key.expr)
        if found is None:
            what = "an aggregate" if checked.grouped else "a distinct"
            if isinstance(key.expr, ast.PropRef):
                Items(context, scope).property(key.expr)
            context.fail(
                "T28",
                f"{what} query can be ordered only by its output columns",
                key.span,
                "return it, or order by the alias it is returned under",
            )
        _require_orderable(context, checked.columns[found].expr, checked.columns[found].type, key)
        return ir.SortKey(None, found, descending)
    expr, kind = _Keys(context, scope).value(key.expr)
    _require_orderable(context, expr, kind, key)
    if next(ir.mentioned(expr), None) is None:
        context.fail(
            "T28",
            "a sort key is a property, an expression over a variable, an output alias or a ranking",
            key.span,
            "what is the same in every row puts nothing in order",
        )
    return ir.SortKey(expr, None, descending)


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


def _require_orderable(
    context: Context, expr: ir.Output, kind: ir.ValueType, key: ast.SortKey
) -> None:
    if isinstance(kind, PropType) and not (kind.is_list or kind.is_vector):
        return
    if isinstance(expr, ir.PathValue) and expr.what == "path":
        context.fail("T34", f"the path `${expr.var}` cannot be ordered by", key.span)
    what = "a list" if not isinstance(kind, ir.ObjectType) else "an object"
    if isinstance(kind, PropType) and kind.is_vector:
        what = "a vector"
    context.fail("T28", f"{what} cannot be ordered by", key.span)


class _Keys(Items):
    """Resolves sort keys over the row."""

    def node(self, variable: BoundVariable, var: ast.Var) -> NoReturn:
        """A node has no order."""
        self.context.fail(
            "T28",
            f"`${var.name}` is a {variable.type_name}, and a whole node cannot be ordered by",
            var.span,
            "order by one of its properties, or by `id($x)`",
        )

    def aggregate(self, call: ast.Call) -> Typed:
        """Nothing is grouped here."""
        self.context.fail(
            "T28",
            f"`{call.function}(…)` is no sort key: the query returns no aggregate",
            call.span,
            "return it under an alias and order by that",
        )

    def refused_call(self, call: ast.Call) -> NoReturn:
        """A text predicate, or a ranking inside an expression."""
        self.context.fail("T28", f"`{call.function}(…)` is no sort key", call.span)


# ------------------------------------------------------------------ having


class _Having(Conditions):
    """Resolves conditions on output rows: operands are columns, literals and parameters (T37)."""

    def __init__(self, context: Context, scope: Scope, checked: CheckedColumns) -> None:
        super().__init__(context, Scope())
        self.around = scope
        self.checked = checked

    def _output(self, at: int, expr: ast.Expr) -> Typed:
        kind = self.checked.columns[at].type
        if not isinstance(kind, PropType):
            self.context.fail(
                "T7", f"the column {shown(expr)} is an object and cannot be compared", expr.span
            )
        return ir.ColumnValue(at, kind), kind

    def name(self, expr: ast.Name) -> Typed:
        """An output column by its name."""
        at = self.checked.at(expr.name)
        if at is None:
            if expr.name == "null":
                return super().name(expr)
            names = [column.name for column in self.checked.columns]
            self._refuse(f"`{expr.name}`", expr.span, did_you_mean(expr.name, names))
        return self._output(at, expr)

    def property(self, ref: ast.PropRef) -> Typed:
        """`$x.p`, where it is returned without an alias."""
        at = self.checked.unaliased(ref)
        if at is None:
            self._refuse(shown(ref), ref.span)
        return self._output(at, ref)

    def variable(self, var: ast.Var) -> Typed:
        """`$x`, where it is returned without an alias; else a parameter."""
        at = self.checked.unaliased(var)
        if at is not None:
            return self._output(at, var)
        if self.around.get(var.name) is not None:
            self._refuse(shown(var), var.span)
        return self.unbound(var)

    def aggregate(self, call: ast.Call) -> Typed:
        """An aggregate is a column first."""
        self._refuse(f"`{call.function}(…)`", call.span)

    def refused_call(self, call: ast.Call) -> NoReturn:
        """A ranking or a text predicate."""
        self._refuse(f"`{call.function}(…)`", call.span)

    def of_variable(self, call: ast.Call) -> NoReturn:
        """What is asked of a variable, such as its id, is a column first."""
        self._refuse(f"`{call.function}(…)`", call.span)

    def condition(self, condition: ast.Condition) -> ir.Condition:
        """A condition; text predicates look at nodes, not at columns."""
        if isinstance(condition, ast.TextClause):
            self.refused_call(condition.call)
        return super().condition(condition)

    def block(self, block: Block) -> ir.Exists:
        """Blocks look at the match."""
        self._refuse(f"`{word_of(block)} {{ … }}`", block.span)

    def _refuse(self, what: str, span: Span, hint: str | None = None) -> NoReturn:
        self.context.fail(
            "T37",
            f"{what} is no output column, and `having` looks at output rows",
            span,
            hint or "return it under an alias and name that",
        )
