"""The merged rows of one table: gathered chunk by chunk, then staged as one transaction.

Each row knows the row id of the row that it replaces in the target, so nothing is looked up when it
is written, and all other rows of the table stay as they are. For example, one row with new values, one new row
and one removed row of a table at version 7 are staged as an update that deletes two rows of version 7
and adds one fragment of two rows, the first under its old row id.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.changes.row_pairs import ROW_ID, AlignedRows, ChangedRows
from omnigraph.changes.table_side import TableSide
from omnigraph.commit.changes import StagedStep
from omnigraph.lang.schema.catalog import Entity
from omnigraph.manifest.rows import TableState
from omnigraph.runner.runner import Runner
from omnigraph.storage.tables.blobs.blob_columns import as_blobs, is_blob
from omnigraph.storage.tables.blobs.carry import carried_blobs
from omnigraph.storage.tables.blobs.writing import INGEST_BATCH_ROWS
from omnigraph.storage.tables.staging import (
    MAX_ROWS_PER_FILE,
    TOLD_ROWS,
    Staged,
    stage_append_fragments,
    stage_replace_rows,
    write_fragments,
)
from omnigraph.storage.tables.table import Table
from omnigraph.validate.change_set import ORDER, TableDelta, needed_columns
from omnigraph.write.merge.decided import BLOB_VALUE, BlobOrigin, Decided, Side
from omnigraph.write.merge.spool import Scratch, Spool

SORTED_BYTES: Final = 128 << 20
"""This many bytes of rows are sorted by their row ids and written at a time."""

# No property can have such a name, because it begins with a digit.
_REPLACES: Final = "0replaces"
_SIDE, _ROW, _GIVEN = "0side:", "0row:", "0given:"
_ADDRESS: Final = "_rowaddr"


@dataclass(frozen=True, slots=True)
class Sides:
    """One table of a merge in its three states."""

    base: TableSide
    source: TableSide
    target: TableSide

    @property
    def target_is_base(self) -> bool:
        """Whether the target has not touched the table since the base."""
        return _identity(self.target) == _identity(self.base)

    def of(self, side: Side) -> TableSide:
        """Return the table on one side."""
        return {Side.BASE: self.base, Side.SOURCE: self.source, Side.TARGET: self.target}[side]


def _identity(side: TableSide) -> object:
    return None if side.state is None else side.state.identity


class MergedTable:
    """What a merge changes in one table of the target."""

    def __init__(
        self,
        sides: Sides,
        scratch: Scratch,
        taken_over: TableState | None = None,
        *,
        whole_rows: bool = True,
    ) -> None:
        self.sides = sides
        self.entity: Entity = sides.target.entity
        self.taken_over = taken_over
        """The source's state of the table, if the target pins that instead of writing rows."""
        self.inserts = 0
        self.updates = 0
        schema = _spooled_schema(self.entity, sides.target.schema)
        if not whole_rows:
            schema = pa.schema([schema.field(name) for name in checked_columns(self.entity)])
        self.rows = Spool(schema, scratch)
        """The rows to write, with the columns of ``decide`` and some of this module's own.

        Without ``whole_rows`` it has only what is checked: such rows cannot be written.
        """
        self.removed = Spool(_REMOVED, scratch)
        """The rows to delete: ``id`` and ``ROW_ID``."""

    @property
    def is_new(self) -> bool:
        """Whether the target does not have the table yet."""
        return self.sides.target.state is None

    @property
    def changes_nothing(self) -> bool:
        """Whether the target has everything already."""
        return not self.rows.num_rows and not self.removed.num_rows

    def add(self, decided: Decided, changes: ChangedRows, target: AlignedRows) -> None:
        """Take in what was decided about one chunk; ``target`` are the rows it was decided on."""
        replaces = decided.replaces.cast(pa.uint64())
        self.inserts += replaces.null_count
        self.updates += len(replaces) - replaces.null_count
        self.rows.add(_spooled(decided.rows, replaces, decided.blobs, self.rows.schema))
        if len(decided.removed):
            places = pc.index_in(decided.removed, value_set=changes.ids)
            row_ids = target.table.column(ROW_ID).combine_chunks().take(places)
            self._remove(decided.removed, row_ids)

    def remove(self, ids: pa.Array) -> None:
        """Delete more rows of the target, which the source did not change."""
        found = self.sides.target.rows_of(ids)
        self._remove(found.column("id"), found.column(ROW_ID))

    def _remove(self, ids: pa.Array, row_ids: pa.Array) -> None:
        columns = [ids, row_ids.cast(pa.uint64())]
        self.removed.add(pa.Table.from_arrays(columns, schema=_REMOVED))

    def finish(self) -> None:
        """End the gathering."""
        self.rows.finish()
        self.removed.finish()

    def delta(self, runner: Runner) -> TableDelta:
        """Return the change in the form that the rules about whole graphs take; rows are in order of ids."""
        pending = removed = None
        if self.rows.num_rows:
            rows = self.rows.table().select(checked_columns(self.entity))
            order = pa.array(np.arange(rows.num_rows), pa.int64())
            pending = runner.frame(rows.append_column(ORDER, order))
        if self.removed.num_rows:
            removed = runner.frame(self.removed.table().select(["id"]))
        return TableDelta(self.entity, pending, removed)

    # -- writing

    def step(self) -> StagedStep:
        """Return the step that changes the table: rows written and deleted at once."""
        return StagedStep(self.stage)

    def stage(self, table: Table) -> Staged:
        """Write the rows for a table that has the rows of the target, under the same row ids."""
        fragments: list[Any] = []
        gone: list[npt.NDArray[np.uint64]] = []
        for rows in self.rows.groups(MAX_ROWS_PER_FILE, SORTED_BYTES):
            # New rows come last: they have no row id yet.
            ordered = rows.take(pc.sort_indices(rows, [(_REPLACES, "ascending")]))
            row_ids = ordered.column(_REPLACES).combine_chunks()
            stored = pa.RecordBatchReader.from_batches(table.schema, self._stored(table, ordered))
            fragments += write_fragments(table, stored, row_ids)
            gone.append(_addresses(table, row_ids.drop_null()))
        gone += [
            _addresses(table, part.column(ROW_ID).combine_chunks())
            for part in self.removed.groups(MAX_ROWS_PER_FILE, SORTED_BYTES)
        ]
        addresses = np.concatenate([np.empty(0, np.uint64), *gone])
        if not len(addresses):
            return stage_append_fragments(table, fragments)
        staged = stage_replace_rows(table, addresses, fragments)
        if self.removed.num_rows > TOLD_ROWS:
            return staged
        ids = self.removed.table().column("id").to_pylist() if self.removed.num_rows else []
        return replace(staged, removed_ids=tuple(ids))

    def _stored(self, table: Table, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        """Yield the rows as the table stores them."""
        few = INGEST_BATCH_ROWS if self.entity.blob_properties else None
        for batch in rows.combine_chunks().to_batches(max_chunksize=few):
            columns = []
            for field in table.schema:
                if is_blob(field):
                    column = as_blobs(self._blobs(batch, field.name))
                else:
                    column = batch.column(field.name)
                    column = column if column.type == field.type else column.cast(field.type)
                columns.append(column)
            yield pa.RecordBatch.from_arrays(columns, schema=table.schema)

    def _blobs(self, batch: pa.RecordBatch, name: str) -> pa.StructArray:
        """Return the values of one Blob column, each from the side that it comes from."""
        sides = batch.column(_SIDE + name).to_numpy(zero_copy_only=False)
        found: list[pa.Array] = [batch.column(_GIVEN + name)]
        place = np.arange(len(sides))
        for side in (Side.SOURCE, Side.TARGET):
            chosen = np.flatnonzero((sides == side) & _is_valid(batch.column(name)))
            if len(chosen):
                place[chosen] = sum(map(len, found)) + np.arange(len(chosen))
                found.append(self._carried(side, batch.take(pa.array(chosen)), name))
        return pa.concat_arrays(found).take(pa.array(place))

    def _carried(self, side: Side, batch: pa.RecordBatch, name: str) -> pa.Array:
        origin = self.sides.of(side)
        column = origin.pinned.column_of(name)
        assert column is not None, "a property without a column has no blobs"
        with origin.reading():
            addresses = pa.array(origin.addresses(batch.column(_ROW + name)), pa.uint64())
            return carried_blobs(origin.table, column, batch.column(name), addresses).cast(
                BLOB_VALUE
            )


def checked_columns(entity: Entity) -> list[str]:
    """Return the columns that the rules about whole graphs read."""
    return ["id", *needed_columns(entity)]


_REMOVED: Final = pa.schema([("id", pa.string()), (ROW_ID, pa.uint64())])


def _spooled_schema(entity: Entity, rows: pa.Schema) -> pa.Schema:
    fields = [field for field in rows if field.name != ROW_ID]
    fields.append(pa.field(_REPLACES, pa.uint64()))
    for name in entity.blob_properties:
        fields += [
            pa.field(_SIDE + name, pa.int8()),
            pa.field(_ROW + name, pa.uint64()),
            pa.field(_GIVEN + name, BLOB_VALUE),
        ]
    return pa.schema(fields)


def _spooled(
    rows: pa.Table, replaces: pa.Array, blobs: Mapping[str, BlobOrigin], schema: pa.Schema
) -> pa.Table:
    """Return decided rows with the row ids they replace and the places of their blobs beside them."""
    columns: dict[str, Any] = {name: rows.column(name) for name in rows.column_names}
    columns[_REPLACES] = replaces
    for name, origin in blobs.items():
        columns[_SIDE + name] = origin.side
        columns[_ROW + name] = origin.row_id
        columns[_GIVEN + name] = origin.given
    return pa.Table.from_arrays([columns[field.name] for field in schema], schema=schema)


def _addresses(table: Table, row_ids: pa.Array) -> npt.NDArray[np.uint64]:
    """Return where the rows with these row ids are."""
    if not len(row_ids):
        return np.empty(0, np.uint64)
    found = table.take(row_ids.to_pylist(), [_ADDRESS])
    addresses: npt.NDArray[np.uint64] = found.column(_ADDRESS).to_numpy()
    return addresses


def _is_valid(column: pa.Array) -> npt.NDArray[np.bool_]:
    valid: npt.NDArray[np.bool_] = column.is_valid().to_numpy(zero_copy_only=False)
    return valid
