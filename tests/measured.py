"""Figures that tests print: they are looked at, and never asserted."""

from __future__ import annotations

from typing import Any

MEASURED = "measured"
_ended: dict[str, float] = {}
"""When each worker reported its last test, if there are workers."""


def note_end(report: Any) -> None:
    """Remember which worker this report came from."""
    if (worker := getattr(report, "node", None)) is not None:
        _ended[worker.gateway.id] = report.stop


def _idle_tails() -> list[str]:
    """How long workers had nothing left to do while another still worked."""
    last = max(_ended.values(), default=0.0)
    return [f"{name}: idle for the last {last - end:.0f} s" for name, end in _ended.items()]


def print_measured(terminalreporter: Any) -> None:
    """What tests gave to `record_property("measured", text)`, a line for each."""
    lines = [
        f"{report.nodeid}: {text}"
        for report in terminalreporter.stats.get("passed", [])
        for name, text in report.user_properties
        if name == MEASURED
    ]
    lines += _idle_tails()
    if lines:
        terminalreporter.section("measured")
    for line in sorted(lines):
        terminalreporter.write_line(line)
