"""Checks expressions: operands, operators, functions, and what a variable may be asked (T6, T7, T14, T24, T29, T34, T35).

What an expression may hold differs by its place: output may hold aggregates, `where` the bare names of properties.
Such a place overrides the methods of ``Expressions`` that resolve names.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NoReturn

from omnigraph.lang.query import functions, ir
from omnigraph.lang.query.check.scope import (
    BoundVariable,
    Context,
    Scope,
    declared,
    found_variable,
)
from omnigraph.lang.query.check.terms.applying import (
    Typed,
    applied,
    called,
    one_kind,
    require_count,
)
from omnigraph.lang.query.check.terms.literals import constant, describe
from omnigraph.lang.query.check.terms.paths import path_value
from omnigraph.lang.query.functions import FUNCTIONS
from omnigraph.lang.query.syntax import ast
from omnigraph.lang.query.syntax.foreign import for_bare_word
from omnigraph.spans import Span
from omnigraph.spelling import did_you_mean
from omnigraph.types import TEXT, PropType, Scalar

INSTANT = PropType(Scalar.DATETIME)
NOW = ir.ParamRef(ir.NOW_PARAM, INSTANT)


def shown(expr: ast.Expr) -> str:
    """An operand as messages call it."""
    match expr:
        case ast.PropRef():
            return f"`${expr.var}.{expr.name}`"
        case ast.Var():
            return f"`${expr.name}`"
        case ast.Name():
            return f"`{expr.name}`"
        case ast.Now():
            return "now()"
        case ast.Literal():
            return f"the {describe(expr)}"
        case ast.Call():
            return f"{expr.function}(…)"
        case _:
            return "the expression"


class Expressions(ABC):
    """Resolves expressions over the variables of a scope, the parameters and literals."""

    def __init__(self, context: Context, scope: Scope) -> None:
        self.context = context
        self.scope = scope

    @abstractmethod
    def condition(self, condition: ast.Condition) -> ir.Condition:
        """Resolve a condition."""

    # -------------------------------------------------------------- what a place may override

    def name(self, expr: ast.Name) -> Typed:
        """A bare word; most places know none."""
        if expr.name in ("null", "none", "nil"):
            self.context.fail(
                "T7",
                f"`{expr.name}` is no value: whether one is missing is asked with `is null`",
                expr.span,
                "write `… is null` or `… is not null`",
            )
        self.context.fail(
            "T28",
            f"`{expr.name}` is a bare word, and a match knows no output aliases",
            expr.span,
            for_bare_word(expr.name),
        )

    def unbound(self, var: ast.Var) -> Typed:
        """`$name` that is no variable: a declared parameter."""
        param = self.context.parameter(var, "a value")
        if param.type.is_blob:
            self.context.fail(
                "T24", f"parameter `${var.name}` is a Blob and cannot be read", var.span
            )
        return param, param.type

    def node(self, variable: BoundVariable, var: ast.Var) -> Typed:
        """A bare node variable; most places take scalars only."""
        self.refuse_node(variable, var)

    def refuse_node(self, variable: BoundVariable, expr: ast.Expr) -> NoReturn:
        """A whole node where a scalar is compared (T7)."""
        hint = None
        if isinstance(expr, ast.Var):
            hint = f"compare properties, as in `${expr.name}.key`, or write `id(${expr.name})`"
        self.context.fail(
            "T7",
            f"{shown(expr)}, a {variable.type_name}, is a node, not a scalar; "
            "it can be compared only with another node",
            expr.span,
            hint,
        )

    def aggregate(self, call: ast.Call) -> Typed:
        """An aggregate; only output knows them."""
        self.context.fail(
            "T7",
            f"`{call.function}(…)` cannot be compared: an aggregate is not a scalar of one row",
            call.span,
            "return it under an alias and compare that in `having { … }`",
        )

    def refused_call(self, call: ast.Call) -> NoReturn:
        """A ranking or a text predicate in the place of a value."""
        why = "a text predicate stands alone"
        if call.function in ast.RANKINGS:
            why = "a ranking stands in `order`, it is not a scalar to compare"
        self.context.fail("T7", f"`{call.function}(…)` cannot be compared: {why}", call.span)

    # -------------------------------------------------------------- operands

    def value(self, expr: ast.Expr) -> Typed:
        """Resolve an expression to what computes it, and its type."""
        match expr:
            case ast.PropRef():
                return self.property(expr)
            case ast.Literal():
                const = constant(self.context, expr)
                return const, const.type
            case ast.Var():
                return self.variable(expr)
            case ast.Name():
                return self.name(expr)
            case ast.Now():
                return NOW, INSTANT
            case ast.Call():
                return self._call(expr)
            case ast.Arithmetic():
                return self._applied(expr.op, (expr.left, expr.right), expr.span)
            case ast.Minus():
                return self._applied("-", (expr.operand,), expr.span)
            case ast.Truth():
                return ir.Truth(self.condition(expr.condition)), functions.BOOL
            case ast.Exists():
                return ir.Truth(self.condition(expr)), functions.BOOL
        self.context.fail(
            "T28", "this can stand only as an item of `return`", expr.span, "return it on its own"
        )

    def property(self, ref: ast.PropRef) -> Typed:
        """`$x.p`: a property of a node or an edge, a column of a row (T6, T24, T34)."""
        context = self.context
        variable = found_variable(context, self.scope, ref.var, ref.span)
        if variable.kind == "row":
            return self._column(variable, ref)
        if variable.kind == "path":
            context.fail(
                "T34",
                f"`${ref.var}` is a path and has no property `{ref.name}` of its own",
                ref.span,
                f"ask for that of each of its parts: `nodes(${ref.var}.{ref.name})`, "
                f"`edges(${ref.var}.{ref.name})`",
            )
        kind = declared(context, variable, ref.name, ref.span).type
        if kind.is_blob:
            context.fail(
                "T24",
                f"`${ref.var}.{ref.name}` is a Blob and cannot be read by a query",
                ref.span,
                "read blobs through the blob API",
            )
        kind = kind.as_nullable(kind.nullable or variable.nullable)
        return ir.PropertyOf(ref.var, ref.name, kind), kind

    def _column(self, variable: BoundVariable, ref: ast.PropRef) -> Typed:
        column = variable.columns.get(ref.name)
        if column is None or not ref.name:
            known = [name for name in variable.columns if name]
            hint = did_you_mean(ref.name, known)
            if hint is None and known:
                hint = f"it has {', '.join(f'`{name}`' for name in known)}"
            what = "column with the alias" if variable.type_name else "field"
            self.context.fail("T6", f"`${ref.var}` has no {what} `{ref.name}`", ref.span, hint)
        if isinstance(column, ir.Shape):
            self.context.fail(
                "T35",
                f"`${ref.var}.{ref.name}` is made of objects, which can be returned and are no operand",
                ref.span,
                f"return each property under an alias in `{variable.type_name}`",
            )
        if isinstance(column, ir.RowNode):
            return column, TEXT.as_nullable(variable.nullable or column.nullable)
        self._refuse_blob(column.type, f"`${ref.var}.{ref.name}`", ref.span)
        if variable.nullable:
            column = ir.PropertyOf(column.var, column.property, column.type.as_nullable())
        return column, column.type

    def _refuse_blob(self, kind: PropType, what: str, span: Span) -> None:
        if kind.is_blob:
            self.context.fail("T24", f"{what} is a Blob and cannot be read by a query", span)

    def variable(self, var: ast.Var) -> Typed:
        """`$x` alone: a parameter or an element of a list; others are no scalars (T7, T23, T34, T35)."""
        variable = self.scope.get(var.name)
        if variable is None:
            return self.unbound(var)
        if variable.kind == "node":
            return self.node(variable, var)
        if variable.kind == "row":
            element = variable.element
            if element is not None:
                self._refuse_blob(element, f"`${var.name}`", var.span)
                kind = element.as_nullable(element.nullable or variable.nullable)
                return ir.PropertyOf(var.name, ir.ELEMENT, kind), kind
            self.bare_row(variable, var.span)
        if variable.kind == "path":
            self.bare_path(variable, var.span)
        self.context.fail(
            "T23",
            f"edge variable `${var.name}` cannot be used bare",
            var.span,
            f"read one of its properties: `${var.name}.<property>`",
        )

    def bare_row(self, variable: BoundVariable, span: Span) -> NoReturn:
        """A whole row where a value is due (T35)."""
        self.context.fail(
            "T35",
            f"`${variable.name}` is a whole row, which serves only in `count` and `is null`",
            span,
            f"name one of its columns: `${variable.name}.<column>`",
        )

    def bare_path(self, variable: BoundVariable, span: Span) -> NoReturn:
        """A whole path where a value is due (T34)."""
        self.context.fail(
            "T34",
            f"`${variable.name}` is a path: it can be returned, counted and tested for null, "
            "but is no operand and no key",
            span,
            f"ask for `length(${variable.name})` or `nodes(${variable.name})`",
        )

    def is_node(self, expr: ast.Expr) -> bool:
        """Whether an expression is a whole node: a variable, or a column that hands one over."""
        if isinstance(expr, ast.Var):
            found = self.scope.get(expr.name)
            return found is not None and found.kind == "node"
        if isinstance(expr, ast.PropRef):
            found = self.scope.get(expr.var)
            return found is not None and isinstance(found.columns.get(expr.name), ir.RowNode)
        return False

    # -------------------------------------------------------------- functions

    def _call(self, call: ast.Call) -> Typed:
        if call.function in ast.AGGREGATES:
            return self.aggregate(call)
        if call.function in ast.RANKINGS or call.function in ast.TEXT_CALLS:
            self.refused_call(call)
        if call.function == "if":
            return self._if(call)
        if call.function in functions.VARIABLE_FUNCTIONS or self._asks_path(call):
            return self.of_variable(call)
        return self._applied(call.function, call.args, call.span)

    def of_variable(self, call: ast.Call) -> Typed:
        """What is asked of a variable: its id or type, the length or the parts of a path."""
        return self._of_entity(call) if call.function in ("id", "type") else self._of_path(call)

    def _applied(self, word: str, args: tuple[ast.Expr, ...], span: Span) -> Typed:
        known = functions.written(word, len(args))
        require_count(self.context, word, known, args, span)
        operands = [self.operand(word, arg) for arg in args]
        return applied(self.context, word, args, operands, span)

    def operand(self, word: str, arg: ast.Expr) -> Typed:
        """One operand of an operator or a function; whole nodes are none (T29)."""
        if self.is_node(arg):
            self.context.fail("T29", f"{called(word)} takes no node: {shown(arg)}", arg.span)
        return self.value(arg)

    def _if(self, call: ast.Call) -> Typed:
        function = FUNCTIONS["if"]
        require_count(self.context, "if", [function], call.args, call.span)
        first = call.args[0]
        asked = first.condition if isinstance(first, ast.Truth) else ast.Bare(first, first.span)
        condition = ir.Truth(self.condition(asked))
        arms = [self.operand("if", arg) for arg in call.args[1:]]
        for arg, (_, kind) in zip(call.args[1:], arms, strict=True):
            if not functions.SCALAR.allows(kind):
                self.context.fail("T29", f"if() takes a scalar, not {kind.display}", arg.span)
        return one_kind(self.context, function, (condition,), arms, call.span)

    def _of_entity(self, call: ast.Call) -> Typed:
        """`id($x)` and `type($x)`."""
        variable = self._asked(call)
        if variable is None or variable.kind not in ("node", "edge"):
            self.context.fail(
                "T29", f"{call.function}() takes a node or an edge variable", call.span
            )
        kind = TEXT.as_nullable(variable.nullable)
        if call.function == "type":
            return ir.TypeName(variable.name), kind
        made = ir.NodeId if variable.kind == "node" else ir.EdgeId
        return made(variable.name), kind

    def _asked(self, call: ast.Call) -> BoundVariable | None:
        """The variable that a function of variables is asked of, with or without a property."""
        if len(call.args) != 1:
            self.context.fail(
                "T29",
                f"{call.function}() takes 1 argument, and {len(call.args)} are given",
                call.span,
            )
        arg = call.args[0]
        if isinstance(arg, ast.Var):
            found = self.scope.get(arg.name)
            if found is None and arg.name not in self.context.params:
                found_variable(self.context, self.scope, arg.name, arg.span)
            return found
        return None

    def _asks_path(self, call: ast.Call) -> bool:
        if (
            call.function != "length"
            or len(call.args) != 1
            or not isinstance(call.args[0], ast.Var)
        ):
            return False
        found = self.scope.get(call.args[0].name)
        return found is not None and found.kind == "path"

    def _of_path(self, call: ast.Call) -> Typed:
        value = path_value(self.context, self.scope, call)
        if not isinstance(value.type, PropType):
            self.context.fail(
                "T34",
                f"{call.function}(…) is a list of objects: it can be returned, but is no operand",
                call.span,
            )
        return value, value.type
