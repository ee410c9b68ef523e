"""What the output of a plan asks of its match: the same for a run and for an explanation of it."""

from __future__ import annotations

from omnigraph.lang.query import ir
from omnigraph.read.match.measures import WHOLE_SUM
from omnigraph.read.match.negations import signed
from omnigraph.read.match.pattern import Pattern, operand_variables
from omnigraph.read.match.wanted import Total, Wanted
from omnigraph.read.output.aggregate_functions import measures_of, only_counts
from omnigraph.read.view.view import View


def groups_wanted(plan: ir.ReadPlan, pattern: Pattern, *, wide: bool = False) -> Wanted:
    """What groups are made of. ``wide``: sums of integers are added from rows."""
    kept: set[str] = set()
    totals: dict[int, Total] = {}
    for at, column in enumerate(plan.columns):
        if not isinstance(column.expr, ir.Aggregate):
            kept.update(operand_variables(column.expr))
        elif isinstance(column.expr.arg, ir.PropertyOf):
            arg, measures = column.expr.arg, measures_of(column.expr)
            of_rows = wide and WHOLE_SUM in measures
            if of_rows or arg.var in pattern.edges:
                kept.add(arg.var)
            else:
                totals[at] = Total(arg, measures)
    return Wanted(frozenset(kept), totals)


def rows_kept(plan: ir.ReadPlan) -> frozenset[str]:
    """The variables whose codes the rows of a list need."""
    kept = {name for column in plan.columns for name in operand_variables(column.expr)}
    if plan.order or plan.ranking is not None:
        # Ties are broken by the ids of every named variable.
        kept |= {variable.name for variable in plan.variables}
    return frozenset(kept)


def matched(
    view: View, plan: ir.ReadPlan, pattern: Pattern, wanted: Wanted
) -> list[tuple[int, Pattern]]:
    """The patterns that are solved for groups, and with which sign their counts are added."""
    if not only_counts(plan):
        return [(1, pattern)]
    return signed(pattern, wanted, view.catalog, view.thresholds.match.subtracted_blocks)
