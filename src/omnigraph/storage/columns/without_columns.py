"""Write the fragments of a table again without the bytes of dropped columns, or of deleted rows.

Dropping a column changes the schema only: its bytes stay in the data files. A hard drop rewrites
every fragment that has them, as one transaction, and then purges the old versions. A purge of
entities does the same with fragments that have their rows. Rows keep their ids and both row-version
stamps; deleted rows are left out; blobs are copied byte for byte.

Lance derives ids and stamps by itself in an update, but not in a rewrite: fragments written anew have
none of them, and deltas would then miss changes silently. So they are carried over here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

from omnigraph.lang.schema.indexes import IndexKind
from omnigraph.storage.columns.stage_schema import ColumnChanges
from omnigraph.storage.lance_format.row_versions import encoded, runs_of
from omnigraph.storage.tables.blobs.blob_columns import as_blobs, blob_columns
from omnigraph.storage.tables.blobs.carry import ADDRESS, carried_blobs, is_external
from omnigraph.storage.tables.indexing.index_kinds import follows_rewrites
from omnigraph.storage.tables.indexing.table_indexes import (
    Coverage,
    coverage,
    list_indexes,
    stage_create_index,
)
from omnigraph.storage.tables.lance_import import lance, lance_module
from omnigraph.storage.tables.loose_files import remove_loose_files
from omnigraph.storage.tables.staging import RowCounts, Staged, field_numbers
from omnigraph.storage.tables.table import DATA_STORAGE_VERSION, Table
from omnigraph.storage.tables.table_errors import lance_errors
from omnigraph.storage.tables.transactions import TransactionKind, last_fragment_number

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa


ROW_ID: Final = "_rowid"
CREATED: Final = "_row_created_at_version"
CHANGED: Final = "_row_last_updated_at_version"
STAMPS: Final = (ROW_ID, CREATED, CHANGED)


class RowStamps:
    """Collects the stamps of rows in the order in which they are written."""

    def __init__(self) -> None:
        self._seen: dict[str, list[npt.NDArray[np.uint64]]] = {name: [] for name in STAMPS}

    def add(self, batch: pa.RecordBatch) -> None:
        """Remember the stamps of a batch that was read with the columns of ``STAMPS``."""
        for name, seen in self._seen.items():
            seen.append(batch.column(name).to_numpy(zero_copy_only=False))

    def put_on(self, fragment: Any) -> None:
        """Make the rows of a new fragment the rows that were collected."""
        import numpy as np
        import pyarrow as pa

        stamps = {name: np.concatenate(seen) for name, seen in self._seen.items()}
        lance_fragment = lance_module("fragment")
        ids = lance_fragment.RowIdSequence(pa.array(stamps[ROW_ID], pa.uint64()))
        fragment.row_id_meta = ids.to_inline_metadata()
        created, changed = (
            lance_fragment.RowDatasetVersionMeta.from_json(encoded(runs_of(stamps[name])))
            for name in (CREATED, CHANGED)
        )
        fragment.created_at_version_meta, fragment.last_updated_at_version_meta = created, changed


# Rows read at a time. A value inside a data file has at most 64 KiB, so a batch of a Blob column
# has at most 16 MiB.
BATCH_ROWS: Final = 4_096
BLOB_BATCH_ROWS: Final = 256
# What Lance may read ahead of the rows it has handed out; 2 GiB by default.
IO_BUFFER_BYTES: Final = 32 << 20
# One file per call: the stamps of the rows are put on it as a whole. Lance keeps 32 bits of the number
# of rows, so that a larger limit may be none at all or zero, which makes a file of every batch.
_MAX_ROWS: Final = (1 << 32) - 1
_MAX_BYTES: Final = 1 << 50


def rewrite_without(
    table: Table, changes: ColumnChanges
) -> Callable[[Table], Staged | None] | None:
    """Write every fragment whose files have bytes of dropped columns again, without them.

    Bytes of columns that were dropped before go too: the purge of a hard drop removes every version
    that could still read them.

    The files are written now, because it may take long and fail; the step that is returned only
    stages their transaction, on the table without the columns. None when no file has such bytes.
    Only where other columns get values in the same change the files are written by that step, from
    the table that has them. BTREEs do not cover the new fragments until they are built again: see
    ``index_stages``.
    """
    if changes.writes_values:
        return _rewrite_later if table.count_fragments() else None
    new = _rewrite(table, [name for name in table.schema.names if name not in changes.dropped])
    return (lambda shortened: _stage(shortened, new)) if new else None


def rewrite_rows(
    table: Table, fragment_ids: Iterable[int], dropped: npt.NDArray[np.uint64]
) -> Callable[[Table], Staged | None] | None:
    """Write fragments again without their deleted rows, and without the rows at these addresses.

    The files are written now. The step that is returned stages their transaction on the table from which the
    rows at the addresses have been deleted, so that it changes no row. None when no fragment keeps any row.
    """
    chosen, new = set(fragment_ids), dict[int, list[Any]]()
    names = table.schema.names
    try:
        for fragment in table.fragments():
            if fragment.id in chosen:
                written: list[Any] = []
                new[fragment.id] = written
                written.extend(_rewritten(table, fragment, names, dropped))
    except BaseException:
        remove_loose_files(table.ref, (), (one for group in new.values() for one in group))
        raise
    kept = {number: written for number, written in new.items() if written}
    return (lambda after: _stage(after, kept)) if kept else None


def _rewrite_later(table: Table) -> Staged | None:
    new = _rewrite(table, table.schema.names)
    return _stage(table, new) if new else None


def _rewrite(table: Table, columns: Sequence[str]) -> dict[int, list[Any]]:
    """Write the fragments that have bytes of other columns: new ones by the number of the old one."""
    live = set(_numbers_of(table, columns))
    new: dict[int, list[Any]] = {}
    try:
        for fragment in table.fragments():
            if any(set(file.fields) - live for file in fragment.files):
                new[fragment.id] = []
                for written in _rewritten(table, fragment, columns):
                    new[fragment.id].append(written)
    except BaseException:
        remove_loose_files(table.ref, (), (one for group in new.values() for one in group))
        raise
    return new


def _stage(table: Table, new: Mapping[int, Sequence[Any]]) -> Staged:
    """Stage the new fragments in place of those with these numbers."""
    operation = lance().LanceOperation
    number = last_fragment_number(table)
    groups = []
    for fragment in table.fragments():
        if fragment.id not in new:
            continue
        for one in new[fragment.id]:
            # Numbered here, because Lance would record number 0 in the indexes.
            number += 1
            one.id = number
        groups.append(operation.RewriteGroup([fragment], list(new[fragment.id])))
    rewrite = operation.Rewrite(groups=groups, rewritten_indices=[])
    transaction = lance().Transaction(table.version, rewrite)
    return Staged(table.ref, transaction, TransactionKind.REWRITE, RowCounts())


def index_stages(
    table: Table, changes: ColumnChanges, *, rewritten: bool
) -> tuple[Callable[[Table], Staged | None], ...]:
    """One step for each index that stays and that Lance does not extend to the new columns or fragments.

    ``rewritten``: whether rows were written anew (``rewrite_without``). For best-effort steps: each has a UUID,
    and queries are right without.
    """
    return tuple(
        _build_again(changes.name_of(state.column), state.kind)
        for state in list_indexes(table)
        if state.kind is not None
        and changes.keeps_values_of(state.column)
        and (state.column in changes.widened or (rewritten and not follows_rewrites(state.kind)))
    )


def _build_again(column: str, kind: IndexKind) -> Callable[[Table], Staged | None]:
    def stage(table: Table) -> Staged | None:
        if coverage(table, column, kind) is Coverage.INDEXED:
            return None
        return stage_create_index(table, column, kind)

    return stage


def _numbers_of(table: Table, columns: Iterable[str]) -> list[int]:
    """The numbers of columns and of the fields inside them, in the order of the columns."""
    fields = {field.name(): field for field in table.dataset.lance_schema.fields()}
    return field_numbers(fields[name] for name in columns)


# ------------------------------------------------------------------ one fragment


def _rewritten(
    table: Table,
    fragment: Any,
    names: Sequence[str],
    dropped: npt.NDArray[np.uint64] | None = None,
) -> Iterator[Any]:
    """These columns of a fragment in new fragments: one for each set of external Blob columns.

    Rows at the addresses ``dropped`` are left out.

    Lance decides for a whole call whether addresses are kept or their bytes copied. So external
    values go into a file of their own, which then has them for all its rows.
    """
    blobs = [name for name in blob_columns(table.schema) if name in names]
    for pattern in _patterns(table, fragment, blobs, dropped):
        as_addresses = [name for at, name in enumerate(blobs) if pattern >> at & 1]
        copied = [name for name in names if name not in as_addresses]
        rows = _Rows(table, fragment, blobs, pattern, dropped)
        stamps = RowStamps()
        written = rows.write(copied, stamps, ingest=bool(blobs))
        if as_addresses:
            written.files = [*written.files, *rows.write(as_addresses, None, ingest=False).files]
        stamps.put_on(written)
        yield written


def _patterns(
    table: Table,
    fragment: Any,
    blobs: Sequence[str],
    dropped: npt.NDArray[np.uint64] | None = None,
) -> list[int]:
    """Which sets of Blob columns are external in some row; bit n stands for the n-th column."""
    import pyarrow.compute as pc

    if not blobs:
        lost = 0 if dropped is None else int((dropped >> 32 == fragment.id).sum())
        return [0] if fragment.num_rows > lost else []
    found: set[int] = set()
    for batch in table.scan(
        blobs, with_row_address=True, fragment_ids=[fragment.id], batch_size=BATCH_ROWS
    ):
        found.update(pc.unique(_pattern(_without(batch, dropped), blobs)).to_pylist())
    return sorted(found)


def _without(batch: pa.RecordBatch, dropped: npt.NDArray[np.uint64] | None) -> pa.RecordBatch:
    """The rows of a batch that are not at these addresses."""
    import numpy as np
    import pyarrow as pa

    if dropped is None:
        return batch
    stays = ~np.isin(batch.column(ADDRESS).to_numpy(zero_copy_only=False), dropped)
    return batch if stays.all() else batch.filter(pa.array(stays))


def _pattern(batch: pa.RecordBatch, blobs: Sequence[str]) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    bits = [
        pc.multiply(pc.cast(is_external(batch.column(name)), pa.int64()), 1 << at)
        for at, name in enumerate(blobs)
    ]
    return reduce(pc.add, bits)


class _Rows:
    """The rows of a fragment that have the same set of external columns."""

    def __init__(
        self,
        table: Table,
        fragment: Any,
        blobs: Sequence[str],
        pattern: int,
        dropped: npt.NDArray[np.uint64] | None,
    ) -> None:
        self.table = table
        self.dropped = dropped
        self.fragment = fragment
        self.blobs = list(blobs)
        self.pattern = pattern

    def write(self, columns: Sequence[str], stamps: RowStamps | None, *, ingest: bool) -> Any:
        """Write these columns of the rows into one file, and collect the stamps of the rows."""
        import pyarrow as pa

        stored = self.table.schema  # asked for once: it is made anew each time
        schema = pa.schema([stored.field(name) for name in columns])
        with lance_errors(f"rewriting {self.table.ref} without what was dropped"):
            (written,) = lance_module("fragment").write_fragments(
                pa.RecordBatchReader.from_batches(schema, self._batches(columns, schema, stamps)),
                self.table.dataset,
                # Only so may columns be missing that no row may be without. Fields are numbered
                # from 0 on; `_renumber` puts their own numbers back.
                mode="overwrite",
                max_rows_per_file=_MAX_ROWS,
                max_bytes_per_file=_MAX_BYTES,
                data_storage_version=DATA_STORAGE_VERSION,
                external_blob_mode="ingest" if ingest else "reference",
                allow_external_blob_outside_bases=not ingest,
            )
        self._renumber(written, columns)
        return written

    def _renumber(self, written: Any, columns: Sequence[str]) -> None:
        numbers = _numbers_of(self.table, columns)
        for file in written.files:
            file.fields = [numbers[position] for position in file.fields]

    def _batches(
        self, columns: Sequence[str], schema: pa.Schema, stamps: RowStamps | None
    ) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        import pyarrow.compute as pc

        wanted = [*dict.fromkeys([*columns, *self.blobs]), *STAMPS[1:]]
        reader = self.table.scan(
            wanted,
            with_row_id=True,
            with_row_address=True,
            fragment_ids=[self.fragment.id],
            batch_size=BLOB_BATCH_ROWS if self.blobs else BATCH_ROWS,
            batch_readahead=2,
            io_buffer_size=IO_BUFFER_BYTES,
        )
        for batch in reader:
            rows = _without(batch, self.dropped)
            if self.blobs:
                rows = rows.filter(pc.equal(_pattern(rows, self.blobs), self.pattern))
            if not rows.num_rows:
                continue
            if stamps is not None:
                stamps.add(rows)
            arrays = [
                as_blobs(carried_blobs(self.table, name, rows.column(name), rows.column(ADDRESS)))
                if name in self.blobs
                else rows.column(name)
                for name in columns
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)
