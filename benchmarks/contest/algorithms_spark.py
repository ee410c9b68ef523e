"""Algorithms on Spark beside plain PySpark jobs of the same rounds, in the same session.

The plain jobs are what one would write by hand: frames of the data source, joined on their ids, with the edges cached
and a checkpoint after every round. Both end with ranks, or components, on the executors.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import omnigraph as og

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROUNDS = 20


@contextmanager
def settings(session: SparkSession, edges: int) -> Iterator[None]:
    """As many partitions as our own jobs take, for the plain ones; joins as Spark chooses them."""
    session.conf.set("spark.sql.shuffle.partitions", str(max(2, edges // 500_000)))
    yield
    session.conf.unset("spark.sql.shuffle.partitions")


class Plain:
    """The jobs by hand."""

    def __init__(self, session: SparkSession, uri: str, rounds: int = ROUNDS) -> None:
        self._session = session
        self._uri = uri
        self._rounds = rounds

    def _read(self, type_name: str, columns: str) -> DataFrame:
        options = {"graph": self._uri, "type": type_name, "columns": columns}
        return self._session.read.format("omnigraph").options(**options).load()

    def pagerank(self) -> int:
        """PageRank with string ids: rounds of two joins, and a sum for each target."""
        from pyspark.sql import functions as F  # noqa: N812

        edges = self._read("Link", "from,to").distinct().cache()
        nodes = self._read("Node", "id").cache()
        size = nodes.count()
        out = edges.groupBy(F.col("from").alias("id")).agg(F.count("*").alias("out")).cache()
        ranks = nodes.withColumn("rank", F.lit(1.0 / size))
        for _ in range(self._rounds):
            shared = ranks.join(out, "id", "left")
            row = shared.where("out IS NULL").agg(F.sum("rank").alias("rest")).first()
            rest = float((row["rest"] if row is not None else None) or 0.0)
            sent = edges.join(
                shared.select(F.col("id").alias("from"), (F.col("rank") / F.col("out")).alias("g")),
                "from",
            )
            got = sent.groupBy(F.col("to").alias("id")).agg(F.sum("g").alias("got"))
            rank = 0.85 * F.coalesce("got", F.lit(0.0)) + (0.15 + 0.85 * rest) / size
            after = nodes.join(got, "id", "left").select("id", rank.alias("rank"))
            after = after.localCheckpoint()
            both = ranks.withColumnRenamed("rank", "before").join(after, "id")
            both.agg(F.sum(F.abs(F.col("rank") - F.col("before")))).first()
            ranks = after
        count = ranks.count()
        for frame in (edges, nodes, out):
            frame.unpersist()
        return int(count)

    def components(self, rounds: int) -> int:
        """The least id that reaches each node: rounds of one join and a minimum for each target."""
        from pyspark.sql import functions as F  # noqa: N812

        ends = self._read("Link", "from,to")
        back = ends.select(F.col("to").alias("from"), F.col("from").alias("to"))
        edges = ends.union(back).where("from <> to").distinct().cache()
        labels = self._read("Node", "id").withColumn("label", F.col("id")).localCheckpoint()
        for _ in range(rounds):
            sent = edges.join(labels.withColumnRenamed("id", "from"), "from")
            near = sent.groupBy(F.col("to").alias("id")).agg(F.min("label").alias("near"))
            after = labels.join(near, "id", "left")
            labels = after.select("id", F.least("label", "near").alias("label")).localCheckpoint()
        count = labels.select("label").distinct().count()
        edges.unpersist()
        return int(count)

    def two_hops(self) -> list[tuple[Any, ...]]:
        """How many pairs of two hops begin in each team: sums of degrees, no pairs."""
        from pyspark.sql import functions as F  # noqa: N812

        pairs = self._read("Link", "from,to").distinct()
        onward = pairs.groupBy(F.col("from").alias("mid")).agg(F.count("*").alias("n"))
        first = pairs.join(onward, F.col("to") == F.col("mid"))
        first = first.groupBy("from").agg(F.sum("n").alias("n"))
        nodes = self._read("Node", "id,team")
        joined = nodes.join(first, nodes.id == first["from"])
        counts = joined.groupBy("team").agg(F.sum("n").alias("n")).orderBy("team")
        return [tuple(row) for row in counts.collect()]


def timed(call: Callable[[], Any]) -> float:
    """Seconds of the wall: the work is that of other processes."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def figures(graph: og.Graph, edges: int) -> Iterator[tuple[str, float, float]]:
    """Yield what was run, our seconds, and those of the plain job; each once before, on few rounds."""
    from omnigraph.runner.session import spark_session

    session = spark_session()
    plain, run = Plain(session, graph.uri), graph.algorithms
    with settings(session, edges):
        run.degree("Link", engine="spark")  # starts Python workers and compiles
        ours = timed(
            lambda: run.pagerank("Link", tolerance=0, max_iterations=ROUNDS, engine="spark")
        )
        yield f"pagerank on Spark, {ROUNDS} rounds", ours, timed(plain.pagerank)
        rounds: list[int] = []
        ours = timed(
            lambda: run.connected_components(
                "Link", engine="spark", progress=lambda done, _: rounds.append(done)
            )
        )
        theirs = timed(lambda: plain.components(len(rounds)))
        yield f"components on Spark, {len(rounds)} rounds", ours, theirs
