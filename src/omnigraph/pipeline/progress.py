"""How far a load has come, told to whoever asked."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Phase = Literal["reading", "validating", "writing", "indexing"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Progress:
    """A moment of a load: what it is doing, the records read so far, the seconds since it began."""

    phase: Phase
    records: int
    seconds: float

    @property
    def rate(self) -> float:
        """Records per second since the load began."""
        return self.records / self.seconds if self.seconds > 0 else 0.0


ProgressCallback = Callable[[Progress], None]


class ProgressReport:
    """The moments of one load. A callback that fails is not called again and fails nothing else.

    A load cannot be stopped from its callback, which may run while tables move.
    """

    def __init__(self, callback: ProgressCallback | None) -> None:
        self._callback = callback
        self._started = time.perf_counter()
        self._records = 0

    def tell(self, phase: Phase, records: int = 0) -> None:
        """The load is in this phase and has read that many records more."""
        self._records += records
        if self._callback is None:
            return
        try:
            self._callback(Progress(phase, self._records, time.perf_counter() - self._started))
        except Exception as error:  # noqa: BLE001 - whatever a caller's function raises
            self._callback = None
            logger.warning("the progress of the load is not reported any more: %r", error)
