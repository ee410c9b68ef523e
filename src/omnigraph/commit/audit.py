"""The audit table: one row for each recovered operation, keyed by its operation id."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from omnigraph import failpoints
from omnigraph.errors import StorageError
from omnigraph.manifest.workspace import Workspace
from omnigraph.storage import layout
from omnigraph.storage.filters import Condition, filter_expression
from omnigraph.storage.tables.table import Table, create_table, open_table
from omnigraph.storage.tables.table_commits import merge_insert_exclusive
from omnigraph.storage.tables.table_errors import RowCollision, TableMissing

if TYPE_CHECKING:
    import pyarrow as pa

RecoveryKind = Literal["RolledForward", "RolledBack", "OrphanedBranchDiscarded"]

RECORD_AUDIT = failpoints.declare("recovery.record_audit")


@dataclass(frozen=True, slots=True)
class TableOutcome:
    """What recovery did to one table."""

    table_key: str
    classification: str
    from_version: int
    to_version: int | None


@dataclass(frozen=True, slots=True)
class Recovery:
    """The recovery of one operation; ``graph_commit_id`` is None if nothing was published."""

    operation_id: str
    recovery_kind: RecoveryKind
    graph_commit_id: str | None
    recovery_for_actor: str | None
    created_at: int
    outcomes: tuple[TableOutcome, ...]

    def facts(self) -> dict[str, Any]:
        """Return the fields that the recovery commit keeps in its metadata, as they are read again."""
        document = asdict(self)
        del document["graph_commit_id"]
        return {**document, "outcomes": list(document["outcomes"])}


def _schema() -> pa.Schema:
    import pyarrow as pa

    key = {"lance-schema:unenforced-primary-key": "true"}
    return pa.schema(
        [
            pa.field("operation_id", pa.string(), nullable=False, metadata=key),
            pa.field("recovery_kind", pa.string(), nullable=False),
            pa.field("graph_commit_id", pa.string()),
            pa.field("recovery_for_actor", pa.string()),
            pa.field("created_at", pa.int64(), nullable=False),
            pa.field("outcomes", pa.string(), nullable=False),
        ]
    )


def record(workspace: Workspace, recovery: Recovery) -> None:
    """Append the row of a recovery, unless the operation already has one."""
    import pyarrow as pa

    failpoints.hit(RECORD_AUDIT)
    row = {**asdict(recovery), "outcomes": json.dumps([asdict(o) for o in recovery.outcomes])}
    table = _open_or_create(workspace)
    if _rows(table, recovery.operation_id):
        return
    try:
        merge_insert_exclusive(table, pa.Table.from_pylist([row], _schema()), on="operation_id")
    except RowCollision:
        # Another recovery wrote a row at the same time, perhaps for the same operation.
        if not _rows(_open_or_create(workspace), recovery.operation_id):
            record(workspace, recovery)


def read_audit(workspace: Workspace) -> list[Recovery]:
    """Return every recorded recovery, oldest first."""
    try:
        table = open_table(workspace.ref(layout.RECOVERY_AUDIT))
    except TableMissing:
        return []
    found = (_recovery(row) for row in table.read().to_pylist())
    return sorted(found, key=lambda recovery: (recovery.created_at, recovery.operation_id))


def _recovery(row: dict[str, Any]) -> Recovery:
    outcomes = tuple(TableOutcome(**outcome) for outcome in json.loads(row["outcomes"]))
    return Recovery(**{**row, "outcomes": outcomes})


def _rows(table: Table, operation_id: str) -> Sequence[Any]:
    where = filter_expression(table.schema, [Condition("operation_id", "=", operation_id)])
    rows: Sequence[Any] = table.read(["operation_id"], where).to_pylist()
    return rows


def _open_or_create(workspace: Workspace) -> Table:
    ref = workspace.ref(layout.RECOVERY_AUDIT)
    try:
        return open_table(ref)
    except TableMissing:
        try:
            return create_table(ref, _schema())
        except StorageError:
            # Another process may have created it in the meantime.
            return open_table(ref)
