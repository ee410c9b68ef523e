"""How far a load has come, reported to the callback of its caller."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    import pyarrow as pa

Phase = Literal["reading", "validating", "embedding", "writing", "indexing"]
PHASES: tuple[Phase, ...] = get_args(Phase)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Progress:
    """The state of a load at one moment: its phase, its counts, the seconds since it began.

    ``records`` are the records read so far, ``staged`` the rows written for their tables.
    """

    phase: Phase
    records: int
    seconds: float
    staged: int = 0

    @property
    def stage(self) -> int:
        """The number of the phase, from 1 on."""
        return PHASES.index(self.phase) + 1

    @property
    def stages(self) -> int:
        """The number of phases; vectors and indexes are made only where some are missing."""
        return len(PHASES)

    @property
    def rate(self) -> float:
        """Records per second since the load began."""
        return self.records / self.seconds if self.seconds > 0 else 0.0


ProgressCallback = Callable[[Progress], None]
OnRows = Callable[[int], object]
"""Called with the number of rows processed since the last call."""


class ProgressReport:
    """Reports the progress of one load. A callback that raises is dropped; the load goes on.

    A load cannot be stopped from its callback. The callback may run while tables are committed, and in
    threads that write or watch, but never in two threads at once.
    """

    def __init__(self, callback: ProgressCallback | None) -> None:
        self._callback = callback
        self._started = time.perf_counter()
        self._phase: Phase = "reading"
        self._records = 0
        self._staged = 0
        self._lock = threading.Lock()

    @property
    def wanted(self) -> bool:
        """Whether there is a callback."""
        return self._callback is not None

    def tell(self, phase: Phase, records: int = 0) -> None:
        """Report the phase, and the number of records read since the last report."""
        with self._lock:
            if phase == "writing":
                self._staged = 0  # a lost race is written again from the start
            self._phase = phase
            self._records += records
            self._call()

    def read(self, records: int) -> None:
        """Report records that were read."""
        self.tell("reading", records)

    def staged(self, rows: int) -> None:
        """Report rows that were written for their table."""
        with self._lock:
            self._staged += rows
            self._call()

    def _call(self) -> None:
        if self._callback is None:
            return
        seconds = time.perf_counter() - self._started
        try:
            self._callback(Progress(self._phase, self._records, seconds, self._staged))
        except Exception as error:  # noqa: BLE001 - whatever a caller's function raises
            self._callback = None
            logger.warning("the progress of the load is not reported any more: %r", error)


def report_rows(
    batches: Iterable[pa.RecordBatch], on_rows: OnRows | None
) -> Iterator[pa.RecordBatch]:
    """Pass the batches through, and report the rows of each once the next one is asked for."""
    for batch in batches:
        yield batch
        if on_rows is not None:
            on_rows(batch.num_rows)
