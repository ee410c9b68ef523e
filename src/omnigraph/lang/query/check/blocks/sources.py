"""Checks sources of rows: other queries, lists of parameters and of properties (T6, T26, T30, T35)."""

from __future__ import annotations

from typing import NoReturn

from omnigraph.lang.query import ir
from omnigraph.lang.query.check.blocks.naming import (
    refuse_optional,
    refuse_parameter,
    refuse_used_inside,
)
from omnigraph.lang.query.check.scope import ANONYMOUS, BoundVariable, Context, Scope, declared
from omnigraph.lang.query.check.terms.applying import Typed
from omnigraph.lang.query.check.terms.conditions import Block, Conditions
from omnigraph.lang.query.check.terms.literals import constant, vector_constant
from omnigraph.lang.query.syntax import ast
from omnigraph.spans import Span
from omnigraph.spelling import did_you_mean
from omnigraph.types import PropType, Unfit, from_json

MOST_NESTED = 100
"""How many queries may be sources of one another; beyond it lies the end of the interpreter's stack."""


# ------------------------------------------------------------------ lists


def list_elements(context: Context, scope: Scope, clause: ast.ForIn) -> ir.Elements | ir.Unroll:
    """`for $x in $list`, or over a list property of an earlier variable."""
    if clause.property is not None:
        return _unrolled(context, scope, clause)
    known = context.params.get(clause.list)
    if known is None:
        if scope.get(clause.list) is not None:
            context.fail(
                "T35",
                f"`for` takes a list, and `${clause.list}` is a variable",
                clause.list_span,
                f"name a list property of it: `${clause.list}.<property>`",
            )
        context.parameter(ast.Var(clause.list, clause.list_span), "the list of `for`")
    assert known is not None
    if isinstance(known, ir.RecordList):
        var = _row_name(context, scope, clause.var, clause.span)
        fields = {name: ir.PropertyOf(var, name, kind) for name, kind in known.fields}
        scope.variables[var] = BoundVariable(var, "row", "", columns=fields)
        return ir.Elements(var, ir.RecordsRef(clause.list, known))
    if not known.is_list:
        context.fail(
            "T35",
            f"`for` takes a list, and `${clause.list}` is {known.display}",
            clause.list_span,
        )
    var = _element(context, scope, clause, known.element)
    return ir.Elements(var, ir.ParamRef(clause.list, known))


def _unrolled(context: Context, scope: Scope, clause: ast.ForIn) -> ir.Unroll:
    name = clause.property or ""
    owner = scope.get(clause.list)
    if owner is None or owner.kind == "path":
        context.fail(
            "T35" if owner is not None or clause.list in context.params else "T6",
            f"`${clause.list}` is no variable with a list property `{name}` here",
            clause.list_span,
            did_you_mean(clause.list, scope.names()),
        )
    refuse_optional(context, scope, owner, clause.list_span)
    if owner.kind == "row":
        column = owner.columns.get(name)
        if column is None:
            context.fail("T6", f"`${clause.list}` has no column `{name}`", clause.list_span)
        kind = column.type if isinstance(column, ir.PropertyOf) else None
    else:
        kind = declared(context, owner, name, clause.list_span).type
    if kind is None or not kind.is_list:
        got = "a node" if kind is None else kind.display
        if isinstance(owner.columns.get(name), ir.Shape):
            got = "made of objects, which have no elements here"
        context.fail(
            "T35", f"`for` takes a list, and `${clause.list}.{name}` is {got}", clause.list_span
        )
    kind = kind.as_nullable(kind.nullable or owner.nullable)
    var = _element(context, scope, clause, kind.element)
    return ir.Unroll(var, ir.PropertyOf(clause.list, name, kind))


def _element(context: Context, scope: Scope, clause: ast.ForIn, kind: PropType) -> str:
    var = _row_name(context, scope, clause.var, clause.span)
    columns = {ir.ELEMENT: ir.PropertyOf(var, ir.ELEMENT, kind)}
    scope.variables[var] = BoundVariable(var, "row", "", columns=columns)
    return var


def _row_name(context: Context, scope: Scope, var: str, span: Span) -> str:
    """The name of a new row variable (T26)."""
    if var == ANONYMOUS:
        return context.hidden()
    refuse_parameter(context, var, span)
    if scope.get(var) is not None:
        context.fail("T26", f"`${var}` is already bound", span, "give the rows a name of their own")
    refuse_used_inside(context, scope, var, span)
    return var


# ------------------------------------------------------------------ queries


def query_rows(context: Context, scope: Scope, clause: ast.Rows) -> ir.Rows:
    """`$r: name(a, b)`: the rows of another query of the same source."""
    query = _source(context, clause)
    args = _arguments(context, scope, clause, query)
    var = _row_name(context, scope, clause.var, clause.span)
    plan = context.plans.get(clause.name)
    if plan is None:
        assert context.compile_source is not None
        plan = context.compile_source(context, query)
        context.plans[clause.name] = plan
    context.has_periods |= plan.has_periods
    columns = _columns(plan, query, var)
    scope.variables[var] = BoundVariable(var, "row", clause.name, columns=columns)
    return ir.Rows(var, plan, args)


def _source(context: Context, clause: ast.Rows) -> ast.Query:
    query = context.others.get(clause.name)
    if query is None:
        context.fail(
            "T35",
            f"there is no query `{clause.name}` in this source to take rows from",
            clause.name_span,
            did_you_mean(clause.name, context.others),
        )
    if query.is_mutation:
        context.fail("T35", f"`{clause.name}` is a mutation and gives no rows", clause.name_span)
    if clause.name in (*context.callers, context.query.name):
        context.fail("T35", f"query `{clause.name}` cannot take rows from itself", clause.name_span)
    if len(context.callers) >= MOST_NESTED:
        context.fail(
            "T35",
            f"more than {MOST_NESTED} queries take rows from one another, down to `{clause.name}`",
            clause.name_span,
        )
    return query


def _columns(
    plan: ir.ReadPlan, query: ast.Query, var: str
) -> dict[str, ir.PropertyOf | ir.RowNode | ir.Shape]:
    """The columns with an alias; one that is a node hands the node over, and objects are handed over whole."""
    assert isinstance(query.body, ast.ReadBody)
    aliases = {item.alias for item in query.body.items if item.alias is not None}
    nodes = {one.name: one for one in plan.variables if one.kind == "node"}
    found: dict[str, ir.PropertyOf | ir.RowNode | ir.Shape] = {}
    for column in plan.columns:
        if column.name not in aliases:
            continue
        if isinstance(column.expr, ir.NodeId):
            node = nodes[column.expr.var]
            found[column.name] = ir.RowNode(var, column.name, node.type_name, node.nullable)
        elif isinstance(column.expr, ir.RowNode):
            handed = column.expr
            found[column.name] = ir.RowNode(
                var, column.name, handed.type_name, column.type.nullable
            )
        elif isinstance(column.type, PropType):
            found[column.name] = ir.PropertyOf(var, column.name, column.type)
        else:
            found[column.name] = ir.Shape(var, "row", column.type, column.name)
    return found


def _arguments(
    context: Context, scope: Scope, clause: ast.Rows, query: ast.Query
) -> tuple[ir.Expr | ir.RecordsRef, ...]:
    params = query.params
    least = max((at + 1 for at, one in enumerate(params) if not one.type.nullable), default=0)
    if not least <= len(clause.args) <= len(params):
        wanted = str(least) if least == len(params) else f"{least} to {len(params)}"
        many = "argument" if wanted == "1" else "arguments"
        verb = "is" if len(clause.args) == 1 else "are"
        context.fail(
            "T35",
            f"query `{clause.name}` takes {wanted} {many}, and {len(clause.args)} {verb} given",
            clause.span,
        )
    reader = _Arguments(context, scope, clause)
    given = [reader.argument(param, arg) for param, arg in zip(params, clause.args, strict=False)]
    for param in params[len(clause.args) :]:
        kind = param.type
        given.append(
            ir.Const(None, kind if isinstance(kind, PropType) else PropType.parse("Bool?"))
        )
    return tuple(given)


class _Arguments(Conditions):
    """The arguments of a source: expressions without variables."""

    def __init__(self, context: Context, scope: Scope, clause: ast.Rows) -> None:
        super().__init__(context, Scope())
        self.around = scope
        self.clause = clause

    def argument(self, param: ast.Param, arg: ast.Expr) -> ir.Expr | ir.RecordsRef:
        """An argument as a value of the type that is declared."""
        kind = param.type
        if isinstance(kind, ir.RecordList):
            return self._records(param.name, kind, arg)
        if isinstance(arg, ast.Literal):
            return self._literal(param.name, kind, arg)
        value, given = self.value(arg)
        if not _suits(given, kind):
            self._refuse(param.name, kind, given.display, arg.span)
        return value

    def _records(self, name: str, kind: ir.RecordList, arg: ast.Expr) -> ir.RecordsRef:
        known = self.context.params.get(arg.name) if isinstance(arg, ast.Var) else None
        if not isinstance(arg, ast.Var) or not isinstance(known, ir.RecordList):
            self._refuse(name, kind, "something else", arg.span)
        if known.fields != kind.fields:
            self._refuse(name, kind, known.display, arg.span)
        return ir.RecordsRef(arg.name, known)

    def _literal(self, name: str, kind: PropType, literal: ast.Literal) -> ir.Const:
        if kind.dim is not None and literal.kind == "list":
            what = f"parameter `${name}` of query `{self.clause.name}`"
            return vector_constant(self.context, literal, kind.dim, "T35", what)
        const = constant(self.context, literal)
        if not _suits(const.type, kind) and const.value != []:
            self._refuse(name, kind, const.type.display, literal.span)
        target = kind.as_nullable(False)
        if not target.element.is_numeric:
            return ir.Const(const.value, target)
        try:
            return ir.Const(from_json(target, const.value), target)
        except Unfit as unfit:
            self.context.fail(
                "T35", f"parameter `${name}` of query `{self.clause.name}`: {unfit}", literal.span
            )

    def _refuse(self, name: str, kind: PropType | ir.RecordList, got: str, span: Span) -> NoReturn:
        self.context.fail(
            "T35",
            f"parameter `${name}` of query `{self.clause.name}` is {kind.display} and cannot be {got}",
            span,
        )

    def property(self, ref: ast.PropRef) -> Typed:
        """Variables are unknown here."""
        return self.variable(ast.Var(ref.var, ref.span))

    def variable(self, var: ast.Var) -> Typed:
        """A parameter."""
        if self.around.get(var.name) is not None:
            self.context.fail(
                "T35",
                f"an argument of query `{self.clause.name}` cannot use the variable `${var.name}`: "
                "a source runs once, before the match",
                var.span,
                "compare with its columns in a clause of its own",
            )
        return self.unbound(var)

    def block(self, block: Block) -> ir.Exists:
        """Blocks are unknown here."""
        self.context.fail(
            "T35", f"an argument of query `{self.clause.name}` cannot hold a block", block.span
        )


def _suits(given: PropType, kind: PropType) -> bool:
    if given.is_list != kind.is_list or given.dim != kind.dim:
        return False
    if given.scalar == kind.scalar or (given.element.is_integer and kind.element.is_numeric):
        return True
    return given.element.is_float and kind.element.is_float
