"""One table of one snapshot: rows by id or in order of ids, under the current names of properties.

A past state may have other columns. A property is the column that carries its id, whatever its name
was then; where there is none, all values are null.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.changes.row_pairs import ROW_ID, AlignedRows
from omnigraph.changes.stats import Meter
from omnigraph.lang.schema.catalog import EdgeType, Entity, NodeType, Property, fill_text
from omnigraph.manifest.rows import TableState
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.manifest.workspace import Workspace
from omnigraph.read.view.pinned_table import PinnedTable, pin_table
from omnigraph.runner.external_sort import external_sort
from omnigraph.storage.columns.without_columns import CHANGED, CREATED
from omnigraph.storage.filters import Condition, Pushdown, filter_expression
from omnigraph.storage.fragment_groups import scan_windows
from omnigraph.storage.tables.table import Table
from omnigraph.types import cast_what_fits
from omnigraph.validate.committed import KEY_LIMIT

ROW_ADDRESS: Final = "_rowaddr"

CHUNK_ROWS: Final = 8_192
"""At most how many rows of a table are compared at once."""

CHUNK_BYTES: Final = 32 << 20
"""About how much of a table is held at once."""

Ids: TypeAlias = pa.Array | pa.ChunkedArray

STAMPS: Final = (CREATED, CHANGED)
"""The columns with the versions in which a row was made and last changed."""

DESCRIPTOR: Final = pa.struct(
    [
        ("kind", pa.uint8()),
        ("position", pa.uint64()),
        ("size", pa.uint64()),
        ("blob_id", pa.uint32()),
        ("blob_uri", pa.utf8()),
    ]
)
"""A blob without its bytes, as Lance describes it."""


def rows_schema(entity: Entity) -> pa.Schema:
    """The columns of ``AlignedRows.table``: `id`, the ends of an edge, the properties, ``ROW_ID``."""
    fields = [pa.field(name, pa.utf8()) for name in entity.implicit_columns]
    for name, prop in entity.properties.items():
        fields.append(pa.field(name, DESCRIPTOR if prop.type.is_blob else prop.type.arrow_type()))
    return pa.schema([*fields, pa.field(ROW_ID, pa.uint64())])


class TableSide:
    """The table of a type as a snapshot pins it. ``state`` is None where it has none: no rows.

    ``entity`` gives the names of the columns; it may be of another time than the snapshot, because
    table and columns are found by their ids. A property without a column is null in every row; with
    ``defaults``, one that is required has its default. Those of ``without`` are null as well: what is stored
    has another meaning there. With ``stamps`` rows have the versions of the table in which they were made and last
    changed, too. Two branches may have widened a `U32` to `U64` and to `I64`: values that the type of ``entity`` does
    not hold are null, and ``misfits`` has the ids of their rows by property. Every read raises ``HistoryReclaimed`` when the version or its branch is gone.
    """

    def __init__(
        self,
        workspace: Workspace,
        snapshot: Snapshot,
        entity: Entity,
        meter: Meter | None = None,
        pin: Callable[[], PinnedTable] | None = None,
        *,
        defaults: bool = False,
        stamps: bool = False,
        without: Collection[str] = (),
    ) -> None:
        self.workspace = workspace
        self.entity = entity
        self._defaults = defaults
        self._without = without
        self.misfits: dict[str, set[str]] = {}
        self.schema = rows_schema(entity)
        if stamps:
            for name in STAMPS:
                self.schema = self.schema.append(pa.field(name, pa.uint64()))
        self.state = state_of(snapshot, entity)
        self._key = _key_that_is_the_id(entity)
        self.meter = Meter(workspace) if meter is None else meter
        self._pinned: PinnedTable | None = None
        if self.state is not None:
            # A reader of the handle may have the table open already.
            self._pinned = (
                pin_table(workspace, snapshot, entity, self.state) if pin is None else pin()
            )

    @property
    def row_count(self) -> int:
        """How many rows there are."""
        return 0 if self.state is None else self.state.row_count

    def is_lineage_of(self, other: TableSide) -> bool:
        """Whether both sides are states of one table; types that a merge joined have two."""
        states = self.state, other.state
        return None not in states and len({one.incarnation for one in states if one}) == 1

    def was_filled(self, names: Iterable[str], other: TableSide) -> bool:
        """Whether rows that nobody has written since have values of these properties, and not on the other side.

        They got the default of a required property when it was added. It counts if that is not what a row
        has today that lacks the property: it is no longer required, or has another default.
        """
        return any(
            self.pinned.filled_with(name) not in (None, _fill(self.entity.properties[name]))
            and not other.pinned.has_property(self.entity.properties[name])
            for name in names
        )

    @property
    def pinned(self) -> PinnedTable:
        """The pinned table; only for a side that has one."""
        assert self._pinned is not None
        return self._pinned

    @property
    def table(self) -> Table:
        """The open table; only for a side that has one."""
        return self.pinned.table

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Turn the error of a missing file into one that says which branch or version was deleted."""
        with nullcontext() if self._pinned is None else self._pinned.reading():
            yield

    def aligned(self, ids: Ids, row_ids: Ids | None = None) -> AlignedRows:
        """The rows of these ids, one for each, in that order.

        ``row_ids`` say where each may be; null where that is not known. That spares the look-up by id
        where it is right; where it is not, the look-up is done all the same.
        """
        if row_ids is None or self.row_count == 0:
            return self.align(self.rows_of(ids), ids)
        found = self.rows_at(row_ids, ids)
        rest = ids.filter(pc.invert(pc.is_in(ids, value_set=found.column("id"))))
        if len(rest):
            found = pa.concat_tables([found, self.rows_of(rest)])
        return self.align(found, ids)

    def rows_at(self, row_ids: Ids, ids: Ids, *, sure: bool = False) -> pa.Table:
        """The rows at these row ids that are those of the ids beside them, in no particular order.

        ``sure``: the row ids were given by this state of the table, so the ids need not be read.
        """
        known = row_ids.drop_null()
        if isinstance(known, pa.ChunkedArray):
            known = known.combine_chunks()
        if self.row_count == 0 or not len(known):
            return self.schema.empty_table()
        columns = self._columns()
        with self.reading():
            found = self.table.find(known, [one for one in columns if one != "id" or not sure])
        self.meter.rows_read += found.num_rows
        expected = ids.take(pc.index_in(found.column(ROW_ID), value_set=row_ids))
        if sure:
            return self.conform(found.append_column("id", expected))
        # Another row may have that row id here: on another branch of the table it is given anew.
        return self.conform(found.filter(pc.equal(found.column("id"), expected)))

    def rows_of(self, ids: Ids) -> pa.Table:
        """The rows with these ids, as far as there are any, in no particular order."""
        if self.row_count == 0 or len(ids) == 0:
            return self.schema.empty_table()
        parts = []
        with self.reading():
            schema = self.table.schema
            for start in range(0, len(ids), KEY_LIMIT):
                wanted = ids.slice(start, KEY_LIMIT).to_pylist()
                where = filter_expression(schema, [Condition("id", "in", wanted)])
                parts.append(self._read(where))
        return pa.concat_tables(parts)

    def rows_where(self, conditions: Sequence[Condition]) -> pa.Table:
        """The rows that satisfy all conditions, in no particular order."""
        if self.row_count == 0:
            return self.schema.empty_table()
        with self.reading():
            return self._read(filter_expression(self.table.schema, conditions))

    def as_stored(self) -> Iterator[pa.Table]:
        """Every row, in tables of a few megabytes, in no particular order."""
        if self.row_count == 0:
            return
        with self.reading():
            for batch in scan_windows(self.table, self._columns(), with_row_id=True):
                self.meter.rows_read += batch.num_rows
                yield self.conform(pa.Table.from_batches([batch]))

    def align(self, rows: pa.Table, ids: Ids) -> AlignedRows:
        """Put rows in the order of ids, with nulls for those that are not among them."""
        places = pc.index_in(ids, value_set=rows.column("id"))
        if isinstance(places, pa.ChunkedArray):
            places = places.combine_chunks()
        return AlignedRows(pc.is_valid(places), rows.take(places))

    def addresses(self, row_ids: Ids) -> list[int]:
        """Where the rows with these row ids are, for reading their blobs."""
        with self.reading():
            found = self.table.take(row_ids.to_pylist(), [ROW_ADDRESS])
        addresses: list[int] = found.column(ROW_ADDRESS).to_pylist()
        return addresses

    def in_order(self, after: str | None = None) -> Iterator[pa.Table]:
        """Every row in ascending order of ids, in tables of a few thousand; ``after`` an id, if given."""
        if self.row_count == 0:
            return
        with self.reading():
            if after is None:
                scanned = scan_windows(self.table, self._columns(), with_row_id=True)
            else:
                where = filter_expression(self.table.schema, [Condition("id", ">", after)])
                scanned = iter(self.table.scan(self._columns(), where, with_row_id=True))
            for batch in external_sort(scanned, "id", CHUNK_ROWS):
                rows = self.conform(pa.Table.from_batches([batch]))
                self.meter.rows_read += rows.num_rows
                yield rows

    def conform(self, rows: pa.Table) -> pa.Table:
        """Rows as they were read, in the columns of ``schema``."""
        columns = []
        for field in self.schema:
            name = "id" if field.name == self._key else self.column_of(field.name)
            if name is None:
                columns.append(self._missing(field, rows.num_rows))
            else:
                column = rows.column(name)
                if column.type != field.type:
                    column = self._cast(column, field, rows.column("id"))
                columns.append(column)
        return pa.Table.from_arrays(columns, schema=self.schema)

    def _cast(self, column: Ids, field: pa.Field, ids: Ids) -> Ids:
        """A column in the type of today, which may be larger than that of a past state."""
        try:
            return column.cast(field.type)
        except pa.ArrowInvalid:
            fitting, fits = cast_what_fits(column, field.type)
            misfits = self.misfits.setdefault(field.name, set())
            misfits.update(ids.filter(pc.invert(fits)).to_pylist())
            return fitting

    def _missing(self, field: pa.Field, rows: int) -> pa.Array:
        """The values of a property that the table does not have."""
        prop = self.entity.properties.get(field.name)
        if self._defaults and prop is not None and prop.fills:
            return prop.default_column(rows).cast(field.type)
        return pa.nulls(rows, field.type)

    def _read(self, where: Pushdown | None) -> pa.Table:
        rows = self.conform(self.table.read(self._columns(), where, with_row_id=True))
        self.meter.rows_read += rows.num_rows
        return rows

    def _columns(self) -> Sequence[str]:
        names = (name for name in self.schema.names if name not in {ROW_ID, self._key})
        found = [self.column_of(name) for name in names]
        return [name for name in found if name is not None]

    def column_of(self, name: str) -> str | None:
        """The column that a property, or an implicit column, is read from; None: it is null in every row."""
        if name in self._without:
            return None
        return name if name == ROW_ID or name in STAMPS else self.pinned.column_of(name)


def _fill(prop: Property) -> str | None:
    return fill_text(prop.default_column(1)[0]) if prop.fills else None


def state_of(snapshot: Snapshot, entity: Entity) -> TableState | None:
    """The table of a type at a snapshot, whatever its name was then; None where it has none."""
    kind = "node" if isinstance(entity, NodeType) else "edge"
    for key, state in snapshot.tables.items():
        if state.incarnation in entity.incarnations and key.startswith(f"{kind}:"):
            return state
    return None


def _key_that_is_the_id(entity: Entity) -> str | None:
    """The property that has the same text as the id of its node, and is not read besides; or None."""
    if isinstance(entity, EdgeType) or entity.key is None or len(entity.key) > 1:
        return None
    (name,) = entity.key
    return name if entity.properties[name].type.scalar.is_text else None
