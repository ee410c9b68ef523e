"""Operations that Lance commits by itself: they cannot be staged, nor given a UUID beforehand.

Each function here moves the table's HEAD before it returns. Callers run them in Phase B, under the
table's lock and after a sidecar that says what to expect. Each starts from the table as given and
fails when that is not its newest version: Lance would otherwise work on stale state, or rebase.
The handle passed in is left as it was; the one returned reads the new version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from omnigraph.lang.schema.indexes import IndexKind
from omnigraph.storage.tables.blobs.compacting import BlobLimits, blob_limits
from omnigraph.storage.tables.indexes import list_indexes
from omnigraph.storage.tables.lance_import import lance, lance_module
from omnigraph.storage.tables.table import Table, open_table
from omnigraph.storage.tables.table_errors import TableMoved, lance_errors
from omnigraph.storage.tables.table_ref import TableRef


def _own_handle(table: Table) -> Any:
    """A separate handle on the newest version: these calls move the handle they are made on."""
    own = open_table(table.ref)
    if not own.is_head():
        head = own.head_version()
        raise TableMoved(
            f"{table.ref} has moved on to version {head}; repeat the operation",
            table=table.ref.dataset_uri,
            expected=table.version,
            actual=head,
        )
    return own.dataset


def _moved(table: Table, doing: str, act: Callable[[Any], Any]) -> Table:
    dataset = _own_handle(table)
    with lance_errors(f"{doing} {table.ref}"):
        act(dataset)
    return Table(table.ref, dataset)


# ------------------------------------------------------------------ maintenance


@dataclass(frozen=True, slots=True)
class Compacted:
    """What a compaction did."""

    table: Table
    fragments_removed: int
    fragments_added: int


# Fragments are merged up to this many rows or bytes and then left alone, so a growing table does
# not rewrite one ever larger fragment each time.
COMPACTION = {"target_rows_per_fragment": 1_000_000, "max_bytes_per_file": 1024**3}


_BATCH_ROWS = 8_192  # what Lance takes by itself


# Every search reads every part of an index.
MOST_VECTOR_PARTS = 4


def plan_compaction(table: Table, limits: BlobLimits | None = None) -> list[Any]:
    """The tasks a compaction would run (``CompactionTask``, portable by ``json()``). No effect.

    On a branch only its own fragments are merged; inherited ones are compacted on the parent. A
    fragment with a blob that is too large to be rewritten in memory is left alone; ``limits`` are
    those of ``compaction_limits``, which are looked up if they are not given.
    """
    inherited = _inherited(table)
    limits = blob_limits(table, inherited) if limits is None else limits
    options: dict[str, Any] = {
        **COMPACTION,
        "excluded_fragment_ids": [*inherited, *limits.too_large],
    }
    if limits.batch_rows is not None:
        options["batch_size"] = min(limits.batch_rows, _BATCH_ROWS)
    with lance_errors(f"planning the compaction of {table.ref}"):
        return list(lance_module("optimize").Compaction.plan(table.dataset, options).tasks)


def compaction_limits(table: Table) -> BlobLimits:
    """What the blobs of the fragments that may be merged allow."""
    return blob_limits(table, _inherited(table))


def _inherited(table: Table) -> list[int]:
    """The fragments of a branch with a data file in the directory of another one."""
    return [
        fragment.id
        for fragment in table.fragments()
        if any(file.base_id is not None for file in fragment.files)
    ]


def run_compaction_task(table: Table, task: Any) -> Any:
    """Rewrite the fragments of one task on the version it was planned for. HEAD does not move."""
    with lance_errors(f"compacting {table.ref}"):
        return task.execute(table.dataset)


def commit_compaction(table: Table, results: Sequence[Any]) -> Compacted:
    """Put compacted fragments in place. HEAD moves by *two* versions and the UUIDs are Lance's.

    On main only. On a branch Lance would look for the BTREEs it rewrote in the parent's directory,
    and indexed reads and upserts would fail: use ``rewriting.stage_rewritten`` there.
    """
    if table.ref.branch is not None:
        raise ValueError(f"{table.ref} is a branch, which Lance's own compaction would damage")
    if not results:
        return Compacted(table, 0, 0)
    dataset = _own_handle(table)
    with lance_errors(f"compacting {table.ref}"):
        metrics = lance_module("optimize").Compaction.commit(dataset, list(results))
        dataset.checkout_latest()
    return Compacted(Table(table.ref, dataset), metrics.fragments_removed, metrics.fragments_added)


def compact(table: Table) -> Compacted:
    """Plan, rewrite and commit in this process, on main. Without work no version is made."""
    tasks = plan_compaction(table)
    return commit_compaction(table, [run_compaction_task(table, task) for task in tasks])


def optimize_indices(
    table: Table, names: Iterable[str] | None = None, parts: int | None = None
) -> Table:
    """Bring indexes up to date with the rows added since they were built, without retraining.

    New rows are merged with the newest ``parts`` of each index; Lance chooses how many by default.
    At least one is merged: otherwise stale hits for updated rows would remain.
    """
    chosen: dict[str, Any] = {} if names is None else {"index_names": list(names)}

    def optimize(dataset: Any) -> None:
        if parts is None:
            dataset.optimize.optimize_indices(**chosen)
        else:
            dataset.optimize.optimize_indices(num_indices_to_merge=max(1, parts), **chosen)

    return _moved(table, "optimizing the indexes of", optimize)


def fold_indexes(table: Table) -> Table:
    """Extend every index to the fragments it does not cover. Without work no version is made.

    A BTREE ends up as one part, and so does a vector index that had too many parts.
    """
    uncovered: dict[int | None, list[str]] = {}
    for state in list_indexes(table):
        if state.tail:
            many = state.kind is IndexKind.VECTOR and state.segments > MOST_VECTOR_PARTS
            whole = many or state.kind is IndexKind.BTREE
            uncovered.setdefault(state.segments if whole else None, []).append(state.name)
    for parts, names in uncovered.items():
        table = optimize_indices(table, names, parts)
    return table


# ------------------------------------------------------------------ metadata


def set_schema_metadata(table: Table, values: Mapping[str, str]) -> Table:
    """Set entries of the schema's own metadata; others stay."""
    return _moved(
        table,
        "stamping",
        lambda dataset: dataset.update_schema_metadata(dict(values)),
    )


def set_field_metadata(table: Table, column: str, values: Mapping[str, str]) -> Table:
    """Set entries of one column's metadata; others stay."""
    return _moved(
        table,
        f"annotating column {column} of",
        lambda dataset: dataset.update_field_metadata({column: dict(values)}),
    )


# ------------------------------------------------------------------ history


@dataclass(frozen=True, slots=True)
class Cleaned:
    """What a cleanup removed."""

    bytes_removed: int
    versions_removed: int


def cleanup_versions(table: Table, versions: Sequence[int]) -> Cleaned:
    """Remove exactly these versions of the table's branch, and the files only they used.

    Lance keeps what its own branches and tags need. It does not know which versions the graph's
    manifest pins: those must not be listed. The newest version cannot be removed. Files that no
    version uses and that are a week old (left behind by failed writes) are removed in any case.
    """
    with lance_errors(f"removing old versions of {table.ref}"):
        stats = open_table(table.ref.at(None)).dataset.cleanup_old_versions(
            # Lance refuses an empty list; there is never a version 0.
            versions=sorted(versions) or [0],
            error_if_tagged_old_versions=False,
        )
    return Cleaned(stats.bytes_removed, stats.old_versions)


def drop_table(ref: TableRef) -> None:
    """Delete a table with all its versions and branches; nothing happens when there is none."""
    with lance_errors(f"deleting the table {ref.uri}"):
        lance().LanceDataset.drop(
            ref.uri,
            storage_options=None if ref.storage_options is None else dict(ref.storage_options),
            ignore_not_found=True,
        )
