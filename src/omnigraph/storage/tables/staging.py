"""Staged writes: files are written and a transaction is prepared; no table changes.

Each ``stage_*`` function returns a ``Staged`` whose UUID is known before anything is committed, so
a recovery sidecar can name it. Only ``table_commits.commit_staged`` makes one visible.
"""

from __future__ import annotations

import dataclasses
import uuid as uuids
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from omnigraph.errors import StorageError
from omnigraph.storage.filters import Pushdown
from omnigraph.storage.tables.blobs.blob_columns import blob_columns, stored_form
from omnigraph.storage.tables.blobs.writing import Rows, write_apart
from omnigraph.storage.tables.lance_import import lance, lance_module
from omnigraph.storage.tables.row_places import RowPlace, find_places
from omnigraph.storage.tables.table import DATA_STORAGE_VERSION, Table
from omnigraph.storage.tables.table_errors import lance_errors
from omnigraph.storage.tables.table_ref import TableRef
from omnigraph.storage.tables.transactions import TransactionKind

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

MAX_ROWS_PER_FILE = 1_000_000
TOLD_ROWS = 64
"""Of up to this many removed rows a staged write says which they are."""
MAX_BYTES_PER_FILE = 512 << 20
_ANY_BYTES = 1 << 62


@dataclass(frozen=True, slots=True)
class RowCounts:
    """How many rows a staged write adds, changes and removes; None where that is not known here."""

    inserted: int | None = 0
    updated: int | None = 0
    deleted: int | None = 0


@dataclass(frozen=True, slots=True)
class Staged:
    """A prepared transaction on one version of one table and branch. It can be pickled."""

    ref: TableRef
    transaction: Any
    operation: TransactionKind
    rows: RowCounts
    removed_ids: tuple[str, ...] | None = None
    """The ids of the rows that it removes, if they are few; some may have no row. None: not known."""

    @property
    def uuid(self) -> str:
        """The UUID the transaction will carry in the table's history."""
        return str(self.transaction.uuid)

    @property
    def read_version(self) -> int:
        """The version it was staged on and must directly follow."""
        return int(self.transaction.read_version)

    @property
    def changes_nothing(self) -> bool:
        """Whether it is known to change no row at all; False for an index build."""
        return self.operation in _ROW_OPERATIONS and self.rows == RowCounts()

    def facts(self) -> dict[str, Any]:
        """What a sidecar records about it."""
        return {
            "transaction_uuid": self.uuid,
            "operation": str(self.operation),
            "read_version": self.read_version,
        }


_ROW_OPERATIONS = {TransactionKind.APPEND, TransactionKind.UPDATE, TransactionKind.DELETE}


def _staged(table: Table, operation: Any, kind: TransactionKind, rows: RowCounts) -> Staged:
    return Staged(table.ref, lance().Transaction(table.version, operation), kind, rows)


# ------------------------------------------------------------------ rows in


def write_fragments(
    table: Table,
    data: Rows,
    row_ids: pa.Array | None = None,
    mode: Literal["append", "overwrite"] = "append",
) -> list[Any]:
    """Write rows as new fragments for ``stage_append_fragments`` or ``stage_replace_rows``.

    ``row_ids`` (one per row, null for new rows) makes rewritten rows keep their stable ids. All
    ids must come before the first null; ascending ids keep the manifests small, which hold them.
    Rows with blobs to take in from files get fragments of their own, after the others.
    ``stage_overwrite_fragments`` takes fragments written in mode ``overwrite``.
    """
    data = _stored_form(table, data)
    if not blob_columns(table.schema):
        written = [(_write(table, data, mode), row_ids)]
    else:
        written = list(write_apart(data, row_ids, partial(_write, table, mode=mode)))
    for fragments, their_ids in written:
        if their_ids is not None:
            _keep_row_ids(fragments, their_ids)
    return [fragment for fragments, _ in written for fragment in fragments]


def _write(
    table: Table, data: Rows, mode: str, *, ingest: bool = False, by_rows: bool = False
) -> list[Any]:
    with lance_errors(f"writing rows for {table.ref}"):
        written: list[Any] = lance_module("fragment").write_fragments(
            data,
            table.dataset,
            mode=mode,
            max_rows_per_file=MAX_ROWS_PER_FILE,
            max_bytes_per_file=_ANY_BYTES if by_rows else MAX_BYTES_PER_FILE,
            data_storage_version=DATA_STORAGE_VERSION,
            external_blob_mode="ingest" if ingest else "reference",
            # Callers have already checked which addresses a blob may have.
            allow_external_blob_outside_bases=not ingest and bool(blob_columns(table.schema)),
        )
        return written


def _stored_form(table: Table, data: Rows) -> Rows:
    import pyarrow as pa

    return stored_form(data, table.schema) if isinstance(data, pa.Table) else data


def _keep_row_ids(fragments: Iterable[Any], row_ids: pa.Array) -> None:
    import pyarrow as pa

    given = len(row_ids) - row_ids.null_count
    ids = row_ids.cast(pa.uint64()).slice(0, given)
    if ids.null_count:
        raise ValueError("rows that keep their ids must come before new rows")
    sequence = lance_module("fragment").RowIdSequence
    start = 0
    for fragment in fragments:
        here = ids.slice(start, fragment.physical_rows)
        start += fragment.physical_rows
        if len(here):
            # Shorter than the fragment is allowed: the rest gets new ids at the commit.
            fragment.row_id_meta = sequence(here).to_inline_metadata()


def stage_append(table: Table, data: Rows) -> Staged:
    """Add rows without looking at their keys."""
    return stage_append_fragments(table, write_fragments(table, data))


def stage_append_fragments(table: Table, fragments: Sequence[Any]) -> Staged:
    """Add fragments written elsewhere with ``write_fragments``."""
    return _staged(
        table,
        lance().LanceOperation.Append(list(fragments)),
        TransactionKind.APPEND,
        RowCounts(inserted=_physical_rows(fragments)),
    )


def _physical_rows(fragments: Iterable[Any]) -> int:
    return sum(fragment.physical_rows for fragment in fragments)


def stage_overwrite(table: Table, data: Rows, schema: pa.Schema | None = None) -> Staged:
    """Replace all rows, and with ``schema`` the columns. Row ids and indexes do not survive.

    Without rows this is an overwrite with no fragments; stable row ids stay switched on.
    """
    written = write_fragments(table, data, mode="overwrite")
    return stage_overwrite_fragments(table, written, data.schema if schema is None else schema)


def stage_overwrite_fragments(table: Table, fragments: Sequence[Any], schema: pa.Schema) -> Staged:
    """``stage_overwrite`` with fragments written elsewhere in mode ``overwrite``, in that schema."""
    return _staged(
        table,
        lance().LanceOperation.Overwrite(schema, list(fragments)),
        TransactionKind.OVERWRITE,
        RowCounts(inserted=_physical_rows(fragments), deleted=table.count_rows()),
    )


# ------------------------------------------------------------------ upsert and delete by id


def stage_upsert(table: Table, data: pa.Table) -> Staged:
    """Upsert by id: rows with a known id replace theirs and keep its row id and creation, others are added.

    The rows have every column of the table, and no id comes twice.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    data = stored_form(data, table.schema)
    given = set(data.schema.names)
    missing = [name for name in table.schema.names if name not in given]
    if missing:
        raise StorageError(
            f"an upsert of {table.ref} needs every column; `{missing[0]}` is missing"
        )
    ids = data.column("id").combine_chunks()
    if pc.count_distinct(ids).as_py() < len(ids):
        raise StorageError(f"an upsert of {table.ref} has two rows of one id")
    stored = find_places(table, ids)
    place = pc.index_in(ids, stored.column("id").combine_chunks())
    row_ids = stored.column("_rowid").take(place).combine_chunks()
    order = pc.sort_indices(pa.table({"id": row_ids}), [("id", "ascending")])
    fragments = write_fragments(table, data.take(order), row_ids.take(order))
    if not stored.num_rows:
        return stage_append_fragments(table, fragments)
    return stage_replace_rows(table, stored.column("_rowaddr").to_numpy(), fragments)


def stage_delete_ids(table: Table, ids: pa.Array) -> Staged:
    """Delete the rows with these ids; ids without a row are passed over."""
    addresses = find_places(table, ids).column("_rowaddr").to_numpy()
    return dataclasses.replace(stage_replace_rows(table, addresses, []), removed_ids=_few(ids))


def _few(keys: pa.Array) -> tuple[str, ...] | None:
    """The ids of removed rows, unless there are too many to be told one by one."""
    return tuple(keys.to_pylist()) if len(keys) <= TOLD_ROWS else None


def stage_delete(table: Table, where: Pushdown) -> Staged:
    """Delete the rows that satisfy a filter."""
    matched = table.read([], where, with_row_address=True).column("_rowaddr")
    updated, removed = _without_rows(table, matched.to_numpy())
    return _staged(
        table,
        lance().LanceOperation.Delete(updated, removed, where.sql),
        TransactionKind.DELETE,
        RowCounts(deleted=len(matched)),
    )


def stage_replace_rows(
    table: Table, addresses: npt.NDArray[np.uint64], fragments: Sequence[Any]
) -> Staged:
    """Delete the rows at these addresses and add fragments, in one transaction.

    This is the merge for rows written elsewhere: ``addresses`` are the ``_rowaddr`` of every row
    that is deleted or rewritten, ``fragments`` come from ``write_fragments`` with row ids.
    """
    updated, removed = _without_rows(table, addresses)
    return stage_update(table, updated, removed, fragments, len(addresses))


def stage_replace_row(table: Table, place: RowPlace, data: pa.Table) -> Staged:
    """Put the first of some rows in the place of one, whose row id it keeps, and add the others."""
    import numpy as np
    import pyarrow as pa

    row_ids = pa.array([place.row_id, *[None] * (len(data) - 1)], pa.uint64())
    fragments = write_fragments(table, data, row_ids)
    return stage_replace_rows(table, np.array([place.address], np.uint64), fragments)


def stage_update(
    table: Table,
    updated: Sequence[Any],
    removed: Sequence[int],
    fragments: Sequence[Any],
    dropped: int,
) -> Staged:
    """Like ``stage_replace_rows``, after ``drop_rows`` removed ``dropped`` rows in another process.

    ``updated`` is what it returned, ``removed`` are the numbers of fragments left without rows.
    """
    operation = lance().LanceOperation.Update(
        removed_fragment_ids=list(removed),
        updated_fragments=list(updated),
        new_fragments=list(fragments),
        # Left empty (the default), indexes would claim to cover the new fragments: searches then
        # miss the new rows and still find the old ones, silently.
        fields_for_preserving_frag_bitmap=field_numbers(table.dataset.lance_schema.fields()),
        update_mode="rewrite_rows",
    )
    replaced = sum(map(_replaced_rows, fragments))
    counts = RowCounts(_physical_rows(fragments) - replaced, replaced, dropped - replaced)
    return _staged(table, operation, TransactionKind.UPDATE, counts)


def _replaced_rows(fragment: Any) -> int:
    return len(row_ids_of(fragment))


def row_ids_of(fragment: Any) -> pa.Array:
    """The row ids that ``write_fragments`` made the first rows of a fragment keep."""
    import pyarrow as pa

    if fragment.row_id_meta is None:
        return pa.array([], pa.uint64())
    sequence = lance_module("fragment").RowIdSequence.from_inline_metadata(fragment.row_id_meta)
    return sequence.to_pyarrow()


def _without_rows(table: Table, addresses: npt.NDArray[np.uint64]) -> tuple[list[Any], list[int]]:
    """Fragments with new deletion vectors, and the ids of those left without rows."""
    import numpy as np

    addresses = np.sort(np.asarray(addresses, dtype=np.uint64))
    numbers, starts, counts = np.unique(
        addresses >> np.uint64(32), return_index=True, return_counts=True
    )
    offsets = addresses & np.uint64(0xFFFF_FFFF)
    updated: list[Any] = []
    removed: list[int] = []
    for number, start, count in zip(numbers.tolist(), starts, counts, strict=True):
        fragment = drop_rows(table, number, offsets[start : start + count].tolist())
        if fragment is None:
            removed.append(number)
        else:
            updated.append(fragment)
    return updated, removed


def drop_rows(table: Table, number: int, offsets: Sequence[int]) -> Any:
    """A fragment without the rows at these offsets; None when none would be left."""
    with lance_errors(f"staging a delete of {table.ref}"):
        return table.dataset.get_fragment(number).delete_rows(list(offsets))


def field_numbers(fields: Iterable[Any]) -> list[int]:
    """Lance's numbers of fields and of the fields inside them, in its order."""
    return [number for field in fields for number in (field.id(), *field_numbers(field.children()))]


# ------------------------------------------------------------------ identity


def new_transaction_uuid() -> str:
    """A UUID for ``with_uuid``, to be recorded before the write it will belong to is staged."""
    return str(uuids.uuid4())


def with_uuid(staged: Staged, uuid: str) -> Staged:
    """The same write with a UUID chosen beforehand.

    The first write to a table on a branch needs it: its files must be in the directory of the
    fork, so it can be staged only once the fork exists, which is after the sidecar was written.
    """
    transaction = dataclasses.replace(staged.transaction, uuid=uuid)
    return dataclasses.replace(staged, transaction=transaction)
