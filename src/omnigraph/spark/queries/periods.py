"""Periods as conditions on their bounds: on Spark they are filters of the scan like any other.

$r holds as of t   ->   t is not null and (since is null or since <= t) and (until is null or until > t)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from omnigraph.errors import BadRequest
from omnigraph.lang.query import ir
from omnigraph.types import PropType, Scalar

Tree = TypeVar("Tree")
_INSTANT = PropType(Scalar.DATETIME)
_EVERYTHING = ir.And(())


def written_out(plan: ir.ReadPlan, params: Mapping[str, Any]) -> ir.ReadPlan:
    """A plan without periods that gives the same rows; what has no such form is refused."""
    return _written(plan, params) if plan.has_periods else plan


def _written(tree: Tree, params: Mapping[str, Any]) -> Tree:
    if isinstance(tree, ir.Holds):
        return _condition(tree, params)  # type: ignore[return-value]
    if isinstance(tree, ir.Expand):
        _check(tree)
    if isinstance(tree, tuple):
        return tuple(_written(part, params) for part in tree)  # type: ignore[return-value]
    if not is_dataclass(tree) or type(tree).__module__ != ir.__name__:
        return tree
    changed = {
        one.name: made
        for one in fields(tree)
        if (made := _written(value := getattr(tree, one.name), params)) is not value
    }
    return replace(tree, **changed) if changed else tree  # type: ignore[type-var]


def _check(step: ir.Expand) -> None:
    """Refuse what needs more than a condition on each edge."""
    if step.between is not None:
        raise _refused("hops through nodes with a period", "say `ever` after the traversal")
    edges = () if step.edge_filter is None else _parts(step.edge_filter)
    for one in edges:
        if isinstance(one, ir.Holds) and one.by_type:
            raise _refused("alternatives of edges with different periods", "ask for one at a time")
        if isinstance(one, ir.Holds) and ir.is_per_row(one.when) and step.edge_var is None:
            raise _refused("edges that hold at a moment of the row", "give the edges a variable")


def _parts(condition: ir.Condition) -> Iterable[ir.Condition]:
    return condition.parts if isinstance(condition, ir.And) else (condition,)


def _refused(form: str, instead: str) -> BadRequest:
    return BadRequest(
        f"the query uses {form}, which is not answered on Spark; {instead}, or run the query locally",
        form=form,
        engine="spark",
    )


def _condition(holds: ir.Holds, params: Mapping[str, Any]) -> ir.Condition:
    end: ir.Expr | None = None
    if holds.when == ir.AT_THE_MOMENT:
        moment = params.get(ir.AS_OF_PARAM, params[ir.NOW_PARAM])
        if moment == ir.EVER:
            return _EVERYTHING
        start: ir.Expr = ir.Const(moment, _INSTANT)
    else:
        start, *others = map(_instant, ir.moments_of(holds.when))
        end = others[0] if others else None
    [period] = holds.periods
    since, until = _instant(period.since), _instant(period.until)
    begun: ir.Condition = ir.Compare(since, "<=", start)
    lasts: tuple[ir.Condition, ...] = (ir.Not(ir.IsNull(start)),)
    if end is not None:
        begun = ir.Compare(since, "<", end)
        lasts = (ir.Compare(start, "<", end), ir.Not(ir.Compare(since, ">=", until)))
    ends = ir.Or((ir.IsNull(until), ir.Compare(until, ">", start)))
    return ir.And((*lasts, ir.Or((ir.IsNull(since), begun)), ends))


def _instant(expr: ir.Expr) -> ir.Expr:
    """A Date as its midnight."""
    kind = getattr(expr, "type", None)
    if isinstance(kind, PropType) and kind.scalar.counts_days:
        return ir.Apply("datetime", (expr,), _INSTANT.as_nullable())
    return expr
