"""New images of rows, written by the tasks of a merge from Spark.

A task looks up which of its rows replace one of the pinned version, and writes them as fragments
that keep those rows' ids. Edges without an id take one there (``edge_ids``). The commit takes the
fragments as they are, when the table is still at that version, no id came twice, and the edges of all
tasks together take the same ids; otherwise it reads them again as rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from omnigraph.lang.schema.catalog import EdgeType
from omnigraph.pipeline.datasource import Entity
from omnigraph.pipeline.incoming import stored_rows
from omnigraph.pipeline.payloads import narrow_columns
from omnigraph.runner.local import LocalRunner
from omnigraph.storage.handles import Table, TableRef, open_table
from omnigraph.storage.loose_files import LooseFile, data_files, read_data_file
from omnigraph.storage.pushdown import Condition, filter_expression
from omnigraph.storage.staging import MAX_ROWS_PER_FILE, write_fragments
from omnigraph.validate import rules
from omnigraph.validate.change_set import MADE, ORDER
from omnigraph.validate.committed import among_ends

if TYPE_CHECKING:
    import pyarrow as pa

IMAGE_BYTES = 256 << 20
"""How much of its rows a task holds, to sort them by the row ids that they keep."""
LOOKED_UP = 10_000
"""So many ids are looked up at once where the table is far larger; otherwise it is scanned."""
FAR_LARGER = 200
TAKEN = "0taken"
"""The column of noted rows with the id that an edge took; beside it is the one that was made."""


class Images:
    """The rows of one task on their way into fragments: those that replace a row first, sorted.

    ``noted`` gets some of the columns, in the order of the fragments.
    """

    def __init__(
        self, ref: TableRef, entity: Entity, noted: LooseFile, columns: Sequence[str]
    ) -> None:
        self.ref = ref
        self.entity = entity
        self.noted = noted
        self.columns = list(columns)
        self.fragments: list[Any] = []
        self._replaced: list[pa.Array] = []
        self._waiting: list[pa.RecordBatch] = []
        self._table: Table | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        """Take rows; write what has come together when it is much."""
        self._waiting.append(batch)
        rows = sum(one.num_rows for one in self._waiting)
        if rows >= MAX_ROWS_PER_FILE or sum(one.nbytes for one in self._waiting) >= IMAGE_BYTES:
            self.write()

    def write(self) -> None:
        """Write what has come together."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if not self._waiting:
            return
        if self._table is None:
            self._table = open_table(self.ref)
        rows = pa.concat_batches(self._waiting)
        self._waiting = []
        own, taken = rows.column("id"), _taken_ids(self._table, self.entity, rows)
        if taken is not None:
            rows = rows.append_column(TAKEN, taken)
            rows = with_ids(rows, pc.coalesce(taken, own))
        stored = _places(self._table, rows.column("id"))
        place = pc.index_in(rows.column("id"), stored.column("id").combine_chunks())
        row_ids = stored.column("_rowid").combine_chunks().take(place)
        order = pc.sort_indices(pa.table({"id": row_ids}), [("id", "ascending")])  # nulls last
        rows, row_ids = rows.take(order), row_ids.take(order)
        noted = with_ids(rows, own.take(order))
        self.noted.add(noted.select(self.columns if taken is None else [*self.columns, TAKEN]))
        schema = self._table.schema
        reader = pa.RecordBatchReader.from_batches(schema, stored_rows(self.entity, schema, [rows]))
        self.fragments += write_fragments(self._table, reader, row_ids)
        self._replaced.append(stored.column("_rowaddr").combine_chunks().take(place.drop_null()))

    @property
    def replaced(self) -> Any:
        """The addresses of the rows that were found (``numpy``)."""
        import numpy as np

        return np.concatenate([np.empty(0, np.uint64), *(one.to_numpy() for one in self._replaced)])


def with_ids(rows: pa.RecordBatch, ids: pa.Array) -> pa.RecordBatch:
    """The rows with other ids."""
    at = rows.schema.get_field_index("id")
    return rows.set_column(at, rows.schema.field(at), ids)


def _taken_ids(table: Table, entity: Entity, rows: pa.RecordBatch) -> pa.Array | None:
    """By row, the id it takes from an edge of the table; None for types of which none ever does."""
    import pyarrow as pa
    import pyarrow.compute as pc

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


def _places(table: Table, ids: pa.Array) -> pa.Table:
    """Those of the ids that the table has, with where their rows are."""
    import pyarrow as pa
    import pyarrow.compute as pc

    places: dict[str, Any] = {"with_row_id": True, "with_row_address": True}
    if len(ids) * FAR_LARGER <= table.count_rows():
        found = []
        for start in range(0, len(ids), LOOKED_UP):
            wanted = ids.slice(start, LOOKED_UP).to_pylist()
            where = filter_expression(table.schema, [Condition("id", "in", wanted)])
            found.append(table.read(["id"], where, **places))
        return pa.concat_tables(found)
    scanned = table.scan(["id"], **places)
    kept = (batch.filter(pc.is_in(batch.column("id"), value_set=ids)) for batch in scanned)
    return pa.Table.from_batches(kept, scanned.schema)


def image_rows(
    ref: TableRef, entity: Entity, fragments: Sequence[Any], noted: str
) -> Iterator[pa.RecordBatch]:
    """The rows of images as they were read: with the order column, and the ids that they had."""
    import pyarrow as pa

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
