"""What a run of several workers prints while it goes on: a line now and then, and every failure at once.

A dot for each of twenty thousand tests tells nobody anything, and buries the one line that somebody looks for.
"""

from __future__ import annotations

import time
from typing import Any

EVERY = 1000
"""After how many tests a line says how far the run is."""


class Progress:
    """Counts the tests that ended, in the process that reports for its workers."""

    def __init__(self, terminalreporter: Any) -> None:
        self._reporter = terminalreporter
        self._began = time.monotonic()
        self._ended = 0
        self._failed = 0

    def pytest_report_teststatus(self, report: Any) -> tuple[str, str, str] | None:
        """Nothing is printed for a test that passes or is skipped, as for a setup that works."""
        if report.failed or not isinstance(report.outcome, str):
            return None
        if report.passed and report.when != "call":
            return "", "", ""
        # The word stands in the list of what was skipped.
        return report.outcome, "", report.outcome.upper() if report.skipped else ""

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Name what failed, and say how far the run is."""
        if report.failed:
            self._failed += 1
            problem = getattr(getattr(report.longrepr, "reprcrash", None), "message", "")
            self._line(f"{report.when} failed: {report.nodeid}", *problem.splitlines()[:3])
        if report.when == "teardown":
            self._ended += 1
            if self._ended % EVERY == 0:
                minutes = (time.monotonic() - self._began) / 60
                self._line(
                    f"{self._ended:,} tests after {minutes:.1f} minutes, {self._failed} failed"
                )

    def _line(self, first: str, *more: str) -> None:
        self._reporter.ensure_newline()
        self._reporter.write_line(first)
        for line in more:
            self._reporter.write_line(f"    {line[:200]}")
