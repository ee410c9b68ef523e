"""Spark in threads of the driver."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from omnigraph.runner.spark_tasks import active_session_kept

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def in_thread(session: SparkSession) -> Iterator[SparkSession]:
    """Let the current thread write with a session that another thread made.

    Java's side of a new thread has no session, and `df.write.save()` looks there for the data sources
    that are written in Python: it would find none. A session of Spark Connect needs nothing of that.

    ```python
    def write(frame, type):
        with omnigraph.spark.in_thread(session):
            frame.write.format("omnigraph").options(graph=uri, type=type).mode("append").save()
    ```
    """
    java: Any = getattr(session, "_jsparkSession", None)
    if java is None:
        yield session
        return
    with active_session_kept(session) as sessions:
        sessions.setActiveSession(java)
        yield session
