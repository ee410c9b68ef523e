"""How far a load has come, on_rows to whoever asked."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    import pyarrow as pa

Phase = Literal["reading", "validating", "writing", "indexing"]
PHASES: tuple[Phase, ...] = get_args(Phase)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Progress:
    """A moment of a load: what it is doing, what it has done, the seconds since it began.

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
        """How many phases there are; the last one only comes where indexes are built."""
        return len(PHASES)

    @property
    def rate(self) -> float:
        """Records per second since the load began."""
        return self.records / self.seconds if self.seconds > 0 else 0.0


ProgressCallback = Callable[[Progress], None]
OnRows = Callable[[int], object]
"""Called with the number of rows processed since the last call."""


class ProgressReport:
    """The moments of one load. A callback that fails is not called again and fails nothing else.

    A load cannot be stopped from its callback, which may run while tables move, and in threads that
    write or watch, though never in two at once.
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
        """Whether anybody asked."""
        return self._callback is not None

    def tell(self, phase: Phase, records: int = 0) -> None:
        """The load is in this phase and has read that many records more."""
        with self._lock:
            if phase == "writing":
                self._staged = 0  # a lost race is written again from the start
            self._phase = phase
            self._records += records
            self._call()

    def read(self, records: int) -> None:
        """So many records more were read."""
        self.tell("reading", records)

    def staged(self, rows: int) -> None:
        """So many rows more were written for their table."""
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
    """The batches as they are; each is on_rows about once it was taken."""
    for batch in batches:
        yield batch
        if on_rows is not None:
            on_rows(batch.num_rows)
