"""Checks conditions on the edges of a traversal: `$a road[toll is null]{1,} $b` (T6, T24)."""

from __future__ import annotations

from typing import NoReturn

from omnigraph.lang.query import ir
from omnigraph.lang.query.check.scope import BoundVariable, Context, Scope, declared
from omnigraph.lang.query.check.terms.applying import Typed
from omnigraph.lang.query.check.terms.conditions import Block, Conditions
from omnigraph.lang.query.syntax import ast
from omnigraph.spans import Span


class EdgeConditions(Conditions):
    """A condition on the edges of a traversal: bare words are their properties."""

    def __init__(self, context: Context, scope: Scope, edge: BoundVariable) -> None:
        super().__init__(context, Scope())
        self.edge = edge
        self.around = scope

    def name(self, expr: ast.Name) -> Typed:
        """A property of the edge (T6, T24)."""
        if expr.name not in self.context.catalog.edges[self.edge.type_name].properties and (
            expr.name == "null"
        ):
            return super().name(expr)
        kind = declared(self.context, self.edge, expr.name, expr.span).type
        if kind.is_blob:
            self.context.fail(
                "T24", f"`{expr.name}` is a Blob and cannot be read by a query", expr.span
            )
        return ir.PropertyOf(ir.EDGE, expr.name, kind), kind

    def property(self, ref: ast.PropRef) -> Typed:
        """Properties of variables are unknown here."""
        self._refuse(ref.var, ref.span)

    def variable(self, var: ast.Var) -> Typed:
        """A parameter."""
        if self.around.get(var.name) is not None:
            self._refuse(var.name, var.span)
        return self.unbound(var)

    def block(self, block: Block) -> ir.Exists:
        """Blocks are unknown here."""
        self.context.fail("T6", "a condition on edges cannot hold a block", block.span)

    def _refuse(self, var: str, span: Span) -> NoReturn:
        self.context.fail(
            "T6",
            f"`${var}` cannot be used in a condition on edges: it knows their properties, by bare "
            "names, parameters and literals",
            span,
            "with an edge variable the condition can be a clause of its own",
        )
