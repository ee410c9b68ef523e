"""Progress of a Spark job: a counter that tasks add to, watched by the driver while the job runs.

Spark delivers a task's count together with its result, so counting costs no extra messages. A task
that ran twice may be counted twice until the job is over and the true number is known.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from omnigraph.pipeline.progress import OnRows

if TYPE_CHECKING:
    from pyspark import Accumulator
    from pyspark.sql import SparkSession

POLL_SECONDS = 0.2


class Tally:
    """A count that tasks add to. ``counter`` is sent to them; None if no progress is reported."""

    def __init__(self, session: SparkSession, on_rows: OnRows | None) -> None:
        self.counter: Accumulator[int] | None = None
        if on_rows is not None:
            self.counter = session.sparkContext.accumulator(0)
        self._on_rows = on_rows
        self._seen = 0

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Report the count several times a second while the block waits for a job."""
        if self.counter is None:
            yield
            return
        over = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(over,), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()

    def settle(self, total: int) -> None:
        """Report the difference between ``total`` and what was reported so far."""
        if self._on_rows is not None and total != self._seen:
            more, self._seen = total - self._seen, total
            self._on_rows(more)

    def _watch(self, over: threading.Event) -> None:
        assert self.counter is not None
        while not over.wait(POLL_SECONDS):
            self.settle(self.counter.value)


def count(counter: Accumulator[int] | None, rows: int) -> None:
    """Add rows to a tally, in a task."""
    if counter is not None:
        counter.add(rows)
