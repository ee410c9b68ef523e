"""The algorithms on Spark that go along edges: degrees, PageRank, components, labels.

Rounds and the rule that ends them are those of the local engine. Each round is one job: it computes the state of all
nodes anew, and says how much changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from omnigraph.algorithms.asked import check_known
from omnigraph.algorithms.parameters import EdgeDirection
from omnigraph.algorithms.rounds import ONE_PASS, OnRound, Ran, run_rounds
from omnigraph.algorithms.spark.spark_graph import SparkGraph

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# As many rounds as it takes to find components: for a chain of nodes, the binary digits of its length.
_ALL = 1 << 31


class SparkFound(NamedTuple):
    """What an algorithm found: a `value` for every `node`, or the number of the node whose id it is."""

    values: DataFrame
    ran: Ran = ONE_PASS


def degree(graph: SparkGraph, direction: EdgeDirection) -> SparkFound:
    """How many stored edges leave each node, reach it, or both."""
    from pyspark.sql import functions as F  # noqa: N812

    src, dst = (graph.stored.select(F.col(end).alias("node")) for end in ("src", "dst"))
    ends = {"out": src, "in": dst, "both": src.union(dst)}[direction]
    return SparkFound(_for_all(graph, ends.groupBy("node").agg(F.count("*").alias("value")), 0))


def _for_all(graph: SparkGraph, found: DataFrame, missing: float) -> DataFrame:
    """The values of all nodes; those without a row have another one."""
    every = graph.nodes.select("node").join(graph.small(found), "node", "left")
    return every.fillna({"value": missing})


def pagerank(
    graph: SparkGraph,
    sources: Sequence[str] | None,
    damping: float,
    tolerance: float,
    most: int,
    on_round: OnRound,
) -> SparkFound:
    """The share of time that a walk spends at each node; a state has its rank, and what it gives to each target."""
    from pyspark.sql import functions as F  # noqa: N812

    begin = _begin(graph, sources)
    if not graph.size:
        return SparkFound(graph.nodes.select("node", F.lit(0.0).alias("value")), Ran(0, True))
    edges = graph.directed()
    weights = "weight" in edges.rows.columns
    out = F.sum("weight") if weights else F.count("*")
    leaving = edges.every.groupBy(F.col("src").alias("node")).agg(out.alias("out"))
    state = graph.spread(begin).join(leaving, "node", "left")
    state = graph.kept(
        state.select(
            "node",
            "begin",
            F.when(F.col("out") > 0, damping / F.col("out")).alias("share"),
            F.col("begin").alias("rank"),
            F.lit(0.0).alias("before"),
        )
    )
    change = F.sum(F.abs(F.col("rank") - F.col("before")))
    ending = F.sum(F.when(F.col("share").isNull(), F.col("rank")))
    ((_, at_ends),) = graph.ask(state.agg(change, ending).collect)

    def run_round() -> bool:
        nonlocal state, at_ends
        given = state.where("share IS NOT NULL").select(
            "node", (F.col("rank") * F.col("share")).alias("given")
        )
        term = F.col("given") * F.col("weight") if weights else F.col("given")
        got = graph.along(given, edges).groupBy("node").agg(F.sum(term).alias("got"))
        anew = (1.0 - damping + damping * (at_ends or 0.0)) * F.col("begin")
        state = graph.kept(
            state.join(got.hint("shuffle_hash"), "node", "left").select(
                "node",
                "begin",
                "share",
                (F.coalesce("got", F.lit(0.0)) + anew).alias("rank"),
                F.col("rank").alias("before"),
            )
        )
        ((changed, at_ends),) = graph.ask(state.agg(change, ending).collect)
        return bool(changed < tolerance)

    ran = run_rounds(most, run_round, on_round)
    return SparkFound(state.select("node", F.col("rank").alias("value")), ran)


def _begin(graph: SparkGraph, sources: Sequence[str] | None) -> DataFrame:
    """Where the walk begins: every `node` with its share `begin`."""
    from pyspark.sql import functions as F  # noqa: N812

    if sources is None:
        return graph.nodes.select("node", F.lit(1.0 / max(graph.size, 1)).alias("begin"))
    given = graph.session.createDataFrame([(one,) for one in sources], "id string")
    known = {row.id for row in graph.ask(graph.nodes.join(F.broadcast(given), "id").collect)}
    check_known(sources, [0 if one in known else -1 for one in sources], "sources")
    marked = F.broadcast(given.withColumn("begin", F.lit(1.0 / len(sources))))
    return graph.nodes.join(marked, "id", "left").fillna({"begin": 0.0}).select("node", "begin")


def connected_components(graph: SparkGraph, on_round: OnRound) -> SparkFound:
    """The least node of the component of each node.

    Every node points to another one of its component that is not greater, at first to itself. In a round it takes
    what that one points to, or less if a neighbour does; and whom it pointed to takes the least that any of those
    which pointed to it took. So long chains shrink to half or less in each round. When nothing changes, all nodes of a
    component point to its least.
    """
    from pyspark.sql import functions as F  # noqa: N812

    edges = graph.neighbours()
    state = graph.spread(graph.nodes.select("node")).withColumn("root", F.col("node"))
    state = graph.kept(state.withColumn("has_changed", F.lit(True)))
    graph.ask(state.count)

    def run_round() -> bool:
        nonlocal state
        beyond = state.select(F.col("node").alias("root"), F.col("root").alias("beyond"))
        jumped = graph.spread(state.select("node", "root").join(beyond, "root"))
        sent = jumped.select("node", "beyond")
        near = graph.along(sent, edges).groupBy("node").agg(F.min("beyond").alias("near"))
        taken = jumped.join(near.hint("shuffle_hash"), "node", "left").select(
            "node", "root", F.least("beyond", "near").alias("taken")
        )
        hooked = taken.groupBy(F.col("root").alias("node")).agg(F.min("taken").alias("hooked"))
        least = F.least("taken", "hooked")
        after = taken.join(hooked.hint("shuffle_hash"), "node", "left").select(
            "node", least.alias("root"), (least != F.col("root")).alias("has_changed")
        )
        state = graph.kept(after)
        return not graph.ask(state.where("has_changed").limit(1).count)

    run_rounds(_ALL, run_round, lambda rounds, _: on_round(rounds, 0))
    return SparkFound(state.select("node", F.col("root").alias("value")))


def label_propagation(
    graph: SparkGraph, most: int, on_round: OnRound, *, directed: bool
) -> SparkFound:
    """The label that each node has taken over from its neighbours, as the number of the node it comes from."""
    from pyspark.sql import functions as F  # noqa: N812

    if not graph.size:
        return SparkFound(graph.nodes.select("node", F.col("node").alias("value")), Ran(0, True))
    edges = graph.neighbours()
    state = graph.spread(graph.nodes.select("node")).withColumn("label", F.col("node"))
    state = graph.kept(state.withColumn("before", F.col("node")))
    graph.ask(state.count)
    votes = F.sum("worth") if directed else F.count("*")

    def run_round() -> bool:
        nonlocal state
        sent = graph.along(state.select("node", "label"), edges)
        counted = sent.groupBy("node", "label").agg(votes.alias("votes"))
        # The most votes, then the least label.
        best = F.max(F.struct("votes", (-F.col("label")).alias("label")))
        won = counted.groupBy("node").agg((-best["label"]).alias("won"))
        state = graph.kept(
            state.join(won.hint("shuffle_hash"), "node", "left").select(
                "node", F.coalesce("won", "label").alias("label"), F.col("label").alias("before")
            )
        )
        return not graph.ask(state.where("label <> before").count)

    ran = run_rounds(most, run_round, on_round)
    return SparkFound(state.select("node", F.col("label").alias("value")), ran)
