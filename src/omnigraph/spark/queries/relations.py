"""Traversals as frames: which nodes are joined, over which edges, after how many hops.

The pairs of one hop are the distinct ends of the edges of all types; with an edge variable there is a row for each
stored edge. Bounds are unrolled hop by hop. A state holds one row for each node that a start has reached, with the hop
of its first visit, so a hop is one join and one grouping, and the plan grows by a line each.

    {1,3} from a over a -> b -> c, a -> c    state after hop 1: (a, 0) (b, 1) (c, 1); c is not visited again
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from omnigraph.errors import BadRequest
from omnigraph.lang.query import ir
from omnigraph.lang.query.ir import Direction
from omnigraph.lang.schema.catalog import EdgeType
from omnigraph.read.match.pattern import Traversal
from omnigraph.read.match.trees import renamed
from omnigraph.spark.queries.periods import of_type
from omnigraph.spark.queries.refused import MANY_HOPS, MOST_HOPS, refusal
from omnigraph.spark.queries.tables import DST, SMALL_ROWS, SRC, Tables
from omnigraph.spark.queries.values.fields import ID, plain

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LEFT, RIGHT, HOPS = "l", "r", "hops"
"""The columns of a relation: what its two variables are bound to, and after how many hops."""


_KNOWN = {
    *("left", "right", "left_type", "right_type", "edge_types", "direction"),
    *("min_hops", "max_hops", "edge_var", "edge_filter", "weight"),
    *("between", "ends_hold"),
}
"""The fields of a traversal that these frames know how to follow."""


def _refuse_unknown(traversal: Traversal) -> None:
    """Refuse a traversal with a field that is not known here, rather than give a wrong answer."""
    for one in fields(traversal):
        if one.name not in _KNOWN and getattr(traversal, one.name) != one.default:
            raise BadRequest(
                f"the traversal {traversal.text} is not answered on Spark ({one.name}); run the query "
                "locally",
                form=one.name,
                engine="spark",
            )


@dataclass(frozen=True, slots=True)
class Relation:
    """The pairs of a traversal; beside ``LEFT`` and ``RIGHT``, columns of its edge or the hops of its path."""

    frame: DataFrame
    is_small: bool


@dataclass(slots=True)
class Unrolled:
    """How many hops the plan of a query has by now, its sources included."""

    hops: int = 0

    def add(self, hops: int) -> None:
        """Count hops; refuse them where they would make too deep a plan."""
        self.hops += hops
        if self.hops > MOST_HOPS:
            raise refusal(MANY_HOPS)


class Relations:
    """Makes the frames of traversals."""

    def __init__(self, tables: Tables, unrolled: Unrolled | None = None) -> None:
        self._tables = tables
        self.unrolled = unrolled or Unrolled()

    def edge_types(self, traversal: Traversal) -> list[EdgeType]:
        """The types of the edges that a traversal goes along."""
        _refuse_unknown(traversal)
        return [self._tables.view.catalog.edges[name] for name in traversal.edge_types]

    def is_small(self, traversal: Traversal) -> bool:
        """Whether the edges are so few that every executor may have them all."""
        return sum(map(self._tables.rows, self.edge_types(traversal))) <= SMALL_ROWS

    def of_edges(
        self,
        traversal: Traversal,
        columns: Mapping[str, str],
        conditions: tuple[ir.Condition, ...] = (),
    ) -> Relation:
        """One row for each stored edge, with these fields of it; ``conditions`` are plain tests of the edge."""
        from pyspark.sql import functions as F  # noqa: N812

        parts: list[DataFrame] = []
        kept = list(columns.values())
        for edge in self.edge_types(traversal):
            rows = self._stored(edge, traversal, columns, conditions)
            if traversal.direction is not Direction.IN:
                parts.append(rows.select(F.col(SRC).alias(LEFT), F.col(DST).alias(RIGHT), *kept))
            if traversal.direction is not Direction.OUT:
                back = rows
                if traversal.direction is Direction.BOTH:
                    back = rows.where(F.col(SRC) != F.col(DST))
                parts.append(back.select(F.col(DST).alias(LEFT), F.col(SRC).alias(RIGHT), *kept))
        return Relation(_union(parts), self.is_small(traversal))

    def pairs(self, traversal: Traversal, *, distinct: bool = True) -> Relation:
        """The pairs that are joined by an edge, each once."""
        found = self.of_edges(traversal, {})
        if not distinct or self._has_no_parallels(traversal):
            return found
        return Relation(found.frame.distinct(), found.is_small)

    def _has_no_parallels(self, traversal: Traversal) -> bool:
        """Whether there is at most one edge between two nodes by a rule of the schema.

        The rule of a type with a period speaks of each moment alone.
        """
        types = self.edge_types(traversal)
        if len(types) != 1 or traversal.direction is Direction.BOTH or types[0].period is not None:
            return False
        return self._tables.keeps_rules and any(
            set(group) == {"src", "dst"} for group in types[0].unique
        )

    def _stored(
        self,
        edge: EdgeType,
        traversal: Traversal,
        columns: Mapping[str, str],
        conditions: tuple[ir.Condition, ...],
    ) -> DataFrame:
        tests = list(conditions)
        if traversal.edge_filter is not None:
            tests.append(plain(renamed(traversal.edge_filter, ir.EDGE, "#e")))
        tests = [of_type(one, edge.name) for one in tests]
        return self._tables.read(edge, {SRC: SRC, DST: DST, **columns}, tests)

    # -------------------------------------------------------------- several hops

    def reached(
        self, traversal: Traversal, starts: DataFrame, *, from_right: bool = False
    ) -> Relation:
        """The pairs of a traversal with bounds, from the starts, which are ids in the only column.

        The search belongs to the left variable. Distances are the same from the right one, against the edges:
        only which loops count is asked of the right end, in both cases.
        """
        from pyspark.sql import functions as F  # noqa: N812

        least, most = traversal.min_hops, traversal.max_hops
        assert most is not None, "open bounds are refused"
        if traversal.left_type != traversal.right_type:
            most = min(most, 1)
        else:
            # No node is as many hops away as there are nodes.
            nodes = self._tables.view.catalog.nodes[traversal.left_type]
            most = min(most, self._tables.rows(nodes))
        self.unrolled.add(most)
        start, node = (RIGHT, LEFT) if from_right else (LEFT, RIGHT)
        step = self.pairs(traversal, distinct=False)
        near = step.frame.select(F.col(start).alias("near"), F.col(node).alias("far"))
        (given,) = starts.columns
        state = starts.select(F.col(given).alias(start), F.col(given).alias(node)).distinct()
        state = state.withColumn(HOPS, F.lit(0).cast("bigint"))
        between = self._between(traversal)
        for hop in range(1, most + 1):
            if hop == 2 and between is not None:
                near = near.join(between, F.col("near") == F.col("between"), "left_semi")
            state = self._hop(state, near, start, node, hop, is_small=step.is_small)
        found = state.where(F.col(HOPS) >= least) if least else state
        if traversal.left_type != traversal.right_type:
            found = found.where(F.col(HOPS) > 0) if least else found
        elif least:
            found = found.unionByName(self._by_loops(state, step, least, between))
        return Relation(found.select(LEFT, RIGHT, HOPS), False)

    def _between(self, traversal: Traversal) -> DataFrame | None:
        """The nodes that may stand between the ends of a traversal; None where that is all of them."""
        if traversal.between is None:
            return None
        node = self._tables.view.catalog.nodes[traversal.left_type]
        test = plain(renamed(traversal.between, ir.BETWEEN, "#n"))
        return self._tables.read(node, {ID: "between"}, [test])

    def _hop(
        self, state: DataFrame, near: DataFrame, start: str, node: str, hop: int, *, is_small: bool
    ) -> DataFrame:
        """The state after one hop more."""
        from pyspark.sql import functions as F  # noqa: N812

        edges = F.broadcast(near) if is_small else near
        is_edge = (F.col(node) == F.col("near")) & (F.col(HOPS) == hop - 1)
        joined = state.join(edges, is_edge, "left")
        here = F.struct(F.col(node).alias(node), F.col(HOPS).alias(HOPS))
        there = F.struct(F.col("far").alias(node), F.lit(hop).cast("bigint").alias(HOPS))
        both = F.when(F.col("far").isNull(), F.array(here)).otherwise(F.array(here, there))
        spread = joined.select(start, F.explode(both).alias("v")).select(start, "v.*")
        return spread.groupBy(start, node).agg(F.min(HOPS).alias(HOPS))

    def _by_loops(
        self, state: DataFrame, step: Relation, least: int, between: DataFrame | None
    ) -> DataFrame:
        """The pairs that only a loop on the right end brings to the least number of hops.

        The way leads through that end, unless it is the start itself.
        """
        from pyspark.sql import functions as F  # noqa: N812

        loops = step.frame.where(F.col(LEFT) == F.col(RIGHT))
        loops = loops.select(F.col(LEFT).alias("loop")).distinct()
        if step.is_small:
            loops = F.broadcast(loops)
        short = state.where(F.col(HOPS) == least - 1)
        found = short.join(loops, F.col(RIGHT) == F.col("loop"), "left_semi")
        if between is not None and least > 1:
            found = found.join(between, F.col(RIGHT) == F.col("between"), "left_semi")
        return found.withColumn(HOPS, F.lit(least).cast("bigint"))


def _union(parts: list[DataFrame]) -> DataFrame:
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.unionByName(part)
    return whole
