"""What the output of a plan asks of its match: the same for a run and for an explanation of it."""

from __future__ import annotations

from omnigraph.lang.query import ir
from omnigraph.read.match.blocks.negations import signed
from omnigraph.read.match.measures import WHOLE_SUM
from omnigraph.read.match.pattern import Pattern
from omnigraph.read.match.wanted import Total, Wanted
from omnigraph.read.output.aggregate_functions import aggregates_of, measures_of, only_counts
from omnigraph.read.output.listings import is_listing
from omnigraph.read.values.expressions import has_path, variables_of
from omnigraph.read.view.view import View


def groups_wanted(plan: ir.ReadPlan, pattern: Pattern, *, wide: bool = False) -> Wanted:
    """What groups are made of. ``wide``: sums of integers are added from rows.

    The arguments of aggregates over one variable travel as totals while others are summed away. The variables of
    all other arguments, and those of the group keys, are kept.
    """
    kept: set[str] = set()
    totals: dict[int, Total] = {}
    nullable = {variable.name for variable in plan.variables if variable.nullable}
    for column in plan.columns:
        if not ir.has_aggregate(column.expr):
            kept |= variables_of(column.expr)
    aggregates = aggregates_of(plan)
    for number, aggregate in enumerate(aggregates):
        arg = aggregate.arg
        names = set() if arg is None else variables_of(arg)
        if arg is None or not names:
            continue
        if is_listing(aggregate) or names & nullable or len(names) > 1 or has_path(arg):
            kept |= names
        elif not isinstance(arg, ir.NodeId | ir.EdgeId | ir.RowNumber | ir.Shape):
            [name] = names
            measures = measures_of(aggregate)
            if (wide and WHOLE_SUM in measures) or name not in pattern.nodes:
                kept.add(name)
            else:
                totals[number] = Total(arg, measures)
    # Rows are told apart, not counted: a boolean message does for what is summed away.
    uncounted = not totals and all(one.distinct for one in aggregates)
    return Wanted(frozenset(kept), totals, is_boolean=uncounted)


def rows_kept(plan: ir.ReadPlan) -> frozenset[str]:
    """The variables whose codes the rows of a list need."""
    kept = {name for column in plan.columns for name in variables_of(column.expr)}
    # An expression may look at more than named variables: the path of an optional block at whether it matched.
    keys = [key.expr for key in plan.order if key.expr is not None]
    kept |= {name for key in keys for name in variables_of(key)}
    if plan.order or plan.ranking is not None:
        # Ties are broken by the ids of every named variable.
        kept |= {variable.name for variable in plan.variables if variable.kind != "path"}
    return frozenset(kept)


def matched(
    view: View, plan: ir.ReadPlan, pattern: Pattern, wanted: Wanted
) -> list[tuple[int, Pattern]]:
    """The patterns that are solved for groups, and with which sign their counts are added."""
    if not only_counts(plan):
        return [(1, pattern)]
    return signed(pattern, wanted, view.catalog, view.thresholds.match.subtracted_blocks)
