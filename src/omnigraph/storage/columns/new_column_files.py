"""Files with the values of one new column, written beside the files that the fragments of a table have.

A fragment may consist of several files, each with some of its columns. So a column gets other values
without a copy of the others: one file for each fragment, with a value for each of its rows in their order,
deleted ones included.

Lance counts every row of a fragment as changed when a ``Merge`` brings a file with values. An ``Update`` that
moves no row brings it without that: rows keep their ids and both row-version stamps, and the indexes of other
columns still cover the fragment (pylance 14).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from omnigraph.cores import usable_cores
from omnigraph.storage.tables.lance_import import lance, lance_module
from omnigraph.storage.tables.loose_files import remove_loose_files
from omnigraph.storage.tables.staging import RowCounts, Staged, field_numbers
from omnigraph.storage.tables.table import DATA_STORAGE_VERSION, Table
from omnigraph.storage.tables.table_errors import lance_errors
from omnigraph.storage.tables.transactions import TransactionKind

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS: Final = 65_536
_IO_BUFFER_BYTES: Final = 32 << 20
# One file for each fragment. Lance keeps 32 bits of the number of rows.
_MAX_ROWS: Final = (1 << 32) - 1
_MAX_BYTES: Final = 1 << 50

ColumnFiles = Mapping[int, Any]
"""Data files of Lance by the number of their fragment."""


def cast_column(table: Table, column: str, field: pa.Field) -> ColumnFiles:
    """Write the values of a column as those of another type, which holds all of them."""

    def batches(fragment: Any) -> Iterator[pa.Array]:
        reader = table.scan(
            [column],
            # With deleted rows, which Lance gives only along with row ids.
            with_row_id=True,
            include_deleted_rows=True,
            fragment_ids=[fragment.id],
            batch_size=BATCH_ROWS,
            io_buffer_size=_IO_BUFFER_BYTES,
        )
        for batch in reader:
            yield batch.column(column).cast(field.type)

    return _written(table, field, batches)


def repeated_value(table: Table, field: pa.Field, value: pa.Scalar) -> ColumnFiles:
    """Write one value for all rows."""
    import pyarrow as pa

    # `pa.repeat` of the value itself is slow where that is a list (pyarrow 26).
    repeated = pa.repeat(value, 1).take(pa.repeat(0, BATCH_ROWS))

    def batches(fragment: Any) -> Iterator[pa.Array]:
        for start in range(0, fragment.physical_rows, BATCH_ROWS):
            yield repeated.slice(0, min(BATCH_ROWS, fragment.physical_rows - start))

    return _written(table, field, batches)


def _written(
    table: Table, field: pa.Field, batches: Callable[[Any], Iterator[pa.Array]]
) -> ColumnFiles:
    """Write one file for each fragment, some of them at the same time; after a failure, none is left."""
    import pyarrow as pa

    # What the rows of a file may lack is decided by the schema of the table, not by that of the file.
    schema = pa.schema([field.with_nullable(True)])
    written: dict[int, Any] = {}

    def write(fragment: Any) -> None:
        rows = (pa.RecordBatch.from_arrays([array], schema=schema) for array in batches(fragment))
        with lance_errors(f"writing values of {field.name} for {table.ref}"):
            (written[fragment.id],) = lance_module("fragment").write_fragments(
                pa.RecordBatchReader.from_batches(schema, rows),
                table.dataset,
                mode="overwrite",
                max_rows_per_file=_MAX_ROWS,
                max_bytes_per_file=_MAX_BYTES,
                data_storage_version=DATA_STORAGE_VERSION,
            )

    fragments = table.fragments()
    try:
        with ThreadPoolExecutor(max(1, min(usable_cores(), len(fragments)))) as pool:
            for done in [pool.submit(write, fragment) for fragment in fragments]:
                done.result()
    except BaseException:
        remove_loose_files(table.ref, (), written.values())
        raise
    return {number: fragment.files[0] for number, fragment in written.items()}


def numbered(files: ColumnFiles, lance_field: Any) -> ColumnFiles:
    """The files with the numbers that a column and the fields inside it have in a schema of the table."""
    numbers = field_numbers([lance_field])
    for file in files.values():
        file.fields = [numbers[position] for position in file.fields]
    return files


def with_files(table: Table, *columns: ColumnFiles) -> list[Any]:
    """The fragments of the table, each with the files that are written for it."""
    fragments = table.fragments()
    for fragment in fragments:
        new = [files[fragment.id] for files in columns if fragment.id in files]
        fragment.files = [*fragment.files, *new]
    return fragments


def stage_files(table: Table, *columns: ColumnFiles) -> Staged:
    """Stage the values of columns that the table has already; no row counts as changed."""
    operation = lance().LanceOperation.Update(
        updated_fragments=with_files(table, *columns),
        fields_for_preserving_frag_bitmap=field_numbers(table.dataset.lance_schema.fields()),
        update_mode="rewrite_rows",
    )
    transaction = lance().Transaction(table.version, operation)
    return Staged(table.ref, transaction, TransactionKind.UPDATE, RowCounts())
