"""The changes of a table since a numbered state: those known of an older version, and what came after it.

For example, version 5 is numbered, and the changes up to version 8 are cached. For version 9 only the
rows that version 9 changed are read:

    numbered 5 -> changes since 5 up to 8 -> changes since 5 up to 9
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from omnigraph.read.thresholds import ViewThresholds
from omnigraph.read.view.byte_cache import ByteCache
from omnigraph.read.view.edges import EdgeList
from omnigraph.read.view.nodes import NodeIds
from omnigraph.read.view.numbered import EdgeChangesKey, EdgesKey, NodeChangesKey, NodesKey
from omnigraph.read.view.overlay.edge_changes import EdgeChanges
from omnigraph.read.view.overlay.node_changes import NodeChanges, is_kept
from omnigraph.read.view.pinned_table import Identity, PinnedTable
from omnigraph.read.view.row_changes import RowChanges, base_of, changes_since

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
) -> list[RowChanges] | None:
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
