"""What `cleanup` answers: a row for each lineage of each table, and what went wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from omnigraph.display.panel import Panel, Shown
from omnigraph.display.text import counted, size_text
from omnigraph.maintenance.cleanup.keep_set import Policy
from omnigraph.manifest.branch_names import MAIN


@dataclass(frozen=True, slots=True)
class CleanupRow:
    """One table on one of its branches (None: the main lineage).

    ``why_kept`` has every version that is still there, with the reasons for it. ``error`` says why
    this table could not be cleaned up, or None.
    """

    table_key: str
    table_branch: str | None
    bytes_removed: int = 0
    old_versions_removed: int = 0
    why_kept: Mapping[int, Sequence[str]] = field(default_factory=dict)
    error: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the public form."""
        return {
            "table_key": self.table_key,
            "table_branch": self.table_branch,
            "bytes_removed": self.bytes_removed,
            "old_versions_removed": self.old_versions_removed,
            "why_kept": {str(version): list(why) for version, why in self.why_kept.items()},
            "error": self.error,
        }


@dataclass(frozen=True, slots=True, repr=False)
class CleanupReport(Shown):
    """The rows of a cleanup, in the order of table keys; `__manifest` and the audit table come last.

    It is used like a list of its rows. With ``dry_run`` the rows say what a cleanup would do.
    ``warnings`` are for people.
    """

    tables: tuple[CleanupRow, ...]
    policy: Policy
    dry_run: bool = False
    warnings: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[CleanupRow]:
        return iter(self.tables)

    def __len__(self) -> int:
        return len(self.tables)

    def __getitem__(self, position: int) -> CleanupRow:
        return self.tables[position]

    @property
    def failed(self) -> tuple[CleanupRow, ...]:
        """The rows of tables that could not be cleaned up."""
        return tuple(row for row in self.tables if row.error is not None)

    @property
    def bytes_removed(self) -> int:
        """How many bytes went in all."""
        return sum(row.bytes_removed for row in self.tables)

    @property
    def old_versions_removed(self) -> int:
        """How many versions went in all."""
        return sum(row.old_versions_removed for row in self.tables)

    def to_json(self) -> dict[str, Any]:
        """Return the public form; only that of a dry run says `preview`."""
        return {
            **({"preview": True} if self.dry_run else {}),
            "keep_versions": self.policy.keep_versions,
            "older_than_secs": self.policy.older_than,
            "tables": [row.to_json() for row in self.tables],
        }

    def _panel(self) -> Panel:
        would = "would remove" if self.dry_run else "removed"
        versions = counted(self.old_versions_removed, "version")
        return Panel.of_rows(
            f"{would} {versions} and {size_text(self.bytes_removed)}",
            ("table", "branch", "versions", "size", "kept", "remark"),
            [
                (
                    row.table_key,
                    row.table_branch or MAIN,
                    row.old_versions_removed,
                    size_text(row.bytes_removed),
                    len(row.why_kept),
                    row.error or "",
                )
                for row in self.tables
            ],
            notes=self.warnings,
        )
