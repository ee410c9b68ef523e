"""Traversals over edges that hold at a moment of the row: the rows of one moment are searched together.

$t raisedBy $p   $p managedBy{1,3} $m as of $t.opened
rows of $t, $p and $m that were opened on one of two days   ->   two searches, each among the edges of its day
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from omnigraph.lang.query import ir
from omnigraph.read.kernels.arrays import Index
from omnigraph.read.match import trees
from omnigraph.read.match.pattern import Pattern, Traversal
from omnigraph.read.values.expressions import evaluate, type_of
from omnigraph.read.values.operands import OperandRows
from omnigraph.types import PropType


def has_row_moments(pattern: Pattern) -> bool:
    """Whether a traversal of the pattern goes by moments of the row."""
    return any(one.row_moments for one in pattern.traversals)


def by_moment(
    traversals: Sequence[Traversal], rows: OperandRows
) -> Iterator[tuple[Index, list[Traversal]]]:
    """Group the rows by their moments; yield each group with the traversals at its moments."""
    exprs = [
        expr
        for traversal in traversals
        for test in traversal.row_moments
        for expr in ir.moments_of(test.when)
    ]
    kinds = [type_of(expr) for expr in exprs]
    columns = [evaluate(expr, rows) for expr in exprs]
    keys = [
        part
        for one in columns
        for part in (one.numbers.astype(np.int64), one.array.is_null().to_numpy(False))
    ]
    distinct, which = np.unique(np.stack(keys, axis=1), axis=0, return_inverse=True)
    order = np.argsort(which.ravel(), kind="stable")
    ends = np.cumsum(np.bincount(which.ravel(), minlength=len(distinct)))
    for at, row in enumerate(distinct.tolist()):
        pairs = zip(row[::2], row[1::2], strict=True)
        moments = [None if missing else value for value, missing in pairs]
        given = iter(zip(moments, kinds, strict=True))
        places = order[(ends[at - 1] if at else 0) : ends[at]]
        yield places, [_at(one, given) for one in traversals]


def _at(traversal: Traversal, given: Iterator[tuple[Any, PropType]]) -> Traversal:
    """The traversal with the next of the given moments for those that differ from row to row."""
    known: dict[int, ir.Holds] = {}
    for test in traversal.row_moments:
        moments = [ir.Const(*next(given)) for _ in ir.moments_of(test.when)]
        known[id(test)] = trees.at_moments(test, moments)
    return replace(
        traversal,
        edge_filter=_edges_at(traversal.edge_filter, known),
        between=_known(traversal.between, known) if traversal.between else None,
    )


def _edges_at(condition: ir.Condition | None, known: Mapping[int, ir.Holds]) -> ir.Condition | None:
    if condition is None:
        return None
    parts = tuple(known.get(id(one), one) for one in trees.conjuncts(condition))
    return parts[0] if len(parts) == 1 else ir.And(parts)


def _known(condition: ir.Holds, known: Mapping[int, ir.Holds]) -> ir.Holds:
    return known.get(id(condition), condition)
