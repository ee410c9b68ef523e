"""Rewrites and restores as one staged transaction each, under a UUID known beforehand.

Lance's own compaction commits twice (it reserves fragment ids first), and a concurrent writer is
rebased over the first of the two. A hand-made rewrite is one version and collides with every
concurrent change of a rewritten fragment. Index coverage would be lost, so tables with indexes are
compacted through ``inline_residual``. A restore under a UUID of ours can be told from anybody
else's when recovery itself is interrupted.
"""

from __future__ import annotations

from typing import Any

from omnigraph.storage.handles import Table
from omnigraph.storage.lance_import import lance, lance_module
from omnigraph.storage.staging import RowCounts, Staged
from omnigraph.storage.table_errors import lance_errors
from omnigraph.storage.transactions import Operation


def stage_rewrite(table: Table, target_rows: int) -> Staged | None:
    """Merge small fragments up to `target_rows` rows each; None when there is nothing to merge."""
    options: dict[str, Any] = {"target_rows_per_fragment": target_rows}
    with lance_errors(f"compacting {table.ref}"):
        plan = lance_module("optimize").Compaction.plan(table.dataset, options)
        results = [task.execute(table.dataset) for task in plan.tasks]
        if not results:
            return None
        operation = lance().LanceOperation
        groups = [
            operation.RewriteGroup(result.original_fragments, result.new_fragments)
            for result in results
        ]
        rewrite = operation.Rewrite(groups=groups, rewritten_indices=[])
        transaction = lance().Transaction(table.version, rewrite)
    return Staged(table.ref, transaction, Operation.REWRITE, RowCounts())


def stage_restore(table: Table, version: int) -> Staged:
    """Make the rows of an older version of this branch the newest again, as a new version.

    Lance lets a restore win over whatever comes between: hold the table's lock.
    """
    transaction = lance().Transaction(table.version, lance().LanceOperation.Restore(version))
    return Staged(table.ref, transaction, Operation.RESTORE, RowCounts(None, None, None))
