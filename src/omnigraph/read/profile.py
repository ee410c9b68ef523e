"""Where a query spends its time: phases with rows and milliseconds, recorded while it runs.

The engine wraps its phases in ``timed(profile, name)``, which does nothing without a profile::

    with timed(profile, "expand $b") as phase:
        ...
        phase.rows = len(codes)

A profile belongs to one run, in one thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import Any

from omnigraph.cancel import look
from omnigraph.display.panel import Panel, Shown
from omnigraph.read.output.query_result import QueryResult


@dataclass(slots=True)
class Phase:
    """One phase: ``rows`` is what came out of it, None where there is nothing to count."""

    name: str
    rows: int | None = None
    milliseconds: float = 0.0
    phases: list[Phase] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """The public form."""
        return {
            "name": self.name,
            "rows": self.rows,
            "milliseconds": round(self.milliseconds, 3),
            "phases": [phase.to_json() for phase in self.phases],
        }


class Profile:
    """The phases of one run, nested as they ran."""

    def __init__(self) -> None:
        self.phases: list[Phase] = []
        self._open: list[Phase] = []

    @contextmanager
    def step(self, name: str) -> Iterator[Phase]:
        """Time what runs inside; a step within a step belongs to it."""
        phase = Phase(name)
        (self._open[-1].phases if self._open else self.phases).append(phase)
        self._open.append(phase)
        started = perf_counter_ns()
        try:
            yield phase
        finally:
            phase.milliseconds = (perf_counter_ns() - started) / 1e6
            self._open.pop()


def timed(profile: Profile | None, name: str) -> AbstractContextManager[Phase]:
    """A phase of the profile, if there is one; before it begins, look whether to go on."""
    look()
    return nullcontext(_UNHEEDED) if profile is None else profile.step(name)


# Where rows are written that nobody reads.
_UNHEEDED = Phase("")


@dataclass(frozen=True, slots=True, repr=False)
class Profiled(Shown):
    """A result, and how long each phase on the way to it took."""

    result: QueryResult
    steps: tuple[Phase, ...]

    @property
    def text(self) -> str:
        """The phases as an indented table."""
        lines = [
            ("phase", "rows", "ms"),
            *(
                (name, "" if rows is None else str(rows), f"{spent:.2f}")
                for name, rows, spent in _lines(self.steps, "")
            ),
        ]
        sizes = [max(len(line[at]) for line in lines) for at in range(3)]
        return "\n".join(
            f"{name:<{sizes[0]}}  {rows:>{sizes[1]}}  {spent:>{sizes[2]}}"
            for name, rows, spent in lines
        )

    def to_json(self) -> dict[str, Any]:
        """Result and phases as plain data."""
        return {
            "result": self.result.to_json(),
            "steps": [phase.to_json() for phase in self.steps],
        }

    def _panel(self) -> Panel:
        columns = ("phase", "rows", "ms")
        return Panel.of_rows(self.result.summary, columns, _lines(self.steps, ""))


def _lines(
    phases: tuple[Phase, ...] | list[Phase], indent: str
) -> Iterator[tuple[str, int | None, float]]:
    for phase in phases:
        yield indent + phase.name, phase.rows, phase.milliseconds
        yield from _lines(phase.phases, indent + "  ")
