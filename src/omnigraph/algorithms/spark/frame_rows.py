"""The result of an algorithm on Spark: rows that stay on the executors, and which of them a property does not hold yet."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from omnigraph.algorithms.definitions import Definition
from omnigraph.algorithms.spark.rounds_on_spark import SparkFound
from omnigraph.algorithms.spark.spark_graph import SparkGraph, checkpoint, forget
from omnigraph.lang.schema.catalog import NodeType, Property
from omnigraph.manifest.rows import TableState
from omnigraph.read.view.view import View
from omnigraph.runner.runner import encoded
from omnigraph.runner.spark_errors import spark_errors
from omnigraph.runner.spark_runner import FETCHED_ROWS, SparkRunner

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_SPARK_TYPES = {
    "F64": "double",
    "F32": "float",
    "I64": "bigint",
    "I32": "bigint",
    "String": "string",
}
"""The types of properties, as a load takes them; a whole number that does not fit is refused there."""


class FrameRows:
    """The ids and the values on the executors; freed with the last result that has them."""

    def __init__(self, rows: DataFrame, row_count: int, session: SparkSession) -> None:
        self.rows = rows
        self.row_count = row_count
        self._session = session
        weakref.finalize(self, _free, rows)

    @classmethod
    def of(
        cls, graph: SparkGraph, found: SparkFound, definition: Definition, session: SparkSession
    ) -> FrameRows:
        """Name the nodes, and the values where these are nodes; afterwards nothing else of the run is needed."""
        from pyspark.sql import functions as F  # noqa: N812

        values = found.values
        if definition.kind.is_text:
            names = graph.nodes.select(F.col("node").alias("value"), F.col("id").alias("name"))
            values = values.join(graph.small(names), "value")
            values = values.select("node", F.col("name").alias("value"))
        named = graph.nodes.join(graph.small(values), "node")
        rows = checkpoint(named.select("id", F.col("value").alias(definition.column)))
        return cls(rows, graph.ask(rows.count), session)

    @property
    def columns(self) -> Sequence[str]:
        """The names of the columns."""
        return list(self.rows.columns)

    @cached_property
    def table(self) -> pa.Table:
        """All rows, ordered by id."""
        return self._fetched(self.rows.orderBy("id"))

    def first(self, count: int) -> pa.Table:
        """The first rows."""
        return self._fetched(self.rows.orderBy("id").limit(count))

    def _fetched(self, rows: DataFrame) -> pa.Table:
        import pyarrow as pa

        with spark_errors():
            found = rows.toArrow()
        return pa.table(dict(zip(found.column_names, found.columns, strict=True)))

    def frame(self) -> DataFrame:
        """All rows, ordered by id, as a frame of the session that the caller knows."""
        from pyspark.sql import DataFrame as Frames

        java: Any = self.rows._jdf  # noqa: SLF001 - a frame of the same rows in another session
        session: Any = self._session
        rows = java.queryExecution().toRdd()
        leaf = session._jsparkSession.internalCreateDataFrame(rows, java.schema(), False)  # noqa: SLF001
        return Frames(leaf, session).orderBy("id")


def _free(rows: DataFrame) -> None:
    with suppress(Exception):  # the session may have ended before
        forget(rows)


@dataclass(frozen=True, slots=True)
class FrameValues:
    """The values of an algorithm on the executors, and the states of the tables that they come from."""

    definition: Definition
    type_name: str
    found: FrameRows
    read: Sequence[TableState]

    @contextmanager
    def differing(
        self, view: View, node: NodeType, prop: Property
    ) -> Iterator[pa.Table | DataFrame | None]:
        """Give the ids of the nodes whose stored value is another one, and the new values; None if there are none.

        Few rows are brought here; others stay a frame, which the load reads where it is.
        """
        runner = SparkRunner(self.found.rows.sparkSession)
        with spark_errors():
            rows = self._changed(runner, view, node, prop).persist()
            try:
                count = rows.count()
                if count > FETCHED_ROWS:
                    yield rows
                else:
                    yield rows.toArrow() if count else None
            finally:
                rows.unpersist()

    def _changed(
        self, runner: SparkRunner, view: View, node: NodeType, prop: Property
    ) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812

        kind = _SPARK_TYPES[prop.type.scalar]
        values = self.found.rows.select("id", F.col(self.definition.column).cast(kind).alias("new"))
        pinned = view.table(node)
        column = pinned.column_of(prop.name)
        if column is not None:
            read = runner.data(runner.scan_fragments(pinned.table, ["id", column]))
            stored = read.select("id", F.col(f"`{encoded(column)}`").cast(kind).alias("old"))
            values = values.join(stored, "id").where("NOT (old <=> new)")
        return values.select("id", F.col("new").alias(prop.name))
