"""What `optimize` answers: a row for each table that the branch has of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from omnigraph.display.panel import Panel, Shown
from omnigraph.display.text import counted
from omnigraph.manifest.rows import GraphCommit

Skipped = Literal["drift_needs_repair", "large_blobs"]


@dataclass(frozen=True, slots=True)
class OptimizeRow:
    """One table.

    ``committed``: it has a new version. ``skipped``: `drift_needs_repair` if another program wrote to
    the table, which is then left alone; `large_blobs` if fragments were left alone for the size of a
    blob. ``manifest_version`` is the version that the graph uses, and ``lance_head_version`` the newest
    one there is. ``pending_indexes`` are properties without a value to build their index on. ``error``
    says what was left out because it failed, or is None.
    """

    table_key: str
    fragments_removed: int = 0
    fragments_added: int = 0
    committed: bool = False
    skipped: Skipped | None = None
    manifest_version: int = 0
    lance_head_version: int = 0
    pending_indexes: tuple[str, ...] = ()
    error: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the public form."""
        return {
            "table_key": self.table_key,
            "fragments_removed": self.fragments_removed,
            "fragments_added": self.fragments_added,
            "committed": self.committed,
            "skipped": self.skipped,
            "manifest_version": self.manifest_version,
            "lance_head_version": self.lance_head_version,
            "pending_indexes": list(self.pending_indexes),
            "error": self.error,
        }


@dataclass(frozen=True, slots=True, repr=False)
class OptimizeReport(Shown):
    """The rows of `optimize`, in the order of table keys, and its commit; None if there was no work.

    It is used like a list of its rows. ``engine`` is `spark` if executors did a part of it, and
    ``note`` says why another engine was used than the caller would expect. ``warnings`` are for people.
    """

    tables: tuple[OptimizeRow, ...]
    commit: GraphCommit | None = None
    engine: str = "local"
    note: str | None = None
    warnings: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[OptimizeRow]:
        return iter(self.tables)

    def __len__(self) -> int:
        return len(self.tables)

    def __getitem__(self, position: int) -> OptimizeRow:
        return self.tables[position]

    @property
    def failed(self) -> tuple[OptimizeRow, ...]:
        """The rows of tables of which something was left out because it failed."""
        return tuple(row for row in self.tables if row.error is not None)

    def to_json(self) -> dict[str, Any]:
        """Return the public form."""
        return {"tables": [row.to_json() for row in self.tables]}

    def _panel(self) -> Panel:
        commit = "none, there was nothing to do"
        if self.commit is not None:
            commit = self.commit.graph_commit_id
        return Panel.of_rows(
            f"optimized {counted(sum(row.committed for row in self.tables), 'table')} "
            f"of {len(self.tables)}",
            ("table", "fragments removed", "added", "remark"),
            [
                (
                    row.table_key,
                    row.fragments_removed,
                    row.fragments_added,
                    row.error or row.skipped or ("" if row.committed else "as it was"),
                )
                for row in self.tables
            ],
            facts=[("commit", commit), ("engine", self.engine)],
            notes=[*([] if self.note is None else [self.note]), *self.warnings],
        )
