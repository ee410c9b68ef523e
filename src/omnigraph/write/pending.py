"""The changes of a mutation so far, laid over the committed rows of its snapshot.

Inserted and updated rows are kept as Arrow tables, one row per id, and hide the committed row of
the same id. Deletes are kept as ids. Nothing is written here.

For example, with Ann (30) and Bob (40) committed:

  update Person set { age: 31 } where name = "Ann"     rows    = [Ann 31]
  insert Person { name: "Cy" age: 20 }                 rows    = [Ann 31, Cy 20]
  rows_where(age > 25)                                 returns   [Bob 40, Ann 31]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from omnigraph.commit.changes import StagedStep
from omnigraph.lang.schema.catalog import Entity
from omnigraph.manifest.rows import TableState
from omnigraph.storage.filters import ComparisonOp, Condition, filter_expression
from omnigraph.storage.tables.blobs.blob_columns import plain_schema
from omnigraph.storage.tables.blobs.carry import read_rows
from omnigraph.storage.tables.staging import (
    Staged,
    stage_append,
    stage_delete_keys,
    stage_merge_insert,
)
from omnigraph.storage.tables.table import Table
from omnigraph.types import TEXT, PropType
from omnigraph.validate.committed import KEY_LIMIT

if TYPE_CHECKING:
    import pyarrow as pa

ENDPOINT_COLUMNS = {"from": "src", "to": "dst"}


class PendingTable:
    """The pending rows and removed ids of one table.

    ``fresh_only`` stays True while every pending row has a new id, so that they can be appended.
    """

    def __init__(self, entity: Entity, pin: TableState, table: Table) -> None:
        self.entity = entity
        self.pin = pin
        self.table = table
        self.fresh_only = True
        self.removed: list[str] = []
        self.unfilled: dict[str, set[str]] = {}
        """By vector property: the ids of rows whose vector is left to be made from a text."""
        self.made_ids: dict[str, None] = {}
        """The ids of inserted edges that were made from their tuples, in order."""
        self._removed_set: set[str] = set()
        self._schema = plain_schema(table.schema)
        self._rows: pa.Table = self._schema.empty_table()
        # Rows inserted one by one are gathered by id: one Arrow table per inserted row is slow.
        self._recent: dict[str, Mapping[str, Any]] = {}

    @property
    def rows(self) -> pa.Table:
        """The final rows so far, one per id."""
        if self._recent:
            recent, self._recent = self._recent, {}
            self._put(_to_table(self._schema, list(recent.values())))
        return self._rows

    def insert(self, values: Mapping[str, Any], *, fresh: bool) -> None:
        """Add the stored values of one row, in place of any pending row of the same id.

        ``fresh``: no other row has this id, neither committed nor pending.
        """
        self.fresh_only = self.fresh_only and fresh
        self._recent[values["id"]] = values

    def committed_ids(self, ids: list[str]) -> list[str]:
        """Return those of some ids, at most ``KEY_LIMIT``, that committed rows have."""
        where = filter_expression(self.table.schema, [Condition("id", "in", ids)])
        found: list[str] = self.table.read(["id"], where).column("id").to_pylist()
        return found

    def replace(self, rows: pa.Table) -> None:
        """Add new values of rows that exist already, committed or pending."""
        self.fresh_only = False
        assert not self._recent, "rows are replaced by what was read of them"
        self._put(rows)

    def set_column(self, name: str, column: pa.Array) -> None:
        """Set the values of one column, in the order of ``rows``."""
        rows = self.rows
        at = rows.schema.get_field_index(name)
        self._rows = rows.set_column(at, rows.schema.field(at), column)

    def _put(self, rows: pa.Table) -> None:
        """Add rows, in place of pending rows with the same ids."""
        import pyarrow as pa
        import pyarrow.compute as pc

        others = self._rows
        if others.num_rows:
            repeated = pc.is_in(others.column("id"), rows.column("id"))
            others = others.filter(pc.invert(repeated))
        self._rows = pa.concat_tables([others, rows.select(others.column_names)])

    def write_step(self) -> StagedStep:
        """Return the step that writes the pending changes."""
        import pyarrow as pa

        # A mutation either deletes or inserts and updates: the language refuses both in one mutation.
        rows, removed, fresh = self.rows, self.removed, self.fresh_only

        def stage(target: Table) -> Staged:
            if removed:
                return stage_delete_keys(target, pa.array(removed, pa.string()))
            return stage_append(target, rows) if fresh else stage_merge_insert(target, rows)

        return StagedStep(stage, opened=self.table)

    def remove(self, ids: list[str]) -> int:
        """Mark committed rows as removed; return how many were not marked before."""
        new = [one for one in ids if one not in self._removed_set]
        self._removed_set.update(new)
        self.removed += new
        return len(new)

    def rows_of(self, ids: pa.Array) -> pa.Table:
        """Return the rows with these ids, at most ``KEY_LIMIT``, as ``rows_where`` would."""
        wanted = Condition("id", "in", ids.to_pylist())
        found = read_rows(self.table, filter_expression(self.table.schema, [wanted]))
        if not self.rows.num_rows:
            return found
        import pyarrow as pa
        import pyarrow.compute as pc

        hidden = pc.is_in(found.column("id"), self.rows.column("id"))
        pending = self.rows.filter(pc.is_in(self.rows.column("id"), ids))
        return pa.concat_tables([found.filter(pc.invert(hidden)), pending])

    def rows_where(self, condition: Condition) -> pa.Table:
        """Return the rows a statement sees: committed ones, replaced by those of earlier statements."""
        import pyarrow as pa
        import pyarrow.compute as pc

        found = read_rows(self.table, filter_expression(self.table.schema, [condition]))
        if self.rows.num_rows:
            hidden = pc.is_in(found.column("id"), self.rows.column("id"))
            found = found.filter(pc.invert(hidden))
            kind = self._type(condition.column)
            pending = self.rows.filter(matches(self.rows, condition, kind))
            found = pa.concat_tables([found, pending.select(found.column_names)])
        return found

    def _type(self, column: str) -> PropType:
        prop = self.entity.properties.get(column)
        return TEXT if prop is None else prop.type

    def ids_where(self, condition: Condition) -> list[str]:
        """Return the ids of committed rows that satisfy a condition."""
        where = filter_expression(self.table.schema, [condition])
        ids: list[str] = self.table.read(["id"], where).column("id").to_pylist()
        return ids

    def ids_among(self, column: str, values: list[str]) -> list[str]:
        """Return the ids of committed rows whose text column has one of the values."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if len(values) <= KEY_LIMIT:
            return self.ids_where(Condition(column, "in", values))
        wanted = pa.array(values, pa.string())
        ids: list[str] = []
        for batch in self.table.scan(["id", column]):
            ids += batch.filter(pc.is_in(batch.column(column), wanted)).column("id").to_pylist()
        return ids


def _to_table(schema: pa.Schema, rows: list[Mapping[str, Any]]) -> pa.Table:
    """Return a table of stored values by column name; missing values are null."""
    import pyarrow as pa

    columns = [pa.array([row.get(f.name) for row in rows], f.type) for f in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def matches(rows: pa.Table, condition: Condition, type: PropType) -> pa.BooleanArray:
    """Which rows satisfy a condition on a column of that type, as Lance would filter; a null never does."""
    import pyarrow as pa

    from omnigraph.read.values.column import Column, one_array
    from omnigraph.read.values.comparison import compared

    column = Column(type, one_array(rows.column(condition.column)))
    return pa.array(compared(column, cast("ComparisonOp", condition.op), condition.value))
