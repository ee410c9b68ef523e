"""Read the rows that tasks wrote, in the process of the load or on executors.

Whatever form the files have, the rows come out as they were judged: with their place in the input (`ORDER`), under
the ids that they were read with. What became known later is put in here, too: ends that are spelled otherwise, ids
that records take, records that are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from omnigraph.lang.schema.catalog import EdgeType, Entity
from omnigraph.pipeline.rows.row_images import Images
from omnigraph.pipeline.rows.row_rules import narrow_columns
from omnigraph.pipeline.rows.stored_rows import (
    Spellings,
    TakenIds,
    drop_losers,
    respell,
    stored_rows,
)
from omnigraph.pipeline.written.task_files import (
    Destination,
    WrittenFiles,
    implied_orders,
    with_ids,
)
from omnigraph.storage.tables.loose_files import data_files, read_data_file
from omnigraph.storage.tables.staging import write_fragments
from omnigraph.storage.tables.table import open_table
from omnigraph.validate.change_set import MADE, ORDER


@dataclass(frozen=True, slots=True)
class WrittenReader:
    """How the rows of one table are read from their files; it is sent to executors."""

    source: Destination
    spellings: Spellings = field(default_factory=Spellings)
    taken: TakenIds | None = None
    losers: pa.Array | None = None

    def batches(
        self, one: WrittenFiles, columns: Sequence[str] | None = None, *, as_read: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task; None stands for all columns, others are among those of set rules.

        ``as_read`` gives the ids from before any was taken. The order is that of the files.
        """
        wanted = columns
        if columns is not None and self.spellings:
            wanted = narrow_columns(self.source.entity)
        for batch in read_written(self.source, one, wanted):
            rows = respell(batch, self.spellings)
            yield rows if as_read or self.taken is None else self.taken.apply_to(rows)

    def records(self, written: Iterable[WrittenFiles]) -> Iterator[pa.RecordBatch]:
        """Yield whole rows, without those that are left out."""
        return drop_losers((batch for one in written for batch in self.batches(one)), self.losers)

    def write_again(self, written: Sequence[WrittenFiles], to: Destination) -> WrittenFiles:
        """Write the rows of some tasks once more, as fragments or images of a table as it is now."""
        return write_again(self.records(written), to)


def write_again(records: Iterable[pa.RecordBatch], to: Destination) -> WrittenFiles:
    """Write rows as fragments or images of a table; their ids are final."""
    if to.form == "images":
        images = Images(to.ref, to.entity, to.image_sizes)
        for batch in records:
            images.add(batch)
        images.write()
        return WrittenFiles(0, fragments=tuple(images.fragments), replaced=images.replaced)
    table = open_table(to.ref)
    stored = stored_rows(to.entity, table.schema, records)
    reader = pa.RecordBatchReader.from_batches(table.schema, stored)
    written = write_fragments(table, reader, mode="overwrite" if to.overwrite else "append")
    return WrittenFiles(0, fragments=tuple(written))


def rule_file(source: Destination, one: WrittenFiles) -> str | None:
    """Return the file that has the columns of set rules; None where the fragments themselves have them."""
    has_orders_only = source.form == "fragments" and not source.entity.blob_properties
    return None if has_orders_only else one.loose


def read_written(
    source: Destination, one: WrittenFiles, columns: Sequence[str] | None
) -> Iterator[pa.RecordBatch]:
    """Yield rows as they were judged, always with `ORDER`."""
    file = rule_file(source, one)
    if file is not None and (source.form == "rows" or columns is not None):
        wanted = None if columns is None else list(dict.fromkeys([*columns, ORDER]))
        yield from read_data_file(source.ref, file, wanted)
        return
    # A fragment has what the table stores and nothing else; where its rows stood in the input lies beside it,
    # row by row.
    beside = _beside(source, one)
    stored = None if columns is None else [c for c in columns if c not in {ORDER, MADE}]
    at = 0
    for name in data_files(one.fragments):
        for batch in read_data_file(source.ref, name, stored):
            mine = beside.slice(at, batch.num_rows).combine_chunks().to_batches()[0]
            at += batch.num_rows
            rows = with_ids(batch, mine.column("id")) if "id" in mine.schema.names else batch
            for extra in (ORDER, MADE):
                if extra in mine.schema.names:
                    rows = rows.append_column(extra, mine.column(extra))
            yield rows


def _beside(source: Destination, one: WrittenFiles) -> pa.Table:
    """Return what is not in the fragments, row by row."""
    columns = [ORDER, MADE] if _takes_ids(source.entity) else [ORDER]
    if one.loose is None:
        return pa.Table.from_batches([implied_orders(one.first_order or 0, one.rows, columns)])
    if source.form == "images" and _takes_ids(source.entity):
        columns.append("id")
    return pa.Table.from_batches(read_data_file(source.ref, one.loose, columns))


def _takes_ids(entity: Entity) -> bool:
    return isinstance(entity, EdgeType) and entity.identity is not None
