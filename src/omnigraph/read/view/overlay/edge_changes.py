"""The rows of an edge table that changed since a numbered state.

For example, since version 7 an edge from `ada` to `bob` was inserted (row id 90) and another deleted:

    base version 7   fresh {90: ("ada", "bob")}   hidden: the position of the other one in the base
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.read.view.edges import EdgeList
from omnigraph.read.view.numbered import EdgesKey
from omnigraph.read.view.row_changes import RowChanges

# What a changed edge costs: entries in three dicts, tuples, the texts of its ends.
_ENTRY_BYTES: Final = 768

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
        return _ENTRY_BYTES * self.count

    def after(self, changes: Sequence[RowChanges], base: EdgeList) -> EdgeChanges:
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

    def as_rows(self, base: EdgeList) -> RowChanges:
        """The same changes for numbering this state out of the base: ends and row ids."""
        row_ids = np.array(list(self.fresh), np.uint64)
        ends = list(self.fresh.values())
        src = np.array([one for one, _ in ends], object)
        dst = np.array([two for _, two in ends], object)
        known = base.rows.codes(row_ids) >= 0
        gone = np.setdiff1d(base.rows.row_ids[self.hidden], row_ids[known])
        return RowChanges(
            _table(src[~known], dst[~known], row_ids[~known]),
            _table(src[known], dst[known], row_ids[known]),
            gone,
            columns_too=False,
        )


def _remove(by_end: dict[str, tuple[int, ...]], end: str, row_id: int) -> None:
    left = tuple(one for one in by_end[end] if one != row_id)
    if left:
        by_end[end] = left
    else:
        del by_end[end]


def _table(
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
