"""Patches: records that say only what changes become whole rows.

The records of an id are applied in order, later ones over earlier ones, and over the row that the table
has under that id. Whether a record gives a property is in the column ``0given``: a null that is
written is given, a property that is left out is not.

For example, the stored row {id: ann, age: 30, city: Rome} and the records {id: ann, age: 31} and
{id: ann, city: null} make {id: ann, age: 31, city: null}.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.lang.schema.catalog import EdgeType, Entity
from omnigraph.pipeline.formats.typed_batch import GIVEN, column_type, givable_names, given_masks
from omnigraph.validate.change_set import MADE, ORDER, needed_columns

Numbers = NDArray[np.int64]
Carry = Callable[[str, Numbers], pa.Array]
"""The stored values of a Blob column, as a typed batch has them, of the rows at these places."""


class StoredRows(NamedTuple):
    """Rows that the table has: their ids and plain columns, and a function that fetches blobs."""

    rows: pa.Table
    carry: Carry | None = None


class Applied(NamedTuple):
    """The rows that records make, one for each id, in the order in which the ids first came.

    The order of a row is that of the last record which gave a column that set rules look at, or else of
    its last record. ``givers`` has for each column the order of the record that gave it last; where
    none did, that of the last record of the row.
    """

    rows: pa.RecordBatch
    givers: Mapping[str, Numbers]


def apply_records(entity: Entity, records: pa.RecordBatch, stored: StoredRows) -> Applied:
    """Apply the records of a patch to the rows that the table has of their ids.

    All records of an id must be among ``records``; ``stored`` may have other rows too.
    """
    groups = _Groups(entity, records)
    place = pc.index_in(groups.ids, _one(stored.rows.column("id")))
    base = place.fill_null(-1).to_numpy().astype(np.int64)
    names = givable_names(entity)
    last = {name: groups.last(name) for name in names}
    columns = {name: _column(entity, name, groups, last[name], base, stored) for name in names}
    for vector, embed in entity.embeds.items():
        default = _default(entity, embed.source)
        stale = _stale(groups, vector, embed.source, base, stored, columns[embed.source], default)
        columns[vector] = pc.if_else(stale, pa.scalar(None, columns[vector].type), columns[vector])
    deciding = np.maximum.reduce(
        [np.full(len(base), -1), *(last[name] for name in needed_columns(entity))]
    )
    orders = pa.array(groups.orders_of(deciding))
    arrays = [groups.ids, *columns.values(), orders]
    out = [*names, ORDER]
    if isinstance(entity, EdgeType) and entity.identity is not None:
        arrays.append(pa.array(np.zeros(len(base), np.bool_)))
        out.append(MADE)
    rows = pa.RecordBatch.from_arrays(arrays, names=["id", *out])
    return Applied(rows, {name: groups.orders_of(at) for name, at in last.items()})


class _Groups:
    """The records by id: sorted by id, and within an id by their order."""

    def __init__(self, entity: Entity, records: pa.RecordBatch) -> None:
        self.records = records
        codes = records.column("id").dictionary_encode().indices.to_numpy().astype(np.int64)
        orders = records.column(ORDER).to_numpy()
        self.order = np.lexsort((orders, codes))
        codes = codes[self.order]
        self.starts = np.flatnonzero(np.diff(codes, prepend=-1))
        self.ends = np.append(self.starts[1:], len(codes)) - 1
        self.ids = records.column("id").take(pa.array(self.order[self.starts]))
        self._orders = orders[self.order]
        given = given_masks(entity, records.column(GIVEN))
        self._places = np.arange(len(codes))
        self._given = {name: mask[self.order] for name, mask in given.items()}

    def last(self, name: str) -> Numbers:
        """For each id the place of the last record that gives a column, or -1."""
        return _reduced(self._given_places(name), self.starts)

    def last_up_to(self, name: str, places: Numbers) -> Numbers:
        """The same, of the records up to one place for each id; -1 there gives -1."""
        if not len(self.starts):
            return places
        running = np.maximum.accumulate(self._given_places(name))[places]
        return np.where((places >= 0) & (running >= self.starts), running, -1)

    def _given_places(self, name: str) -> Numbers:
        return np.where(self._given[name], self._places, -1)

    def rows_of(self, places: Numbers) -> Numbers:
        """The records at these places, counted as they came in."""
        return self.order[places]

    def orders_of(self, places: Numbers) -> Numbers:
        """The order of the record at each place; -1 stands for the last record of the id."""
        orders: Numbers = self._orders[np.where(places >= 0, places, self.ends)]
        return orders


def _reduced(values: Numbers, starts: Numbers) -> Numbers:
    if not len(starts):
        return values
    found: Numbers = np.maximum.reduceat(values, starts)
    return found


def _column(
    entity: Entity,
    name: str,
    groups: _Groups,
    last: Numbers,
    base: Numbers,
    stored: StoredRows,
) -> pa.Array:
    """One value for each id: of the last record that gives it, else of the stored row, else the default."""
    given = groups.records.column(name)
    unchanged = (last < 0) & (base >= 0)
    if entity.properties.get(name) is not None and entity.properties[name].type.is_blob:
        # Only values that stay are fetched: blobs may be large.
        wanted = base[unchanged]
        assert stored.carry is not None or not len(wanted)
        old = stored.carry(name, wanted) if stored.carry is not None else given.slice(0, 0)
        base = np.full_like(base, -1)
        base[unchanged] = np.arange(len(wanted))
    else:
        old = _one(stored.rows.column(name))
    return _chosen(given, old, groups.rows_of(last), last >= 0, base, _default(entity, name))


def _default(entity: Entity, name: str) -> pa.Array | None:
    prop = entity.properties.get(name)
    return None if prop is None or prop.default is None else prop.default_column(1)


def _chosen(
    given: pa.Array,
    old: pa.Array,
    rows: Numbers,
    is_given: NDArray[np.bool_],
    base: Numbers,
    default: pa.Array | None,
) -> pa.Array:
    """The given values, else the stored ones, else the default, else null."""
    if old.type != given.type:
        old = old.cast(given.type)
    index = np.where(is_given, rows, base + len(given))
    absent = ~is_given & (base < 0)
    if default is None:
        return pa.concat_arrays([given, old]).take(pa.array(index, mask=absent))
    index[absent] = len(given) + len(old)
    return pa.concat_arrays([given, old, default]).take(pa.array(index))


def _stale(
    groups: _Groups,
    vector: str,
    source: str,
    base: Numbers,
    stored: StoredRows,
    texts: pa.Array,
    default: pa.Array | None,
) -> pa.Array:
    """Which vectors were made of another text than the one that the row has now."""
    then = groups.last_up_to(source, groups.last(vector))
    given = groups.records.column(source)
    old = _one(stored.rows.column(source))
    before = _chosen(given, old, groups.rows_of(then), then >= 0, base, default)
    same = pc.or_(pc.equal(before, texts).fill_null(False), _both_null(before, texts))
    return pc.invert(same)


def _both_null(one: pa.Array, other: pa.Array) -> pa.Array:
    return pc.and_(one.is_null(), other.is_null())


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def plain_names(entity: Entity) -> list[str]:
    """The columns of a stored row that are read with it: all but its blobs."""
    blobs = set(entity.blob_properties)
    return ["id", *(name for name in givable_names(entity) if name not in blobs)]


def nothing_stored(entity: Entity) -> StoredRows:
    """The stored rows of a table that has none of the ids."""
    fields = [
        (
            name,
            pa.utf8()
            if name not in entity.properties
            else column_type(entity.properties[name].type),
        )
        for name in plain_names(entity)
    ]
    return StoredRows(pa.schema(fields).empty_table())
