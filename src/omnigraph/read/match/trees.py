"""Expressions and conditions as trees: taken apart, and made anew about other variables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields, replace
from typing import Any, TypeVar, cast, get_args

from omnigraph.lang.query import ir
from omnigraph.types import TEXT, PropType

Tree = TypeVar("Tree", bound=ir.Output | ir.Condition)
_TREES = get_args(ir.Output) + get_args(ir.Condition)


def conjuncts(condition: ir.Condition) -> Iterator[ir.Condition]:
    """The conditions that must all be satisfied for a condition to be: each may be a test of its own."""
    match condition:
        case ir.And():
            for part in condition.parts:
                yield from conjuncts(part)
        case ir.Not(ir.Or() as either):
            for part in either.parts:
                yield from conjuncts(ir.Not(part))
        case ir.Not(ir.Not(part)):
            yield from conjuncts(part)
        case ir.IsTrue(ir.Truth(part)):
            yield from conjuncts(part)
        case _:
            yield condition


def renamed(tree: Tree, old: str, new: str) -> Tree:
    """An expression or condition about another variable; the steps of a block inside are not looked at."""
    if isinstance(tree, ir.PathValue):
        left, right = (new if name == old else name for name in tree.ends)
        moments = tuple(new if name == old else name for name in tree.moments)
        return replace(tree, ends=(left, right), moments=moments)
    if isinstance(tree, ir.Holds):
        return cast("Tree", _renamed_holds(tree, old, new))
    if getattr(tree, "var", None) == old:
        return cast("Tree", replace(cast("ir.NodeId", tree), var=new))
    changed: dict[str, Any] = {}
    for one in fields(tree):
        value = getattr(tree, one.name)
        if isinstance(value, tuple) and not isinstance(tree, ir.Exists):
            changed[one.name] = tuple(
                renamed(part, old, new) if isinstance(part, _TREES) else part for part in value
            )
        elif isinstance(value, _TREES):
            changed[one.name] = renamed(value, old, new)
    return replace(tree, **changed) if changed else tree


def _renamed_holds(tree: ir.Holds, old: str, new: str) -> ir.Holds:
    periods = tuple(
        replace(one, since=renamed(one.since, old, new), until=renamed(one.until, old, new))
        for one in tree.periods
    )
    moments = [renamed(one, old, new) for one in ir.moments_of(tree.when)]
    var = new if tree.var == old else tree.var
    return replace(tree, var=var, periods=periods, when=ir.When(*moments))


def at_moments(tree: ir.Holds, moments: Iterable[ir.Expr]) -> ir.Holds:
    """The same at these moments."""
    return replace(tree, when=ir.When(*moments))


def nulled(tree: Tree, missing: frozenset[str]) -> Tree:
    """A condition in which these variables are nothing."""
    if isinstance(tree, ir.Exists):
        return replace(tree, outer=tuple(name for name in tree.outer if name not in missing))
    if isinstance(tree, ir.Holds):
        if tree.var in missing:
            return cast("Tree", ir.Or(()))
        return cast(
            "Tree", at_moments(tree, (nulled(one, missing) for one in ir.moments_of(tree.when)))
        )
    ends = (
        {*tree.ends, *tree.moments, tree.guard}
        if isinstance(tree, ir.PathValue)
        else {getattr(tree, "var", None)}
    )
    if ends & missing:
        kind = getattr(tree, "type", TEXT)
        return ir.Const(None, kind if isinstance(kind, PropType) else TEXT)  # type: ignore[return-value]
    changed: dict[str, Any] = {}
    for one in fields(tree):
        value = getattr(tree, one.name)
        if isinstance(value, tuple):
            changed[one.name] = tuple(
                nulled(part, missing) if isinstance(part, _TREES) else part for part in value
            )
        elif isinstance(value, _TREES):
            changed[one.name] = nulled(value, missing)
    return replace(tree, **changed) if changed else tree


def has_block(condition: ir.Output | ir.Condition) -> bool:
    """Whether a block stands somewhere in a condition."""
    return isinstance(condition, ir.Exists) or any(map(has_block, ir.parts_of(condition)))


def blocks_in(tree: ir.Output | ir.Condition) -> Iterator[ir.Exists]:
    """The blocks that stand in an expression or a condition, those inside of others aside."""
    if isinstance(tree, ir.Exists):
        yield tree
    for part in ir.parts_of(tree):
        yield from blocks_in(part)
