"""Paths of optional blocks that lead between variables from outside.

A path is searched between its ends when a value of it is asked for (``paths``). In

    optional { $a $p:road{1,} $b  $c: Town { name: "x" } }

with `$a` and `$b` from outside, the ends are always there, but without a town called x the block has no match, and `$p`
is nothing. So such a block gets a hidden variable of a single row, `#here`, and the values of the path look at it, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from omnigraph.lang.query import ir
from omnigraph.types import PropType, Scalar

HERE = "#here"
"""The parameter with one element, and the beginning of the names of hidden variables."""
ONE = {HERE: [0]}
_ONE_ROW = ir.ParamRef(HERE, PropType(Scalar.I64, is_list=True))

T = TypeVar("T")


def guarded(plan: ir.ReadPlan) -> ir.ReadPlan:
    """The plan, in which paths of optional blocks also look at whether their block has a match."""
    guards = {
        path: f"{HERE}{at}"
        for at, block in enumerate(_left_joins(plan.steps))
        for path in _paths_between(block)
    }
    if not guards:
        return plan
    return _rewritten(plan, guards)


def _left_joins(steps: Iterable[ir.Step]) -> Iterator[ir.LeftJoin]:
    for step in steps:
        if isinstance(step, ir.LeftJoin):
            yield step
            yield from _left_joins(step.inner)


def _paths_between(block: ir.LeftJoin) -> Iterator[str]:
    """The paths of a block neither of whose ends it introduces."""
    new = set(block.introduced) | {
        step.var for step in block.inner if isinstance(step, ir.NodeScan)
    }
    same = {
        step.predicate.left.var: step.predicate.right.var
        for step in block.inner
        if isinstance(step, ir.Filter)
        and isinstance(step.predicate, ir.Compare)
        and isinstance(step.predicate.left, ir.NodeId)
        and isinstance(step.predicate.right, ir.NodeId)
    }
    for step in block.inner:
        if isinstance(step, ir.Expand) and step.path_var is not None:
            end = same.get(step.dst, step.dst)
            if new.isdisjoint({step.src, end}):
                yield step.path_var


def _rewritten(tree: T, guards: Mapping[str, str]) -> T:
    if isinstance(tree, tuple):
        return tuple(_rewritten(part, guards) for part in tree)  # type: ignore[return-value]
    if not is_dataclass(tree) or isinstance(tree, type | PropType):
        return tree
    if isinstance(tree, ir.PathValue):
        return replace(tree, guard=guards.get(tree.var))
    changed: dict[str, Any] = {
        one.name: _rewritten(getattr(tree, one.name), guards) for one in fields(tree)
    }
    made = replace(tree, **changed)
    if isinstance(made, ir.LeftJoin):
        names = sorted({guards[path] for path in _paths_between(made) if path in guards})
        rows = tuple(ir.Elements(name, _ONE_ROW) for name in names)
        # What a block inside introduces is handed on, as its other variables are.
        inside = [name for one in _left_joins(made.inner) for name in one.introduced]
        names += [name for name in inside if name.startswith(HERE)]
        introduced = tuple(dict.fromkeys((*made.introduced, *names)))
        return replace(made, inner=(*rows, *made.inner), introduced=introduced)
    return made
