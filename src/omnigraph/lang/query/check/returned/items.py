"""Checks the items of `return`: nodes, shapes, paths and aggregates (T6, T8, T9, T24, T26, T28, T29)."""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

from omnigraph.lang.query import ir
from omnigraph.lang.query.aggregates import AGGREGATES, AggregateFunction
from omnigraph.lang.query.check.blocks.patterns import Patterns
from omnigraph.lang.query.check.scope import (
    BoundVariable,
    Context,
    Scope,
    common_properties,
    declared,
    found_variable,
)
from omnigraph.lang.query.check.terms.applying import Typed
from omnigraph.lang.query.check.terms.conditions import Block, word_of
from omnigraph.lang.query.check.terms.expressions import shown
from omnigraph.lang.query.check.terms.paths import path_value, whole_path
from omnigraph.lang.query.functions import I64
from omnigraph.lang.query.syntax import ast
from omnigraph.lang.query.syntax.foreign import for_bare_word
from omnigraph.spans import Span
from omnigraph.spelling import did_you_mean
from omnigraph.types import TEXT, PropType

Returned = tuple[ir.Output, ir.ValueType]


def shown_properties(context: Context, variable: BoundVariable) -> dict[str, PropType]:
    """What `*` stands for: all properties but Blobs and vectors."""
    properties = common_properties(context, variable)
    return {name: kind for name, kind in properties.items() if not (kind.is_blob or kind.is_vector)}


def shaped_variable(context: Context, scope: Scope, name: str, span: Span) -> BoundVariable:
    """A node or edge variable, for a shape or a star."""
    variable = found_variable(context, scope, name, span)
    if variable.kind == "row":
        context.fail("T35", f"`${name}` is a row; name its columns one by one", span)
    if variable.kind == "path":
        context.fail("T34", f"`${name}` is a path and has no properties", span)
    return variable


class Items(Patterns):
    """Resolves the expressions of items: nodes are their ids, paths and shapes are objects."""

    def returned(self, expr: ast.Expr) -> Returned:
        """Resolve a whole item without aggregates."""
        if isinstance(expr, ast.Shape):
            made = self.shape(expr)
            return made, made.type
        if isinstance(expr, ast.Var):
            variable = self.scope.get(expr.name)
            if variable is not None and variable.kind == "path":
                path = whole_path(self.context, variable)
                return path, path.type
        if isinstance(expr, ast.PropRef):
            objects = self.objects(expr)
            if objects is not None:
                return objects, objects.type
        if isinstance(expr, ast.Call) and expr.function == "edges":
            edges = path_value(self.context, self.scope, expr)
            return edges, edges.type
        return self.value(expr)

    def shape(self, shape: ast.Shape) -> ir.Shape:
        """`$x { a, b }` (T6, T24)."""
        variable = shaped_variable(self.context, self.scope, shape.var, shape.span)
        fields: dict[str, PropType] = {}
        if shape.names is None:
            fields = shown_properties(self.context, variable)
        for name in shape.names or ():
            kind = declared(self.context, variable, name, shape.span).type
            if kind.is_blob:
                self.context.fail(
                    "T24",
                    f"`${shape.var}.{name}` is a Blob and cannot be read by a query",
                    shape.span,
                )
            if name in fields:
                self.context.fail("T28", f"the shape names `{name}` twice", shape.span)
            fields[name] = kind
        kind_of = ir.ObjectType(tuple(fields.items()), variable.nullable)
        return ir.Shape(shape.var, "node" if variable.kind == "node" else "edge", kind_of)

    def objects(self, ref: ast.PropRef) -> ir.Shape | None:
        """The column of a source that is made of objects; None for anything else."""
        variable = self.scope.get(ref.var)
        column = None if variable is None else variable.columns.get(ref.name)
        if variable is None or not isinstance(column, ir.Shape):
            return None
        kind = column.type
        return replace(column, type=kind.as_nullable(kind.nullable or variable.nullable))

    def node(self, variable: BoundVariable, var: ast.Var) -> Typed:
        """A node is shown by its id."""
        return ir.NodeId(var.name), TEXT.as_nullable(variable.nullable)

    def name(self, expr: ast.Name) -> Typed:
        """A bare word; whether a value is missing is asked with `is null` here too."""
        if expr.name == "null":
            return super().name(expr)
        self.context.fail(
            "T28",
            f"`{expr.name}` is a bare word and cannot be returned",
            expr.span,
            for_bare_word(expr.name),
        )

    def unbound(self, var: ast.Var) -> Typed:
        """A parameter."""
        if var.name not in self.context.params:
            self.context.fail(
                "T26",
                f"`${var.name}` is neither a bound variable nor a declared parameter",
                var.span,
                did_you_mean(var.name, [*self.scope.names(), *self.context.params]),
            )
        return super().unbound(var)

    def refused_call(self, call: ast.Call) -> NoReturn:
        """A ranking or a text predicate."""
        what = "a predicate" if call.function in ast.TEXT_CALLS else "a score, which stands alone,"
        self.context.fail(
            "T28", f"`{call.function}(…)` is {what} and cannot be returned so", call.span
        )


class Arguments(Items):
    """Resolves the argument of an aggregate."""

    def __init__(self, context: Context, scope: Scope, function: str) -> None:
        super().__init__(context, scope)
        self.function = function

    def aggregate(self, call: ast.Call) -> Typed:
        """Aggregates do not nest (T8)."""
        self.context.fail(
            "T8", f"{self.function}() cannot take another aggregate, {call.function}()", call.span
        )

    def refused_call(self, call: ast.Call) -> NoReturn:
        """A ranking or a text predicate (T8)."""
        self.context.fail("T8", f"{self.function}() cannot take {shown(call)}", call.span)

    def name(self, expr: ast.Name) -> Typed:
        """A bare word (T8)."""
        self.context.fail(
            "T8", f"{self.function}() cannot take the bare word `{expr.name}`", expr.span
        )

    def taken(self, call: ast.Call) -> ir.Aggregate:
        """The aggregate, with an argument that it takes (T8)."""
        function = AGGREGATES[call.function]
        if len(call.args) != 1:
            self.context.fail(
                "T8",
                f"{function.name}() takes 1 argument, and {len(call.args)} are given",
                call.span,
            )
        arg = call.args[0]
        if isinstance(arg, ast.AllRows):
            return ir.Aggregate(function.name, None, I64)
        if call.distinct and not function.takes_distinct:
            self.context.fail("T8", f"{function.name}() takes no `distinct`", call.span)
        if isinstance(arg, ast.Shape):
            return self._of_shape(function, arg, call)
        row = self.scope.get(arg.name) if isinstance(arg, ast.Var) else None
        if row is not None and row.kind == "path":
            if function.name != "count" or call.distinct:
                self.bare_path(row, arg.span)
            return ir.Aggregate("count", whole_path(self.context, row), I64)
        if row is not None and row.kind == "row" and row.element is None:
            if function.name != "count":
                self.bare_row(row, arg.span)
            return ir.Aggregate("count", ir.RowNumber(row.name), I64, call.distinct)
        if row is not None and row.kind == "edge" and function.name == "count":
            return ir.Aggregate("count", ir.EdgeId(row.name), I64, call.distinct)
        value, kind = self.value(arg)
        is_node = isinstance(value, ir.NodeId | ir.RowNode) and self.is_node(arg)
        allowed = function.takes.allows_nodes if is_node else function.takes.allows(kind)
        if call.distinct and (kind.is_list or kind.is_vector):
            allowed = False
        if not allowed:
            got = "a node" if is_node else kind.display
            words = "distinct scalars" if call.distinct else function.takes.words
            self.context.fail("T8", f"{function.name}() takes {words}, not {got}", arg.span)
        return ir.Aggregate(function.name, value, function.result(kind), call.distinct)

    def _of_shape(
        self, function: AggregateFunction, arg: ast.Shape, call: ast.Call
    ) -> ir.Aggregate:
        if function.name not in ("count", "collect"):
            self.context.fail(
                "T8", f"{function.name}() takes {function.takes.words}, not an object", arg.span
            )
        shape = self.shape(arg)
        if function.name == "count":
            # An object is there, and is another one, where its node or edge is.
            whole = ir.NodeId(shape.var) if shape.kind == "node" else ir.EdgeId(shape.var)
            return ir.Aggregate("count", whole, I64, call.distinct)
        assert isinstance(shape.type, ir.ObjectType)
        kind = ir.ObjectList(shape.type.as_nullable(False))
        return ir.Aggregate(function.name, shape, kind, call.distinct)


class GroupedItems(Items):
    """Resolves an item that computes with aggregates; beside them only keys, literals and parameters may stand."""

    def __init__(
        self, context: Context, scope: Scope, keys: list[tuple[ast.Expr, ir.ColumnValue]]
    ) -> None:
        super().__init__(context, scope)
        self.keys = keys

    def value(self, expr: ast.Expr) -> Typed:
        """An expression; one that is written like a key is that key."""
        for written, key in self.keys:
            if written == expr and not isinstance(expr, ast.Literal):
                if not isinstance(key.type, PropType):
                    self.context.fail("T29", f"{shown(expr)} is an object, no operand", expr.span)
                return key, key.type
        return super().value(expr)

    def condition(self, condition: ast.Condition) -> ir.Condition:
        """A condition; one that is written like a key is that key, with or without its parentheses."""
        for written, key in self.keys:
            if condition in (written, getattr(written, "condition", None)):
                return ir.IsTrue(key)
        return super().condition(condition)

    def returned(self, expr: ast.Expr) -> Returned:
        """Resolve a whole item."""
        if isinstance(expr, ast.Call) and expr.function in ast.AGGREGATES:
            made = self._aggregated(expr)
            return made, made.type
        value, kind = self.value(expr)
        for name in ir.mentioned(value, aggregated=False):
            self._refuse(ast.Var(name, expr.span))
        return value, kind

    def aggregate(self, call: ast.Call) -> Typed:
        """An aggregate as an operand; objects are none (T29)."""
        made = self._aggregated(call)
        if not isinstance(made.type, PropType):
            self.context.fail("T29", f"{shown(call)} is a list of objects, no operand", call.span)
        return made, made.type

    def _aggregated(self, call: ast.Call) -> ir.Aggregate:
        return Arguments(self.context, self.scope, call.function).taken(call)

    def property(self, ref: ast.PropRef) -> Typed:
        """A property that is no key (T9)."""
        super().property(ref)
        self._refuse(ref)

    def missing(self, expr: ast.Expr) -> ir.Expr:
        """What `is null` is asked of; a node that is a key is shown by its id, which is null where it is."""
        key = self._node_key(expr)
        return super().missing(expr) if key is None else key

    def of_variable(self, call: ast.Call) -> Typed:
        """The id of a node that is a key is what the key shows."""
        if call.function == "id" and len(call.args) == 1:
            key = self._node_key(call.args[0])
            if key is not None:
                return key, TEXT.as_nullable(key.type.nullable)
        return super().of_variable(call)

    def _node_key(self, expr: ast.Expr) -> ir.ColumnValue | None:
        if not (isinstance(expr, ast.Var) and self.is_node(expr)):
            return None
        return next((key for written, key in self.keys if written == expr), None)

    def variable(self, var: ast.Var) -> Typed:
        """A variable that is no key (T9)."""
        if self.scope.get(var.name) is not None:
            self._refuse(var)
        return self.unbound(var)

    def block(self, block: Block) -> ir.Exists:
        """A block depends on the variables of one row (T9)."""
        self.context.fail(
            "T9",
            f"`{word_of(block)} {{ … }}` cannot stand beside an aggregate in one item",
            block.span,
        )

    def _refuse(self, expr: ast.Expr) -> NoReturn:
        self.context.fail(
            "T9",
            f"{shown(expr)} stands beside an aggregate and is no item of its own to group by",
            expr.span,
            "return it as an item too, written the same",
        )
