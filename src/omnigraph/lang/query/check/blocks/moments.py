"""Checks when things must hold: `as of`, `during … to …`, `ever`, and what each variable is judged by (T38).

    $p: Person  $p livesIn $c as of date("2020-01-01")
    the edges of the traversal, and `$c`, which has no binding, are judged then; `$p` by its own binding

A node variable is judged by its bindings, else by the traversals that mention it. All of these must agree if its type
has a period; otherwise nobody asks when it holds.
"""

from __future__ import annotations

from collections.abc import Sequence

from omnigraph.lang.query import ir
from omnigraph.lang.query.check.blocks.naming import refuse_optional
from omnigraph.lang.query.check.scope import BoundVariable, Context, Scope
from omnigraph.lang.query.check.terms.applying import Typed
from omnigraph.lang.query.check.terms.conditions import Block, Conditions
from omnigraph.lang.query.check.terms.expressions import shown
from omnigraph.lang.query.syntax import ast
from omnigraph.lang.schema.catalog import Entity
from omnigraph.spans import Span


def when_of(context: Context, scope: Scope, written: ast.When | None) -> ir.When | None:
    """When a clause wants things to hold: as it says, else as the match says; None is `ever`."""
    match written:
        case None:
            return context.when
        case ast.AsOf():
            return ir.When(_Moments(context, scope).moment(written.moment))
        case ast.During():
            moments = _Moments(context, scope)
            return ir.When(moments.moment(written.start), moments.moment(written.end))
        case ast.Ever():
            return None


class _Moments(Conditions):
    """Expressions that say when: Dates and DateTimes, also of variables that were introduced before."""

    def moment(self, expr: ast.Expr) -> ir.Expr:
        """A moment (T38)."""
        value, kind = self.value(expr)
        if not kind.is_temporal:
            self.context.fail(
                "T38",
                f"{shown(expr)} is {kind.display}; a moment is a Date or a DateTime",
                expr.span,
                _hint(expr),
            )
        for name in ir.mentioned(value):
            variable = self.scope.get(name)
            if variable is not None:
                refuse_optional(self.context, self.scope, variable, expr.span)
        return value

    def variable(self, var: ast.Var) -> Typed:
        """A parameter, or a row that is a date; a variable that comes later is no moment (T38)."""
        self._refuse_later(var.name, var.span)
        return super().variable(var)

    def property(self, ref: ast.PropRef) -> Typed:
        """A property of a variable that was introduced before (T38)."""
        self._refuse_later(ref.var, ref.span)
        return super().property(ref)

    def name(self, expr: ast.Name) -> Typed:
        """Bare words are unknown here."""
        self.context.fail(
            "T38", f"`{expr.name}` is no moment; a moment is a Date or a DateTime", expr.span
        )

    def block(self, block: Block) -> ir.Exists:
        """Blocks are no part of moments."""
        self.context.fail("T38", "a moment cannot hold a block", block.span)

    def _refuse_later(self, name: str, span: Span) -> None:
        if self.scope.get(name) is None and name not in self.context.params:
            self.context.fail(
                "T38",
                f"`${name}` is not introduced before, so no moment can be taken from it",
                span,
                "the moment of a clause may use the variables of clauses before it; that of a "
                "match parameters, and the variable of `for`",
            )


def _hint(expr: ast.Expr) -> str | None:
    if isinstance(expr, ast.Literal) and expr.kind == "string":
        return f'write `date("{expr.value}")`'
    return None


# ------------------------------------------------------------------ variables


def check_moments(context: Context) -> None:
    """Refuse a variable that is asked about at two moments (T38)."""
    for variable in context.judged:
        decided(context, variable)


def decided(context: Context, variable: BoundVariable) -> ir.When | None:
    """When a variable must hold (T38)."""
    judged = variable.judged
    assert judged is not None
    mentions = judged.bindings or judged.traversals
    first, _ = mentions[0]
    for when, span in mentions[1:]:
        if when != first:
            what = "bindings" if judged.bindings else "traversals"
            context.fail(
                "T38",
                f"`${variable.name}` is asked about at two moments: its {what} say differently when it "
                "must hold",
                span,
                f"say it once, in a binding: `${variable.name}: {variable.type_name} as of …`",
            )
    return first


def node_test(context: Context, variable: BoundVariable | None) -> ir.Holds | None:
    """The test whether a node holds when it must; None where that is always."""
    if variable is None or variable.judged is None:
        return None
    when = decided(context, variable)
    return holds(variable.name, [context.catalog.nodes[variable.type_name]], when)


# ------------------------------------------------------------------ conditions


def holds(var: str, entities: Sequence[Entity], when: ir.When | None) -> ir.Holds | None:
    """The condition that what a variable stands for holds; None where that is always so."""
    periods = [_period(var, entity) for entity in entities if entity.period is not None]
    if not periods or when is None:
        return None
    first = periods[0]
    alike = all((one.since, one.until) == (first.since, first.until) for one in periods)
    if alike and len(periods) == len(entities):
        return ir.Holds(var, (first,), when)
    return ir.Holds(var, tuple(periods), when, by_type=True)


def _period(var: str, entity: Entity) -> ir.Period:
    assert entity.period is not None
    since, until = (
        ir.PropertyOf(var, name, entity.properties[name].type.as_nullable())
        for name in entity.period.names
    )
    return ir.Period(entity.name, since, until)
