"""What a mutation asks of its match, and its statements as they look at the answer.

A match is solved once, before anything changes. Fields of sources and of records, paths, searches and blocks
stay as they were then, so they become columns of the answer. The properties of nodes and edges are read when a
statement runs; of these the answer has the ids.

    match { $p: Person }  update $p set { late: exists { $p owes $b }, age: $p.age + 1 }

    asked        id of $p, exists { $p owes $b }           as the columns `p`, `1`
    statement    late: column `1` of the rows, age: $p.age + 1
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from omnigraph.lang.query import ir
from omnigraph.types import TEXT, PropType, Scalar

ROWS: Final = "#rows"
"""The variable whose properties are the columns of the answer, by name."""
ELEMENT: Final = "#element"
"""The column that says which element of `for` a row belongs to."""
ENDS: Final = ("from", "to")
_BOOL = PropType(Scalar.BOOL)
_I64 = PropType(Scalar.I64)
_NEVER = ir.Or(())

AnyTree = TypeVar("AnyTree", bound="ir.Output | ir.Condition")


def type_column(var: str) -> str:
    """The column with the type of each edge that a variable with alternatives stands for."""
    return f"{var}#type"


@dataclass(slots=True)
class Asked:
    """The statements of a plan as they look at the answer of its match, and the columns it must have."""

    plan: ir.MutationPlan
    params: Mapping[str, Any]
    columns: list[ir.Column] = field(default_factory=list)
    statements: tuple[ir.Mutation, ...] = ()
    returned: ir.Returned | None = None
    _is_edge: bool = False
    """Whether the target of the statement at hand is an edge, which has ends."""

    @classmethod
    def of(cls, plan: ir.MutationPlan, params: Mapping[str, Any]) -> Asked:
        """Take a plan apart."""
        asked = cls(plan, params)
        asked.statements = tuple(map(asked._statement, plan.statements))
        if plan.returned is not None:
            columns = (
                replace(one, expr=asked.rewritten(one.expr)) for one in plan.returned.columns
            )
            asked.returned = replace(plan.returned, columns=tuple(columns))
        return asked

    @property
    def matched(self) -> tuple[ir.Variable, ...]:
        """The variables of the match."""
        made = {one.var for one in self.plan.statements if isinstance(one, ir.Insert | ir.Assert)}
        return tuple(one for one in self.plan.variables if one.name not in made)

    def read_plan(self) -> ir.ReadPlan:
        """The match as a read: ids of all entities and the columns asked for, in the order of the rows."""
        columns = list(self.columns)
        for one in self.matched:
            if one.kind in ("node", "edge"):
                is_node = one.kind == "node"
                shown = ir.NodeId(one.name) if is_node else ir.EdgeId(one.name)
                columns.append(ir.Column(one.name, shown, TEXT.as_nullable(one.nullable)))
            if one.kind == "edge" and one.other_types:
                kind = TEXT.as_nullable(one.nullable)
                columns.append(ir.Column(type_column(one.name), ir.TypeName(one.name), kind))
        each = self.plan.each
        if each is not None:
            columns.append(ir.Column(ELEMENT, ir.RowNumber(each), _I64))
        # Any key makes the order total: the variables break ties.
        key = ir.Const(0, _I64) if each is None else ir.RowNumber(each)
        return ir.ReadPlan(
            self.plan.name,
            self.plan.params,
            self.plan.steps,
            tuple(columns),
            self.matched,
            order=(ir.SortKey(key, None),),
        )

    # -------------------------------------------------------------- statements

    def _statement(self, statement: ir.Mutation) -> ir.Mutation:
        self._is_edge = statement.kind == "edge"
        if isinstance(statement, ir.Insert):
            return replace(statement, assignments=self._assignments(statement))
        if isinstance(statement, ir.Assert):
            moment = self.rewritten(statement.moment)
            return replace(statement, assignments=self._assignments(statement), moment=moment)
        where = None if statement.where is None else self.rewritten(statement.where)
        if isinstance(statement, ir.Delete):
            return replace(statement, where=where)
        if isinstance(statement, ir.End):
            return replace(statement, where=where, moment=self.rewritten(statement.moment))
        return replace(statement, where=where, assignments=self._assignments(statement))

    def _assignments(
        self, statement: ir.Insert | ir.Update | ir.Assert
    ) -> tuple[ir.Assignment, ...]:
        return tuple(
            one if one.value is None else replace(one, value=self.rewritten(one.value))
            for one in statement.assignments
        )

    # -------------------------------------------------------------- expressions

    def rewritten(self, tree: AnyTree) -> AnyTree:
        """The expression or condition over entities and the columns of the answer."""
        found: AnyTree = self._rewritten(tree)  # an expression stays one, and so does a condition
        return found

    def _rewritten(self, tree: Any) -> Any:
        match tree:
            case ir.RowNode() | ir.RowNumber():
                return self._asked(
                    tree, TEXT.as_nullable() if isinstance(tree, ir.RowNode) else _I64.as_nullable()
                )
            case ir.PathValue():
                return self._asked(tree, tree.type)
            case ir.PropertyOf() if self._is_row(tree.var):
                return self._asked(tree, tree.type)
            case ir.Exists() | ir.TextMatch():
                return self._judged(tree)
            case ir.Aggregate(arg=ir.PathValue(what="path") as path):
                # A path is there where its length is.
                return replace(tree, arg=self._asked(replace(path, what="length", type=_I64), _I64))
            case ir.Aggregate():
                return tree if tree.arg is None else replace(tree, arg=self._rewritten(tree.arg))
            case ir.Apply():
                return replace(tree, args=tuple(map(self._rewritten, tree.args)))
            case ir.Truth():
                return ir.Truth(self._rewritten(tree.condition))
            case ir.Compare():
                return self._compare(tree)
            case ir.IsNull(operand=ir.PathValue(what="path") as path):
                return ir.IsNull(self._asked(replace(path, what="length", type=_I64), _I64))
            case ir.IsNull() | ir.IsTrue():
                return replace(tree, operand=self._rewritten(tree.operand))
            case ir.And() | ir.Or():
                return replace(tree, parts=tuple(map(self._rewritten, tree.parts)))
            case ir.Not():
                return ir.Not(self._rewritten(tree.part))
            case _:
                return tree

    def _compare(self, tree: ir.Compare) -> ir.Compare:
        left, right = self._rewritten(tree.left), self._rewritten(tree.right)
        if self._is_end(left):
            right = self._as_id(right)
        elif self._is_end(right):
            left = self._as_id(left)
        return ir.Compare(left, tree.op, right)

    def _as_id(self, operand: ir.Expr) -> ir.Expr:
        """An integer, or a list of them, that a parameter gives for an end of an edge, as ids are: text."""
        if not isinstance(operand, ir.ParamRef) or not operand.type.element.is_integer:
            return operand
        value = self.params[operand.name]
        if isinstance(value, list):
            value = [str(one) for one in value]
        elif value is not None:
            value = str(value)
        return ir.Const(value, replace(TEXT, is_list=operand.type.is_list, nullable=value is None))

    def _is_end(self, operand: ir.Expr) -> bool:
        return (
            self._is_edge
            and isinstance(operand, ir.PropertyOf)
            and operand.var == ir.TARGET
            and operand.property in ENDS
        )

    def _is_row(self, name: str) -> bool:
        return any(one.name == name and one.kind == "row" for one in self.plan.variables)

    def _judged(self, tree: ir.Exists | ir.TextMatch) -> ir.Condition:
        """A search or a block, which looks at the graph before the mutation: nothing new is in it."""
        known = {one.name for one in self.matched}
        if any(name not in known for name in ir.mentioned(tree)):
            return _NEVER
        return ir.IsTrue(self._asked(ir.Truth(tree), _BOOL))

    def _asked(self, expr: Any, kind: ir.ValueType) -> ir.PropertyOf:
        for known in self.columns:
            if known.expr == expr:
                return ir.PropertyOf(ROWS, known.name, kind)  # type: ignore[arg-type]
        self.columns.append(ir.Column(f"#{len(self.columns)}", expr, kind))
        return ir.PropertyOf(ROWS, self.columns[-1].name, kind)  # type: ignore[arg-type]
