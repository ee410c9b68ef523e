"""Names in a query: the variables and parameters in scope, and the errors for wrong ones."""

from __future__ import annotations

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


@dataclass(frozen=True, slots=True)
class BoundVariable:
    """A bound variable: a node or an edge of one type."""

    name: str
    kind: OneOf["node", "edge"]
    type_name: str


@dataclass
class Context:
    """The query being checked, the catalog it is checked against, and its declared parameters."""

    query: ast.Query
    catalog: Catalog
    source: Source
    params: dict[str, PropType] = field(default_factory=dict)
    _hidden: int = 0

    def fail(self, rule: str | None, message: str, span: Span, hint: str | None = None) -> NoReturn:
        """Raise the type error of a static rule (T1 to T28)."""
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
        """The type of a bound variable."""
        if variable.kind == "node":
            return self.catalog.nodes[variable.type_name]
        return self.catalog.edges[variable.type_name]

    def parameter(self, var: ast.Var, purpose: str) -> ir.ParamRef:
        """The declared parameter that `$name` refers to where only a value is allowed (T14)."""
        known = self.params.get(var.name)
        if known is None:
            self.fail(
                "T14",
                f"`${var.name}` is used as {purpose} but is not a declared parameter",
                var.span,
                self.suggest_var(var.name)
                or f"declare it: query {self.query.name}(${var.name}: …)",
            )
        return ir.ParamRef(var.name, known)

    def suggest_var(self, name: str) -> str | None:
        """A hint that names the parameter that was probably meant."""
        hint = did_you_mean(name, self.params)
        return hint.replace("`", "`$", 1) if hint else None


class Scope:
    """The variables visible in one block; a `not` block sees those of the block around it."""

    def __init__(self, outer: Scope | None = None) -> None:
        self.outer = outer
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


def leading(span: Span, name: str) -> Span:
    """The part of a span that its leading name covers, to underline a wrong name."""
    return replace(span, end=min(span.end, span.start + len(name)))


def property_of(
    context: Context, scope: Scope, ref: ast.PropRef, rule: str = "T6"
) -> tuple[BoundVariable, Property]:
    """The variable and property behind `$x.p`; T6 (or the caller's rule) names what is missing."""
    variable = scope.get(ref.var)
    if variable is None:
        hint = did_you_mean(ref.var, scope.names())
        if ref.var in context.params:
            hint = f"`${ref.var}` is a parameter and has no properties"
        context.fail(rule, f"variable `${ref.var}` is not bound here", ref.span, hint)
    entity = context.entity(variable)
    known = entity.properties.get(ref.name)
    if known is None:
        hint = did_you_mean(ref.name, entity.properties)
        if ref.name == "id" and variable.kind == "node":
            hint = f"return `${ref.var}` itself to get the node's id"
        what = "node" if variable.kind == "node" else "edge"
        context.fail(
            rule,
            f"{what} type {entity.name} of `${ref.var}` has no property `{ref.name}`",
            ref.span,
            hint,
        )
    return variable, known
