"""Numbered nodes and edges of pinned tables: from the cache, derived from an older state, or read.

For example, version 8 is wanted, version 7 is cached, and one node was inserted since: the ids of
version 8 are those of version 7 and one more, and no table is scanned.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from omnigraph.read.kernels.arrays import Codes
from omnigraph.read.thresholds import ViewThresholds
from omnigraph.read.view.byte_cache import ByteCache
from omnigraph.read.view.edges import EdgeList, Ends
from omnigraph.read.view.nodes import NodeIds, NodeSpace
from omnigraph.read.view.pinned_table import Identity, PinnedTable
from omnigraph.read.view.row_changes import base_of, changes_since


class NodesKey(NamedTuple):
    """The ids of a node table."""

    table: Identity


class EdgesKey(NamedTuple):
    """The edges of a table between the nodes of two others, whose ordinals they use."""

    table: Identity
    sources: Identity
    targets: Identity


def nodes_key(pinned: PinnedTable) -> NodesKey:
    """What the ids of a node table are cached under."""
    return NodesKey(pinned.identity)


def edges_key(pinned: PinnedTable, sources: PinnedTable, targets: PinnedTable) -> EdgesKey:
    """What the edges of a table are cached under."""
    return EdgesKey(pinned.identity, sources.identity, targets.identity)


def node_ids(cache: ByteCache, pinned: PinnedTable, thresholds: ViewThresholds) -> NodeIds:
    """The ids of a node table."""

    def build() -> NodeIds:
        return _refreshed_ids(cache, pinned, thresholds) or NodeIds.read(pinned)

    return cache.get(nodes_key(pinned), build, _ids_nbytes)


def edge_list(
    cache: ByteCache,
    pinned: PinnedTable,
    sources: NodeSpace,
    targets: NodeSpace,
    thresholds: ViewThresholds,
) -> EdgeList:
    """The edges of a table between these nodes."""

    def build() -> EdgeList:
        refreshed = _refreshed_edges(cache, pinned, sources, targets, thresholds)
        return refreshed or EdgeList.read(pinned, sources, targets, thresholds)

    return cache.get(edges_key(pinned, sources.pinned, targets.pinned), build, _edges_nbytes)


def numbered_states(cache: ByteCache) -> dict[Identity, int]:
    """The states of tables that are numbered in the cache, with their numbers of rows."""
    found = {}
    for key in cache.kept():
        if isinstance(key, NodesKey | EdgesKey):
            kept: NodeIds | EdgeList | None = cache.peek(key)
            if kept is not None:
                found[key.table] = kept.rows.row_ids.size
    return found


def older_state(
    cache: ByteCache,
    pinned: PinnedTable,
    kind: type[NodesKey | EdgesKey],
    thresholds: ViewThresholds,
) -> Identity | None:
    """The newest state of a table in the cache that this one can be derived from."""
    known = [key.table for key in cache.kept() if isinstance(key, kind)]
    return base_of(pinned, known, thresholds)


def _refreshed_ids(
    cache: ByteCache, pinned: PinnedTable, thresholds: ViewThresholds
) -> NodeIds | None:
    base = older_state(cache, pinned, NodesKey, thresholds)
    before: NodeIds | None = None if base is None else cache.peek(NodesKey(base))
    if base is None or before is None:
        return None
    changes = changes_since(base, pinned, ["id"], thresholds)
    if changes is None:
        return None
    now = before.after(base, changes)
    return now if len(now.id_array) == pinned.table.count_rows() else None


def _refreshed_edges(
    cache: ByteCache,
    pinned: PinnedTable,
    sources: NodeSpace,
    targets: NodeSpace,
    thresholds: ViewThresholds,
) -> EdgeList | None:
    known = [key for key in cache.kept() if isinstance(key, EdgesKey)]
    base = older_state(cache, pinned, EdgesKey, thresholds)
    # The last one used first: its nodes are most likely those that the nodes of now grew out of.
    for key in reversed(known):
        before: EdgeList | None = cache.peek(key) if key.table == base else None
        if before is None or not before.complete:
            continue
        src = _moves(cache, key.sources, sources)
        dst = _moves(cache, key.targets, targets)
        if src is None or dst is None:
            continue
        changes = changes_since(key.table, pinned, ["src", "dst"], thresholds)
        if changes is None:
            return None
        now = Ends(src.take(before.src), dst.take(before.dst), before.rows.row_ids)
        for change in changes:
            now = now.after(change, sources, targets)
        if now.row_ids.size != pinned.table.count_rows():
            continue
        edges = EdgeList.of(now, (sources.size, targets.size))
        if edges.complete and not any(one.updated.num_rows or one.gone.size for one in changes):
            edges.keep_adjacency(before, src, dst)
        return edges
    return None


def _moves(cache: ByteCache, base: Identity, space: NodeSpace) -> Codes | None:
    """For each node of an older state its ordinal now; None when the cache has dropped that state."""
    if base == space.pinned.identity:
        return np.arange(space.size, dtype=np.int32)
    if base.lineage.location != space.pinned.identity.lineage.location:
        return None
    origin = space.node_ids.origin
    if origin is not None and origin.base == base:
        return origin.moves
    before: NodeIds | None = cache.peek(NodesKey(base))
    return None if before is None else space.ordinals_of(before.id_array)


def _ids_nbytes(ids: NodeIds) -> int:
    return ids.nbytes


def _edges_nbytes(edges: EdgeList) -> int:
    return edges.nbytes
