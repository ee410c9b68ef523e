"""Stages rewrites and restores, each as one transaction with a UUID known beforehand.

Lance's own compaction commits twice (it reserves fragment ids first), and a concurrent writer is
rebased over the first of the two. A hand-made rewrite is one version and collides with every
concurrent change of a rewritten fragment. BTREEs do not cover the new fragments (searches scan
those instead, and stay right) until ``inline_residual.fold_indexes`` adds them. A restore with a
UUID chosen here can be recognised when recovery itself is interrupted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from omnigraph.storage.tables.lance_import import lance, lance_module
from omnigraph.storage.tables.staging import RowCounts, Staged
from omnigraph.storage.tables.table import Table
from omnigraph.storage.tables.table_errors import lance_errors
from omnigraph.storage.tables.transactions import Operation, last_fragment_number


def stage_rewrite(table: Table, target_rows: int) -> Staged | None:
    """Merge small fragments up to `target_rows` rows each; None when there is nothing to merge."""
    options: dict[str, Any] = {"target_rows_per_fragment": target_rows}
    with lance_errors(f"compacting {table.ref}"):
        plan = lance_module("optimize").Compaction.plan(table.dataset, options)
        results = [task.execute(table.dataset) for task in plan.tasks]
    return stage_rewritten(table, results) if results else None


def stage_rewritten(table: Table, results: Sequence[Any]) -> Staged:
    """Put the results of compaction tasks in place, as one version.

    The results carry row ids and the versions in which rows were created and changed; fragments
    written in any other way would reset them. The new fragments are numbered here: Lance would
    number them only after it had recorded them in the indexes, as number 0.
    """
    operation = lance().LanceOperation
    number = last_fragment_number(table)
    groups = []
    for result in results:
        new = list(result.new_fragments)
        for fragment in new:
            number += 1
            fragment.id = number
        groups.append(operation.RewriteGroup(result.original_fragments, new))
    rewrite = operation.Rewrite(groups=groups, rewritten_indices=[])
    return Staged(
        table.ref, lance().Transaction(table.version, rewrite), Operation.REWRITE, RowCounts()
    )


def stage_restore(table: Table, version: int) -> Staged:
    """Make the rows of an older version of this branch the newest again, as a new version.

    Lance lets a restore overwrite concurrent changes: hold the table's lock.
    """
    transaction = lance().Transaction(table.version, lance().LanceOperation.Restore(version))
    return Staged(table.ref, transaction, Operation.RESTORE, RowCounts(None, None, None))
