"""Names in a query: the variables and parameters in scope, and the errors for wrong ones."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal as OneOf
from typing import NoReturn

from omnigraph.errors import TypeCheckError
from omnigraph.lang.query import ir
from omnigraph.lang.query.syntax import ast
from omnigraph.lang.schema.catalog import Catalog, Entity, NodeType, Property
from omnigraph.lang.source import Source
from omnigraph.spans import Span
from omnigraph.spelling import did_you_mean
from omnigraph.types import PropType

ANONYMOUS = "_"

Columns = Mapping[str, ir.PropertyOf | ir.RowNode | ir.Shape]


@dataclass(slots=True, eq=False)
class Judged:
    """What the clauses about a node variable say of when it must hold; None among them is `ever`."""

    bindings: list[tuple[ir.When | None, Span]] = field(default_factory=list)
    traversals: list[tuple[ir.When | None, Span]] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class BoundVariable:
    """A bound variable: a node, an edge, a row of a source or a list, or a path.

    `type_name` of a path is that of its edges. An edge or a path of alternatives has `other_types`; a row has the
    `columns` of its source or record, or the one `ir.ELEMENT` of a list of plain values.
    """

    name: str
    kind: OneOf["node", "edge", "row", "path"]
    type_name: str
    other_types: tuple[str, ...] = ()
    nullable: bool = False
    columns: Columns = field(default_factory=dict)
    ends: tuple[str, ...] = ()
    """The node types of a path."""
    between: tuple[str, str] = ("", "")
    """The variables at the ends of a path."""
    weight: str | None = None
    judged: Judged | None = None
    """When it must hold, if it is a node of a type with a period."""
    moments: tuple[str, ...] = ()
    """The variables that say when the edges of a path must hold."""

    @property
    def types(self) -> tuple[str, ...]:
        """The type, or all alternatives."""
        return (self.type_name, *self.other_types)

    @property
    def element(self) -> PropType | None:
        """The type of the value that a row of a list of plain values is."""
        value = self.columns.get(ir.ELEMENT)
        return value.type if isinstance(value, ir.PropertyOf) else None


@dataclass
class Context:
    """The query being checked, what it is checked against, and its declared parameters."""

    query: ast.Query
    catalog: Catalog
    source: Source
    others: Mapping[str, ast.Query] = field(default_factory=dict)
    """The declarations of the source, which are sources of rows."""
    plans: dict[str, ir.ReadPlan] = field(default_factory=dict)
    """The declarations that were used so far; all queries of one check share them."""
    compile_source: Callable[[Context, ast.Query], ir.ReadPlan] | None = None
    """Checks a declaration that is a source of rows in this context."""
    callers: tuple[str, ...] = ()
    """The queries that use this one as a source, the outermost first."""
    params: dict[str, PropType | ir.RecordList] = field(default_factory=dict)
    when: ir.When | None = ir.AT_THE_MOMENT
    """When what the match finds must hold where a clause does not say; None: ever."""
    judged: list[BoundVariable] = field(default_factory=list)
    """The variables of types with a period."""
    has_periods: bool = False
    """Whether a type with a period is read."""
    closed: Iterator[str] = field(
        default_factory=lambda: (f"#c{number}" for number in itertools.count(1))
    )
    """Names for the nodes that close cycles."""
    _hidden: int = 0

    def fail(self, rule: str | None, message: str, span: Span, hint: str | None = None) -> NoReturn:
        """Raise the type error of a static rule (T1 to T38)."""
        text = f"{rule}: {message}" if rule else message
        raise self.source.error(TypeCheckError, text, span, hint, rule=rule)

    def hidden(self) -> str:
        """A fresh variable name no query can spell."""
        self._hidden += 1
        return f"#{self._hidden}"

    def node(self, name: str) -> NodeType:
        """The node type of that name; it must exist."""
        return self.catalog.nodes[name]

    def entity(self, variable: BoundVariable) -> Entity:
        """The type of a bound node or edge, the first of alternatives."""
        if variable.kind == "node":
            return self.catalog.nodes[variable.type_name]
        return self.catalog.edges[variable.type_name]

    def parameter(self, var: ast.Var, purpose: str) -> ir.ParamRef:
        """The declared parameter that `$name` refers to where only a value is allowed (T14)."""
        known = self.params.get(var.name)
        if known is None:
            declared = f"declare it: query {self.query.name}(${var.name}: …)"
            if self.query.name is None:
                declared = f"declare it before the query: `(${var.name}: String)`"
            self.fail(
                "T14",
                f"`${var.name}` is used as {purpose} but is not a declared parameter",
                var.span,
                self.suggest_var(var.name) or declared,
            )
        if isinstance(known, ir.RecordList):
            self.fail(
                "T7",
                f"`${var.name}` is a list of records and cannot be {purpose}",
                var.span,
                f"take its records one by one: `for $x in ${var.name}`",
            )
        return ir.ParamRef(var.name, known)

    def suggest_var(self, name: str) -> str | None:
        """A hint that names the parameter that was probably meant."""
        hint = did_you_mean(name, self.params)
        return hint.replace("`", "`$", 1) if hint else None


class Scope:
    """The variables visible in one block; an inner block sees those of the block around it.

    What a `test` block (`not`, `exists`) introduces is invisible outside; an `optional` one hands it on.
    """

    def __init__(
        self, outer: Scope | None = None, kind: OneOf["match", "test", "optional"] = "match"
    ) -> None:
        self.outer = outer
        self.kind = kind
        self.variables: dict[str, BoundVariable] = {}
        self.mentioned: set[str] = set()
        self.inner_only: dict[str, Span] = {}

    def get(self, name: str) -> BoundVariable | None:
        """The variable of that name, here or further out; outer ones are noted as mentioned."""
        found = self.variables.get(name)
        if found is None and self.outer is not None:
            found = self.outer.get(name)
            if found is not None:
                self.mentioned.add(name)
        return found

    def names(self) -> list[str]:
        """All visible names, for suggestions."""
        further = self.outer.names() if self.outer is not None else []
        return [*self.variables, *further]

    def local_elsewhere(self, name: str) -> bool:
        """Whether an earlier `not` or `exists` block uses the name for itself where it would be seen."""
        if name in self.inner_only:
            return True
        return (
            self.kind == "optional" and self.outer is not None and self.outer.local_elsewhere(name)
        )

    def introduced(self) -> list[str]:
        """The names that this block introduces, hidden ones aside."""
        return [name for name in self.variables if not name.startswith("#")]


def leading(span: Span, name: str) -> Span:
    """The part of a span that its leading name covers, to underline a wrong name."""
    return Span(span.start, min(span.end, span.start + len(name)), span.line, span.column)


def found_variable(
    context: Context, scope: Scope, name: str, span: Span, rule: str = "T6"
) -> BoundVariable:
    """The variable of that name; T6 (or the caller's rule) if there is none."""
    variable = scope.get(name)
    if variable is None:
        hint = did_you_mean(name, scope.names())
        if name in context.params:
            hint = f"`${name}` is a parameter and has no properties"
        context.fail(rule, f"variable `${name}` is not bound here", span, hint)
    return variable


def property_of(
    context: Context, scope: Scope, ref: ast.PropRef, rule: str = "T6"
) -> tuple[BoundVariable, Property]:
    """The variable and property behind `$x.p` of a node or an edge; T6 (or the caller's rule) names what is missing."""
    variable = found_variable(context, scope, ref.var, ref.span, rule)
    if variable.kind not in ("node", "edge"):
        context.fail(rule, f"`${ref.var}` is a {variable.kind}, not a node", ref.span)
    return variable, declared(context, variable, ref.name, ref.span, rule)


def declared(
    context: Context, variable: BoundVariable, name: str, span: Span, rule: str = "T6"
) -> Property:
    """The property of that name of a node or an edge; alternatives must all have it, with one type."""
    entity = context.entity(variable)
    known = entity.properties.get(name)
    what = "node" if variable.kind == "node" else "edge"
    is_named = variable.name != ir.EDGE
    if known is None:
        hint = did_you_mean(name, entity.properties)
        if name == "id" and is_named:
            hint = f"write `id(${variable.name})` to get the {what}'s id"
            if variable.kind == "node":
                hint = f"return `${variable.name}` itself to get the node's id"
        context.fail(
            rule,
            f"{what} type {entity.name}{f' of `${variable.name}`' if is_named else ''} has no property "
            f"`{name}`",
            span,
            hint,
        )
    for other in variable.other_types:
        same = context.catalog.edges[other].properties.get(name)
        if same is None or same.type.as_nullable(False) != known.type.as_nullable(False):
            context.fail(
                rule,
                f"{f'`${variable.name}`' if is_named else 'it'} is an edge of {' or '.join(variable.types)}, and `{name}` is not a "
                f"property of one type in all of them: {other} has {shown_property(same)}",
                span,
            )
        if same.type.nullable:
            known = replace(known, type=known.type.as_nullable())
    return known


def shown_property(prop: Property | None) -> str:
    """What a type has under a name, for messages about alternatives."""
    return "none" if prop is None else f"one of type {prop.type.display}"


def common_properties(context: Context, variable: BoundVariable) -> dict[str, PropType]:
    """The properties that all types of a node or edge variable declare with one type, in declared order."""
    entity = context.entity(variable)
    found: dict[str, PropType] = {}
    for name, prop in entity.properties.items():
        kind = prop.type
        for other in variable.other_types:
            same = context.catalog.edges[other].properties.get(name)
            if same is None or same.type.as_nullable(False) != kind.as_nullable(False):
                break
            kind = kind.as_nullable(kind.nullable or same.type.nullable)
        else:
            found[name] = kind
    return found
