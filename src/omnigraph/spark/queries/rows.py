"""Rows of a match as a frame, and how frames of rows are joined.

A frame has one column for each field, and where rows were summed away, one (``N``) that says how many rows of the match
each of its rows stands for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from omnigraph.embeddings.embedder import Embedder
from omnigraph.lang.query import ir
from omnigraph.read.view.view import View
from omnigraph.spark.queries.relations import Relations
from omnigraph.spark.queries.tables import SMALL_ROWS, Tables
from omnigraph.spark.queries.values.computed import with_computed
from omnigraph.spark.queries.values.fields import ColumnNames, Field
from omnigraph.spark.queries.values.native import satisfied

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

N = "n"
"""The column that says how many rows of the match a row stands for."""


Answer = Callable[["Job", ir.ReadPlan, "str | None"], "DataFrame"]


@dataclass(frozen=True, slots=True)
class Job:
    """What one query is compiled with: the session, the pinned snapshot, the values of its parameters."""

    session: SparkSession
    view: View
    params: Mapping[str, Any]
    names: ColumnNames
    tables: Tables
    relations: Relations
    answer: Answer
    """Makes the frame of a query that is a source: its columns in order, then the position of each row if named."""
    embedder: Embedder | None = None

    def column(self, field: Field) -> Column:
        """The column of a field."""
        from pyspark.sql import functions as F  # noqa: N812

        return F.col(self.names.of(field))

    def inside(self, params: Mapping[str, Any]) -> Job:
        """The same for a query that is a source of this one, which has variables of its own."""
        tables = Tables(
            self.session,
            self.view,
            params,
            self.tables.extra,
            keeps_rules=self.tables.keeps_rules,
        )
        names = ColumnNames(f"{self.names.fresh()}_")
        relations = Relations(tables, self.relations.unrolled)
        return replace(self, params=params, names=names, tables=tables, relations=relations)


@dataclass(frozen=True, slots=True)
class MatchRows:
    """Rows of a match. ``nullable`` variables may be bound to nothing; ``most`` is a bound on the rows, if known."""

    frame: DataFrame
    fields: frozenset[Field]
    is_weighted: bool = False
    nullable: frozenset[str] = frozenset()
    most: int | None = None

    @property
    def is_small(self) -> bool:
        """Whether every executor may have all of these rows."""
        return self.most is not None and self.most <= SMALL_ROWS

    def has(self, var: str) -> bool:
        """Whether a variable is bound in these rows."""
        return any(field.var == var for field in self.fields)


def filtered(job: Job, rows: MatchRows, conditions: Collection[ir.Condition]) -> MatchRows:
    """The rows that satisfy all of some plain conditions."""
    frame, others = rows.frame, []
    for condition in conditions:
        held = satisfied(condition, job.column, job.params)
        if held is None:
            others.append(condition)
        else:
            frame = frame.where(held)
    if others:
        frame = with_computed(frame, job.names, job.params, conditions=others)
    return replace(rows, frame=frame)


def selected(job: Job, rows: MatchRows, fields: Iterable[Field]) -> MatchRows:
    """The rows with these of their fields alone."""
    from pyspark.sql import functions as F  # noqa: N812

    kept = frozenset(fields) & rows.fields
    columns = [job.names.of(field) for field in sorted(kept)]
    if rows.is_weighted:
        columns.append(N)
    frame = rows.frame.select(*columns) if columns else rows.frame.select(F.lit(1).alias("one"))
    return replace(rows, frame=frame, fields=kept)


def collapsed(job: Job, rows: MatchRows) -> MatchRows:
    """Equal rows as one, which counts them."""
    from pyspark.sql import functions as F  # noqa: N812

    columns = [job.names.of(field) for field in sorted(rows.fields)]
    total = F.sum(N) if rows.is_weighted else F.count(F.lit(1))
    frame = rows.frame.groupBy(*columns).agg(total.alias(N))
    if not columns:
        # Without a key there is a row even if there was none before.
        frame = frame.where(F.col(N) > 0)
    return replace(rows, frame=frame, is_weighted=True, most=1 if not columns else rows.most)


def joined(
    job: Job,
    rows: MatchRows,
    other: MatchRows,
    keys: Collection[Field],
    *,
    how: str = "inner",
) -> MatchRows:
    """Rows that agree in some fields, beside each other. A left join keeps rows that find none.

    Nothing agrees with nothing where a key may be null in both; ``left_semi`` and ``left_anti`` only keep or drop.
    """
    from pyspark.sql import functions as F  # noqa: N812

    theirs, names = other.frame, {}
    for field in keys:
        names[field] = job.names.fresh()
        theirs = theirs.withColumnRenamed(job.names.of(field), names[field])
    weight = job.names.fresh()
    if other.is_weighted:
        theirs = theirs.withColumnRenamed(N, weight)
    mine = rows.frame
    if other.is_small:
        theirs = F.broadcast(theirs)
    elif rows.is_small and how == "inner":
        mine = F.broadcast(mine)
    if not keys and how == "inner":
        frame = mine.crossJoin(theirs)
    else:
        frame = mine.join(theirs, _agreeing(job, rows, names), how)
    if how in {"left_semi", "left_anti"}:
        return replace(rows, frame=frame)
    frame = frame.drop(*names.values())
    if other.is_weighted:
        times = F.col(weight) if how == "inner" else F.coalesce(F.col(weight), F.lit(1))
        frame = frame.withColumn(N, F.col(N) * times if rows.is_weighted else times).drop(weight)
    added = frozenset(field.var for field in other.fields - rows.fields)
    return MatchRows(
        frame,
        rows.fields | other.fields,
        rows.is_weighted or other.is_weighted,
        rows.nullable | other.nullable | (added if how == "left" else frozenset()),
        rows.most if how == "inner" and other.most == 1 else None,
    )


def _agreeing(job: Job, rows: MatchRows, names: Mapping[Field, str]) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    agree = F.lit(True)
    for at, (field, name) in enumerate(names.items()):
        mine, theirs = job.column(field), F.col(name)
        same = mine.eqNullSafe(theirs) if field.var in rows.nullable else mine == theirs
        agree = same if not at else agree & same
    return agree
