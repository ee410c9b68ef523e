"""Where the fragments and indexes of each table are written: in this process, or by Spark's executors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from omnigraph.lang.schema.indexes import WantedIndex
from omnigraph.maintenance.work_steps import Rewrite, rewrite_here
from omnigraph.manifest.rows import TableState
from omnigraph.pipeline.spark.maintenance_jobs import build_on_spark, rewrite_on_spark
from omnigraph.runner.executors import EngineName, Executors
from omnigraph.storage.tables.table import Table
from omnigraph.write.index_builds import Build, Builds, build_here

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Workers:
    """Chooses for each table; ``auto`` takes executors for large tables if there are any."""

    def __init__(self, engine: EngineName = "local") -> None:
        self._executors = Executors(engine)
        self._used = False

    def are_here(self, pin: TableState) -> bool:
        """Whether this process works on the table."""
        return self._executors.for_table(pin) is None

    def rewrite(self, pin: TableState) -> Rewrite:
        """Return what merges fragments of a table."""
        session = self._executors.for_table(pin)
        return rewrite_here if session is None else partial(self._rewrite_there, session)

    def builds(self, pin: TableState) -> Builds:
        """Return what builds indexes of a table."""
        session = self._executors.for_table(pin)
        return build_here if session is None else partial(self._build_there, session)

    def _rewrite_there(
        self, session: SparkSession, table: Table, tasks: Sequence[Any]
    ) -> Sequence[Any]:
        self._used = True
        return rewrite_on_spark(session, table, tasks)

    def _build_there(self, session: SparkSession, wanted: Sequence[WantedIndex]) -> Build:
        self._used |= bool(wanted)
        return build_on_spark(session, wanted)

    @property
    def engine(self) -> str:
        """`spark` if executors were given anything to do."""
        return "spark" if self._used else "local"

    @property
    def note(self) -> str | None:
        """Why another engine was used than the caller would expect."""
        return self._executors.note
