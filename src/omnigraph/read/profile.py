"""Where a query spends its time: phases with rows and milliseconds, recorded while it runs.

The engine wraps its phases in ``timed(profile, name)``, which does nothing without a profile::

    with timed(profile, "expand $b") as phase:
        ...
        phase.rows = len(codes)

A profile belongs to one run, in one thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import Any

from omnigraph.cancel import look
from omnigraph.display.panel import Panel, Shown
from omnigraph.read.match.trace import StepRun
from omnigraph.read.output.query_result import QueryResult


@dataclass(slots=True)
class Phase:
    """One phase: ``rows`` is what came out of it, None where there is nothing to count."""

    name: str
    rows: int | None = None
    milliseconds: float = 0.0
    phases: list[Phase] = field(default_factory=list)
    op: str | None = None
    """What kind of step it is, where it is one of a match or of the output."""
    estimated_rows: int | None = None
    """How many rows were expected when the order of the steps was chosen."""
    bytes: int | None = None
    """The bytes of the columns that came out."""

    def to_json(self) -> dict[str, Any]:
        """The public form."""
        return {
            "name": self.name,
            "rows": self.rows,
            "milliseconds": round(self.milliseconds, 3),
            "op": self.op,
            "estimated_rows": self.estimated_rows,
            "bytes": self.bytes,
            "phases": [phase.to_json() for phase in self.phases],
        }


class Profile:
    """The phases of one run, nested as they ran."""

    def __init__(self) -> None:
        self.phases: list[Phase] = []
        self._open: list[Phase] = []

    @contextmanager
    def step(self, name: str, op: str | None = None) -> Iterator[Phase]:
        """Time what runs inside; a step within a step belongs to it."""
        phase = Phase(name, op=op)
        (self._open[-1].phases if self._open else self.phases).append(phase)
        self._open.append(phase)
        started = perf_counter_ns()
        try:
            yield phase
        finally:
            phase.milliseconds = (perf_counter_ns() - started) / 1e6
            self._open.pop()


def timed(
    profile: Profile | None, name: str, op: str | None = None
) -> AbstractContextManager[Phase]:
    """A phase of the profile, if there is a profile. Before it begins, a cancelled query is stopped."""
    look()
    return nullcontext(_UNHEEDED) if profile is None else profile.step(name, op)


def phases_of(steps: Iterable[StepRun]) -> list[Phase]:
    """The steps of a match as phases."""
    return [
        Phase(
            step.text,
            step.rows,
            step.nanoseconds / 1e6,
            phases_of(step.steps),
            step.op,
            None if step.estimated is None else whole(step.estimated),
            step.bytes,
        )
        for step in steps
    ]


def whole(estimated: float) -> int:
    """An estimate as a whole number."""
    return round(min(estimated, _MOST_ROWS))


# Estimates beyond this are only large.
_MOST_ROWS = 2**63 - 1


# Stands in for a phase when no profile is wanted; it is written to and never read.
_UNHEEDED = Phase("")


@dataclass(frozen=True, slots=True, repr=False)
class Profiled(Shown):
    """A result, and how long each phase on the way to it took."""

    result: QueryResult
    steps: tuple[Phase, ...]

    @property
    def text(self) -> str:
        """The phases as an indented table."""
        lines = [COLUMNS, *(_shown(line) for line in _lines(self.steps, ""))]
        sizes = [max(len(line[at]) for line in lines) for at in range(len(COLUMNS))]
        return "\n".join(
            "  ".join(
                cell.rjust(size) if at else cell.ljust(size)
                for at, (cell, size) in enumerate(zip(line, sizes, strict=True))
            )
            for line in lines
        )

    def to_json(self) -> dict[str, Any]:
        """Result and phases as plain data."""
        return {
            "result": self.result.to_json(),
            "steps": [phase.to_json() for phase in self.steps],
        }

    def _panel(self) -> Panel:
        return Panel.of_rows(self.result.summary, COLUMNS, _lines(self.steps, ""))


COLUMNS = ("phase", "estimated", "rows", "ms", "bytes")
"""What is shown of each phase."""

Line = tuple[str, int | None, int | None, float, int | None]


def _lines(phases: Iterable[Phase], indent: str) -> Iterator[Line]:
    for phase in phases:
        spent = phase.milliseconds
        yield indent + phase.name, phase.estimated_rows, phase.rows, spent, phase.bytes
        yield from _lines(phase.phases, indent + "  ")


def _shown(line: Line) -> tuple[str, ...]:
    name, estimated, rows, spent, size = line
    counts = ["" if count is None else str(count) for count in (estimated, rows, size)]
    return name, *counts[:2], f"{spent:.2f}", counts[2]
