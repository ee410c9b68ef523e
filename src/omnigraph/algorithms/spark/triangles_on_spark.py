"""Triangles and clustering on Spark.

Every edge is taken once, from the end with fewer neighbours to the other, so a node with very many neighbours has few
of them (at most the root of twice the edges) and no task has all pairs of a hub. Two edges of one node and the edge
that closes them are a triangle:

    u -> a, u -> b, with a < b, and an edge between a and b
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.algorithms.spark.rounds_on_spark import SparkFound
from omnigraph.algorithms.spark.spark_graph import SparkGraph

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def triangle_count(graph: SparkGraph) -> SparkFound:
    """How many triangles lead through each node."""
    from pyspark.sql import functions as F  # noqa: N812

    found = _opposite(graph, directed=False)
    return SparkFound(found.select("node", F.col("edges").alias("value")))


def clustering(graph: SparkGraph, *, directed: bool) -> SparkFound:
    """The share of the possible edges among the neighbours of a node that exist."""
    from pyspark.sql import functions as F  # noqa: N812

    found = _opposite(graph, directed=directed)
    edges = F.col("edges") if directed else 2 * F.col("edges")
    pairs = F.col("degree") * (F.col("degree") - 1)
    share = F.when(F.col("degree") > 1, edges / pairs).otherwise(0.0)
    return SparkFound(found.select("node", share.alias("value")))


def _opposite(graph: SparkGraph, *, directed: bool) -> DataFrame:
    """For every `node` its `degree`, and the `edges` opposite to it in all its triangles.

    With ``directed`` an edge counts for as many as it has directions.
    """
    from pyspark.sql import functions as F  # noqa: N812

    near = graph.neighbours().every
    degrees = graph.cached(
        near.groupBy(F.col("src").alias("node")).agg(F.count("*").alias("degree"))
    )
    worth = F.col("worth") if directed else F.lit(1).cast("long")
    pairs = graph.cached(
        near.where("src < dst").select(
            F.col("src").alias("a"), F.col("dst").alias("b"), worth.alias("worth")
        )
    )
    forward = graph.cached(_forward(graph, pairs, degrees))
    one = forward.select("u", F.col("v").alias("a"), F.col("worth").alias("to_a"))
    other = forward.select("u", F.col("v").alias("b"), F.col("worth").alias("to_b"))
    wedges = one.join(other, "u").where("a < b")
    closed = wedges.join(pairs, ["a", "b"])
    # Opposite to u lies the edge between a and b, opposite to a the one from u to b.
    ends = F.array(
        *(
            F.struct(F.col(node).alias("node"), F.col(edge).alias("edges"))
            for node, edge in (("u", "worth"), ("a", "to_b"), ("b", "to_a"))
        )
    )
    counts = closed.select(F.explode(ends).alias("end")).select("end.node", "end.edges")
    counts = counts.groupBy("node").agg(F.sum("edges").alias("edges"))
    every = graph.nodes.select("node")
    for values in (degrees, counts):
        every = every.join(graph.small(values), "node", "left")
    return every.fillna({"degree": 0, "edges": 0})


def _forward(graph: SparkGraph, pairs: DataFrame, degrees: DataFrame) -> DataFrame:
    """Every pair from the end `u` with fewer neighbours to the end `v`, of equals from the lesser."""
    from pyspark.sql import functions as F  # noqa: N812

    for end in ("a", "b"):
        at_end = degrees.select(F.col("node").alias(end), F.col("degree").alias(f"degree_{end}"))
        pairs = pairs.join(graph.small(at_end), end)
    is_along = F.col("degree_a") <= F.col("degree_b")
    return pairs.select(
        F.when(is_along, F.col("a")).otherwise(F.col("b")).alias("u"),
        F.when(is_along, F.col("b")).otherwise(F.col("a")).alias("v"),
        "worth",
    )
