"""The graph that an algorithm runs on, as frames of Spark: nodes with numbers, and edges between numbers.

Numbers are in the order of the ids, with gaps, so the least number of some nodes is that of the least id, and joins
compare integers. Every frame that an algorithm goes along keeps its edges in partitions by their source, so a round
moves no edges: only the state of the nodes, and what is sent to the targets. Sources with very many edges are kept
apart (``hubs``), and their edges spread evenly, so that no task has all of them.

    state (node, value)  --along-->  (node, value) for each edge, at its target  --groupBy-->  a new state
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TypeVar

from omnigraph.cancel import Beside, current
from omnigraph.display.text import counted
from omnigraph.errors import BadRequest
from omnigraph.lang.schema.catalog import EdgeType, Entity
from omnigraph.read.view.view import View
from omnigraph.runner.runner import encoded
from omnigraph.runner.spark_errors import spark_errors
from omnigraph.runner.spark_runner import SparkRunner

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Sizes:
    """Numbers of rows at which the algorithms change the way they work."""

    partition: int = 500_000
    """The edges of a partition, or the nodes where there are more of them."""
    hub: int = 100_000
    """A source with more edges is kept apart."""
    broadcast: int = 500_000
    """Frames of at most this number of nodes are sent to every executor."""


_SETTINGS = {
    # What a frame of Python's batches holds is unknown to Spark, which would take it for small.
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    # A key that most rows have, such as the number of the largest component, is split over several tasks.
    "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes": "16MB",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "16MB",
}
_groups = itertools.count()


@dataclass(frozen=True, slots=True)
class EdgeFrames:
    """Edges by their source (`src`, `dst` and what belongs to the pair), those of hubs apart."""

    rows: DataFrame
    hub_rows: DataFrame | None = None
    hubs: DataFrame | None = None
    """The numbers of the hubs, as `node`."""

    @property
    def every(self) -> DataFrame:
        """All edges."""
        return self.rows if self.hub_rows is None else self.rows.unionByName(self.hub_rows)


class SparkGraph:
    """Nodes and edges of one snapshot on the executors; what they keep of it is freed at the end of the block."""

    sizes = Sizes()

    def __init__(
        self,
        session: SparkSession,
        view: View,
        edges: Sequence[EdgeType],
        weight: str | None = None,
        chosen: pa.Array | None = None,
    ) -> None:
        self._runner = SparkRunner.on(session)
        self._view = view
        self._edges = edges
        self._weight = weight
        self._chosen = chosen
        self._edge_count = sum(view.table(one).row_count for one in edges)
        nodes = view.catalog.nodes[edges[0].from_type]
        node_count = view.table(nodes).row_count if chosen is None else len(chosen)
        rows = max(self._edge_count, node_count)
        self.partitions = -(-rows // self.sizes.partition) or 1
        self._cached: list[DataFrame] = []
        self._states: list[DataFrame] = []
        self._nodes: DataFrame | None = None
        self._stored: DataFrame | None = None
        self.size = 0

    @property
    def session(self) -> SparkSession:
        """The session of this run, with settings of its own."""
        return self._runner.session

    def __enter__(self) -> Self:
        try:
            with spark_errors():
                for name, value in _SETTINGS.items():
                    self.session.conf.set(name, value)
                self.session.conf.set("spark.sql.shuffle.partitions", str(self.partitions))
                # One partition has nothing to adapt to, and rounds of few rows are jobs of one stage.
                is_adaptive = str(self.partitions > 1).lower()
                self.session.conf.set("spark.sql.adaptive.enabled", is_adaptive)
                self._nodes = self._numbered()
                self.size = self.ask(self._nodes.count)
        except BaseException:
            self._free()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._free()

    def _free(self) -> None:
        # Whatever ended the run, Java may be gone.
        with suppress(Exception):
            for frame in self._cached:
                frame.unpersist()
            for frame in self._states:
                forget(frame)
            self._runner.close()

    # ------------------------------------------------------------------ what is read

    @property
    def nodes(self) -> DataFrame:
        """Every node: its number `node` and its `id`."""
        assert self._nodes is not None, "a graph is used inside its block"
        return self._nodes

    def _numbered(self) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812

        if self._chosen is None:
            ids = self._scan(self._view.catalog.nodes[self._edges[0].from_type], ["id"])
        else:
            import pyarrow as pa

            ids = self._runner.data(self._runner.frame(pa.table({"id": self._chosen})))
        ids = ids.repartitionByRange(self.partitions, "id").sortWithinPartitions("id")
        return self.cached(ids.select(F.monotonically_increasing_id().alias("node"), "id"))

    def _scan(self, entity: Entity, columns: Sequence[str]) -> DataFrame:
        table = self._view.table(entity).table
        return self._runner.data(self._runner.scan_fragments(table, columns))

    def small(self, frame: DataFrame) -> DataFrame:
        """A frame of at most one row for each node, sent to every executor if it is small."""
        from pyspark.sql import functions as F  # noqa: N812

        return F.broadcast(frame) if self.size <= self.sizes.broadcast else frame

    @property
    def stored(self) -> DataFrame:
        """Every stored edge among the nodes: `src`, `dst`, and with weights `weight`."""
        if self._stored is None:
            found = None
            for one in self._edges:
                read = self._edges_of(one)
                found = read if found is None else found.unionByName(read)
            assert found is not None
            for end in ("src", "dst"):
                numbers = self.nodes.select(self.nodes["id"].alias(end), "node")
                found = found.join(self.small(numbers), end).drop(end)
                found = found.withColumnRenamed("node", end)
            self._stored = self.cached(found)
            self._check_weights(self._stored)
        return self._stored

    def _edges_of(self, edge: EdgeType) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812

        if self._weight is None:
            return self._scan(edge, ["src", "dst"])
        column = self._view.table(edge).column_of(self._weight)
        if column is None:  # older rows have no such property: no edge has a weight
            return self._scan(edge, ["src", "dst"]).limit(0).withColumn("weight", F.lit(0.0))
        read = self._scan(edge, ["src", "dst", column])
        weight = F.col(f"`{encoded(column)}`").cast("double")
        return read.select("src", "dst", weight.alias("weight")).where("weight IS NOT NULL")

    def _check_weights(self, edges: DataFrame) -> None:
        """Refuse weights that are negative, infinite or not a number."""
        if self._weight is None:
            return
        from pyspark.sql import functions as F  # noqa: N812

        fine = (F.col("weight") >= 0) & (F.col("weight") < float("inf"))
        wrong = edges.where(~fine).agg(F.count("*"), F.min("weight"))
        count, example = self.ask(wrong.collect)[0]
        if count:
            raise BadRequest(
                f"the weight {self._weight} of {counted(count, 'edge')} cannot be used, for example "
                f"{example}; weights are finite and not negative",
                property=self._weight,
            )

    # ------------------------------------------------------------------ edges by their source

    def directed(self) -> EdgeFrames:
        """Sources to targets, each pair once, loops included; with weights, their sum as `weight`."""
        from pyspark.sql import functions as F  # noqa: N812

        if self._weight is None:
            return self._adjacency(self.stored, F.count("*").alias("parallel"))
        return self._adjacency(self.stored, F.sum("weight").alias("weight"))

    def neighbours(self) -> EdgeFrames:
        """Either way along an edge, without loops; `worth` says in how many directions there is one."""
        from pyspark.sql import functions as F  # noqa: N812

        ends = self.stored.where("src <> dst")
        along, back = F.lit(1).alias("way"), F.lit(2).alias("way")
        both = ends.select("src", "dst", along).union(
            ends.select(F.col("dst").alias("src"), F.col("src").alias("dst"), back)
        )
        ways = F.bit_count(F.bit_or("way")).cast("long")
        return self._adjacency(both, ways.alias("worth"))

    def _adjacency(self, edges: DataFrame, value: Column) -> EdgeFrames:
        """The distinct pairs, each with a value of all edges between the two."""
        from pyspark.sql import functions as F  # noqa: N812

        def merged(rows: DataFrame, *by: str) -> DataFrame:
            parted = rows.repartition(self.partitions, *by)
            return self.cached(parted.groupBy("src", "dst").agg(value))

        if self._edge_count <= self.sizes.hub:
            return EdgeFrames(merged(edges, "src"))
        counts = edges.groupBy("src").count().where(F.col("count") > self.sizes.hub)
        hubs = self.cached(counts.select(F.col("src").alias("node")))
        if not self.ask(hubs.count):
            return EdgeFrames(merged(edges, "src"))
        their = F.broadcast(hubs.select(F.col("node").alias("src")))
        return EdgeFrames(
            merged(edges.join(their, "src", "left_anti"), "src"),
            merged(edges.join(their, "src", "left_semi"), "src", "dst"),
            hubs,
        )

    def along(self, state: DataFrame, edges: EdgeFrames) -> DataFrame:
        """Send the state of each source along its edges: a row for each edge, with its target as `node`."""
        from pyspark.sql import functions as F  # noqa: N812

        sent = state.withColumnRenamed("node", "src")
        found = edges.rows.join(sent.hint("shuffle_hash"), "src")
        if edges.hubs is not None and edges.hub_rows is not None:
            of_hubs = state.join(F.broadcast(edges.hubs), "node", "left_semi")
            of_hubs = F.broadcast(of_hubs.withColumnRenamed("node", "src"))
            found = found.unionByName(edges.hub_rows.join(of_hubs, "src"))
        return found.drop("src").withColumnRenamed("dst", "node")

    # ------------------------------------------------------------------ rows that are kept, answers

    def spread(self, nodes: DataFrame) -> DataFrame:
        """A frame with a row for each node, in the partitions where the edges of the nodes are."""
        return nodes.repartition(self.partitions, "node")

    def cached(self, frame: DataFrame) -> DataFrame:
        """Rows that are used more than once; those that an executor loses are computed again."""
        self._cached.append(frame.persist())
        return self._cached[-1]

    def kept(self, state: DataFrame) -> DataFrame:
        """The state after a round, cut off from the rounds before it.

        Two executors have a copy of it, where there are two, so that no round is lost with one. Only the last two
        states are kept: the one that was asked for last has been computed by then.
        """
        self._states.append(checkpoint(state))
        while len(self._states) > 2:
            forget(self._states.pop(0))
        return self._states[-1]

    def ask(self, call: Callable[[], T]) -> T:
        """Run a job; when the caller gives up, it is ended on the executors too."""
        context = self.session.sparkContext
        if current() is None:
            with spark_errors():
                return call()
        group = f"omnigraph-algorithm-{next(_groups)}"

        def in_group() -> T:
            context.setJobGroup(group, "a round of a graph algorithm", interruptOnCancel=False)
            with spark_errors():
                return call()

        with Beside(in_group, lambda: context.cancelJobGroup(group)) as running:
            return running.result()


def checkpoint(frame: DataFrame) -> DataFrame:
    """The rows of a frame, computed when they are first asked for, and from then on without what they came from."""
    from pyspark import StorageLevel

    one_process = str(frame.sparkSession.sparkContext.master).startswith("local")
    level = StorageLevel.MEMORY_AND_DISK_DESER if one_process else StorageLevel.MEMORY_AND_DISK_2
    return frame.localCheckpoint(eager=False, storageLevel=level)


def forget(frame: DataFrame) -> None:
    """Free the rows of a frame that ``checkpoint`` made."""
    java: Any = frame._jdf  # noqa: SLF001 - PySpark has no name for it
    java.queryExecution().logical().rdd().unpersist(False)
