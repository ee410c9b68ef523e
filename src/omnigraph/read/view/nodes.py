"""The nodes of one type at one version, numbered in the order of their ids.

For example:

    stored rows bob (row id 7), ada (row id 9)   ->   ordinals ada 0, bob 1; row ids by ordinal [9, 7]
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.cancel import aside, holding
from omnigraph.lang.schema.catalog import NodeType
from omnigraph.read.kept.kept_file import held_bytes, is_mapped
from omnigraph.read.kernels.arrays import Codes, Mask
from omnigraph.read.kernels.id_index import IdIndex
from omnigraph.read.thresholds import ViewThresholds
from omnigraph.read.values.column import Column, one_array
from omnigraph.read.values.periods import Held, TimeWindow
from omnigraph.read.view.byte_cache import ByteCache
from omnigraph.read.view.pinned_table import ColumnKey, Identity, PinnedTable
from omnigraph.read.view.properties import Origin, Properties
from omnigraph.read.view.row_changes import TableChanges

# If the highest row id is below this many times the number of rows, a lookup table is kept; otherwise
# ids are searched for.
_DENSE = 8


class RowIds:
    """Stable row ids by code, and the way back."""

    def __init__(self, row_ids: npt.NDArray[np.uint64]) -> None:
        self.row_ids = row_ids
        self._table: Codes | None = None
        self._sorted: tuple[npt.NDArray[np.uint64], Codes] | None = None

    def codes(self, row_ids: npt.NDArray[np.uint64]) -> Codes:
        """The codes of row ids; -1 for those that have none."""
        if self.row_ids.size == 0:
            return np.full(len(row_ids), -1, np.int32)
        highest = int(self.row_ids.max())
        if highest < _DENSE * self.row_ids.size + 1024:
            return self._by_table(row_ids, highest)
        return self._by_search(row_ids)

    def _by_table(self, row_ids: npt.NDArray[np.uint64], highest: int) -> Codes:
        table = self._table
        if table is None:
            # One place more, which answers for every row id beyond the highest.
            table = np.full(highest + 2, -1, np.int32)
            table[self.row_ids] = np.arange(self.row_ids.size, dtype=np.int32)
            self._table = table
        codes: Codes = table[np.minimum(row_ids, np.uint64(highest + 1))]
        return codes

    def _by_search(self, row_ids: npt.NDArray[np.uint64]) -> Codes:
        if self._sorted is None:
            order = np.argsort(self.row_ids, kind="stable").astype(np.int32)
            self._sorted = self.row_ids[order], order
        ascending, order = self._sorted
        places = np.minimum(np.searchsorted(ascending, row_ids), ascending.size - 1)
        codes: Codes = np.where(ascending[places] == row_ids, order[places], np.int32(-1))
        return codes

    @property
    def nbytes(self) -> int:
        """The bytes of everything made so far."""
        total = held_bytes(self.row_ids)
        table, ranked = self._table, self._sorted
        if table is not None:
            total += table.nbytes
        if ranked is not None:
            total += ranked[0].nbytes + ranked[1].nbytes
        return total


class NodeIds:
    """The ids of a node table, ascending by UTF-8 bytes, with their row ids: what is cached.

    ``size`` says how many there are. Those that are kept on disk are loaded when they are first used.
    """

    def __init__(
        self,
        id_array: pa.StringArray,
        row_ids: npt.NDArray[np.uint64],
        origin: Origin | None = None,
    ) -> None:
        self.size = len(id_array)
        self.origin = origin
        self._loaded: tuple[pa.StringArray, RowIds] | None = id_array, RowIds(row_ids)
        self._load: Callable[[], NodeIds] | None = None
        self._lock = threading.Lock()

    @staticmethod
    def later(size: int, load: Callable[[], NodeIds]) -> NodeIds:
        """As many ids as ``size``, which are loaded when they are first used."""
        ids = NodeIds(pa.array([], pa.string()), np.empty(0, np.uint64))
        ids.size, ids._loaded, ids._load = size, None, load
        return ids

    @property
    def id_array(self) -> pa.StringArray:
        """The ids by ordinal."""
        return self._content()[0]

    @property
    def rows(self) -> RowIds:
        """The row ids by ordinal."""
        return self._content()[1]

    @property
    def is_loaded(self) -> bool:
        """Whether the ids are at hand; otherwise their first use loads them."""
        return self._loaded is not None

    def _content(self) -> tuple[pa.StringArray, RowIds]:
        loaded = self._loaded
        if loaded is None:
            with holding(self._lock):
                if self._loaded is None:
                    assert self._load is not None
                    found = self._load()
                    self._loaded = found.id_array, found.rows
                loaded = self._loaded
        return loaded

    @staticmethod
    def read(pinned: PinnedTable) -> NodeIds:
        """One scan of the ids, sorted."""
        rows = pinned.table.read(["id"], with_row_id=True)

        def in_order() -> NodeIds:
            ids = one_array(rows.column("id"))
            row_ids = rows.column("_rowid").to_numpy()
            if len(ids) > 1 and not pc.all(pc.less(ids[:-1], ids[1:])).as_py():
                order = pc.sort_indices(ids)
                ids, row_ids = ids.take(order), row_ids[order.to_numpy()]
            return NodeIds(ids, row_ids)

        return aside(in_order, items=rows.num_rows)

    def after(self, base: Identity, changes: Sequence[TableChanges]) -> NodeIds:
        """The ids of a later state, derived from these, which are those of ``base``."""
        now, moves = self, None
        for change in changes:
            now, moved = now._after(change)
            moves = moved if moves is None else _composed(moves, moved)
        if moves is None:
            same = np.arange(len(self.id_array), dtype=np.int32)
            return NodeIds(self.id_array, self.rows.row_ids, Origin(base, same, same[:0]))
        # Deleted and inserted again: the same node for the edges that name it.
        lost = (moves < 0).nonzero()[0]
        moves[lost] = now.find(self.id_array.take(lost))
        if any(change.columns_too for change in changes):
            return NodeIds(now.id_array, now.rows.row_ids, Origin(base, moves, None))
        touched = [rows["_rowid"] for one in changes for rows in (one.inserted, one.updated)]
        changed = np.unique(now.rows.codes(np.concatenate(touched)))
        return NodeIds(now.id_array, now.rows.row_ids, Origin(base, moves, changed[changed >= 0]))

    def _after(self, changes: TableChanges) -> tuple[NodeIds, Codes]:
        """The ids after these changes, and for each old ordinal the new one (-1: deleted)."""
        size = len(self.id_array)
        kept = np.ones(size, np.bool_)
        gone = self.rows.codes(changes.gone)
        kept[gone[gone >= 0]] = False
        inserted = changes.inserted.sort_by("id")
        fresh = one_array(inserted.column("id")).cast(self.id_array.type)
        old = np.flatnonzero(kept)
        places = np.searchsorted(old, _lower_bounds(self.id_array, fresh))
        order = np.insert(old, places, size + np.arange(len(fresh)))
        ids = pa.concat_arrays([self.id_array, fresh]).take(pa.array(order))
        row_ids = np.concatenate([self.rows.row_ids, inserted.column("_rowid").to_numpy()])
        moves = np.full(size + len(fresh), -1, np.int32)
        moves[order] = np.arange(len(order), dtype=np.int32)
        return NodeIds(ids, row_ids[order]), moves[:size].copy()

    def find_one(self, id: str) -> int:
        """The ordinal of an id; -1 when there is none."""
        ids, low, high = self.id_array, 0, len(self.id_array)
        # Texts compare by code point here, which is the order of their UTF-8 bytes.
        while low < high:
            middle = (low + high) // 2
            if ids[middle].as_py() < id:
                low = middle + 1
            else:
                high = middle
        return low if low < len(ids) and ids[low].as_py() == id else -1

    def find(self, ids: pa.Array) -> Codes:
        """The ordinals of some ids, without an index of all; -1 for null and where there is none."""
        if len(self.id_array) == 0:
            return np.full(len(ids), -1, np.int32)
        places = np.minimum(_lower_bounds(self.id_array, ids), len(self.id_array) - 1)
        same = pc.equal(self.id_array.take(pa.array(places)), ids).fill_null(False)
        found: Codes = np.where(same.to_numpy(zero_copy_only=False), places, -1).astype(np.int32)
        return found

    @property
    def nbytes(self) -> int:
        """The bytes of everything made so far."""
        if self._loaded is None:
            return 0
        id_array, rows = self._loaded
        is_kept = id_array.nbytes > 0 and is_mapped(rows.row_ids)
        ids = 0 if is_kept else int(id_array.get_total_buffer_size())
        return ids + rows.nbytes + (0 if self.origin is None else self.origin.nbytes)


def _composed(first: Codes, second: Codes) -> Codes:
    """Two renumberings as one; -1 stays -1."""
    moves: Codes = np.where(first >= 0, second[first], np.int32(-1))
    return moves


def _lower_bounds(ids: pa.Array, wanted: pa.Array) -> npt.NDArray[np.int64]:
    """For each wanted text how many of the ascending ids are smaller: all searched at once."""
    low = np.zeros(len(wanted), np.int64)
    high = np.full(len(wanted), len(ids), np.int64)
    while (searching := low < high).any():
        middle = (low + high) // 2
        probe = ids.take(pa.array(np.minimum(middle, len(ids) - 1)))
        smaller = pc.less(probe, wanted).fill_null(False).to_numpy(zero_copy_only=False)
        low = np.where(searching & smaller, middle + 1, low)
        high = np.where(searching & ~smaller, middle, high)
    return low


class NodeSpace:
    """A node type at a snapshot: a ``Space`` whose codes are ordinals, in the order of the ids."""

    def __init__(
        self,
        type: NodeType,
        pinned: PinnedTable,
        ids: NodeIds,
        cache: ByteCache,
        thresholds: ViewThresholds,
    ) -> None:
        self.type = type
        self.pinned = pinned
        self.node_ids = ids
        self._rows = ids.rows
        self._nodes_per_id = thresholds.nodes_per_id
        self._properties = Properties(
            pinned,
            cache,
            pinned.identity,
            ids.rows.row_ids,
            ids.rows.codes,
            thresholds,
            ids.origin,
        )

    @property
    def size(self) -> int:
        """How many nodes there are."""
        return self.node_ids.size

    def type_names(self, codes: Codes) -> pa.Array:
        """The name of the type, for each of these entities."""
        return pa.repeat(self.type.name, len(codes))

    @property
    def row_ids(self) -> npt.NDArray[np.uint64]:
        """The stable row ids by ordinal."""
        return self._rows.row_ids

    @property
    def id_array(self) -> pa.StringArray:
        """The ids by ordinal: ascending by UTF-8 bytes."""
        return self.node_ids.id_array

    def ordinal_of(self, id: str) -> int:
        """The ordinal of a node; -1 when there is none of that id."""
        return self.node_ids.find_one(id)

    def ordinals_of(self, ids: pa.Array | pa.ChunkedArray) -> Codes:
        """The ordinals of many ids; -1 for null and for ids that are not there."""
        if len(ids) * self._nodes_per_id < self.size:
            return self.node_ids.find(one_array(ids))
        found = aside(
            lambda: pc.index_in(ids, value_set=self.id_array, skip_nulls=True),
            items=max(len(ids), self.size),
        )
        codes: Codes = one_array(found).fill_null(-1).to_numpy()
        return codes.astype(np.int32, copy=False)

    def finder(self, count: int) -> Callable[[pa.ChunkedArray], Codes]:
        """A way to get the ordinals of ``count`` ids in parts: as `ordinals_of`, with an index made once."""
        is_few = count * self._nodes_per_id < self.size
        index = None if is_few else IdIndex.of(self.id_array)
        return self.ordinals_of if index is None else index.find

    def ordinals_of_row_ids(self, row_ids: npt.NDArray[np.uint64]) -> Codes:
        """The ordinals of rows; -1 for those that are not there."""
        return self._rows.codes(row_ids)

    def column(self, name: str) -> Column:
        """A property of all nodes by ordinal."""
        return self._properties.column(name)

    def has_column(self, name: str) -> bool:
        """Whether a property of all nodes is kept in memory now."""
        return self._properties.has_column(name)

    def stored_name(self, name: str) -> str | None:
        """What the column of a property is called in the table; None when it has none."""
        return self.pinned.column_of(name)

    def column_key(self, name: str) -> Hashable:
        """What things made of the values of a property are cached under."""
        return self._properties.column_key(name)

    def kept_key(self, name: str) -> tuple[str, ColumnKey]:
        """What things made of the values of a property are kept on disk under."""
        return self._properties.kept_key(name)

    def values(self, name: str, codes: Codes) -> pa.Array:
        """A property of these nodes, repeats included."""
        return self._properties.values(name, codes)

    def holding(self, since: str, until: str, window: TimeWindow) -> Held:
        """Which nodes hold."""
        return self._properties.holding(since, until, window)

    def holding_of(self, since: str, until: str, window: TimeWindow, codes: Codes) -> Mask | None:
        """Which of few nodes hold; None where it is cheaper to look at their bounds."""
        return self._properties.holding_of(since, until, window, codes)

    def ids(self, codes: Codes) -> pa.StringArray:
        """The ids of these nodes."""
        return self.id_array.take(codes)

    def ranks(self, codes: Codes) -> Codes:
        """The ordinals themselves: they are in the order of the ids."""
        return codes
