"""Checks conditions: comparisons, `in`, `is null`, `and`, `or`, `not`, Bools alone (T7, T19)."""

from __future__ import annotations

from abc import abstractmethod

from omnigraph.lang.query import ir
from omnigraph.lang.query.check.scope import BoundVariable
from omnigraph.lang.query.check.terms.applying import Typed
from omnigraph.lang.query.check.terms.expressions import Expressions, shown
from omnigraph.lang.query.check.terms.literals import (
    compatible,
    date_hint,
)
from omnigraph.lang.query.check.terms.paths import whole_path
from omnigraph.lang.query.check.terms.searches import text_match
from omnigraph.lang.query.syntax import ast
from omnigraph.types import PropType, Scalar

Whole = ir.NodeId | ir.EdgeId | ir.RowNode
Block = ast.Not | ast.Exists


def word_of(block: Block) -> str:
    """The word before a block."""
    return "not" if isinstance(block, ast.Not) else "exists"


def conjuncts(condition: ir.Condition) -> tuple[ir.Condition, ...]:
    """The conditions that must all be satisfied for this one to be."""
    if isinstance(condition, ir.And):
        return tuple(part for one in condition.parts for part in conjuncts(one))
    return (condition,)


class Conditions(Expressions):
    """Resolves conditions; what a block of clauses means is said by whoever knows patterns."""

    @abstractmethod
    def block(self, block: Block) -> ir.Exists:
        """Resolve the block of `exists` or `not`."""

    def condition(self, condition: ast.Condition) -> ir.Condition:
        """Resolve a condition."""
        match condition:
            case ast.Comparison():
                return self.comparison(condition)
            case ast.TextClause():
                return text_match(self.context, self.scope, condition.call)
            case ast.And():
                parts = tuple(self.condition(part) for part in condition.parts)
                return ir.And(tuple(one for part in parts for one in conjuncts(part)))
            case ast.Or():
                return ir.Or(tuple(self.condition(part) for part in condition.parts))
            case ast.Negated():
                return ir.Not(self.condition(condition.part))
            case ast.Not():
                return ir.Not(self.block(condition))
            case ast.Exists():
                return self.block(condition)
            case ast.Nullness():
                missing = ir.IsNull(self.missing(condition.operand))
                return ir.Not(missing) if condition.negated else missing
            case ast.Bare():
                return self._bare(condition.expr)

    # -------------------------------------------------------------- alone

    def _bare(self, expr: ast.Expr) -> ir.Condition:
        """An expression alone, which must be a Bool."""
        if isinstance(expr, ast.Truth):
            return self.condition(expr.condition)
        if isinstance(expr, ast.Exists):
            return self.condition(expr)
        if isinstance(expr, ast.Call) and expr.function in ast.TEXT_CALLS:
            return text_match(self.context, self.scope, expr)
        whole = self.scope.get(expr.name) if isinstance(expr, ast.Var) else None
        if whole is not None and whole.element is None:
            self.context.fail(
                "T7", f"`${whole.name}` is a whole {whole.kind}, not a Bool", expr.span
            )
        value, kind = self.value(expr)
        if kind.scalar is not Scalar.BOOL or kind.is_list:
            self.context.fail(
                "T7",
                f"{shown(expr)} is {kind.display}; alone, a condition is a Bool",
                expr.span,
                "compare it with something",
            )
        return value.condition if isinstance(value, ir.Truth) else ir.IsTrue(value)

    def missing(self, expr: ast.Expr) -> ir.Expr:
        """What `is null` is asked of: any value, or a variable."""
        variable = self.scope.get(expr.name) if isinstance(expr, ast.Var) else None
        if variable is None or variable.element is not None:
            return self.value(expr)[0]
        match variable.kind:
            case "node":
                return ir.NodeId(variable.name)
            case "edge":
                return ir.EdgeId(variable.name)
            case "row":
                return ir.RowNumber(variable.name)
            case "path":
                return whole_path(self.context, variable)

    # -------------------------------------------------------------- comparisons

    def comparison(self, clause: ast.Comparison) -> ir.Condition:
        """Resolve `left op right`."""
        text = self._compared_text_call(clause)
        if text is not None:
            return text_match(self.context, self.scope, text)
        left_whole, right_whole = self._whole(clause.left), self._whole(clause.right)
        if left_whole is not None and right_whole is not None:
            return self._identity(clause, left_whole, right_whole)
        if left_whole is not None:
            self.value(clause.right)  # What is not there at all is said first.
        left, left_type = self._compared(clause.left)
        right, right_type = self._compared(clause.right)
        if clause.op == "in":
            return self._member(clause, (left, left_type), (right, right_type))
        if clause.op == "contains":
            left, left_type = _list_for(left, left_type, right_type)
            return ir.Compare(left, self._contains(clause, left_type, right_type), right)
        if clause.op == "starts_with":
            self._require_text(clause, left_type, right_type)
            return ir.Compare(left, "prefix", right)
        if clause.op == "ends_with":
            self._require_text(clause, left_type, right_type)
            return ir.Compare(left, "suffix", right)
        for kind, expr in ((left_type, clause.left), (right_type, clause.right)):
            self._require_scalar(kind, expr, clause.op)
        if not compatible(left_type, right_type):
            self.context.fail(
                "T7",
                f"{shown(clause.left)} is {left_type.display} and {shown(clause.right)} is "
                f"{right_type.display}: they cannot be compared with `{clause.op}`",
                clause.span,
                _date_hint(clause.left, right_type) or _date_hint(clause.right, left_type),
            )
        return ir.Compare(left, clause.op, right)

    def _compared(self, expr: ast.Expr) -> Typed:
        """An operand beside one that is no node; a whole node is refused also where it could be returned."""
        whole = self._whole(expr)
        if whole is not None and whole[1].kind == "node":
            self.refuse_node(whole[1], expr)
        return self.value(expr)

    def _whole(self, expr: ast.Expr) -> tuple[Whole, BoundVariable] | None:
        """The node or edge that an operand is, with its variable."""
        if isinstance(expr, ast.Var):
            found = self.scope.get(expr.name)
            if found is not None and found.kind == "node":
                return ir.NodeId(found.name), found
            if found is not None and found.kind == "edge":
                return ir.EdgeId(found.name), found
        if isinstance(expr, ast.PropRef):
            found = self.scope.get(expr.var)
            column = found.columns.get(expr.name) if found is not None else None
            if isinstance(column, ir.RowNode):
                return column, BoundVariable(expr.var, "node", column.type_name)
        return None

    def _identity(
        self,
        clause: ast.Comparison,
        left: tuple[Whole, BoundVariable],
        right: tuple[Whole, BoundVariable],
    ) -> ir.Compare:
        """Two nodes, or two edges: whether they are the same."""
        one, other = left[1], right[1]
        if one.kind != other.kind or not set(one.types) & set(other.types):
            self.context.fail(
                "T7",
                f"{shown(clause.left)} is a {' or '.join(one.types)} and {shown(clause.right)} a "
                f"{' or '.join(other.types)}: they are never the same",
                clause.span,
            )
        if clause.op not in ("=", "!="):
            self.context.fail(
                "T7",
                f"`{clause.op}` cannot compare whole {one.kind}s, which are no scalars",
                clause.span,
                "compare them with `=` or `!=`, or compare properties",
            )
        return ir.Compare(left[0], clause.op, right[0])

    def _member(self, clause: ast.Comparison, item: Typed, items: Typed) -> ir.Compare:
        """`e in l`: the list holds the value."""
        value, kind = item
        listed, list_type = _list_for(*items, kind)
        if not list_type.is_list:
            self.context.fail(
                "T7",
                f"`in` needs a list on its right, and {shown(clause.right)} is {list_type.display}",
                clause.right.span,
            )
        if kind.is_list or kind.is_vector:
            self.context.fail(
                "T7",
                f"`in` looks for a scalar in a list, and {shown(clause.left)} is {kind.display}",
                clause.left.span,
            )
        if not compatible(list_type.element, kind.element):
            self.context.fail(
                "T7",
                f"{shown(clause.right)} is a list of {list_type.element.display}, and "
                f"{shown(clause.left)} is {kind.display}: it cannot be in it",
                clause.span,
            )
        return ir.Compare(listed, "member", value)

    def _require_scalar(self, kind: PropType, expr: ast.Expr, op: str) -> None:
        """Raise T7 for a vector or a list where a scalar is compared."""
        if kind.is_vector:
            self.context.fail(
                "T7",
                f"{shown(expr)} is a vector and cannot be compared with `{op}`",
                expr.span,
                "rank by it with nearest() in `order`",
            )
        if kind.is_list:
            self.context.fail(
                "T7",
                f"{shown(expr)} is a list and cannot be compared with `{op}`; use `contains`",
                expr.span,
            )

    def _contains(self, clause: ast.Comparison, left: PropType, right: PropType) -> ir.CompareOp:
        if left.is_list:
            if right.is_list or right.is_vector:
                self.context.fail(
                    "T7", "`contains` on a list looks for a scalar, not a list", clause.right.span
                )
            if not compatible(left.element, right):
                self.context.fail(
                    "T7",
                    f"{shown(clause.left)} is {left.display}; `contains` cannot look for "
                    f"{right.display} in it",
                    clause.span,
                )
            return "member"
        if left.is_text:
            if not right.is_text:
                self.context.fail(
                    "T7",
                    f"`contains` on text needs a String, got {right.display}",
                    clause.right.span,
                )
            return "substring"
        self.context.fail(
            "T7",
            f"`contains` needs a list or a String on its left, got {left.display}",
            clause.left.span,
        )

    def _require_text(self, clause: ast.Comparison, left: PropType, right: PropType) -> None:
        for kind, expr in ((left, clause.left), (right, clause.right)):
            if not kind.is_text:
                self.context.fail(
                    "T7",
                    f"`{clause.op}` needs a String on both sides, got {kind.display}",
                    expr.span,
                )

    def _compared_text_call(self, clause: ast.Comparison) -> ast.Call | None:
        """The text call in `search(…) = true`, the one comparison that may contain a text predicate."""
        for call, other in ((clause.left, clause.right), (clause.right, clause.left)):
            if isinstance(call, ast.Call) and call.function in ast.TEXT_CALLS:
                is_true = isinstance(other, ast.Literal) and other.value is True
                if clause.op == "=" and is_true:
                    return call
                self.context.fail(
                    "T19",
                    f"`{call.function}(…)` stands alone; it can be compared only as `= true`",
                    clause.span,
                    "put `not` before it to negate it",
                )
        return None


def _date_hint(expr: ast.Expr, other: PropType) -> str | None:
    return date_hint(expr, other) if isinstance(expr, ast.Literal) else None


def _list_for(listed: ir.Expr, kind: PropType, item: PropType) -> Typed:
    """A list in which an item is looked for; the empty literal is a list of anything."""
    if isinstance(listed, ir.Const) and listed.value == []:
        kind = PropType(item.scalar, is_list=True)
        return ir.Const([], kind), kind
    return listed, kind
