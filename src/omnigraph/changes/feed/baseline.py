"""What a baseline answers: the commit that was written, and the cursor that goes on after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from omnigraph.changes.export.export import ExportResult, ExportStats
from omnigraph.display.panel import Panel, Shown
from omnigraph.display.text import counted


@dataclass(frozen=True, slots=True, repr=False)
class BaselineResult(Shown):
    """A complete baseline. Store what was written before the cursor, or both together."""

    snapshot_commit_id: str
    resume_cursor: str
    export: ExportResult

    @property
    def stats(self) -> ExportStats:
        """What was written and what it cost."""
        return self.export.stats

    def to_json(self) -> dict[str, Any]:
        """Return the public form."""
        return {
            "snapshot_commit_id": self.snapshot_commit_id,
            "resume_cursor": self.resume_cursor,
            "stats": self.stats.to_json(),
        }

    def _panel(self) -> Panel:
        facts = [("commit", self.snapshot_commit_id), ("resume at", self.resume_cursor)]
        return Panel(f"baseline of {counted(self.stats.records, 'record')}", facts)
