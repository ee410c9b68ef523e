"""The steps of a match as they ran: rows, time and bytes of each, for a profile.

Steps of an enumeration take turns, batch by batch, so each adds up what it did. What runs inside a step, such
as the match of a negated block, is listed below it; the same step of another batch counts there too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from time import perf_counter_ns


@dataclass(slots=True)
class StepRun:
    """One step: what came out of it, and how many rows were expected."""

    op: str
    text: str
    estimated: float | None = None
    rows: int = 0
    nanoseconds: int = 0
    bytes: int = 0
    steps: list[StepRun] = field(default_factory=list)


class Trace:
    """The steps of one run, in the order in which they began."""

    def __init__(self) -> None:
        self.steps: list[StepRun] = []
        self._open: list[StepRun] = []

    def of(self, op: str, text: str, estimated: float | None = None) -> StepRun:
        """The record of a step: a new one, unless there is one inside the same step already."""
        known = self._open[-1].steps if self._open else self.steps
        if self._open:
            for one in known:
                if (one.op, one.text) == (op, text):
                    return one
        known.append(StepRun(op, text, estimated))
        return known[-1]

    @contextmanager
    def during(self, record: StepRun) -> Iterator[StepRun]:
        """Time what runs inside."""
        self._open.append(record)
        started = perf_counter_ns()
        try:
            yield record
        finally:
            record.nanoseconds += perf_counter_ns() - started
            self._open.pop()


def traced(
    trace: Trace | None, op: str, text: str | Callable[[], str], estimated: float | None = None
) -> AbstractContextManager[StepRun]:
    """A step of the trace, if there is one; only then a text that takes long is made."""
    if trace is None:
        return nullcontext(_UNHEEDED)
    text = text if isinstance(text, str) else text()
    return trace.during(trace.of(op, text, estimated))


# Stands in for a step when no profile is wanted; it is written to and never read.
_UNHEEDED = StepRun("", "")
