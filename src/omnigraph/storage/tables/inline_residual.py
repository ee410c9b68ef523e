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

from omnigraph.storage.tables.indexing.index_kinds import describe
from omnigraph.storage.tables.indexing.table_indexes import list_indexes
from omnigraph.storage.tables.lance_import import lance
from omnigraph.storage.tables.table import Table, open_table, table_of
from omnigraph.storage.tables.table_errors import TableMissing, TableMoved, lance_errors
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
        return table_of(table.ref, dataset)


# ------------------------------------------------------------------ indexes


def optimize_indices(
    table: Table, names: Iterable[str] | None = None, parts: int | None = None
) -> Table:
    """Bring indexes up to date with the rows added since they were built, without retraining.

    New rows are merged with the newest ``parts`` of each index; Lance chooses how many by default.
    With 0 they become a part of their own, which only BTREEs and vector indexes allow: other kinds
    would go on finding rows as they were before an update.
    """
    chosen: dict[str, Any] = {} if names is None else {"index_names": list(names)}
    if parts == 0:
        _refuse_other_kinds(table, chosen.get("index_names"))
    if parts is not None:
        chosen["num_indices_to_merge"] = parts
    return _moved(
        table,
        "optimizing the indexes of",
        lambda dataset: dataset.optimize.optimize_indices(**chosen),
    )


def _refuse_other_kinds(table: Table, names: Sequence[str] | None) -> None:
    for state in list_indexes(table):
        in_parts = state.kind is not None and describe(state.kind).takes_new_part
        if not in_parts and (names is None or state.name in names):
            raise ValueError(f"the index {state.name} of {table.ref} is extended by merging only")


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


def purge_versions(ref: TableRef, below: int) -> Cleaned:
    """Remove every version of the table before version ``below``, with the files only they used.

    The newest version stays in any case, and so do versions that a Lance branch or a Lance tag
    needs. Nothing happens when there is nothing to remove, or no table.
    """
    try:
        table = open_table(ref.on(None))
    except TableMissing:
        return Cleaned(0, 0)
    doomed = [version for version in table.versions() if version < min(below, table.version)]
    return cleanup_versions(table, doomed) if doomed else Cleaned(0, 0)


def purge_table(ref: TableRef) -> None:
    """Remove a table with all its versions, branches and files. There may be none."""
    drop_table(ref.on(None))
