"""Figures that tests print: they are looked at, and never asserted."""

from __future__ import annotations

from typing import Any

MEASURED = "measured"


def print_measured(terminalreporter: Any) -> None:
    """What tests gave to `record_property("measured", text)`, a line for each."""
    lines = [
        f"{report.nodeid}: {text}"
        for report in terminalreporter.stats.get("passed", [])
        for name, text in report.user_properties
        if name == MEASURED
    ]
    if lines:
        terminalreporter.section("measured")
    for line in sorted(lines):
        terminalreporter.write_line(line)
