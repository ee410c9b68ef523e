"""What a baseline answers: the commit that was written, and the cursor that goes on after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from omnigraph.changes.export.export import ExportResult, ExportStats


@dataclass(frozen=True, slots=True)
class BaselineResult:
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
