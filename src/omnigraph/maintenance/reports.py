"""What `optimize`, `repair` and `cleanup` answer: a row for each table.

`repair` says how each table stands to its pin, judged by the transactions in between. For example, a table
that is pinned at version 4 and that another program compacted has the transactions ``ReserveFragments`` and
``Rewrite`` after its pin. They change no content: ``verified_maintenance``. A ``Delete`` among them would make
it ``suspicious``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Generic, Literal, TypeVar

from omnigraph.commit.classify import CONTENT_PRESERVING
from omnigraph.display.panel import Panel, Shown
from omnigraph.display.text import counted, size_text
from omnigraph.maintenance.cleanup.keep_set import Policy
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.rows import GraphCommit
from omnigraph.storage.tables.transactions import TransactionKind

Row = TypeVar("Row")


class _Listed(Generic[Row]):
    """A report that is used like a list of its rows."""

    __slots__ = ()

    tables: tuple[Row, ...]

    def __iter__(self) -> Iterator[Row]:
        return iter(self.tables)

    def __len__(self) -> int:
        return len(self.tables)

    def __getitem__(self, position: int) -> Row:
        return self.tables[position]


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
        return {**asdict(self), "pending_indexes": list(self.pending_indexes)}


@dataclass(frozen=True, slots=True, repr=False)
class OptimizeReport(Shown, _Listed[OptimizeRow]):
    """The rows of `optimize`, in the order of table keys, and its commit; None if there was no work.

    It is used like a list of its rows. ``engine`` is `spark` if executors did a part of it, and
    ``note`` says why another engine was used than the caller would expect. ``warnings`` are for people.
    """

    tables: tuple[OptimizeRow, ...]
    commit: GraphCommit | None = None
    engine: str = "local"
    note: str | None = None
    warnings: tuple[str, ...] = ()

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


Classification = Literal["no_drift", "verified_maintenance", "suspicious", "unverifiable"]
Action = Literal["no_op", "preview", "healed", "forced", "undone", "refused"]


@dataclass(frozen=True, slots=True)
class RepairRow:
    """One table on one of its branches (None: the main lineage).

    ``manifest_version`` is the version that the graph pins and ``lance_head_version`` the newest one
    that is there; 0 if there is none. ``operations`` are the transactions between the two, in order.
    ``error`` says why the table cannot be repaired by moving its pin, or None.
    """

    table_key: str
    table_branch: str | None
    manifest_version: int
    lance_head_version: int
    classification: Classification = "no_drift"
    action: Action = "no_op"
    operations: tuple[str, ...] = ()
    error: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the public form."""
        return {**asdict(self), "operations": list(self.operations)}


@dataclass(frozen=True, slots=True, repr=False)
class RepairReport(Shown, _Listed[RepairRow]):
    """The rows of a repair: all tables of `main`, then those of each branch that are its own.

    It is used like a list of its rows. ``commits`` are what was published, one for each branch with a
    table that was repaired.
    """

    tables: tuple[RepairRow, ...]
    confirm: bool = False
    force: bool = False
    commits: tuple[GraphCommit, ...] = ()

    @property
    def drifted(self) -> tuple[RepairRow, ...]:
        """The rows of tables that are not at their pins."""
        return tuple(row for row in self.tables if row.classification != "no_drift")

    @property
    def refused(self) -> tuple[RepairRow, ...]:
        """The rows of tables that were to be repaired and were not."""
        return tuple(row for row in self.tables if row.action == "refused")

    def to_json(self) -> dict[str, Any]:
        """Return the public form; ``manifest_version`` is that of the first commit, if there is one."""
        return {
            "confirm": self.confirm,
            "force": self.force,
            "manifest_version": self.commits[0].manifest_version if self.commits else None,
            "tables": [row.to_json() for row in self.tables],
        }

    def _panel(self) -> Panel:
        title = f"{counted(len(self.tables), 'table')}, {len(self.drifted)} not at the pin"
        facts = [("commit", one.graph_commit_id) for one in self.commits]
        return Panel.of_rows(
            title,
            ("table", "branch", "pinned", "newest", "judgement", "action", "remark"),
            [
                (
                    row.table_key,
                    row.table_branch or MAIN,
                    row.manifest_version,
                    row.lance_head_version,
                    row.classification,
                    row.action,
                    row.error or ", ".join(row.operations),
                )
                for row in self.tables
            ],
            facts=facts,
        )


def classify_drift(operations: Iterable[TransactionKind | None]) -> Classification:
    """Judge a table by the transactions after its pin; None stands for one that cannot be read."""
    found = list(operations)
    if not found:
        return "no_drift"
    if any(one is None or one is TransactionKind.UNKNOWN for one in found):
        return "unverifiable"
    if all(one in CONTENT_PRESERVING for one in found):
        return "verified_maintenance"
    return "suspicious"


def choose_action(
    row: RepairRow, *, confirm: bool, force: bool = False, undo: bool = False
) -> Action:
    """Return what is to be done about a table."""
    if row.classification == "no_drift":
        return "no_op"
    if not confirm:
        return "preview"
    if row.error is not None:
        return "refused"
    if undo:
        return "undone"
    if row.classification == "verified_maintenance":
        return "healed"
    return "forced" if force else "refused"


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
        why_kept = {str(version): list(why) for version, why in self.why_kept.items()}
        return {**asdict(self), "why_kept": why_kept}


@dataclass(frozen=True, slots=True, repr=False)
class CleanupReport(Shown, _Listed[CleanupRow]):
    """The rows of a cleanup, in the order of table keys; `__manifest` and the audit table come last.

    It is used like a list of its rows. With ``dry_run`` the rows say what a cleanup would do.
    ``warnings`` are for people.
    """

    tables: tuple[CleanupRow, ...]
    policy: Policy
    dry_run: bool = False
    warnings: tuple[str, ...] = ()

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
