"""Figures that tests print: they are looked at, and never asserted."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

MEASURED = "measured"
LISTED = 25
"""How many of the longest files a run of several workers lists."""
_ended: dict[str, float] = {}
"""When each worker reported its last test, if there are workers."""
_took: Counter[str] = Counter()
"""How many seconds the tests of each file took, with their fixtures."""


def note_end(report: Any) -> None:
    """Remember which worker this report came from, and what its file took."""
    if (worker := getattr(report, "node", None)) is not None:
        _ended[worker.gateway.id] = report.stop
        _took[report.nodeid.partition("::")[0]] += report.duration


def _idle_tails() -> list[str]:
    """How long workers had nothing left to do while another still worked."""
    last = max(_ended.values(), default=0.0)
    return [f"{name}: idle for the last {last - end:.0f} s" for name, end in _ended.items()]


def print_measured(terminalreporter: Any) -> None:
    """What tests gave to `record_property("measured", text)`, a line for each; those of several workers in a file."""
    lines = [
        f"{report.nodeid}: {text}"
        for report in terminalreporter.stats.get("passed", [])
        for name, text in report.user_properties
        if name == MEASURED
    ]
    lines += _idle_tails()
    if lines and _took:
        # Of a whole run they are some hundred lines, between a failure and whoever looks for it.
        file = Path(terminalreporter.config.cache.mkdir("measured")) / "figures.txt"
        file.write_text("\n".join(sorted(lines)) + "\n", encoding="utf-8")
        terminalreporter.section(f"figures: {file.relative_to(Path.cwd())}")
    elif lines:
        terminalreporter.section("measured")
        for line in sorted(lines):
            terminalreporter.write_line(line)
    if _took:
        terminalreporter.section(f"the {LISTED} longest files, of {_took.total():.0f} s in all")
    for file, seconds in _took.most_common(LISTED):
        terminalreporter.write_line(f"{seconds:6.0f} s  {file}")
