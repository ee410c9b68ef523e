"""The forms of a query that Spark does not answer; each is refused by name before a job starts.

Most of these forms need as many rounds as the data says, while a DataFrame is made before anything runs
(query-extensions.md, E46). Many hops make a plan that is too deep for Java.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from omnigraph.errors import BadRequest
from omnigraph.lang.query import ir


@dataclass(frozen=True, slots=True)
class LocalForm:
    """A form that stays local: its name, an example, and what to do instead."""

    form: str
    example: str
    instead: str


OPEN_BOUND = LocalForm("an open bound", "$a knows{1,} $b", "give the bound a last hop")
BY = LocalForm("`by`", "$a $p:road by km $b", "run the query locally")
NODES = LocalForm(
    "`nodes`", "nodes($p)", "return `length($p)` and the ends, or run the query locally"
)
EDGES = LocalForm(
    "`edges`", "edges($p)", "use an edge variable for each hop, or run the query locally"
)
PATH = LocalForm(
    "a bare path", "return { $p }", "return `length($p)` and the ends, or run the query locally"
)

MOST_HOPS = 40
"""The hops of one query, all bounds together: each makes its plan deeper, and Java's stack ends some way beyond."""

MANY_HOPS = LocalForm(
    "many hops",
    f"$a knows{{1,{MOST_HOPS + 1}}} $b",
    f"ask for at most {MOST_HOPS} in all, or run the query locally",
)

REFUSED = (OPEN_BOUND, MANY_HOPS, BY, NODES, EDGES, PATH)
"""Those of every query; the documentation has the same table."""

EDGES_BY_ROW = LocalForm(
    "edges that hold at a moment of the row",
    "$a knows $b as of $a.seen",
    "give the edges a variable, or run the query locally",
)
HOPS_BY_ROW = LocalForm(
    "hops through nodes that hold at a moment of the row",
    "$a next{1,3} $b as of $a.seen",
    "say `ever` after the traversal, or run the query locally",
)
ALTERNATIVES_BY_ROW = LocalForm(
    "alternatives with different periods at a moment of the row",
    "$a $e:knows|follows $b as of $a.seen",
    "ask for one at a time, or run the query locally",
)
REFUSED_MOMENTS = (EDGES_BY_ROW, HOPS_BY_ROW, ALTERNATIVES_BY_ROW)
"""Those of queries that say when things must hold."""


def refusal(one: LocalForm, called: str = "the query") -> BadRequest:
    """What is said of a form that stays local."""
    return BadRequest(
        f"{called} uses {one.form} ({one.example}), which is not answered on Spark; {one.instead}",
        form=one.form.strip("`"),
        engine="spark",
    )


def refuse(plan: ir.ReadPlan) -> None:
    """Raise for the first form of a plan that Spark does not answer."""
    for one in _in_plan(plan):
        called = "the query" if plan.name is None else f"query `{plan.name}`"
        raise refusal(one, called)


def _in_plan(plan: ir.ReadPlan) -> Iterator[LocalForm]:
    yield from _in_steps(plan.steps)
    for column in plan.columns:
        if isinstance(column.expr, ir.PathValue) and column.expr.what == "path":
            yield PATH
        yield from _in_tree(column.expr)
    for key in plan.order:
        if key.expr is not None:
            yield from _in_tree(key.expr)


def _in_steps(steps: Iterable[ir.Step]) -> Iterator[LocalForm]:
    for step in steps:
        match step:
            case ir.Expand():
                if step.weight is not None:
                    yield BY
                elif step.max_hops is None:
                    yield OPEN_BOUND
                yield from _in_trees(step.dst_filters)
            case ir.NodeScan():
                yield from _in_trees(step.filters)
            case ir.Rows():
                yield from _in_plan(step.plan)
            case ir.Filter():
                yield from _in_tree(step.predicate)
            case ir.SemiJoin() | ir.AntiJoin() | ir.LeftJoin():
                yield from _in_steps(step.inner)
            case _:
                pass


def _in_trees(trees: Iterable[ir.Condition]) -> Iterator[LocalForm]:
    for tree in trees:
        yield from _in_tree(tree)


def _in_tree(tree: ir.Output | ir.Condition) -> Iterator[LocalForm]:
    if isinstance(tree, ir.PathValue):
        if tree.what == "nodes":
            yield NODES
        elif tree.what == "edges":
            yield EDGES
        elif tree.what == "cost":
            yield BY
    if isinstance(tree, ir.Exists):
        yield from _in_steps(tree.inner)
    for part in ir.parts_of(tree):
        yield from _in_tree(part)
