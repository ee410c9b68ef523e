"""The images that tasks of a merge write, and how they can be read again.

A task looks up which rows of the pinned version its rows replace, and writes them as fragments
(images) that keep those rows' ids. Edges without an id take one there (``edge_ids``). The load uses
the fragments as they are, if the table still has the same rows, no id came twice, and the edges of
all tasks together take the same ids. Otherwise they are read again as rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.lang.schema.catalog import EdgeType, Entity
from omnigraph.pipeline.rows.images import Images, ImageSizes
from omnigraph.pipeline.rows.row_rules import narrow_columns
from omnigraph.runner.local_runner import LocalRunner
from omnigraph.runner.protocol import distinct
from omnigraph.storage.tables.loose_files import LooseFile, data_files, read_data_file
from omnigraph.storage.tables.table import Table
from omnigraph.storage.tables.table_ref import TableRef
from omnigraph.validate import rules
from omnigraph.validate.change_set import MADE, ORDER
from omnigraph.validate.committed import KEY_LIMIT, filter_by_ends

TAKEN = "0taken"
"""The column with the id that an edge took; `id` beside it is the one that was made for it."""
OWN = "0own"


class TaskImages(Images):
    """The images of one task. What set rules look at is also in ``noted``, in the fragments' order."""

    def __init__(self, ref: TableRef, entity: Entity, noted: LooseFile, sizes: ImageSizes) -> None:
        super().__init__(ref, entity, sizes)
        self.noted = noted
        self.columns = narrow_columns(entity)
        self.lost = 0
        """How many rows were left out because a later one has their id."""

    def assign_ids(self, table: Table, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Give edges without an id that of the stored edge with the same identity.

        Rows of all other types have their ids for good, so only the last one of each id is written.
        """
        taken = _taken_ids(table, self.entity, rows)
        if taken is None:
            last = _last_of_each(rows)
            self.lost += rows.num_rows - last.num_rows
            return last
        own = rows.column("id")
        rows = rows.append_column(TAKEN, taken).append_column(OWN, own)
        return with_ids(rows, pc.coalesce(taken, own))

    def note(self, rows: pa.RecordBatch) -> None:
        """Write the columns that set rules look at, with the ids as they were read."""
        columns = self.columns
        if TAKEN in rows.schema.names:
            rows, columns = with_ids(rows, rows.column(OWN)), [*columns, TAKEN]
        self.noted.add(rows.select(columns))


def _last_of_each(rows: pa.RecordBatch) -> pa.RecordBatch:
    if len(pc.unique(rows.column("id"))) == rows.num_rows:
        return rows
    orders = pa.table({"id": rows.column("id"), ORDER: rows.column(ORDER)})
    last = orders.group_by("id").aggregate([(ORDER, "max")]).column(f"{ORDER}_max")
    return rows.filter(pc.is_in(rows.column(ORDER), last.combine_chunks()))


def with_ids(rows: pa.RecordBatch, ids: pa.Array) -> pa.RecordBatch:
    """Return the rows with other ids."""
    at = rows.schema.get_field_index("id")
    return rows.set_column(at, rows.schema.field(at), ids)


def _taken_ids(table: Table, entity: Entity, rows: pa.RecordBatch) -> pa.Array | None:
    """Return for each row the id that it takes from a stored edge; None for types without identity."""
    if not isinstance(entity, EdgeType) or entity.identity is None:
        return None
    if not pc.any(rows.column(MADE)).as_py():
        return pa.nulls(rows.num_rows, pa.utf8())
    runner = LocalRunner()
    try:
        pending = runner.frame(pa.Table.from_batches([rows.select(narrow_columns(entity))]))
        where = filter_by_ends(entity, lambda side: distinct(runner, pending, side, KEY_LIMIT))
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
    """Yield the rows of images as they were read: with the order column and their original ids."""
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
