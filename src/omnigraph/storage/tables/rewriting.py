"""Stages rewrites and restores, each as one transaction with a UUID known beforehand.

Lance's own compaction commits twice (it reserves fragment ids first), a concurrent writer is
rebased over the first of the two, and on a branch it leaves BTREEs that cannot be opened. A rewrite
staged here is one version and collides with every concurrent change of a rewritten fragment. BTREEs
do not cover the new fragments (searches scan those instead, and stay right) until they are folded;
other indexes cover them if they covered all the old ones. A restore with a UUID chosen here can be
recognised when recovery itself is interrupted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from omnigraph.errors import StorageError
from omnigraph.storage.lance_format.row_versions import decoded, encoded, in_groups
from omnigraph.storage.tables.lance_import import lance, lance_module
from omnigraph.storage.tables.staging import RowCounts, Staged
from omnigraph.storage.tables.table import DATA_STORAGE_VERSION, Table
from omnigraph.storage.tables.table_errors import lance_errors
from omnigraph.storage.tables.transactions import TransactionKind, last_fragment_number

_BATCH_ROWS = 8_192  # what Lance takes by itself
# Every option must be given by name; these are what Lance's own planner fills in.
_OPTIONS: Final[Mapping[str, Any]] = {
    "max_rows_per_group": 1024,
    "max_bytes_per_file": None,
    "materialize_deletions": True,
    "materialize_deletions_threshold": 0.1,
    "num_threads": None,
    "io_buffer_size": None,
    "defer_index_remap": False,
    "index_remap_mode": "Direct",
    "compaction_mode": None,
    "enable_binary_copy": False,
    "enable_binary_copy_force": False,
    "binary_copy_read_batch_bytes": 16 << 20,
    "max_source_fragments": None,
    "max_source_rows": None,
    "max_source_bytes": None,
    "excluded_fragment_ids": [],
    "max_overlays_per_fragment": 10,
    "data_storage_version": DATA_STORAGE_VERSION,
    "has_eager_remappable_index": True,
}


class Merged(NamedTuple):
    """Fragments that were merged, by number, and the new ones that hold their rows.

    The result of a task describes both, and decodes every fragment anew whenever it is asked. So it is
    asked once, and for the new ones only.
    """

    fragment_ids: tuple[int, ...]
    new: tuple[Any, ...]

    @classmethod
    def of(cls, fragment_ids: Sequence[int], result: Any) -> Merged:
        """Describe the result of a task (``CompactionTask``) that merged these fragments."""
        return cls(tuple(fragment_ids), tuple(result.new_fragments))


def merge_task(table: Table, fragment_ids: Sequence[int], batch_rows: int | None = None) -> Any:
    """Describe the merging of these fragments into one (``CompactionTask``, portable by ``json()``).

    Deleted rows are left out. ``batch_rows`` limits how many rows are held in memory at a time.
    Lance's own planner would also merge what a branch inherited, and only neighbours.
    """
    chosen = set(fragment_ids)
    fragments = [one for one in table.fragments() if one.id in chosen]
    rows = sum(fragment.num_rows for fragment in fragments)
    task = {
        "task": {"fragments": [fragment.to_json() for fragment in fragments]},
        "read_version": table.version,
        "options": {
            **_OPTIONS,
            "target_rows_per_fragment": max(1, rows),
            "batch_size": None if batch_rows is None else min(batch_rows, _BATCH_ROWS),
        },
    }
    with lance_errors(f"planning the compaction of {table.ref}"):
        return lance_module("optimize").CompactionTask.from_json(json.dumps(task))


def run_task(table: Table, task: Any) -> Any:
    """Write the new fragments of one task, on the version it was made for. HEAD does not move."""
    with lance_errors(f"compacting {table.ref}"):
        return task.execute(table.dataset)


def stage_rewritten(table: Table, results: Sequence[Merged]) -> Staged:
    """Put the results of compaction tasks in place, as one version.

    The table may have got index versions since the tasks ran, no others. The new fragments carry row
    ids and the versions in which rows were created and changed, old ones in groups (``row_versions``);
    fragments written in any other way would reset them. They are numbered here: Lance would number them
    only after it had recorded them in the indexes, as number 0.
    """
    operation = lance().LanceOperation
    number = last_fragment_number(table)
    there = {fragment.id: fragment for fragment in table.fragments()}
    groups = []
    for merged in results:
        if not there.keys() >= set(merged.fragment_ids):
            raise StorageError(
                f"{table.ref} no longer has the fragments that were merged; repeat the operation"
            )
        for fragment in merged.new:
            number += 1
            fragment.id = number
            _group_old_versions(fragment, table.version)
        groups.append(
            operation.RewriteGroup([there[one] for one in merged.fragment_ids], list(merged.new))
        )
    rewrite = operation.Rewrite(groups=groups, rewritten_indices=[])
    return Staged(
        table.ref, lance().Transaction(table.version, rewrite), TransactionKind.REWRITE, RowCounts()
    )


def _group_old_versions(fragment: Any, version: int) -> None:
    """Keep the versions of a merged fragment's rows in few runs; ``version`` is that of the table before."""
    stored = fragment.created_at_version_meta, fragment.last_updated_at_version_meta
    if None in stored:
        return
    created, changed = (decoded(sequence.json()) for sequence in stored)
    if created is None or changed is None:
        return
    if not created.rows == changed.rows == fragment.physical_rows:
        return
    grouped = in_groups(created, changed, version)
    if grouped:
        made = lance_module("fragment").RowDatasetVersionMeta.from_json
        fragment.created_at_version_meta = made(encoded(grouped[0]))
        fragment.last_updated_at_version_meta = made(encoded(grouped[1]))


def stage_restore(table: Table, version: int) -> Staged:
    """Make the rows of an older version of this branch the newest again, as a new version.

    Lance lets a restore overwrite concurrent changes: hold the table's lock.
    """
    transaction = lance().Transaction(table.version, lance().LanceOperation.Restore(version))
    return Staged(table.ref, transaction, TransactionKind.RESTORE, RowCounts(None, None, None))
