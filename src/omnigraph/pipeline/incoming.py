"""Incoming rows on their way to a table: ids made, vectors filled, kept on disk between passes.

A frame may be read more than once (validation, then writing, then perhaps again on a fork), so rows
are spooled as Arrow; memory does not grow with their number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnigraph.lang.schema.catalog import EdgeType, NodeType
from omnigraph.pipeline.batches import OFFSET, SOURCE
from omnigraph.storage.blobs import blob_array
from omnigraph.validate.change_set import ORDER

if TYPE_CHECKING:
    import pyarrow as pa

Entity = NodeType | EdgeType

SOURCE_SHIFT = 48
"""A record's order is its source index above its byte offset, in one 64-bit number."""


def record_order(batch: pa.RecordBatch) -> pa.Array:
    """One number per record: the greatest is the last record of the input."""
    import pyarrow as pa
    import pyarrow.compute as pc

    shifted = pc.shift_left(batch.column(SOURCE).cast(pa.int64()), SOURCE_SHIFT)
    return pc.bit_wise_or(shifted, batch.column(OFFSET))


def place_of(order: int) -> tuple[int, int]:
    """The source index and offset behind a record's order."""
    return order >> SOURCE_SHIFT, order & ((1 << SOURCE_SHIFT) - 1)


class Incoming:
    """The incoming rows of one table, in a file of Arrow batches."""

    def __init__(self, entity: Entity, path: Path) -> None:
        self.entity = entity
        self.rows = 0
        self._path = path
        self._writer: Any = None

    def add(self, batch: pa.RecordBatch) -> None:
        """Append rows: `id`, implicit columns, properties, and the order column."""
        import pyarrow as pa

        if self._writer is None:
            self._writer = pa.ipc.new_stream(str(self._path), batch.schema)
        self._writer.write_batch(batch)
        self.rows += batch.num_rows

    def finish(self) -> None:
        """End the writing; from now on the rows can be read."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def replace_text(self, spellings: Mapping[str, Mapping[str, str]]) -> None:
        """Replace values of text columns (column to old to new) in every row."""
        import pyarrow as pa

        old, self._path = self._path, self._path.with_suffix(".changed")
        self.rows = 0
        for batch in _read(old):
            changed = batch
            for column, wanted in spellings.items():
                at = batch.schema.get_field_index(column)
                values = [wanted.get(value, value) for value in batch.column(at).to_pylist()]
                changed = changed.set_column(
                    at, batch.schema.field(at), pa.array(values, pa.utf8())
                )
            self.add(changed)
        self.finish()
        old.unlink()

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """All batches, or some of their columns."""
        for batch in _read(self._path):
            yield batch if columns is None else batch.select(list(columns))

    def reader(self, columns: Sequence[str]) -> pa.RecordBatchReader:
        """Some columns as a stream."""
        import pyarrow as pa

        with pa.memory_map(str(self._path)) as file, pa.ipc.open_stream(file) as opened:
            schema = pa.schema([opened.schema.field(name) for name in columns])
        return pa.RecordBatchReader.from_batches(schema, self.batches(columns))

    def stored(self, schema: pa.Schema, without: pa.Array | None = None) -> pa.RecordBatchReader:
        """The rows as their table stores them, leaving out the records named by their order."""
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(schema, self._stored(schema, without))

    def _stored(self, schema: pa.Schema, without: pa.Array | None) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        import pyarrow.compute as pc

        blobs = set(self.entity.blob_properties)
        for whole in self.batches():
            batch = whole
            if without is not None and len(without):
                batch = whole.filter(pc.invert(pc.is_in(whole.column(ORDER), without)))
            columns = [
                _blob(batch.column(field.name)) if field.name in blobs else batch.column(field.name)
                for field in schema
            ]
            yield pa.RecordBatch.from_arrays(
                [column.cast(field.type) if column.type != field.type else column
                 for column, field in zip(columns, schema, strict=True)],
                schema=schema,
            )  # fmt: skip


def _read(path: Path) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    with pa.memory_map(str(path)) as file, pa.ipc.open_stream(file) as reader:
        yield from reader


def _blob(column: pa.Array) -> pa.Array:
    import pyarrow.compute as pc

    return blob_array(pc.struct_field(column, "data"), pc.struct_field(column, "uri"))
