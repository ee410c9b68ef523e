"""Counting what a negated traversal leaves: everything, less what the traversal joins.

`not { $a knows $c }` asks for pairs that are not joined, so its rows would have to be enumerated. A
count needs no rows: the matches without the block, less the matches with the traversal instead of
it, and both are counted by messages. Rows come with a sign, and groups that end at zero are none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from omnigraph.lang.query import ir
from omnigraph.read.bindings import Bindings, Carried
from omnigraph.read.pattern import Negation, Pattern

if TYPE_CHECKING:
    from omnigraph.read.solve import Wanted

# Every block doubles the matches to count.
_MOST = 2


def signed(pattern: Pattern, wanted: Wanted) -> Iterator[tuple[int, Pattern]]:
    """Patterns whose counts add up, by sign, to that of the pattern."""
    blocks = [one for one in pattern.negations if _is_joined(one) and not one.outer <= wanted.kept]
    others = tuple(one for one in pattern.negations if one not in blocks[:_MOST])
    yield from _signed(replace(pattern, negations=others), blocks[:_MOST], 1)


def _signed(pattern: Pattern, blocks: list[Negation], sign: int) -> Iterator[tuple[int, Pattern]]:
    if not blocks:
        yield sign, pattern
        return
    first, *rest = blocks
    yield from _signed(pattern, rest, sign)
    joined = replace(pattern, traversals=pattern.traversals + first.pattern.traversals)
    yield from _signed(joined, rest, -sign)


def _is_joined(negation: Negation) -> bool:
    """Whether the block is nothing but one traversal between two variables of the row."""
    inner = negation.pattern
    if len(inner.traversals) != 1 or inner.tests or inner.joins or inner.conditions:
        return False
    (traversal,) = inner.traversals
    return (
        not inner.negations
        and traversal.is_single_hop
        and traversal.edge_var is None
        and traversal.ends == inner.given == negation.outer
        and len(traversal.ends) == 2
    )


def only_counts(plan: ir.ReadPlan) -> bool:
    """Whether every aggregate counts, so that rows with a sign cancel out exactly."""
    return all(
        column.expr.function == "count"
        for column in plan.columns
        if isinstance(column.expr, ir.Aggregate)
    )


def negative(batch: Bindings) -> Bindings:
    """The rows to be taken off."""
    import numpy as np

    weights = np.ones(batch.rows, np.int64) if batch.weights is None else batch.weights
    carried = {
        at: Carried(-entry.counts, entry.column, entry.sums, entry.best)
        for at, entry in batch.carried.items()
    }
    return Bindings(batch.rows, batch.codes, -weights, carried)
