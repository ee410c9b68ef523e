"""Properties of a pinned table by code: whole columns, cached, or the rows that are asked for."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.cancel import aside
from omnigraph.read.kernels.arrays import Codes, Mask
from omnigraph.read.thresholds import ViewThresholds
from omnigraph.read.values.column import Column, one_array
from omnigraph.read.values.periods import Held, HeldMasks, TimeWindow
from omnigraph.read.view.byte_cache import ByteCache
from omnigraph.read.view.pinned_table import ColumnKey, Identity, PinnedTable
from omnigraph.storage.tables.transactions import content_fingerprint
from omnigraph.types import TEXT, PropType

ID = "id"
# About what a fingerprint takes in the cache, with its key.
_FINGERPRINT_BYTES = 512


class Origin(NamedTuple):
    """An older state that a numbering was derived from.

    ``moves`` maps each old code to the new one (-1: deleted). ``changed`` are the new codes whose values
    differ, inserted ones included; None: any may differ.
    """

    base: Identity
    moves: Codes
    changed: Codes | None

    @property
    def nbytes(self) -> int:
        """The bytes of both arrays."""
        return self.moves.nbytes + (0 if self.changed is None else self.changed.nbytes)


class Properties:
    """The columns of one table, numbered as ``row_ids`` are.

    ``key`` tells this numbering from others in the cache; ``origin`` is the older numbering it was derived
    from; ``codes_of`` finds the codes of row ids, -1 for rows that have none.
    """

    def __init__(
        self,
        pinned: PinnedTable,
        cache: ByteCache,
        key: Hashable,
        row_ids: npt.NDArray[np.uint64],
        codes_of: Callable[[npt.NDArray[np.uint64]], Codes],
        thresholds: ViewThresholds,
        origin: Origin | None = None,
    ) -> None:
        self.pinned = pinned
        self.row_ids = row_ids
        self._cache = cache
        self._key = key
        self._codes_of = codes_of
        self._thresholds = thresholds
        self._origin = origin

    def column(self, name: str) -> Column:
        """A property of all entities; null everywhere when the table has no such column."""

        def build() -> Column:
            derived = self._derived(name)
            return self._read(name) if derived is None else derived

        return self._cache.get(self.column_key(name), build, _nbytes)

    def has_column(self, name: str) -> bool:
        """Whether that column is kept in memory now."""
        return self._cache.peek(self.column_key(name)) is not None

    def holding(self, since: str, until: str, window: TimeWindow) -> Held:
        """Which entities hold in a window of moments, by the properties that bound their periods."""
        masks, is_date = self._masks(since, until)
        return masks.of(window, lambda: (self.column(since), self.column(until)), is_date=is_date)

    def holding_of(self, since: str, until: str, window: TimeWindow, codes: Codes) -> Mask | None:
        """Which of few entities hold; None where it is cheaper to look at their bounds."""
        masks, is_date = self._masks(since, until)

        def bounds() -> tuple[Column, Column]:
            return self.column(since), self.column(until)

        if not masks.is_used and not (self.has_column(since) and self.has_column(until)):
            return None
        held = masks.if_cheap(window, len(self.row_ids), bounds, is_date=is_date)
        return None if held is None else held.of(codes)

    def _masks(self, since: str, until: str) -> tuple[HeldMasks, bool]:
        """The masks of a period, and whether its bounds are Dates."""
        pinned = self.pinned
        key = ("holding", self._key, pinned.column_key(since), pinned.column_key(until))
        masks = self._cache.get(key, HeldMasks, lambda made: made.nbytes)
        return masks, self._type(since).scalar.counts_days

    def values(self, name: str, codes: Codes) -> pa.Array:
        """A property of these entities: from the column when that is there or cheap to read."""
        kept = self._cache.peek(self.column_key(name)) is not None
        if kept or self._is_whole(name, codes):
            array = self.column(name).array
            # A single value is a slice without a copy, so it is not worth releasing the interpreter's lock.
            return array.slice(int(codes[0]), 1) if len(codes) == 1 else array.take(codes)
        distinct, places = np.unique(codes, return_inverse=True)
        return self._take(name, distinct).take(places)

    def _is_whole(self, name: str, codes: Codes) -> bool:
        """Whether to read the whole column for the sake of these values."""
        type_ = self._type(name)
        if type_.is_list or type_.is_vector:
            return False
        rows, thresholds = len(self.row_ids), self._thresholds
        return rows <= thresholds.whole_column_rows or len(codes) * thresholds.take_cost > rows

    def column_key(self, name: str) -> Hashable:
        """What tells the values of a property from all others, of any table and any state of it."""
        return self._column_key(name, self._key)

    def kept_key(self, name: str) -> tuple[str, ColumnKey]:
        """The same for other processes: the fingerprint of the state, and the property.

        Numbers of versions mean nothing to them: another copy of the graph has other rows under the same one.
        """
        # A later version with the same rows is cached as the same numbering, and finds the same one on disk.
        fingerprint = self._cache.get(
            ("fingerprint", self._key),
            lambda: content_fingerprint(self.pinned.table),
            lambda _: _FINGERPRINT_BYTES,
        )
        return fingerprint, self.pinned.column_key(name)

    def _column_key(self, name: str, numbering: Hashable) -> Hashable:
        return ("column", numbering, self.pinned.column_key(name))

    def _type(self, name: str) -> PropType:
        return type_of(self.pinned, name)

    def _derived(self, name: str) -> Column | None:
        """The column, derived from that of an older state and the few rows that changed since."""
        origin, type_ = self._origin, self._type(name)
        if origin is None or origin.changed is None:
            return None
        before: Column | None = self._cache.peek(self._column_key(name, origin.base))
        if before is None:
            return None
        if len(origin.changed) * self._thresholds.take_cost > len(self.row_ids):
            return None
        fresh = self._take(name, origin.changed)
        if fresh.type != before.kind:
            return None
        kept = np.flatnonzero(origin.moves >= 0)
        places = np.empty(len(self.row_ids), np.int64)
        places[origin.moves[kept]] = kept
        places[origin.changed] = len(before) + np.arange(len(fresh))
        return Column(type_, pa.concat_arrays([before.array, fresh]).take(pa.array(places)))

    def _read(self, name: str) -> Column:
        type_ = self._type(name)
        stored = self.pinned.column_of(name)
        if stored is None:
            return Column(type_, pa.nulls(len(self.row_ids), type_.arrow_type()))
        rows = self.pinned.table.read([stored], with_row_id=True)
        values = _cast(one_array(rows.column(stored)), type_)
        read_ids = rows.column("_rowid").to_numpy()
        if np.array_equal(read_ids, self.row_ids):
            return Column(type_, values)

        def by_code() -> pa.Array:
            codes = self._codes_of(read_ids)
            places = np.empty(len(self.row_ids), np.int64)
            known = codes >= 0
            places[codes[known]] = np.flatnonzero(known)
            return values.take(pa.array(places))

        return Column(type_, aside(by_code, items=len(read_ids)))

    def _take(self, name: str, codes: Codes) -> pa.Array:
        return take_values(self.pinned, name, self.row_ids[codes].tolist())


def type_of(pinned: PinnedTable, name: str) -> PropType:
    """The type of a property, or of a column that every table of its kind has."""
    if name in pinned.entity.implicit_columns:
        return TEXT
    return pinned.entity.properties[name].type


def take_values(pinned: PinnedTable, name: str, row_ids: list[int]) -> pa.Array:
    """A property of the rows with these row ids, fetched from the table."""
    type_, stored = type_of(pinned, name), pinned.column_of(name)
    if stored is None:
        return pa.nulls(len(row_ids), type_.arrow_type())
    if not row_ids:
        return pa.array([], type_.arrow_type())
    taken = pinned.table.take(row_ids, [stored])
    return _cast(one_array(taken.column(stored)), type_)


def _cast(values: pa.Array, type_: PropType) -> pa.Array:
    wanted = type_.arrow_type()
    if values.type == wanted or pa.types.is_large_string(values.type):
        return values
    return values.cast(wanted)


def _nbytes(column: Column) -> int:
    return column.nbytes
