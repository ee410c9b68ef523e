"""`/metrics`: the figures of all workers, as Prometheus reads them, on a port of their own.

| Name | |
|---|---|
| `omnigraph_requests_total{route, status}` | requests that were answered |
| `omnigraph_request_seconds{route}` | a histogram of how long they took |

and so on: docs/user/server.md has all of them.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from omnigraph.server.figures import BUCKETS, CAUSES, COUNTERS, GAUGES, ROUTES, STATUSES, Sums

logger = logging.getLogger(__name__)

Numbers = Callable[[], Sequence[Sequence[float]]]
"""Gives the numbers of each process, as they are now."""

PATH: Final = "/metrics"
PATIENCE_SECONDS: Final = 10
_MEANINGS: Final = {
    "queries_running": "Reads under way.",
    "queries_waiting": "Reads that wait for their turn.",
    "writes_running": "Writes under way.",
    "writes_waiting": "Writes that wait for a thread.",
    "connections": "Open connections.",
    "streams_running": "Exports and baselines under way.",
    "answer_bytes": "Bytes of answers that are being sent.",
    "cache_bytes": "Bytes of graphs kept in memory for reads.",
    "quarantined_graphs": "Graphs of a cluster that are not served.",
    "commits": "Commits made, those of upkeep included.",
    "lost_races": "Attempts of writes that found another commit made before them, and were repeated.",
    "worker_restarts": "Workers started in place of ones that died.",
}


class _Shown(Collector):
    """Shows figures in the words of Prometheus."""

    def __init__(self, numbers: Numbers) -> None:
        self._numbers = numbers

    def collect(self) -> Iterator[Metric]:
        sums = Sums(self._numbers())
        yield from _requests(sums)
        refusals = CounterMetricFamily(
            "omnigraph_refusals", "Requests refused with 429, by cause.", labels=["cause"]
        )
        for cause in CAUSES:
            refusals.add_metric([cause], sums.refusals(cause))
        yield refusals
        for counter in COUNTERS:
            name, meaning = f"omnigraph_{counter}", _MEANINGS[counter]
            yield CounterMetricFamily(name, meaning, value=sums.counter(counter))
        for gauge in GAUGES:
            name, meaning = f"omnigraph_{gauge}", _MEANINGS[gauge]
            yield GaugeMetricFamily(name, meaning, value=sums.gauge(gauge))


def _requests(sums: Sums) -> Iterator[Metric]:
    """Only what there was: most routes never give most statuses."""
    requests = CounterMetricFamily(
        "omnigraph_requests", "Requests by route and status.", labels=["route", "status"]
    )
    seconds = HistogramMetricFamily(
        "omnigraph_request_seconds", "How long requests took.", labels=["route"]
    )
    for route in ROUTES:
        for status in STATUSES:
            if count := sums.requests(route, status):
                requests.add_metric([route, status], count)
        counts, total = sums.latencies(route)
        if any(counts):
            below, buckets = 0.0, []
            for bound, count in zip([*map(str, BUCKETS), "+Inf"], counts, strict=True):
                below += count
                buckets.append((bound, below))
            seconds.add_metric([route], buckets, total)
    yield requests
    yield seconds


def metrics_text(numbers: Numbers) -> bytes:
    """Return the figures in the text format of Prometheus."""
    registry = CollectorRegistry()
    registry.register(_Shown(numbers))
    return generate_latest(registry)


class MetricsServer:
    """Answers `GET /metrics` on a socket, in threads of its own, until it is closed."""

    def __init__(self, bound: socket.socket, numbers: Numbers) -> None:
        handler = type("Handler", (_Handler,), {"numbers": staticmethod(numbers)})
        bound.setblocking(True)
        self._server = _Server(bound, handler)
        threading.Thread(
            target=self._server.serve_forever, name="omnigraph-metrics", daemon=True
        ).start()

    def close(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, bound: socket.socket, handler: Any) -> None:
        super().__init__(bound.getsockname()[:2], handler, bind_and_activate=False)
        self.socket.close()
        self.socket = bound
        bound.listen()

    def handle_error(self, *_: object) -> None:
        """A client that went away is nobody's failure."""
        logger.debug("a request for metrics broke off")


class _Handler(BaseHTTPRequestHandler):
    numbers: Numbers
    timeout = PATIENCE_SECONDS

    def do_GET(self) -> None:
        """Answer with the figures."""
        if self.path.partition("?")[0] != PATH:
            self._answer(404, b"there is /metrics here, and nothing else\n", "text/plain")
            return
        self._answer(200, metrics_text(type(self).numbers), CONTENT_TYPE_LATEST)

    def do_HEAD(self) -> None:
        """Answer with the head of the same."""
        self.do_GET()

    def _answer(self, status: int, body: bytes, media_type: str) -> None:
        self.send_response_only(status)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing of requests."""
