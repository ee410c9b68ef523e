"""Numbered nodes and edges of pinned tables: from the cache, derived from an older state, or read.

For example, version 8 is wanted, version 7 is cached, and one node was inserted since: the ids of
version 8 are those of version 7 and one more, and no table is scanned.
"""

from __future__ import annotations

import numpy as np

from omnigraph.lang.schema.catalog import NodeType
from omnigraph.read.kernels.arrays import Codes
from omnigraph.read.thresholds import ViewThresholds
from omnigraph.read.view.byte_cache import (
    ByteCache,
    EdgeChangesKey,
    EdgesKey,
    NodeChangesKey,
    NodesKey,
    edges_key,
    nodes_key,
)
from omnigraph.read.view.edges import EdgeList
from omnigraph.read.view.ends import Ends
from omnigraph.read.view.kept_states import KeptStates
from omnigraph.read.view.nodes import NodeIds, NodeSpace
from omnigraph.read.view.overlay import edge_states, node_states
from omnigraph.read.view.overlay_changes import EdgeChanges, NodeChanges
from omnigraph.read.view.pinned_table import Identity, PinnedTable
from omnigraph.read.view.row_changes import changes_since


def node_ids(
    cache: ByteCache, kept: KeptStates, pinned: PinnedTable, thresholds: ViewThresholds
) -> NodeIds:
    """The ids of a node table."""

    def build() -> NodeIds:
        derived = _refreshed_ids(cache, pinned, thresholds)
        if derived is not None:
            return kept.keep_nodes(pinned, derived, is_derived=True)
        with kept.alone_with_nodes(pinned):
            found = kept.found_nodes(pinned)
            if found is not None:
                return found
            return kept.keep_nodes(pinned, NodeIds.read(pinned), is_derived=False)

    return cache.get(nodes_key(pinned), build, _ids_nbytes)


def edge_list(
    cache: ByteCache,
    kept: KeptStates,
    pinned: PinnedTable,
    sources: NodeSpace,
    targets: NodeSpace,
    thresholds: ViewThresholds,
) -> EdgeList:
    """The edges of a table between these nodes."""

    def build() -> EdgeList:
        derived = _refreshed_edges(cache, pinned, sources, targets, thresholds)
        if derived is not None:
            kept.keep_edges(pinned, sources, targets, derived, is_derived=True)
            return derived
        with kept.alone_with_edges(pinned, sources, targets):
            # A table too large to be numbered in memory is numbered on disk, a part at a time.
            found = kept.found_edges(pinned, sources, targets) or kept.number_edges(
                pinned, sources, targets
            )
            if found is not None:
                return found
            edges = EdgeList.read(pinned, sources, targets, thresholds)
            kept.keep_edges(pinned, sources, targets, edges, is_derived=False)
            return edges

    return cache.get(edges_key(pinned, sources.pinned, targets.pinned), build, edge_list_bytes)


def numbered_states(cache: ByteCache) -> dict[Identity, int]:
    """The states of tables that the cache holds, with their numbers of rows: numbered ones, and those that
    are known as changes since a numbered one."""
    found = {}
    for key in cache.kept():
        if isinstance(key, NodesKey | EdgesKey):
            kept: NodeIds | EdgeList | None = cache.peek(key)
            if kept is not None:
                found[key.table] = kept.size
        elif isinstance(key, NodeChangesKey | EdgeChangesKey):
            changes: NodeChanges | EdgeChanges | None = cache.peek(key)
            if changes is not None:
                found[key.table] = changes.size
    return found


def has_older_state(cache: ByteCache, pinned: PinnedTable, thresholds: ViewThresholds) -> bool:
    """Whether numbering can start from an older state of the table."""
    of_nodes = isinstance(pinned.entity, NodeType)
    states = (node_states if of_nodes else edge_states)(cache, pinned, thresholds)
    return bool(states) and _is_worth_deriving(pinned, thresholds)


def _is_worth_deriving(pinned: PinnedTable, thresholds: ViewThresholds) -> bool:
    return pinned.row_count >= thresholds.derived_rows


def _refreshed_ids(
    cache: ByteCache, pinned: PinnedTable, thresholds: ViewThresholds
) -> NodeIds | None:
    if not _is_worth_deriving(pinned, thresholds):
        return None
    for state, known in node_states(cache, pinned, thresholds):
        before: NodeIds | None = cache.peek(NodesKey(known.base))
        later = changes_since(state, pinned, ["id"], _most(pinned, thresholds))
        if before is None or later is None:
            return None
        earlier = [known.as_rows(before)] if known.count else []
        now = before.after(known.base, [*earlier, *later])
        # Counting is cheap, and shows a delta that was told wrongly, or an id that came twice.
        return now if now.size == pinned.table.count_rows() else None
    return None


def _refreshed_edges(
    cache: ByteCache,
    pinned: PinnedTable,
    sources: NodeSpace,
    targets: NodeSpace,
    thresholds: ViewThresholds,
) -> EdgeList | None:
    if not _is_worth_deriving(pinned, thresholds):
        return None
    for state, known in edge_states(cache, pinned, thresholds):
        before: EdgeList | None = cache.peek(known.base)
        src = _moves(cache, known.base.sources, sources)
        dst = _moves(cache, known.base.targets, targets)
        # The ordinals in the list are those of older nodes: it is of use only if each is known as it is now.
        if before is None or src is None or dst is None:
            continue
        later = changes_since(state, pinned, ["src", "dst"], _most(pinned, thresholds))
        if later is None:
            return None
        changes = [*([known.as_rows(before)] if known.count else []), *later]
        now = Ends(src.take(before.src), dst.take(before.dst), before.rows.row_ids)
        for change in changes:
            now = now.after(change, sources, targets)
        if now.row_ids.size != pinned.table.count_rows():
            continue
        edges = EdgeList.of(now, (sources.size, targets.size))
        if edges.complete and not any(one.updated.num_rows or one.gone.size for one in changes):
            # Only where edges were added: one that left or moved would have to be searched for in every row.
            edges.keep_adjacency(before, src, dst)
        return edges
    return None


def _most(pinned: PinnedTable, thresholds: ViewThresholds) -> int:
    """How many rows may have changed for a state to be derived from another one."""
    return min(pinned.row_count // 10, thresholds.derived_changes)


def _moves(cache: ByteCache, base: Identity, space: NodeSpace) -> Codes | None:
    """For each node of an older state its ordinal now; None when the cache has dropped that state."""
    if base == space.pinned.identity:
        return np.arange(space.size, dtype=np.int32)
    if base.lineage.location != space.pinned.identity.lineage.location:
        return None
    # The nodes of now were derived from just these: where each went was noted then, and nothing is looked up.
    origin = space.node_ids.origin
    if origin is not None and origin.base == base:
        return origin.moves
    before: NodeIds | None = cache.peek(NodesKey(base))
    return None if before is None else space.ordinals_of(before.id_array)


def _ids_nbytes(ids: NodeIds) -> int:
    return ids.nbytes


def edge_list_bytes(edges: EdgeList) -> int:
    """The bytes of everything made of a list of edges so far."""
    return edges.nbytes
