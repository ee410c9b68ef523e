"""Both sides of a comparison joined on executors, where any row may differ.

An executor writes every row as one text, from which Spark leaves out the rows that are the same on both
sides. The others are fetched by row id and compared here by the one equality, so the answer does not
depend on the engine: rows with equal texts are equal, and it does not matter if a few others are, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.changes.row_changes import ROW_ID, Rows
from omnigraph.changes.table_side import TableSide
from omnigraph.runner.protocol import Through
from omnigraph.storage.filters import Condition, filter_expression
from omnigraph.storage.tables.blobs.carry import is_external
from omnigraph.types import TEXT, PropType, column_to_json_text

if TYPE_CHECKING:
    from omnigraph.runner.protocol import Frame
    from omnigraph.runner.spark_runner import SparkRunner

_SCHEMA = pa.schema([("id", pa.utf8()), ("place", pa.int64()), ("image", pa.utf8())])

_PAIRS = """
SELECT COALESCE(a.id, b.id) AS id, a.place AS was, b.place AS now,
    CASE WHEN a.image = b.image THEN 1 ELSE 0 END AS same
FROM a FULL OUTER JOIN b ON a.id = b.id
"""


@dataclass(frozen=True, slots=True)
class RowTexts:
    """Turns batches of one side into texts. It is sent to executors, so it holds plain values only.

    ``side`` stands for every blob in the table: whether two of them have the same bytes is not known
    here, so they never look equal.
    """

    columns: tuple[tuple[str | None, PropType], ...]
    side: str

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the ids, the row ids and the texts of a batch."""
        texts: list[Any] = []
        for column, kind in self.columns:
            if column is None:
                texts.append("null")
            elif kind.is_blob:
                texts.append(self._blobs(batch.column(column)))
            else:
                texts.append(column_to_json_text(kind, batch.column(column)))
        ids = batch.column("id")
        joined = pc.binary_join_element_wise(pa.array([""] * len(ids), pa.utf8()), *texts, ",")
        places = batch.column(ROW_ID).cast(pa.int64())
        return pa.RecordBatch.from_arrays([ids, places, joined], schema=_SCHEMA)

    def _blobs(self, described: pa.Array) -> pa.Array:
        if isinstance(described, pa.ExtensionArray):
            described = described.storage
        address = column_to_json_text(TEXT, pc.struct_field(described, "blob_uri"))
        part = [pc.struct_field(described, name).cast(pa.utf8()) for name in ("position", "size")]
        external = pc.binary_join_element_wise(address, *(pc.fill_null(p, "") for p in part), " ")
        known = pc.if_else(is_external(described), external, self.side)
        return pc.if_else(pc.is_valid(described), known, "null")


def pairs_on_spark(
    runner: SparkRunner, before: TableSide, after: TableSide, after_id: str | None, chunk_rows: int
) -> Iterator[tuple[Rows, Rows]]:
    """Yield rows of both sides with the same ids, which include every one that differs, in order."""
    frames = {
        name: _texts(runner, side, name, after_id) for name, side in (("a", before), ("b", after))
    }
    pairs = runner.sql(_PAIRS, frames)
    after.meter.candidates += runner.count(pairs)
    differing = runner.sql("SELECT id, was, now FROM p WHERE same = 0", {"p": pairs})
    for batch in runner.stream(differing, chunk_rows, order_by="id"):
        ids = batch.column("id")
        yield _rows(before, ids, batch.column("was")), _rows(after, ids, batch.column("now"))


def _texts(runner: SparkRunner, side: TableSide, name: str, after_id: str | None) -> Frame:
    if side.row_count == 0:
        return runner.frame(_SCHEMA.empty_table())
    entity = side.entity
    names = [*entity.implicit_columns[1:], *entity.properties]
    kinds = [entity.properties[n].type if n in entity.properties else TEXT for n in names]
    columns = [side.pinned.column_of(n) for n in names]
    where = None
    if after_id is not None:
        where = filter_expression(side.table.schema, [Condition("id", ">", after_id)])
    with side.reading():
        return runner.scan_fragments(
            side.table,
            ["id", *(column for column in columns if column is not None)],
            where,
            Through(RowTexts(tuple(zip(columns, kinds, strict=True)), name), _SCHEMA),
            with_row_id=True,
        )


def _rows(side: TableSide, ids: pa.Array, places: pa.Array) -> Rows:
    return side.align(side.rows_at(places.cast(pa.uint64()), ids, sure=True), ids)
