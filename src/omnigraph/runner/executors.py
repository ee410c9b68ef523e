"""Where the work on a table is done that either engine can do: on executors, or in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, get_args

from omnigraph import settings
from omnigraph.errors import BadRequest, OmniGraphError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from omnigraph.manifest.rows import TableState
    from omnigraph.runner.spark_runner import SparkRunner

EngineName = Literal["auto", "local", "spark"]
ENGINES: tuple[EngineName, ...] = get_args(EngineName)

NODE_BYTES, EDGE_BYTES = 64, 24
"""What a node takes in this process, with its id, and an edge, in the adjacency of both directions."""

# A smaller table has one fragment, and is finished here before executors would have begun.
LARGE_TABLE_ROWS = 1_000_000


def is_too_large_here(nodes: int, edges: int) -> bool:
    """Whether `auto` is Spark for a graph of this size: it needs more memory than adjacency may take here
    (`OMNIGRAPH_CACHE_MB`), and there is a session, or a master for one and Spark is installed."""
    if NODE_BYTES * nodes + EDGE_BYTES * edges <= settings.CACHE_MB.get() << 20:
        return False
    from omnigraph.runner.session import is_running, spark_problem

    return is_running() or (settings.SPARK_MASTER.get() is not None and spark_problem() is None)


class Executors:
    """Chooses, for each table, between a Spark session and this process.

    ``auto`` starts no session unless one was configured, and none for small tables. Where Spark does
    not start, this process does the work, and ``note`` says why.
    """

    def __init__(self, engine: EngineName) -> None:
        from omnigraph.runner.session import is_running, spark_session

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
            from omnigraph.runner.session import spark_session

            self._wanted = False
            try:
                self._session = spark_session()
            except OmniGraphError as failure:
                why = failure.message.partition("\n")[0]
                self.note = f"this process did the work of Spark's executors: {why}"
        return None if self._auto and pin.row_count < LARGE_TABLE_ROWS else self._session

    @contextmanager
    def comparing(
        self,
    ) -> Iterator[Callable[[TableState | None, TableState | None], SparkRunner | None]]:
        """Give the executors for each table that is worth it; what they keep is freed at the end."""
        made: list[SparkRunner] = []

        def spark_for(before: TableState | None, after: TableState | None) -> SparkRunner | None:
            sizes = [one for one in (before, after) if one is not None]
            session = self.for_table(max(sizes, key=lambda one: one.row_count))
            if session is None:
                return None
            if not made:
                from omnigraph.runner.spark_runner import SparkRunner, working_session

                made.append(SparkRunner(working_session(session)))
            return made[0]

        try:
            yield spark_for
        finally:
            for runner in made:
                runner.close()
