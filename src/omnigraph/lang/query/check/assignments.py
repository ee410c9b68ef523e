"""Checks what statements assign, and the conditions by which they choose: expressions over the target and the rows.

A bare word is a property of the target (T3, T5, T7, T8, T9, T11, T13, T14, T16).
"""

from __future__ import annotations

from typing import Literal as OneOf
from typing import NoReturn

from omnigraph.errors import ConstraintError
from omnigraph.lang.query import ir
from omnigraph.lang.query.check.blocks.patterns import Patterns
from omnigraph.lang.query.check.returned.items import Arguments
from omnigraph.lang.query.check.scope import Context, Scope, leading
from omnigraph.lang.query.check.terms.applying import Typed
from omnigraph.lang.query.check.terms.expressions import NOW, shown
from omnigraph.lang.query.check.terms.literals import assigned_constant, elements
from omnigraph.lang.query.syntax import ast
from omnigraph.lang.schema.catalog import EdgeType, Entity
from omnigraph.spans import Span
from omnigraph.spelling import did_you_mean
from omnigraph.types import TEXT, PropType

ENDPOINTS = ("from", "to")
_MOMENT = 'write `now()`, `date("2024-01-31")`, `datetime(…)`, or name a parameter of these types'

Purpose = OneOf["insert", "upsert", "update", "where", "moment"]


def property_type(context: Context, entity: Entity, name: str, span: Span) -> PropType:
    """The type of a property, or of an end of an edge (T11)."""
    if isinstance(entity, EdgeType) and name in ENDPOINTS:
        return TEXT
    prop = entity.properties.get(name)
    if prop is None:
        ends = ENDPOINTS if isinstance(entity, EdgeType) else ()
        context.fail(
            "T11",
            f"type {entity.name} has no property `{name}`",
            span,
            did_you_mean(name, [*entity.properties, *ends]),
        )
    return prop.type


class OverTarget(Patterns):
    """Resolves values and conditions over the entity that a statement changes, and over the rows."""

    def __init__(
        self,
        context: Context,
        scope: Scope,
        entity: Entity,
        purpose: Purpose,
        var: str | None = None,
    ) -> None:
        super().__init__(context, scope)
        self.entity = entity
        self.purpose = purpose
        self.var = var
        """The variable that an update is of, over whose rows aggregates range."""

    # -------------------------------------------------------------- names

    def name(self, expr: ast.Name) -> Typed:
        """The old value of a property of the target (T11, T14, T24)."""
        is_null = expr.name == "null" and "null" not in self.entity.properties
        if is_null and self.purpose != "moment":
            return super().name(expr)
        if self.purpose == "moment":
            self.context.fail(
                "T38", f"`{expr.name}` is a bare word and no moment", expr.span, _MOMENT
            )
        if self.purpose == "insert":
            self.context.fail(
                "T14",
                f"`{expr.name}` is a bare word, and what is inserted has no old values to read",
                expr.span,
                f'text is written in double quotes: "{expr.name}"',
            )
        kind = property_type(self.context, self.entity, expr.name, expr.span)
        if kind.is_blob:
            rule, what = (
                ("T11", "stand in a `where`") if self.purpose == "where" else ("T24", "be read")
            )
            self.context.fail(
                rule, f"property `{expr.name}` is a Blob and cannot {what}", expr.span
            )
        if self.purpose == "upsert":
            kind = kind.as_nullable()
        return ir.PropertyOf(ir.TARGET, expr.name, kind), kind

    def moment(self, expr: ast.Expr | None) -> ir.Expr:
        """When a statement begins or ends facts: a Date or a DateTime of the row, by default now (T38)."""
        if expr is None:
            return NOW
        if self.is_node(expr):
            self.context.fail("T38", f"the node {shown(expr)} is no moment", expr.span, _MOMENT)
        value, kind = self._value_for(expr)
        if not kind.is_temporal:
            self.context.fail(
                "T38",
                f"{shown(expr)} is {kind.display}, and a moment is a Date or a DateTime",
                expr.span,
                _MOMENT,
            )
        return value

    def aggregate(self, call: ast.Call) -> Typed:
        """An aggregate, over the rows of the entity that `update $v` changes (T8)."""
        if self.purpose != "update" or self.var is None:
            self.context.fail(
                "T8",
                f"{call.function}() ranges over the rows of `$v` and can stand only in `update $v set`",
                call.span,
            )
        made = Arguments(self.context, self.scope, call.function).taken(call)
        if not isinstance(made.type, PropType):
            self.context.fail(
                "T8", f"{shown(call)} gives objects, which cannot be stored", call.span
            )
        return made, made.type

    # -------------------------------------------------------------- ids of ends

    def comparison(self, clause: ast.Comparison) -> ir.Condition:
        """A comparison; the ends of an edge are compared as ids, also with nodes and integers."""
        for end, other in ((clause.left, clause.right), (clause.right, clause.left)):
            if isinstance(end, ast.Name) and self._is_end(end.name):
                given = self._end_value(end.name, other)
                if given is None:
                    continue
                turned = end is not clause.left
                if clause.op == "in" and not turned:
                    return ir.Compare(given, "member", self.name(end)[0])
                if clause.op not in ("=", "!="):
                    self.context.fail(
                        "T7",
                        f"`{end.name}` is a node id, which is a text: it has no order of integers",
                        clause.span,
                        "compare it with `=` or `!=`",
                    )
                return ir.Compare(self.name(end)[0], clause.op, given)
        return super().comparison(clause)

    def _is_end(self, name: str) -> bool:
        return isinstance(self.entity, EdgeType) and name in ENDPOINTS

    def _end_value(self, end: str, value: ast.Expr) -> ir.Expr | None:
        """The node id that a node, or an integer where nodes have an integer key, stands for (T5)."""
        assert isinstance(self.entity, EdgeType)
        if self.is_node(value):
            return self._node_id(end, value)
        if end not in self.context.catalog.integer_ends(self.entity):
            return None
        if isinstance(value, ast.Literal) and value.kind == "int":
            return ir.Const(str(value.value), TEXT)
        if isinstance(value, ast.Literal) and value.kind == "list":
            members = elements(value)
            if members and all(member.kind == "int" for member in members):
                texts = [str(member.value) for member in members]
                return ir.Const(texts, PropType(TEXT.scalar, is_list=True))
        if isinstance(value, ast.Var) and self.scope.get(value.name) is None:
            param = self.context.parameter(value, "a value")
            return param if param.type.element.is_integer else None
        return None

    def _node_id(self, end: str, value: ast.Expr) -> ir.Expr:
        assert isinstance(self.entity, EdgeType)
        whole = self._whole(value)
        assert whole is not None
        wanted = self.entity.from_type if end == "from" else self.entity.to_type
        if whole[1].type_name != wanted:
            self.context.fail(
                "T5",
                f"{shown(value)} is a {whole[1].type_name}, but `{end}` of edge {self.entity.name} is a "
                f"{wanted}",
                value.span,
            )
        return whole[0]

    # -------------------------------------------------------------- assigned values

    def assigned(self, entry: ast.Entry, kind: PropType) -> ir.Expr | None:
        """The value of one assignment; None clears the property."""
        value = entry.value
        if isinstance(value, ast.Null):
            self._require_nullable(entry.name, kind)
            return None
        if self._is_end(entry.name):
            node = self._end_value(entry.name, value)
            # A list is for `in` alone.
            if node is not None and not (isinstance(node, ir.Value) and node.type.is_list):
                return node
        if isinstance(value, ast.Literal):
            return assigned_constant(self.context, entry.name, kind, value)
        if self.is_node(value):
            self._refuse(entry, kind, f"the node {shown(value)}")
        made, given = self._value_for(value)
        simple = isinstance(made, ir.Value)
        if not _assignable(given, kind) or (kind.is_blob and not simple):
            self._refuse(entry, kind, f"{shown(value)} of type {given.display}")
        self._check_beside_aggregates(made, entry)
        return made

    def _value_for(self, value: ast.Expr) -> Typed:
        """A value; a parameter alone may be a Blob, which no expression takes."""
        if isinstance(value, ast.Var) and self.scope.get(value.name) is None:
            param = self.context.parameter(value, "a value")
            return param, param.type
        return self.value(value)

    def _require_nullable(self, name: str, kind: PropType) -> None:
        if not kind.nullable:
            raise ConstraintError(
                f"{self.entity.name}.{name} is required and cannot be null",
                property=name,
                violation="null",
            )

    def _refuse(self, entry: ast.Entry, kind: PropType, what: str) -> NoReturn:
        assert not isinstance(entry.value, ast.Null)
        hint = None
        if kind.is_integer:
            hint = "make it an integer with round(), floor() or ceil()"
        self.context.fail(
            "T7",
            f"property `{entry.name}` is {kind.display} and cannot take {what}",
            entry.value.span,
            hint if "F64" in what or "F32" in what else None,
        )

    def _check_beside_aggregates(self, value: ir.Expr, entry: ast.Entry) -> None:
        """Beside an aggregate only what is one value for the entity may stand (T9)."""
        if not ir.has_aggregate(value):
            return
        for name in ir.mentioned(value, aggregated=False):
            if name not in (self.var, ir.TARGET):
                self.context.fail(
                    "T9",
                    f"`${name}` stands beside an aggregate over the rows of `${self.var}`, where it has "
                    "no one value",
                    entry.span,
                )


def _assignable(source: PropType, target: PropType) -> bool:
    if target.is_blob:
        return not source.is_list and (source.is_blob or source.is_text)
    if source.is_list != target.is_list or source.dim != target.dim:
        return False
    if source.scalar == target.scalar:
        return True
    if source.element.is_integer:
        return target.element.is_numeric
    return source.element.is_float and target.element.is_float


def assignments(
    reader: OverTarget, entries: tuple[ast.Entry, ...], frozen: tuple[str, ...] = ()
) -> tuple[ir.Assignment, ...]:
    """What a statement assigns; `frozen` properties cannot be (T11, T13, T16)."""
    context, entity = reader.context, reader.entity
    done: dict[str, ir.Assignment] = {}
    for entry in entries:
        word = leading(entry.span, entry.name)
        if entry.name in frozen:
            context.fail(
                None,
                f"`{entry.name}` is part of the @key of {entity.name} and cannot be changed",
                word,
                "delete the node and insert it again",
            )
        is_end = isinstance(entity, EdgeType) and entry.name in ENDPOINTS
        if is_end and reader.purpose == "update":
            context.fail(
                "T16",
                f"`{entry.name}` of an edge cannot be changed",
                word,
                "delete the edge and insert another",
            )
        if entry.name in done:
            context.fail("T13", f"property `{entry.name}` is assigned twice", word)
        kind = property_type(context, entity, entry.name, word)
        done[entry.name] = ir.Assignment(entry.name, reader.assigned(entry, kind))
    return tuple(done.values())
