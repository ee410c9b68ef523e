"""The changes a mutation has gathered so far, laid over the committed rows of its snapshot.

Inserted and updated rows are kept as Arrow tables, one row per id, and hide the committed row of the
same id. Deletes are kept as ids. Nothing is written here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from omnigraph.lang.schema.catalog import EdgeType, NodeType
from omnigraph.manifest.rows import TableState
from omnigraph.storage.blobs import blob_columns, is_blob
from omnigraph.storage.handles import Table
from omnigraph.storage.pushdown import Condition, filter_expression
from omnigraph.write.matching import matches

if TYPE_CHECKING:
    import pyarrow as pa

Entity = NodeType | EdgeType
ENDPOINT_COLUMNS = {"from": "src", "to": "dst"}


class PendingTable:
    """One table's pending rows and removed ids."""

    def __init__(self, entity: Entity, pin: TableState, table: Table) -> None:
        self.entity = entity
        self.pin = pin
        self.table = table
        self.rows: pa.Table = _plain_schema(table.schema).empty_table()
        self.fresh_only = True
        self.removed: list[str] = []
        self._removed_set: set[str] = set()

    def put(self, rows: pa.Table, *, fresh: bool) -> None:
        """Add final images; a row of an id that is pending already takes its place."""
        import pyarrow as pa
        import pyarrow.compute as pc

        self.fresh_only = self.fresh_only and fresh
        kept = self.rows
        if kept.num_rows and not fresh:
            repeated = pc.is_in(kept.column("id"), rows.column("id").combine_chunks())
            kept = kept.filter(pc.invert(repeated))
        self.rows = pa.concat_tables([kept, rows.select(kept.column_names)])

    def remove(self, ids: list[str]) -> int:
        """Mark committed rows as removed; how many were not so already."""
        new = [one for one in ids if one not in self._removed_set]
        self._removed_set.update(new)
        self.removed += new
        return len(new)

    def matching(self, column: str, op: str, value: Any) -> pa.Table:
        """The rows an earlier statement would now see: committed overlaid by pending."""
        import pyarrow as pa
        import pyarrow.compute as pc

        condition = Condition(ENDPOINT_COLUMNS.get(column, column), op, value)  # type: ignore[arg-type]
        where = filter_expression(self.table.schema, [condition])
        found = read_plain(self.table, where)
        if self.rows.num_rows:
            hidden = pc.is_in(found.column("id"), self.rows.column("id").combine_chunks())
            found = found.filter(pc.invert(hidden))
            pending = self.rows.filter(matches(self.rows, condition))
            found = pa.concat_tables([found, pending.select(found.column_names)])
        return found

    def ids_where(self, condition: Condition) -> list[str]:
        """Ids of committed rows that satisfy a condition."""
        where = filter_expression(self.table.schema, [condition])
        ids: list[str] = self.table.read(["id"], where).column("id").to_pylist()
        return ids


def _plain_schema(schema: pa.Schema) -> pa.Schema:
    """The table's schema with blob columns as the bytes a writer holds."""
    import pyarrow as pa

    return pa.schema(
        [pa.field(f.name, pa.large_binary(), f.nullable) if is_blob(f) else f for f in schema]
    )


def read_plain(table: Table, where: Any) -> pa.Table:
    """Whole rows, blobs as bytes, so that they can be written again."""
    import pyarrow as pa

    blobs = blob_columns(table.schema)
    found = (
        table.read(None, where, blob_handling="all_binary") if blobs else table.read(None, where)
    )
    schema = _plain_schema(table.schema)
    columns = [found.column(field.name).cast(field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def one_row(schema: pa.Schema, values: Mapping[str, Any]) -> pa.Table:
    """A table of one row from stored values by column name; absent ones are null."""
    import pyarrow as pa

    arrays = [pa.array([values.get(field.name)], field.type) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)
