"""Periods as conditions on their bounds: on Spark they are filters of the scan like any other.

$r holds as of t   ->   t is not null and (since is null or since <= t) and (until is null or until > t)

Where the periods of alternatives have different properties, each is beside a test of the type; ``of_type`` leaves
what is said of one type, so that a table is asked for no property of another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from omnigraph.lang.query import ir
from omnigraph.spark.queries.refused import (
    ALTERNATIVES_BY_ROW,
    EDGES_BY_ROW,
    HOPS_BY_ROW,
    refusal,
)
from omnigraph.spark.queries.values.fields import TYPE
from omnigraph.types import TEXT, PropType, Scalar

Tree = TypeVar("Tree")
_INSTANT = PropType(Scalar.DATETIME)
_EVERYTHING, _NOTHING = ir.And(()), ir.Or(())


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
    """Refuse what needs more than a condition on each edge, or on each node between."""
    if step.between is not None and ir.is_per_row(step.between.when):
        raise refusal(HOPS_BY_ROW)
    edges = () if step.edge_filter is None else _parts(step.edge_filter)
    for one in edges:
        if not isinstance(one, ir.Holds) or not ir.is_per_row(one.when):
            continue
        if one.by_type:
            raise refusal(ALTERNATIVES_BY_ROW)
        if step.edge_var is None:
            raise refusal(EDGES_BY_ROW)


def _parts(condition: ir.Condition) -> Iterable[ir.Condition]:
    return condition.parts if isinstance(condition, ir.And) else (condition,)


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
    if not holds.by_type:
        [period] = holds.periods
        return _in_period(period, start, end)
    of_types = [
        ir.And((_is_a(holds.var, one), _in_period(one, start, end))) for one in holds.periods
    ]
    others_hold = [ir.Not(_is_a(holds.var, one)) for one in holds.periods]
    return ir.Or((*of_types, ir.And(tuple(others_hold))))


def _in_period(period: ir.Period, start: ir.Expr, end: ir.Expr | None) -> ir.Condition:
    since, until = _instant(period.since), _instant(period.until)
    begun: ir.Condition = ir.Compare(since, "<=", start)
    lasts: tuple[ir.Condition, ...] = (ir.Not(ir.IsNull(start)),)
    if end is not None:
        begun = ir.Compare(since, "<", end)
        lasts = (ir.Compare(start, "<", end), ir.Not(ir.Compare(since, ">=", until)))
    ends = ir.Or((ir.IsNull(until), ir.Compare(until, ">", start)))
    return ir.And((*lasts, ir.Or((ir.IsNull(since), begun)), ends))


def _is_a(var: str, period: ir.Period) -> ir.Compare:
    return ir.Compare(ir.PropertyOf(var, TYPE, TEXT), "=", ir.Const(period.type_name, TEXT))


def of_type(condition: ir.Condition, type_name: str) -> ir.Condition:
    """What a condition says of edges of one type."""
    match condition:
        case ir.Compare(ir.PropertyOf(property=name), "=", ir.Const(value)) if name == TYPE:
            return _EVERYTHING if value == type_name else _NOTHING
        case ir.Not(part):
            made = of_type(part, type_name)
            if made in (_EVERYTHING, _NOTHING):
                return _NOTHING if made == _EVERYTHING else _EVERYTHING
            return ir.Not(made)
        case ir.And(parts):
            several = [of_type(part, type_name) for part in parts]
            left = tuple(one for one in several if one != _EVERYTHING)
            return _NOTHING if _NOTHING in left else ir.And(left)
        case ir.Or(parts):
            several = [of_type(part, type_name) for part in parts]
            left = tuple(one for one in several if one != _NOTHING)
            return _EVERYTHING if _EVERYTHING in left else ir.Or(left)
        case _:
            return condition


def _instant(expr: ir.Expr) -> ir.Expr:
    """A Date as its midnight."""
    kind = getattr(expr, "type", None)
    if isinstance(kind, PropType) and kind.scalar.counts_days:
        return ir.Apply("datetime", (expr,), _INSTANT.as_nullable())
    return expr
