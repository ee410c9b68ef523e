"""Look-ups in a table that is known as a numbered state and what changed since."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from omnigraph.errors import HistoryReclaimed, StorageError
from omnigraph.lang.query.ir import Direction
from omnigraph.read.kernels.arrays import Codes
from omnigraph.read.view.edges import EdgeList
from omnigraph.read.view.nodes import NodeIds, NodeSpace
from omnigraph.read.view.overlay.edge_changes import EdgeChanges
from omnigraph.read.view.overlay.node_changes import NodeChanges, is_kept
from omnigraph.read.view.pinned_table import PinnedTable
from omnigraph.read.view.properties import take_values, type_of

# Searching for up to this number of ids one by one is faster than for all at once.
_ONE_BY_ONE: Final = 24

_NONE: Final = np.empty(0, np.int64)

KnownCodes = dict[str, int]
"""The ordinals of ids in a numbered state, -1 for those it lacks, as far as a match looked them up."""


class FoundEdges(NamedTuple):
    """Stored edges, each as its row id and the ids of its ends."""

    row_ids: list[int]
    src: list[str]
    dst: list[str]


class OverlaidNodes:
    """The nodes of a table. ``base`` is the numbered state, ``codes`` are ordinals in it.

    ``is_due`` says that so much changed since that the table should rather be numbered again.
    """

    def __init__(
        self,
        pinned: PinnedTable,
        changes: NodeChanges,
        base: NodeSpace,
        codes: KnownCodes,
        *,
        is_due: bool,
    ) -> None:
        self.is_due = is_due
        self._pinned = pinned
        self._changed = changes.changed
        self._base = base
        self._codes = codes

    def has(self, id: str) -> bool:
        """Whether there is a node of that id."""
        if id in self._changed:
            return self._changed[id] is not None
        if id not in self._codes:
            self._codes[id] = self._base.ordinal_of(id)
        return self._codes[id] >= 0

    def values(self, name: str, ids: Sequence[str]) -> pa.Array:
        """A property of these nodes, in their order; null for one that is not there."""
        stored = self._pinned.column_of(name)
        if stored is None:
            return pa.nulls(len(ids), type_of(self._pinned, name).arrow_type())
        codes = _ordinals(self._base.node_ids, ids, self._codes)
        whole = is_kept(self._pinned.schema.field(stored).type)
        if whole and self._changed.keys().isdisjoint(ids) and (codes >= 0).all():
            return self._at_base(name, codes)
        rows = [self._changed.get(one) for one in ids]
        codes[[one in self._changed for one in ids]] = -1
        at_base = np.flatnonzero(codes >= 0)
        at_changes = [at for at, row in enumerate(rows) if row is not None]
        newest = [row for row in rows if row is not None]
        key = self._pinned.column_key(name)
        if whole and all(key in row.columns for row in newest):
            found = self._at_base(name, codes[at_base])
            newer = [row.value(key).cast(found.type) for row in newest]
            found = pa.concat_arrays([found, *newer]) if newer else found
        else:
            row_ids = self._base.row_ids[codes[at_base]].tolist()
            found = take_values(self._pinned, name, [*row_ids, *(one.row_id for one in newest)])
        if len(at_base) == len(ids):
            return found
        places = np.full(len(ids), -1, np.int64)
        places[[*at_base, *at_changes]] = np.arange(len(found))
        return found.take(pa.array(places, mask=places < 0))

    def _at_base(self, name: str, codes: Codes) -> pa.Array:
        """Values that did not change, out of the numbered state where its column can still be read."""
        try:
            return self._base.values(name, codes)
        except (StorageError, HistoryReclaimed):
            # Cleanup removed that version of the table; the rows are in the newer one.
            return take_values(self._pinned, name, self._base.row_ids[codes].tolist())


class OverlaidEdges:
    """The stored edges of a table, found by their ends.

    ``base`` is the numbered state. Its ordinals are those of ``ids``: sources, then targets, and
    ``codes`` holds what is known of both. ``is_due`` says that the table should rather be numbered again.
    """

    def __init__(
        self,
        changes: EdgeChanges,
        base: EdgeList,
        ids: tuple[NodeIds, NodeIds],
        codes: tuple[KnownCodes, KnownCodes],
        *,
        is_due: bool,
    ) -> None:
        self.is_due = is_due
        self._changes = changes
        self._base = base
        self._ids = ids
        self._codes = codes

    def at(self, column: str, ids: Collection[str], most: int) -> FoundEdges | None:
        """The edges whose end in that column is one of these; None when there are more than ``most``."""
        outward = column == "src"
        near, far = (0, 1) if outward else (1, 0)
        starts, positions, reached = self._stored(near, list(ids))
        if positions.size > most:
            return None
        ends = self._ids[far].id_array.take(reached).to_pylist()
        self._codes[far].update(zip(ends, reached.tolist(), strict=True))
        row_ids = self._base.rows.row_ids[positions].tolist()
        fresh = self._changes.by_end[near]
        for start in fresh.keys() & ids:
            for row_id in fresh[start]:
                row_ids.append(row_id)
                starts.append(start)
                ends.append(self._changes.fresh[row_id][far])
        if len(row_ids) > most:
            return None
        return FoundEdges(row_ids, *((starts, ends) if outward else (ends, starts)))

    def _stored(self, near: int, ids: list[str]) -> tuple[list[str], Codes, Codes]:
        """The edges of the numbered state that are still there: starts, positions, ordinals of ends."""
        multi = self._base.multi(Direction.IN if near else Direction.OUT)
        codes = _ordinals(self._ids[near], ids, self._codes[near]).tolist()
        spans = [
            (one, *multi.indptr[code : code + 2].tolist())
            for one, code in zip(ids, codes, strict=True)
            if code >= 0
        ]
        if len(spans) == 1:
            ((start, first, last),) = spans
            starts, entries = [start] * (last - first), np.arange(first, last)
        else:
            starts = [one for one, first, last in spans for _ in range(last - first)]
            entries = np.concatenate(
                [np.arange(first, last) for _, first, last in spans] or [_NONE]
            )
        positions, reached = multi.positions[entries], multi.indices[entries]
        if not self._changes.touched[near].isdisjoint(codes):
            kept = np.flatnonzero(~np.isin(positions, self._changes.hidden))
            positions, reached = positions[kept], reached[kept]
            starts = [starts[at] for at in kept.tolist()]
        return starts, positions, reached


def _ordinals(nodes: NodeIds, ids: Sequence[str], known: KnownCodes) -> Codes:
    """The ordinals of ids in a numbered state; -1 for those it lacks."""
    missing = [one for one in ids if one not in known]
    if len(missing) > _ONE_BY_ONE:
        found = nodes.find(pa.array(missing, nodes.id_array.type))
        known.update(zip(missing, found.tolist(), strict=True))
    else:
        known.update((one, nodes.find_one(one)) for one in missing)
    return np.array([known[one] for one in ids], np.int32)
