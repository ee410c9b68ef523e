"""The changes of a write so far, laid over the committed rows of its snapshot.

Inserted and updated rows are kept as Arrow tables, one row per id, and hide the committed row of
the same id. Deletes are kept as ids. Nothing is written here.

For example, with Ann (30) and Bob (40) committed:

  put [Ann 31]              rows = [Ann 31]             candidates(age > 25) = [Bob 40, Ann 31]
  put [Cy 20]               rows = [Ann 31, Cy 20]      candidates(age > 25) = [Bob 40, Ann 31, Cy 20]
  remove [Ann, Bob]         rows = [Cy 20]              removed = [Ann, Bob]

A table whose rows are deleted and written is changed in two steps of one commit: the first deletes, the
second writes.

What lies underneath (``Beneath``) is a table of the store, or the pending table of the mutations before this one that
share its commit: what those changed is committed, as far as this one can tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from omnigraph.commit.changes import StagedStep
from omnigraph.errors import ResourceLimit
from omnigraph.lang.schema.catalog import Entity
from omnigraph.manifest.rows import TableState
from omnigraph.storage.filters import Condition, filter_expression
from omnigraph.storage.tables.blobs.blob_columns import blob_columns, plain_schema
from omnigraph.storage.tables.blobs.carry import read_rows
from omnigraph.storage.tables.row_places import in_large_parts
from omnigraph.storage.tables.staging import (
    stage_append,
    stage_delete_ids,
    stage_upsert,
)
from omnigraph.storage.tables.table import Table
from omnigraph.types import stored_items
from omnigraph.validate.committed import KEY_LIMIT

if TYPE_CHECKING:
    import pyarrow as pa


_LOOKED_UP = 500
"""So many rows are looked up by their ids, whatever the size of the table."""
MOST_TEXT_BYTES: Final = 2**31 - 1
"""A mutation holds no more of one column of texts: Arrow cannot choose rows from a larger one (pyarrow 26)."""


class Beneath(Protocol):
    """The rows that a pending table lies over."""

    @property
    def may_have_rows(self) -> bool:
        """False if there are certainly none."""

    def matching(
        self, conditions: Sequence[Condition], columns: Sequence[str] | None = None
    ) -> pa.Table:
        """Return at least the rows that satisfy the conditions; with ``columns``, only these and `id`."""

    def with_values(
        self, column: str, values: pa.Array, names: Sequence[str]
    ) -> Iterator[pa.Table]:
        """Yield the rows whose text column has one of the values, with these columns."""


class PendingTable:
    """The pending rows and removed ids of one table.

    ``fresh_only`` stays True while every pending row has a new id, so that they can be appended, and ``inserted_only``
    while every one was inserted, so that it probably has. ``beneath`` is by default the table at its pin.
    """

    def __init__(
        self, entity: Entity, pin: TableState, table: Table, beneath: Beneath | None = None
    ) -> None:
        self.entity = entity
        self.pin = pin
        self.table = table
        self.beneath: Beneath = _Stored(pin, table) if beneath is None else beneath
        self.fresh_only = True
        self.inserted_only = True
        self.unfilled: dict[str, set[str]] = {}
        """By vector property: the ids of rows whose vector is left to be made from a text."""
        self.made_ids: dict[str, None] = {}
        """The ids of inserted edges that were made from their tuples, in order."""
        self.unsettled: list[str] = []
        """Those of them that a committed edge may have."""
        self.put_again: set[str] = set()
        """Ids of committed rows that were removed and then put again."""
        self._removed: dict[str, None] = {}
        self._gone: set[str] = set()
        """Every id that was removed and not put again; some were never committed."""
        self.schema = plain_schema(table.schema)
        self._rows: pa.Table = self.schema.empty_table()
        # What was put is gathered and joined on demand: many statements may each put one row.
        self._recent: list[pa.Table] = []
        self._last: pa.Table = self._rows
        """Pending rows that were removed, as they were then."""
        self._read: pa.Table = self._rows
        """Committed rows that were read as a whole, for who reads them again before anything is put."""

    # -------------------------------------------------------------- what is pending

    @property
    def rows(self) -> pa.Table:
        """The final rows so far, one per id."""
        if self._recent:
            tables, self._recent = [self._rows, *self._recent], []
            self._rows = last_of_each(self._joined(tables))
        return self._rows

    @property
    def removed(self) -> list[str]:
        """The ids of committed rows that are deleted, in the order in which they were removed."""
        return list(self._removed)

    @property
    def is_changed(self) -> bool:
        """Whether there is anything to write or to delete."""
        # Without joining what was put: that is asked often, and by every member of a group.
        waiting = any(rows.num_rows for rows in self._recent)
        return bool(self._removed or waiting or self._rows.num_rows)

    def changed_ids(self, limit: int) -> list[str]:
        """Return the first ids of the rows that are written, and of those that are deleted."""
        ids: list[str] = self.rows.column("id").slice(0, limit).to_pylist()
        return [*ids, *self.removed[: limit - len(ids)]]

    def put(self, rows: pa.Table, *, fresh: bool = False, inserted: bool = False) -> None:
        """Add rows, in place of pending and committed rows with the same ids.

        ``fresh``: no other row has these ids, neither committed nor pending. ``inserted``: perhaps none has.
        """
        self.fresh_only = self.fresh_only and fresh
        self.inserted_only = self.inserted_only and (fresh or inserted)
        self._recent.append(rows.select(self.schema.names))
        self._read = self.schema.empty_table()
        if self._gone:
            for one in rows.column("id").to_pylist():
                self._gone.discard(one)
                if one in self._removed:
                    del self._removed[one]
                    self.put_again.add(one)
                    self.fresh_only = self.inserted_only = False

    def set_column(self, name: str, column: pa.Array) -> None:
        """Set the values of one column, in the order of ``rows``."""
        rows = self.rows
        at = rows.schema.get_field_index(name)
        self._rows = rows.set_column(at, rows.schema.field(at), column)

    def remove(self, ids: pa.Array) -> int:
        """Delete rows, pending or committed; return how many of them were there."""
        import pyarrow as pa
        import pyarrow.compute as pc

        ids = self.living(ids.unique())
        rows = self.rows
        is_pending = pc.is_in(ids, rows.column("id"))
        pending = ids.filter(is_pending)
        if len(pending):
            going = pc.is_in(rows.column("id"), pending)
            self._last = last_of_each(pa.concat_tables([self._last, rows.filter(going)]))
            self._rows = rows.filter(pc.invert(going))
            committed = [] if self.fresh_only else self.committed_ids(pending)
            self._removed.update(dict.fromkeys(committed))
        self._removed.update(dict.fromkeys(ids.filter(pc.invert(is_pending)).to_pylist()))
        self._gone.update(ids.to_pylist())
        return len(ids)

    def take_over(self, later: PendingTable) -> None:
        """Add the changes of a table that lies over this one."""
        import pyarrow as pa

        if later.removed:
            self.remove(pa.array(later.removed, pa.string()))
        if later.rows.num_rows:
            self.put(later.rows, fresh=later.fresh_only, inserted=later.inserted_only)

    @property
    def hidden(self) -> pa.Array:
        """The ids of rows underneath that are changed or removed here, or may be."""
        import pyarrow as pa

        ids = self.rows.column("id").combine_chunks()
        return pa.concat_arrays([ids, pa.array(sorted(self._gone), pa.string())])

    def living(self, ids: pa.Array) -> pa.Array:
        """Those of some ids that were not removed."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if not self._gone:
            return ids
        return ids.filter(pc.invert(pc.is_in(ids, pa.array(sorted(self._gone), pa.string()))))

    def write_steps(self) -> tuple[StagedStep, ...]:
        """Return the steps that write the pending changes: what is deleted first, then what is put."""
        import pyarrow as pa

        rows, removed, fresh = self.rows, self.removed, self.fresh_only
        steps: list[StagedStep] = []
        if removed:
            keys = pa.array(removed, pa.string())
            steps.append(
                StagedStep(lambda target: stage_delete_ids(target, keys), opened=self.table)
            )
        if rows.num_rows:
            stage = stage_append if fresh else stage_upsert
            steps.append(StagedStep(lambda target: stage(target, rows), opened=self.table))
        return tuple(steps)

    # -------------------------------------------------------------- what a statement sees

    def candidates(
        self, conditions: Sequence[Condition], columns: Sequence[str] | None = None
    ) -> pa.Table:
        """Return committed rows that satisfy the conditions, and all pending rows.

        What is pending is not judged here, and what was removed is left out. With ``columns``, only these
        and `id`.
        """
        import pyarrow as pa

        found = self._unhidden(self.beneath.matching(conditions, columns))
        if columns is None:
            self._keep(found)
        if not self.rows.num_rows:
            return found
        return pa.concat_tables([found, self.rows.select(found.column_names)])

    def values_of(self, ids: pa.Array, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows with these ids in their order: as they are, or as they were when removed.

        Where there is none, every value is null. With ``columns``, only these and `id`.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        names = self.schema.names if columns is None else ["id", *columns]
        found = [self.rows.select(names), self._last.select(names)]
        # What was put again is pending, and older than nothing.
        known = pc.is_in(found[1].column("id"), found[0].column("id"))
        found[1] = found[1].filter(pc.invert(known))
        if not self.fresh_only or self.beneath.may_have_rows:
            pending = pa.concat_tables(found).column("id")
            rest = ids.filter(pc.invert(pc.is_in(ids, pending))).drop_null()
            found.append(self._committed(rest, names, whole=columns is None))
        table = self._joined(found)
        place = pc.index_in(ids, table.column("id").combine_chunks())
        return table.take(place)

    def current(self, ids: pa.Array) -> tuple[pa.Table, pa.ChunkedArray]:
        """Return the whole rows with these ids in their order, and which of them are there.

        Where there is none, every value but the id is null.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        known = ids
        if self._gone:
            gone = pc.is_in(ids, pa.array(sorted(self._gone), pa.string()))
            known = pc.if_else(gone, pa.scalar(None, pa.string()), ids)
        rows = self.values_of(known)
        is_there = rows.column("id").is_valid()
        at = rows.schema.get_field_index("id")
        return rows.set_column(at, self.schema.field("id"), ids), is_there

    def committed_ids(self, ids: pa.Array) -> list[str]:
        """Return those of some ids that committed rows have."""
        if not self.beneath.may_have_rows:
            return []
        found: list[str] = self._committed(ids, ["id"], whole=False).column("id").to_pylist()
        return found

    def ids_among(self, column: str, values: pa.Array) -> pa.Array:
        """Return the ids of rows, pending or committed, whose text column has one of the values."""
        import pyarrow as pa
        import pyarrow.compute as pc

        found = [
            self._unhidden(part).column("id")
            for part in self.beneath.with_values(column, values, ["id"])
        ]
        rows = self.rows
        found.append(rows.column("id").filter(pc.is_in(rows.column(column), values)))
        chunks = [chunk for one in found for chunk in one.chunks]
        return pa.chunked_array(chunks, pa.string()).combine_chunks()

    def rows_among(self, column: str, values: pa.Array) -> pa.Table:
        """Return the rows, pending or committed, whose text column has one of the values."""
        import pyarrow as pa

        return pa.concat_tables(self.with_values(column, values, self.schema.names))

    # -------------------------------------------------------------- what a table over this one sees

    @property
    def may_have_rows(self) -> bool:
        """False if there are certainly no rows, committed or pending."""
        return self.beneath.may_have_rows or self.is_changed

    def matching(
        self, conditions: Sequence[Condition], columns: Sequence[str] | None = None
    ) -> pa.Table:
        """Return the rows underneath that satisfy the conditions, and all pending ones."""
        return self.candidates(conditions, columns)

    def with_values(
        self, column: str, values: pa.Array, names: Sequence[str]
    ) -> Iterator[pa.Table]:
        """Yield the rows, pending or committed, whose text column has one of the values."""
        import pyarrow.compute as pc

        # What is found by another column is hidden by its id.
        wanted = [*names, *([] if "id" in names else ["id"])]
        for part in self.beneath.with_values(column, values, wanted):
            yield self._unhidden(part).select(names)
        rows = self.rows
        yield rows.filter(pc.is_in(rows.column(column), values)).select(names)

    # -------------------------------------------------------------- committed rows

    def _unhidden(self, found: pa.Table) -> pa.Table:
        """Leave out committed rows that were removed or have other values by now."""
        import pyarrow.compute as pc

        if not found.num_rows or not (self._gone or self.rows.num_rows):
            return found
        return found.filter(pc.invert(pc.is_in(found.column("id"), self.hidden)))

    def _committed(self, ids: pa.Array, names: Sequence[str], *, whole: bool) -> pa.Table:
        """Return the committed rows with these ids, in any order."""
        import pyarrow as pa
        import pyarrow.compute as pc

        known = self._read.filter(pc.is_in(self._read.column("id"), ids)).select(names)
        rest = ids
        if known.num_rows:
            rest = ids.filter(pc.invert(pc.is_in(ids, known.column("id"))))
        found = list(self.beneath.with_values("id", rest, names))
        if whole and found:
            self._keep(pa.concat_tables(found))
        return pa.concat_tables([known, *found])

    def _joined(self, tables: Sequence[pa.Table]) -> pa.Table:
        """Return the rows of all tables; ``ResourceLimit`` where a column of them has too much text."""
        import pyarrow as pa

        rows = pa.concat_tables(tables)
        for name, column in zip(rows.column_names, rows.columns, strict=True):
            kind = column.type
            is_text = pa.types.is_string(kind.value_type if pa.types.is_list(kind) else kind)
            if is_text and column.nbytes > MOST_TEXT_BYTES:
                raise ResourceLimit(
                    f"the mutation holds {column.nbytes} bytes of {self.entity.name}.{name}, and at most "
                    f"{MOST_TEXT_BYTES} of one property fit; change fewer rows at a time, or load them with "
                    "mode `patch`",
                    resource="mutation_bytes",
                    limit=MOST_TEXT_BYTES,
                    actual=column.nbytes,
                )
        return rows

    def _keep(self, rows: pa.Table) -> None:
        import pyarrow as pa

        if rows.num_rows:
            self._read = last_of_each(pa.concat_tables([self._read, rows]))


class _Stored:
    """The committed rows of a table at its pin."""

    def __init__(self, pin: TableState, table: Table) -> None:
        self.pin = pin
        self.table = table

    @property
    def may_have_rows(self) -> bool:
        """Whether there are any rows."""
        return bool(self.pin.row_count)

    def matching(
        self, conditions: Sequence[Condition], columns: Sequence[str] | None = None
    ) -> pa.Table:
        """Read the rows that satisfy the conditions; with ``columns``, only these and `id`."""
        where = filter_expression(self.table.schema, conditions)
        if columns is None:
            return read_rows(self.table, where)
        return self.table.read(["id", *(name for name in columns if name != "id")], where)

    def with_values(
        self, column: str, values: pa.Array, names: Sequence[str]
    ) -> Iterator[pa.Table]:
        """Read the rows whose text column has one of the values."""
        if not len(values) or not self.pin.row_count:
            return
        has_blobs = not set(names).isdisjoint(blob_columns(self.table.schema))
        is_most = len(values) >= _LOOKED_UP and 8 * len(values) >= self.pin.row_count
        if (len(values) > KEY_LIMIT or is_most) and not has_blobs:
            yield self._filtered(column, values, names)
            return
        for start in range(0, len(values), KEY_LIMIT):
            some = stored_items(values.slice(start, KEY_LIMIT).to_pylist(), values.type)
            where = filter_expression(self.table.schema, [Condition(column, "in", some)])
            if has_blobs:
                yield read_rows(self.table, where).select(names)
            else:
                yield self.table.read(names, where).select(names)

    def _filtered(self, column: str, values: pa.Array, names: Sequence[str]) -> pa.Table:
        """Scan the table for values too many to be looked up."""
        import pyarrow as pa
        import pyarrow.compute as pc

        columns = [*names, *([] if column in names else [column])]
        scanned = self.table.scan(columns)
        found = [
            part.filter(pc.is_in(part.column(column), values)).select(names)
            for part in in_large_parts(scanned, scanned.schema)
        ]
        plain = plain_schema(self.table.schema)
        schema = pa.schema([plain.field(name) for name in names])
        return pa.concat_tables([schema.empty_table(), *(one.cast(schema) for one in found)])


def last_of_each(rows: pa.Table) -> pa.Table:
    """Return the last row of each id, in the order of these."""
    import numpy as np
    import pyarrow as pa

    if rows.num_rows < 2:
        return rows
    codes = rows.column("id").combine_chunks().dictionary_encode().indices.to_numpy()
    last = np.zeros(int(codes.max()) + 1, np.int64)
    last[codes] = np.arange(len(codes))
    if len(last) == len(codes):
        return rows
    is_last = np.zeros(len(codes), np.bool_)
    is_last[last] = True
    # Unlike taking rows by their places, this works with any number of bytes.
    return rows.filter(pa.array(is_last))
