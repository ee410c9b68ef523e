"""Rows whose vectors are made from their texts: which are wanted, kept from the table, and filled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.lang.schema.catalog import Entity
from omnigraph.pipeline.rows.stored_rows import drop_losers
from omnigraph.pipeline.rows.vector_spool import VectorSpool
from omnigraph.storage.tables.row_places import find_places
from omnigraph.storage.tables.table import Table, open_table
from omnigraph.storage.tables.table_ref import TableRef
from omnigraph.types.columns import put_values

FILLED_BYTES = 32 << 20
"""Vectors of about this number of bytes are put into rows at a time."""


def is_wanted(entity: Entity, name: str, batch: pa.RecordBatch) -> pa.Array:
    """Return which rows have a text and no vector of it."""
    source = entity.embeds[name].source
    return pc.and_(batch.column(name).is_null(), batch.column(source).is_valid())


def count_wanted(entity: Entity, batch: pa.RecordBatch) -> int:
    """Return how many vectors of a batch are null although their text is there."""
    counts = (pc.sum(is_wanted(entity, name, batch)).as_py() for name in entity.embeds)
    return sum(count or 0 for count in counts)


def wanted_texts(
    entity: Entity, batches: Iterable[pa.RecordBatch]
) -> Iterator[tuple[str, pa.Array]]:
    """Yield the texts whose vectors are wanted, by the name of the vector property."""
    for batch in batches:
        for name, embed in entity.embeds.items():
            texts = batch.column(embed.source).filter(is_wanted(entity, name, batch))
            if len(texts):
                yield name, texts


def judgeable(entity: Entity, batch: pa.RecordBatch) -> pa.Table:
    """Return a batch for the row rules: a required vector counts as there where its text is."""
    rows = pa.Table.from_batches([batch])
    for name, embed in entity.embeds.items():
        if entity.properties[name].type.nullable or not batch.column(name).null_count:
            continue
        there = pc.or_(batch.column(name).is_valid(), batch.column(embed.source).is_valid())
        at = rows.schema.get_field_index(name)
        rows = rows.set_column(at, name, pc.if_else(there, True, pa.scalar(None, pa.bool_())))
    return rows


def keep_stored(entity: Entity, batch: pa.RecordBatch, table: Table) -> Iterator[pa.RecordBatch]:
    """Yield the rows with the vectors that the table has for the same ids and the same texts."""
    wanted = np.zeros(batch.num_rows, np.bool_)
    for name in entity.embeds:
        wanted |= is_wanted(entity, name, batch).to_numpy(zero_copy_only=False)
    if not wanted.any():
        yield batch
        return
    found = find_places(table, batch.column("id").filter(pa.array(wanted)))
    place = pc.index_in(batch.column("id"), found.column("id").combine_chunks())
    row_ids = found.column("_rowid").combine_chunks().take(place)
    for start, part in slices(entity, batch):
        yield _with_stored(entity, part, row_ids.slice(start, part.num_rows), table)


def _with_stored(
    entity: Entity, batch: pa.RecordBatch, row_ids: pa.Array, table: Table
) -> pa.RecordBatch:
    for name, embed in entity.embeds.items():
        asked = pc.and_(is_wanted(entity, name, batch), row_ids.is_valid())
        places = np.flatnonzero(asked.to_numpy(zero_copy_only=False))
        if not len(places):
            continue
        ids = row_ids.take(pa.array(places)).to_pylist()
        texts = table.take(ids, [embed.source]).column(0).combine_chunks()
        same = pc.equal(texts, batch.column(embed.source).take(pa.array(places))).fill_null(False)
        places = places[same.to_numpy(zero_copy_only=False)]
        if not len(places):
            continue
        ids = row_ids.take(pa.array(places)).to_pylist()
        stored = table.take(ids, [name]).column(0).combine_chunks()
        batch = _put(batch, name, places, stored)
    return batch


def fill(entity: Entity, batch: pa.RecordBatch, made: VectorSpool) -> Iterator[pa.RecordBatch]:
    """Yield the rows with the vectors that were made of their texts."""
    for _, part in slices(entity, batch):
        filled = part
        for name, embed in entity.embeds.items():
            wanted = is_wanted(entity, name, filled).to_numpy(zero_copy_only=False)
            places = np.flatnonzero(wanted)
            if len(places):
                texts = filled.column(embed.source).take(pa.array(places))
                filled = _put(filled, name, places, made.vectors(entity, name, texts))
        yield filled


def _put(batch: pa.RecordBatch, name: str, places: Any, values: pa.Array) -> pa.RecordBatch:
    at = batch.schema.get_field_index(name)
    values = values.cast(batch.column(at).type)
    return batch.set_column(
        at, batch.schema.field(at), put_values(batch.column(at), places, values)
    )


def slices(entity: Entity, batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Cut a batch so that the vectors of a part take a bounded number of bytes."""
    width = 4 * sum(entity.properties[name].type.dim or 0 for name in entity.embeds)
    rows = max(1, FILLED_BYTES // max(1, width))
    for start in range(0, max(1, batch.num_rows), rows):
        yield start, batch.slice(start, rows)


class FilledRows:
    """The rows of one table with their vectors, in files of this machine.

    ``want`` comes first for all tables of a load, so that their texts are sent together.
    """

    def __init__(self, entity: Entity, path: Path) -> None:
        self.entity = entity
        self._path = path
        self._kept = path.with_suffix(".kept")
        self.ref: TableRef | None = None

    def want(
        self,
        rows: Iterable[pa.RecordBatch],
        losers: pa.Array | None,
        ref: TableRef | None,
        spool: VectorSpool,
    ) -> None:
        """Ask for the vectors of rows; those of the table ``ref`` are kept where texts are the same."""
        self.ref = ref
        if ref is not None:
            table = open_table(ref)
            kept = (part for batch in rows for part in keep_stored(self.entity, batch, table))
            _write(self._kept, kept)
            rows = _read(self._kept)
        for name, texts in wanted_texts(self.entity, drop_losers(rows, losers)):
            spool.want(self.entity, name, texts)

    def fill(
        self, rows: Iterable[pa.RecordBatch], losers: pa.Array | None, spool: VectorSpool
    ) -> int:
        """Write the rows with their vectors; return how many vectors are still missing."""
        pending = 0
        source = rows if self.ref is None else _read(self._kept)

        def filled() -> Iterator[pa.RecordBatch]:
            nonlocal pending
            for batch in source:
                for part in fill(self.entity, batch, spool):
                    (left,) = drop_losers([part], losers)
                    pending += count_wanted(self.entity, left)
                    yield part

        _write(self._path, filled())
        self._kept.unlink(missing_ok=True)
        return pending

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the filled rows."""
        return _read(self._path)


def _write(path: Path, batches: Iterable[pa.RecordBatch]) -> None:
    writer: Any = None
    try:
        for batch in batches:
            if writer is None:
                writer = pa.ipc.new_stream(str(path), batch.schema)
            writer.write_batch(batch)
    finally:
        if writer is not None:
            writer.close()


def _read(path: Path) -> Iterator[pa.RecordBatch]:
    with pa.memory_map(str(path)) as file, pa.ipc.open_stream(file) as reader:
        yield from reader
