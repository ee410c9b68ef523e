"""Blocks beside rows: `not`, `exists` and `optional`, and conditions that hold some of them.

A block depends on its outer variables alone. It is solved once, for their distinct combinations or, if it is about one
variable and goes one hop at a time, for all of them, and then joined: rows are kept, dropped, marked or extended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from omnigraph.lang.query import ir
from omnigraph.read.match.pattern import Negation, OptionalBlock, Pattern, block_of
from omnigraph.spark.queries.needs import ids, outer_fields
from omnigraph.spark.queries.rows import Job, MatchRows, collapsed, joined, selected
from omnigraph.spark.queries.searches import matching_ids
from omnigraph.spark.queries.values.fields import BOOL, MARKS, Field, Tree, plain

if TYPE_CHECKING:
    from collections.abc import Collection

Solve = Callable[..., MatchRows]
AnyTree = TypeVar("AnyTree", bound=Tree)


def stands_alone(pattern: Pattern, outer: Collection[str]) -> bool:
    """Whether a block can be solved for all values of its outer variable, because it reads nothing else of the row."""
    if any(not hop.is_single_hop for hop in pattern.traversals):
        return False
    return all(field.var in outer for field in outer_fields(pattern))


def _matches(
    job: Job, rows: MatchRows, block: Negation, solve: Solve
) -> tuple[MatchRows, list[Field]]:
    """The combinations of the outer variables for which a block has a match, and what identifies them."""
    keys = list(ids(block.pattern, block.outer))
    if _is_about_one(block, rows):
        alone = replace(block.pattern, given=frozenset())
        return solve(job, alone, keys, exists=True), keys
    given = _distinct(job, rows, outer_fields(block.pattern) | set(keys))
    return solve(job, block.pattern, keys, given, exists=True), keys


def _is_about_one(block: Negation | OptionalBlock, rows: MatchRows) -> bool:
    if len(block.outer) != 1:
        return False
    (var,) = block.outer
    is_node = not block.pattern.nodes.get(var, "#").startswith("#")
    return is_node and var not in rows.nullable and stands_alone(block.pattern, {var})


def _distinct(job: Job, rows: MatchRows, fields: Iterable[Field]) -> MatchRows:
    bare = selected(job, replace(rows, is_weighted=False), fields)
    return replace(bare, frame=bare.frame.distinct())


def without_matches(job: Job, rows: MatchRows, block: Negation, solve: Solve) -> MatchRows:
    """The rows beside which a block has no match."""
    found, keys = _matches(job, rows, block, solve)
    return joined(job, rows, found, keys, how="left_anti")


def with_matches(job: Job, rows: MatchRows, block: Negation, solve: Solve) -> MatchRows:
    """The rows beside which a block has a match."""
    found, keys = _matches(job, rows, block, solve)
    return joined(job, rows, found, keys, how="left_semi")


def extended(
    job: Job, rows: MatchRows, block: OptionalBlock, asked: Collection[Field], solve: Solve
) -> MatchRows:
    """The rows with what an optional block finds beside them, or with nothing; ``asked`` are fields of its own."""
    keys = list(ids(block.pattern, block.outer))
    if _is_about_one(block, rows):
        found = solve(job, replace(block.pattern, given=frozenset()), {*asked, *keys})
    else:
        given = _distinct(job, rows, outer_fields(block.pattern) | set(keys))
        found = solve(job, block.pattern, {*asked, *keys}, given)
    if not asked:
        found = collapsed(job, found)
    return joined(job, rows, found, keys, how="inner" if block.required else "left")


def marked(
    job: Job, rows: MatchRows, pattern: Pattern, conditions: Iterable[ir.Condition], solve: Solve
) -> tuple[MatchRows, list[ir.Condition]]:
    """The rows that satisfy blocks and searches that stand alone, and the other conditions, made plain.

    What a block or a search inside a condition says of a row becomes a column of it.
    """
    tests: list[ir.Condition] = []
    for condition in conditions:
        inner = condition.part if isinstance(condition, ir.Not) else condition
        if isinstance(inner, ir.Exists):
            kept = without_matches if inner is not condition else with_matches
            rows = kept(job, rows, block_of(inner, pattern), solve)
        elif isinstance(inner, ir.TextMatch):
            found, keys = _found(job, pattern, inner)
            how = "left_anti" if inner is not condition else "left_semi"
            rows = joined(job, rows, found, keys, how=how)
        else:
            rows, test = with_marks(job, rows, pattern, condition, solve)
            tests.append(test)
    return rows, tests


def with_marks(
    job: Job, rows: MatchRows, pattern: Pattern, tree: AnyTree, solve: Solve
) -> tuple[MatchRows, AnyTree]:
    """An expression or condition made plain, and the rows with the columns that it reads then."""
    made = rows

    def judged(part: Tree) -> Tree | None:
        nonlocal made
        if isinstance(part, ir.Exists):
            made, mark = _mark(job, made, *_matches(job, made, block_of(part, pattern), solve))
            return mark
        if isinstance(part, ir.TextMatch):
            made, mark = _mark(job, made, *_found(job, pattern, part))
            return mark
        return None

    changed: AnyTree = plain(tree, judged)
    return made, changed


def _found(job: Job, pattern: Pattern, search: ir.TextMatch) -> tuple[MatchRows, list[Field]]:
    var = search.field.var
    types = {**pattern.optional_nodes, **pattern.nodes}
    found = matching_ids(job, search, types[var], var)
    return found, list(found.fields)


def _mark(
    job: Job, rows: MatchRows, found: MatchRows, keys: list[Field]
) -> tuple[MatchRows, ir.Condition]:
    """The rows with a column that is true where they are among those that were found."""
    from pyspark.sql import functions as F  # noqa: N812

    mark = Field(MARKS, job.names.fresh())
    once = replace(found, frame=found.frame.select(*map(job.names.of, keys)).distinct())
    flagged = replace(
        once,
        frame=once.frame.withColumn(job.names.of(mark), F.lit(True)),
        fields=frozenset({*keys, mark}),
        is_weighted=False,
    )
    nullable = rows.nullable
    rows = joined(job, rows, flagged, keys, how="left")
    test = ir.IsTrue(ir.PropertyOf(mark.var, mark.what, BOOL.as_nullable()))
    return replace(rows, nullable=nullable), test
