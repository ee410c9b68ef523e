"""What a server counts: numbers at fixed places of a buffer, so that several processes can be added up.

A worker counts in memory that it shares with its parent. Nothing has to be asked for, and what a worker
counted stays when it dies: the next one in its place counts on. A place has a meaning by its position alone.
There is none for a branch, an actor, a type or a text, so no figure can name one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Final, Literal, get_args

from omnigraph.errors import Busy
from omnigraph.service.operations import OPERATIONS

Cause = Literal["queries", "writes", "bodies", "streams", "answers"]
"""What there was no room for when a request was refused with 429."""
Gauge = Literal[
    "queries_running",
    "queries_waiting",
    "writes_running",
    "writes_waiting",
    "streams_running",
    "connections",
    "answer_bytes",
    "cache_bytes",
    "quarantined_graphs",
]
"""What is under way or held at a moment."""
Counter = Literal["commits", "lost_races", "worker_restarts"]

ROUTES: Final = (*OPERATIONS, "healthz", "openapi", "graphs", "mcp", "none")
"""The routes, by the names of their operations; `none` has requests that found no route."""
STATUSES: Final = (
    *("200", "206", "304", "400", "401", "403", "404", "405", "409", "410", "412", "413"),
    *("415", "416", "421", "424", "426", "429", "500", "503", "other", "none"),
)
"""Statuses; `none`: the client had gone before it was answered."""
BUCKETS: Final = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25),
    *(0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
)
"""Bounds of latencies in seconds; a last one has all that is slower."""
CAUSES: Final = get_args(Cause)
GAUGES: Final = get_args(Gauge)
COUNTERS: Final = get_args(Counter)

_ROUTE: Final = {name: at for at, name in enumerate(ROUTES)}
_STATUS: Final = {name: at for at, name in enumerate(STATUSES)}
_PER_ROUTE: Final = len(STATUSES) + len(BUCKETS) + 2
"""Statuses, then buckets, that of the slowest, and the sum of seconds."""
_CAUSE_AT: Final = {name: len(ROUTES) * _PER_ROUTE + at for at, name in enumerate(CAUSES)}
_COUNTER_AT: Final = {
    name: len(ROUTES) * _PER_ROUTE + len(CAUSES) + at for at, name in enumerate(COUNTERS)
}
_GAUGE_AT: Final = {
    name: len(ROUTES) * _PER_ROUTE + len(CAUSES) + len(COUNTERS) + at
    for at, name in enumerate(GAUGES)
}
PLACES: Final = len(ROUTES) * _PER_ROUTE + len(CAUSES) + len(COUNTERS) + len(GAUGES)
NBYTES: Final = 8 * PLACES


class Figures:
    """The figures of one process, which alone changes them, in its event loop."""

    def __init__(self, buffer: bytearray | memoryview | None = None) -> None:
        self._places = memoryview(bytearray(NBYTES) if buffer is None else buffer).cast("d")
        self.clear()

    def clear(self) -> None:
        """Nothing is under way: what a process held is gone with it."""
        for name in GAUGES:
            self.set(name, 0)

    def answered(self, route: str | None, status: int, seconds: float) -> None:
        """Count a request that is over; without a status its client had gone."""
        first = _ROUTE.get(route or "none", _ROUTE["none"]) * _PER_ROUTE
        told = str(status) if status else "none"
        self._places[first + _STATUS.get(told, _STATUS["other"])] += 1
        first += len(STATUSES)
        self._places[first + bisect_left(BUCKETS, seconds)] += 1
        self._places[first + len(BUCKETS) + 1] += seconds

    def refused(self, error: Busy) -> None:
        """Count a request for which there was no room."""
        at = _CAUSE_AT.get(error.details.get("cause", ""))
        if at is not None:
            self._places[at] += 1

    def set(self, gauge: Gauge, value: float) -> None:
        """Say how much of something there is now."""
        self._places[_GAUGE_AT[gauge]] = value

    def add(self, counter: Counter, more: float) -> None:
        """Count further ones."""
        self._places[_COUNTER_AT[counter]] += more

    def numbers(self) -> Sequence[float]:
        """Return all numbers by their places."""
        return self._places.tolist()


class Sums:
    """The figures of several processes, added up."""

    def __init__(self, parts: Iterable[Sequence[float]]) -> None:
        together = list(zip(*parts, strict=True))
        self._places: list[float] = [sum(numbers) for numbers in together]
        # All workers have the same graphs, so these are not added up.
        at = _GAUGE_AT["quarantined_graphs"]
        self._places[at] = max(together[at], default=0.0)

    def requests(self, route: str, status: str) -> float:
        """How many requests of a route had this status."""
        return self._places[_ROUTE[route] * _PER_ROUTE + _STATUS[status]]

    def latencies(self, route: str) -> tuple[list[float], float]:
        """How many requests of a route took so long: a number for each bucket; and all their seconds."""
        first = _ROUTE[route] * _PER_ROUTE + len(STATUSES)
        *counts, seconds = self._places[first : first + len(BUCKETS) + 2]
        return counts, seconds

    def refusals(self, cause: Cause) -> float:
        """How many requests were refused with 429 for a cause."""
        return self._places[_CAUSE_AT[cause]]

    def counter(self, name: Counter) -> float:
        """How many there were."""
        return self._places[_COUNTER_AT[name]]

    def gauge(self, name: Gauge) -> float:
        """How much there is."""
        return self._places[_GAUGE_AT[name]]
