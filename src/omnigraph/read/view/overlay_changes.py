"""The rows of a table that changed since a numbered state: of nodes by id, of edges by row id.

For example, since version 7 `bob` was inserted, `ada` updated and `eve` deleted:

    base version 7   changed {"bob": row 0 of a batch, "ada": row 0 of another, "eve": None}

and an edge from `ada` to `bob` was inserted (row id 90) and another deleted:

    base version 7   fresh {90: ("ada", "bob")}   hidden: the position of the other one in the base
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.read.view.byte_cache import EdgesKey
from omnigraph.read.view.edges import EdgeList
from omnigraph.read.view.nodes import NodeIds
from omnigraph.read.view.pinned_table import ColumnKey, Identity, columns_by_key
from omnigraph.read.view.row_changes import TableChanges

# What an entry costs beside its values: two dict entries, a tuple, the texts and numbers they hold.
_NODE_BYTES: Final = 512


def is_kept(kind: pa.DataType) -> bool:
    """Whether changed rows keep the values of a column of this type; others are fetched when asked for."""
    return not pa.types.is_nested(kind) and not pa.types.is_large_binary(kind)


class ChangedRow(NamedTuple):
    """A row as it is now: its place in the rows that one commit wrote.

    ``columns`` are the names that their columns had then; a schema change may have come since.
    """

    rows: pa.RecordBatch
    columns: Mapping[ColumnKey, str]
    place: int

    @property
    def row_id(self) -> int:
        """The stable row id."""
        found: int = self.rows.column("_rowid")[self.place].as_py()
        return found

    def value(self, key: ColumnKey) -> pa.Array:
        """The value of one of ``columns``, as an array of one."""
        return self.rows.column(self.columns[key]).slice(self.place, 1)


class NodeChanges:
    """What changed in a node table since ``base``, which is numbered; never modified.

    ``changed`` has the newest row by id, None for a node that is gone. ``size`` is the number of rows now.
    """

    def __init__(
        self,
        base: Identity,
        size: int,
        changed: Mapping[str, ChangedRow | None],
        ids: Mapping[int, str],
        values_nbytes: int,
    ) -> None:
        self.base = base
        self.size = size
        self.changed = changed
        self._ids = ids
        self._values_nbytes = values_nbytes

    @staticmethod
    def none(base: Identity, ids: NodeIds) -> NodeChanges:
        """Nothing changed since this numbered state."""
        return NodeChanges(base, ids.size, {}, {}, 0)

    @property
    def count(self) -> int:
        """How many nodes changed."""
        return len(self.changed)

    @property
    def nbytes(self) -> int:
        """About the bytes of the changed rows."""
        return self._values_nbytes + _NODE_BYTES * len(self.changed)

    def after(self, changes: Sequence[TableChanges], base: NodeIds) -> NodeChanges:
        """These changes and later ones; ``base`` are the ids of the numbered state."""
        size, nbytes = self.size, self._values_nbytes
        changed, ids = dict(self.changed), dict(self._ids)
        for change in changes:
            size += change.inserted.num_rows - change.gone.size
            # First what is gone: a node may be deleted and inserted again by one commit.
            replaced = np.concatenate([change.gone, change.updated["_rowid"].to_numpy()])
            codes = base.rows.codes(replaced).tolist()
            for row_id, code in zip(replaced.tolist(), codes, strict=True):
                known = ids.pop(row_id, None)
                if known is None and code >= 0:
                    known = base.id_array[code].as_py()
                if known is not None:
                    changed[known] = None
            for rows in (change.inserted, change.updated):
                columns = columns_by_key(rows.schema)
                for batch in rows.to_batches():
                    nbytes += batch.nbytes
                    row_ids = batch.column("_rowid").to_pylist()
                    for place, name in enumerate(batch.column("id").to_pylist()):
                        changed[name] = ChangedRow(batch, columns, place)
                        ids[row_ids[place]] = name
        return NodeChanges(self.base, size, changed, ids, nbytes)

    def as_rows(self, base: NodeIds) -> TableChanges:
        """The same changes for numbering this state out of the base: ids and row ids."""
        now = [(name, row.row_id) for name, row in self.changed.items() if row is not None]
        row_ids = np.array([row_id for _, row_id in now], np.uint64)
        ids = np.array([name for name, _ in now], object)
        codes = base.rows.codes(row_ids)
        # A row whose id changed is another node.
        known = codes >= 0
        before = base.id_array.take(codes[known]).to_numpy(zero_copy_only=False)
        known[known] = before == ids[known]
        replaced = base.find(pa.array(list(self.changed), base.id_array.type))
        gone = np.setdiff1d(base.rows.row_ids[replaced[replaced >= 0]], row_ids[known])
        return TableChanges(
            _node_rows(ids[~known], row_ids[~known]),
            _node_rows(ids[known], row_ids[known]),
            gone,
            columns_too=False,
        )


def _node_rows(ids: npt.NDArray[np.object_], row_ids: npt.NDArray[np.uint64]) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.string()), "_rowid": pa.array(row_ids)})


# What a changed edge costs: entries in three dicts, tuples, the texts of its ends.
_EDGE_BYTES: Final = 768

Ends = tuple[str, str]
RowIdsByEnd = Mapping[str, tuple[int, ...]]


class EdgeChanges:
    """What changed in an edge table since ``base``, which is numbered; never modified.

    ``fresh`` are the ends of edges inserted or updated, by row id, and ``by_end`` their row ids by source
    and by target. ``hidden`` are the positions in the base of edges that are gone or in ``fresh``, ascending,
    and ``touched`` the ordinals of their sources and of their targets there.
    """

    def __init__(
        self,
        base: EdgesKey,
        size: int,
        hidden: npt.NDArray[np.int32],
        touched: tuple[AbstractSet[int], AbstractSet[int]],
        fresh: Mapping[int, Ends],
        by_end: tuple[RowIdsByEnd, RowIdsByEnd],
    ) -> None:
        self.base = base
        self.size = size
        self.hidden = hidden
        self.touched = touched
        self.fresh = fresh
        self.by_end = by_end

    @staticmethod
    def none(base: EdgesKey, edges: EdgeList) -> EdgeChanges:
        """Nothing changed since this numbered state."""
        return EdgeChanges(base, edges.size, np.empty(0, np.int32), (set(), set()), {}, ({}, {}))

    @property
    def count(self) -> int:
        """How many edges changed."""
        return len(self.fresh) + self.hidden.size

    @property
    def nbytes(self) -> int:
        """About the bytes of the changed edges."""
        return _EDGE_BYTES * self.count

    def after(self, changes: Sequence[TableChanges], base: EdgeList) -> EdgeChanges:
        """These changes and later ones; ``base`` are the edges of the numbered state."""
        size, hidden = self.size, [self.hidden]
        fresh, (by_src, by_dst) = dict(self.fresh), map(dict, self.by_end)
        for change in changes:
            size += change.inserted.num_rows - change.gone.size
            replaced = np.concatenate([change.gone, change.updated["_rowid"].to_numpy()])
            stored = base.rows.codes(replaced)
            hidden.append(stored[stored >= 0])
            for row_id in replaced.tolist():
                known = fresh.pop(row_id, None)
                if known is not None:
                    _remove(by_src, known[0], row_id)
                    _remove(by_dst, known[1], row_id)
            for rows in (change.inserted, change.updated):
                row_ids = rows["_rowid"].to_pylist()
                ends = zip(rows["src"].to_pylist(), rows["dst"].to_pylist(), strict=True)
                for row_id, (src, dst) in zip(row_ids, ends, strict=True):
                    fresh[row_id] = src, dst
                    by_src[src] = (*by_src.get(src, ()), row_id)
                    by_dst[dst] = (*by_dst.get(dst, ()), row_id)
        gone = np.unique(np.concatenate(hidden))
        touched = set(base.src[gone].tolist()), set(base.dst[gone].tolist())
        return EdgeChanges(self.base, size, gone, touched, fresh, (by_src, by_dst))

    def as_rows(self, base: EdgeList) -> TableChanges:
        """The same changes for numbering this state out of the base: ends and row ids."""
        row_ids = np.array(list(self.fresh), np.uint64)
        ends = list(self.fresh.values())
        src = np.array([one for one, _ in ends], object)
        dst = np.array([two for _, two in ends], object)
        known = base.rows.codes(row_ids) >= 0
        gone = np.setdiff1d(base.rows.row_ids[self.hidden], row_ids[known])
        return TableChanges(
            _edge_rows(src[~known], dst[~known], row_ids[~known]),
            _edge_rows(src[known], dst[known], row_ids[known]),
            gone,
            columns_too=False,
        )


def _remove(by_end: dict[str, tuple[int, ...]], end: str, row_id: int) -> None:
    left = tuple(one for one in by_end[end] if one != row_id)
    if left:
        by_end[end] = left
    else:
        del by_end[end]


def _edge_rows(
    src: npt.NDArray[np.object_],
    dst: npt.NDArray[np.object_],
    row_ids: npt.NDArray[np.uint64],
) -> pa.Table:
    return pa.table(
        {
            "src": pa.array(src, pa.string()),
            "dst": pa.array(dst, pa.string()),
            "_rowid": pa.array(row_ids),
        }
    )
