"""A line per case file at the end of the run."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent.name
OUTCOMES = ("passed", "failed", "skipped", "error")


def count_cases(terminalreporter: Any) -> None:
    """Count passed, failed and skipped cases per case file."""
    counts: dict[str, Counter[str]] = {}
    for outcome in OUTCOMES:
        for report in terminalreporter.stats.get(outcome, []):
            path, _, case = report.nodeid.partition("[")
            if case and f"{HERE}/test_conformance.py" in path:
                counts.setdefault(case.split("/")[0], Counter())[outcome] += 1
            elif case and path.endswith("test_surfaces.py::test_case"):
                where = path.split("/")[1]
                counts.setdefault(f"surfaces in tests/{where}", Counter())[outcome] += 1
    if not counts:
        return
    terminalreporter.section("conformance")
    for file, counted in sorted(counts.items()):
        failed = counted["failed"] + counted["error"]
        terminalreporter.write_line(
            f"{file}: {counted['passed']} passed, {failed} failed, {counted['skipped']} skipped"
        )
