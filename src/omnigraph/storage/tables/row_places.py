"""Where the rows with some ids are: what an upsert, a delete by id and a merge of many rows replace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from omnigraph.storage.filters import Condition, filter_expression

if TYPE_CHECKING:
    import pyarrow as pa

    from omnigraph.storage.tables.table import Table

COMPARED_ROWS: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class LookUpSizes:
    """How ids are looked for; no size changes what is found."""

    looked_up_ids: int = 10_000
    """Ids are looked up this many at a time, where the table is far larger."""
    far_larger: int = 200
    """A table with fewer than this number of rows for each id is scanned, and no id looked up."""


LOOK_UP_SIZES: Final = LookUpSizes()


@dataclass(frozen=True, slots=True)
class RowPlace:
    """Where one row is at one version of a table: its row id, which stays, and its address, which does not."""

    row_id: int
    address: int


def find_places(table: Table, ids: pa.Array, sizes: LookUpSizes = LOOK_UP_SIZES) -> pa.Table:
    """The ids that the table has, with the row ids and addresses of their rows."""
    import pyarrow as pa
    import pyarrow.compute as pc

    places: dict[str, Any] = {"with_row_id": True, "with_row_address": True}
    if not len(ids):
        return table.scan(["id"], limit=1, **places).schema.empty_table()
    # A look-up costs about what scanning some hundred rows costs.
    if len(ids) * sizes.far_larger <= table.count_rows():
        found = []
        for start in range(0, len(ids), sizes.looked_up_ids):
            wanted = ids.slice(start, sizes.looked_up_ids).to_pylist()
            where = filter_expression(table.schema, [Condition("id", "in", wanted)])
            found.append(table.read(["id"], where, **places))
        return pa.concat_tables(found)
    scanned = table.scan(["id"], batch_size=COMPARED_ROWS, **places)
    matching = [
        part.filter(pc.is_in(part.column("id"), value_set=ids))
        for part in in_large_parts(scanned, scanned.schema)
    ]
    return pa.concat_tables([scanned.schema.empty_table(), *matching])


def in_large_parts(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, rows: int = COMPARED_ROWS
) -> Iterator[pa.Table]:
    """Put batches together into tables of so many rows or more, for comparisons with many values.

    Arrow hashes the values again for each table that is compared with them.
    """
    import pyarrow as pa

    waiting: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        waiting.append(batch)
        count += batch.num_rows
        if count >= rows:
            yield pa.Table.from_batches(waiting, schema)
            waiting, count = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting, schema)
