"""The images that tasks of a merge from Spark write, and how the commit reads them again.

A task looks up which of its rows replace a row of the pinned version, and writes them as fragments
that keep the ids of those rows. Edges without an id take one in the task (`edge_ids`). The commit uses
the fragments as they are when the same rows are still there, no id came twice, and the edges of all
tasks together take the same ids; otherwise it reads them again as rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.lang.schema.catalog import EdgeType
from omnigraph.pipeline.formats.typed_batch import Entity
from omnigraph.pipeline.rows.images import Images
from omnigraph.pipeline.spark.payloads import narrow_columns
from omnigraph.runner.local import LocalRunner
from omnigraph.storage.tables.loose_files import LooseFile, data_files, read_data_file
from omnigraph.storage.tables.table import Table, TableRef
from omnigraph.validate import rules
from omnigraph.validate.change_set import MADE, ORDER
from omnigraph.validate.committed import among_ends

TAKEN = "0taken"
"""The column of noted rows with the id that an edge took; ``OWN`` has the id made for it."""
OWN = "0own"


class TaskImages(Images):
    """The images of one task. Some columns are also written to ``noted``, in the order of the fragments."""

    def __init__(
        self, ref: TableRef, entity: Entity, noted: LooseFile, columns: Sequence[str]
    ) -> None:
        super().__init__(ref, entity)
        self.noted = noted
        self.columns = list(columns)

    def assign_ids(self, table: Table, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Let edges take the id of the stored edge that they describe."""
        taken = _taken_ids(table, self.entity, rows)
        if taken is None:
            return rows
        own = rows.column("id")
        rows = rows.append_column(TAKEN, taken).append_column(OWN, own)
        return with_ids(rows, pc.coalesce(taken, own))

    def note(self, rows: pa.RecordBatch) -> None:
        """Write the columns that rules look at, with the ids as they were read."""
        columns = self.columns
        if TAKEN in rows.schema.names:
            rows, columns = with_ids(rows, rows.column(OWN)), [*columns, TAKEN]
        self.noted.add(rows.select(columns))


def with_ids(rows: pa.RecordBatch, ids: pa.Array) -> pa.RecordBatch:
    """Replace the ids of the rows."""
    at = rows.schema.get_field_index("id")
    return rows.set_column(at, rows.schema.field(at), ids)


def _taken_ids(table: Table, entity: Entity, rows: pa.RecordBatch) -> pa.Array | None:
    """For each row the id it takes from an edge of the table; None for types whose edges take none."""
    if not isinstance(entity, EdgeType) or entity.identity is None:
        return None
    if not pc.any(rows.column(MADE)).as_py():
        return pa.nulls(rows.num_rows, pa.utf8())
    runner = LocalRunner()
    try:
        pending = runner.frame(pa.Table.from_batches([rows.select(narrow_columns(entity))]))
        where = among_ends(runner, entity, pending)
        held = runner.scan(table.ref, ["id", *entity.identity], where)
        text = rules.identified_edges(entity.identity)
        taken = runner.ask(text, {"pend": pending, "com": held})
    finally:
        runner.close()
    place = pc.index_in(rows.column(ORDER), taken.column(ORDER).combine_chunks())
    return taken.column("id").combine_chunks().take(place)


def image_rows(
    ref: TableRef, entity: Entity, fragments: Sequence[Any], noted: str
) -> Iterator[pa.RecordBatch]:
    """Read images again as incoming rows, with the order column and the ids that they were read with."""
    takes = isinstance(entity, EdgeType) and entity.identity is not None
    columns = ["id", ORDER] if takes else [ORDER]
    read = pa.Table.from_batches(read_data_file(ref, noted, columns))
    at = 0
    for name in data_files(fragments):
        for batch in read_data_file(ref, name):
            mine = read.slice(at, batch.num_rows).combine_chunks().to_batches()[0]
            at += batch.num_rows
            rows = with_ids(batch, mine.column("id")) if takes else batch
            yield rows.append_column(ORDER, mine.column(ORDER))
