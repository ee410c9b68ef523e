"""Where the fragments and indexes of each table are written: in this process, or by Spark's executors."""

from __future__ import annotations

from functools import partial

from omnigraph.maintenance.work_steps import Rewrite, rewrite_here
from omnigraph.manifest.rows import TableState
from omnigraph.pipeline.load_options import EngineName
from omnigraph.pipeline.spark.executors import Executors
from omnigraph.pipeline.spark.maintenance_jobs import build_on_spark, rewrite_on_spark
from omnigraph.write.index_builds import Builds, build_here


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
        if session is None:
            return rewrite_here
        self._used = True
        return partial(rewrite_on_spark, session)

    def builds(self, pin: TableState) -> Builds:
        """Return what builds indexes of a table."""
        session = self._executors.for_table(pin)
        if session is None:
            return build_here
        self._used = True
        return partial(build_on_spark, session)

    @property
    def engine(self) -> str:
        """`spark` if executors were asked for anything."""
        return "spark" if self._used else "local"

    @property
    def note(self) -> str | None:
        """Why another engine was used than the caller would expect."""
        return self._executors.note
