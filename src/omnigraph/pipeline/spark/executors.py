"""Where the work on a table is done that either engine can do: on executors, or in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph import settings
from omnigraph.errors import BadRequest, OmniGraphError
from omnigraph.manifest.rows import TableState
from omnigraph.pipeline.load_options import ENGINES, EngineName
from omnigraph.runner.session import is_running, spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A smaller table has one fragment, and is finished here before executors would have begun.
LARGE_TABLE_ROWS = 1_000_000


class Executors:
    """Chooses, for each table, between a Spark session and this process.

    ``auto`` starts no session unless one was configured, and none for small tables. Where Spark does
    not start, this process does the work, and ``note`` says why.
    """

    def __init__(self, engine: EngineName) -> None:
        if engine not in ENGINES:
            raise BadRequest(f"engine is {engine!r}; give one of {', '.join(ENGINES)}")
        self.note: str | None = None
        self._auto = engine == "auto"
        # Started now, so that a problem is reported before any work.
        self._session = spark_session() if engine == "spark" else None
        self._wanted = self._auto and (is_running() or settings.SPARK_MASTER.get() is not None)

    def for_table(self, pin: TableState) -> SparkSession | None:
        """Return the session to work on a table with; None to do the work in this process."""
        if self._wanted and pin.row_count >= LARGE_TABLE_ROWS:
            self._wanted = False
            try:
                self._session = spark_session()
            except OmniGraphError as failure:
                why = failure.message.partition("\n")[0]
                self.note = f"this process did the work of Spark's executors: {why}"
        return None if self._auto and pin.row_count < LARGE_TABLE_ROWS else self._session
