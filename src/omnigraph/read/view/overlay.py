"""A table beside a writer: an older numbered state of it, and what changed since.

The changes grow commit by commit. For example, version 5 is numbered, and the changes up to version 8 are cached. For
version 9 only the rows that version 9 changed are read:

    numbered 5 -> changes since 5 up to 8 -> changes since 5 up to 9

``OverlaidNodes`` and ``OverlaidEdges`` answer look-ups in both together: which rows have these ids, which edges end at
these nodes. Numbering a state anew is left to ``numbering``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from omnigraph.errors import HistoryReclaimed, StorageError
from omnigraph.lang.query.ir import Direction
from omnigraph.read.kernels.arrays import Codes
from omnigraph.read.thresholds import ViewThresholds
from omnigraph.read.view.byte_cache import (
    ByteCache,
    EdgeChangesKey,
    EdgesKey,
    NodeChangesKey,
    NodesKey,
)
from omnigraph.read.view.edges import EdgeList
from omnigraph.read.view.nodes import NodeIds, NodeSpace
from omnigraph.read.view.overlay_changes import EdgeChanges, NodeChanges, is_kept
from omnigraph.read.view.pinned_table import Identity, PinnedTable
from omnigraph.read.view.properties import take_values, type_of
from omnigraph.read.view.row_changes import TableChanges, base_of, changes_since

Changes = NodeChanges | EdgeChanges
C = TypeVar("C", NodeChanges, EdgeChanges)


def node_changes(
    cache: ByteCache, pinned: PinnedTable, thresholds: ViewThresholds
) -> NodeChanges | None:
    """What changed in a node table since a numbered state; None when it is too much or not known."""

    def build() -> NodeChanges | None:
        for state, known in node_states(cache, pinned, thresholds):
            base: NodeIds | None = cache.peek(NodesKey(known.base))
            later = _later(state, pinned, thresholds)
            if base is None or later is None:
                return None
            now = known.after(later, base)
            _drop_before(cache, NodeChangesKey, state)
            return now if now.size == pinned.row_count else None
        return None

    key = NodeChangesKey(pinned.identity)
    if cache.peek(key) is None and not any(
        _is_loaded(cache, NodesKey(known.base))
        for _, known in node_states(cache, pinned, thresholds)
    ):
        return None  # Not kept: a state may be numbered at any time.
    return cache.get(key, build, _nbytes)


def edge_changes(
    cache: ByteCache, pinned: PinnedTable, thresholds: ViewThresholds
) -> EdgeChanges | None:
    """What changed in an edge table since a numbered state; None when it is too much or not known."""

    def build() -> EdgeChanges | None:
        for state, known in edge_states(cache, pinned, thresholds):
            base: EdgeList | None = cache.peek(known.base)
            if base is None or not _are_loaded(cache, known.base):
                continue
            later = _later(state, pinned, thresholds)
            if later is None:
                return None
            now = known.after(later, base)
            _drop_before(cache, EdgeChangesKey, state)
            return now if now.size == pinned.row_count else None
        return None

    key = EdgeChangesKey(pinned.identity)
    if cache.peek(key) is None and not any(
        _are_loaded(cache, known.base) for _, known in edge_states(cache, pinned, thresholds)
    ):
        return None  # Not kept: a state may be numbered at any time.
    return cache.get(key, build, _nbytes)


def _is_loaded(cache: ByteCache, key: NodesKey | EdgesKey) -> bool:
    """Whether a state is in memory. One on disk costs more to load than a look-up in the table."""
    kept: NodeIds | EdgeList | None = cache.peek(key)
    return kept is not None and kept.is_loaded


def _are_loaded(cache: ByteCache, edges: EdgesKey) -> bool:
    nodes = NodesKey(edges.sources), NodesKey(edges.targets)
    return all(_is_loaded(cache, key) for key in (edges, *nodes))


def is_too_much(changes: Changes, pinned: PinnedTable, thresholds: ViewThresholds) -> bool:
    """Whether so much changed since the numbered state that this one should be numbered itself."""
    share = max(pinned.row_count // 10, thresholds.overlaid_few)
    return changes.count > min(share, thresholds.overlaid_changes)


def node_states(
    cache: ByteCache, pinned: PinnedTable, thresholds: ViewThresholds
) -> list[tuple[Identity, NodeChanges]]:
    """The newest state of a node table that this one can be derived from, as a numbered one and changes."""
    known: dict[Identity, NodeChanges] = {}
    for key in _kept(cache, pinned, NodeChangesKey):
        changes: NodeChanges | None = cache.peek(key)
        if changes is not None and cache.peek(NodesKey(changes.base)) is not None:
            known[key.table] = changes
    for numbered in _kept(cache, pinned, NodesKey):
        ids: NodeIds | None = cache.peek(numbered)
        if ids is not None:
            known[numbered.table] = NodeChanges.none(numbered.table, ids)
    state = base_of(pinned, known, thresholds)
    return [] if state is None else [(state, known[state])]


def edge_states(
    cache: ByteCache, pinned: PinnedTable, thresholds: ViewThresholds
) -> list[tuple[Identity, EdgeChanges]]:
    """The same for an edge table; there may be several, between nodes of different states.

    The last one used comes first: its nodes are most likely those that the nodes of now grew out of.
    """
    known: list[tuple[Identity, EdgeChanges]] = []
    for key in _kept(cache, pinned, EdgeChangesKey):
        changes: EdgeChanges | None = cache.peek(key)
        if changes is not None and cache.peek(changes.base) is not None:
            known.append((key.table, changes))
    for numbered in _kept(cache, pinned, EdgesKey):
        edges: EdgeList | None = cache.peek(numbered)
        if edges is not None and edges.complete:
            known.append((numbered.table, EdgeChanges.none(numbered, edges)))
    newest = base_of(pinned, [state for state, _ in known], thresholds)
    return [(state, changes) for state, changes in reversed(known) if state == newest]


K = TypeVar("K", NodesKey, EdgesKey, NodeChangesKey, EdgeChangesKey)


def _kept(cache: ByteCache, pinned: PinnedTable, kind: type[K]) -> Iterator[K]:
    """The cached keys of a kind that are about some state of this table."""
    here = pinned.identity.lineage
    for key in cache.kept():
        if isinstance(key, kind):
            lineage = key.table.lineage
            if lineage.location == here.location and lineage.graph_id == here.graph_id:
                yield key


def _later(
    state: Identity, pinned: PinnedTable, thresholds: ViewThresholds
) -> list[TableChanges] | None:
    """What changed after a state, with the values that are kept; None where it cannot be told."""
    columns = [field.name for field in pinned.schema if is_kept(field.type)]
    found = changes_since(state, pinned, columns, thresholds.overlaid_changes)
    return None if found is None or any(one.columns_too for one in found) else found


def _drop_before(
    cache: ByteCache, kind: type[NodeChangesKey | EdgeChangesKey], state: Identity
) -> None:
    """Drop changes that newer ones contain. Those of ``state`` stay for reads that are under way."""
    for key in cache.kept():
        if isinstance(key, kind) and key.table.lineage == state.lineage and key.table < state:
            cache.drop(key)


def _nbytes(changes: Changes | None) -> int:
    return 0 if changes is None else changes.nbytes


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
        # What the numbered state says of a changed node is out of date, whether it was updated or deleted.
        codes[[one in self._changed for one in ids]] = -1
        at_base = np.flatnonzero(codes >= 0)
        at_changes = [at for at, row in enumerate(rows) if row is not None]
        newest = [row for row in rows if row is not None]
        key = self._pinned.column_key(name)
        # Changes hold no lists, vectors or blobs; these, and columns added since, are read from the table.
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
        # Before any id is read: a node with very many edges is a reason to number the table instead.
        if positions.size > most:
            return None
        ends = self._ids[far].id_array.take(reached).to_pylist()
        # The next hop asks for the ordinals of just these ids.
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
        # Most starts have only edges that stayed, and then nothing has to be searched among the hidden ones.
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
