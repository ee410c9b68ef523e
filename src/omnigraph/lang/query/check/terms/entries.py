"""Checks the inline entries of a binding: `$x: Type { p: v }` (T2, T3, T7, T14)."""

from __future__ import annotations

from omnigraph.lang.query import ir
from omnigraph.lang.query.check.scope import leading
from omnigraph.lang.query.check.terms.conditions import Conditions
from omnigraph.lang.query.check.terms.expressions import shown
from omnigraph.lang.query.check.terms.literals import (
    check_enum,
    compatible,
    constant,
    date_hint,
    describe_one,
    elements,
)
from omnigraph.lang.query.syntax import ast
from omnigraph.lang.schema.catalog import NodeType
from omnigraph.spelling import did_you_mean
from omnigraph.types import PropType


class Entries(Conditions):
    """Resolves inline entries to conditions on the variable that is bound."""

    def entry(self, var: str, node: NodeType, entry: ast.Entry) -> ir.Compare:
        """`p: v` of a binding: an equality, or membership where `p` is a list (T2, T3, T7, T14)."""
        prop = node.properties.get(entry.name)
        if prop is None:
            self.context.fail(
                "T2",
                f"node type {node.name} has no property `{entry.name}`",
                leading(entry.span, entry.name),
                did_you_mean(entry.name, node.properties),
            )
        if prop.type.is_blob:
            self.context.fail(
                "T3",
                f"property `{entry.name}` is a Blob and cannot be matched",
                leading(entry.span, entry.name),
            )
        right: ir.Expr
        if isinstance(entry.value, ast.Literal):
            right = self._entry_literal(entry.name, prop.type, entry.value)
        else:
            right = self._entry_value(entry.name, prop.type, entry.value)
        left = ir.PropertyOf(var, entry.name, prop.type)
        return ir.Compare(left, "member" if prop.type.is_list else "=", right)

    def _entry_literal(self, name: str, kind: PropType, literal: ast.Literal) -> ir.Const:
        if literal.kind == "list" and kind.is_list:
            self.context.fail(
                "T3",
                f"property `{name}` is a list: an inline entry tests membership of one value",
                literal.span,
                "its members are tested with `contains`",
            )
        const = constant(self.context, literal)
        if kind.is_vector or not compatible(kind.element, const.type):
            self.context.fail(
                "T3",
                f"property `{name}` is {kind.display}; {describe_one(literal)} cannot match it",
                literal.span,
                date_hint(literal, kind)
                or (f"write `$x.{name} in […]`" if elements(literal) else None),
            )
        check_enum(self.context, name, kind, literal)
        return const

    def _entry_value(self, name: str, kind: PropType, expr: ast.Expr) -> ir.Expr:
        if self.is_node(expr):
            self.context.fail(
                "T14",
                f"{shown(expr)} is a node, not a declared parameter or a scalar, and cannot be the "
                f"value of `{name}`",
                expr.span,
                f"name one of its properties, as in `$a.{name} = $b.{name}`",
            )
        value, value_type = self.value(expr)
        if kind.is_list and (value_type.is_list or value_type.is_vector):
            self.context.fail(
                "T7",
                f"property `{name}` is a list: an inline entry tests membership of one value, "
                f"not {value_type.display}",
                expr.span,
            )
        if kind.is_vector or not compatible(kind.element, value_type):
            self.context.fail(
                "T7",
                f"property `{name}` is {kind.display} and cannot be matched with "
                f"{shown(expr)} of type {value_type.display}",
                expr.span,
            )
        return value
