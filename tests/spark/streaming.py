"""Run queries of Structured Streaming in tests."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming import StreamingQuery

_TOO_SLOW = "Python worker failed to connect back"
_ATTEMPTS = 20


def run_to_end(start: Callable[[], StreamingQuery]) -> None:
    """Start a query and wait for its end.

    Spark gives the Python process of a source ten seconds to start, which is less than a busy machine
    may need. Nothing has happened by then, and the query is started again.
    """
    for attempt in range(_ATTEMPTS):
        query = start()
        try:
            query.awaitTermination()
        except StreamingQueryException as stopped:
            if _TOO_SLOW not in str(stopped) or attempt == _ATTEMPTS - 1:
                raise
        else:
            return
        finally:
            query.stop()
