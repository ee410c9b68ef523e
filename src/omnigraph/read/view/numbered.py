"""The keys under which numbered states of tables are cached."""

from __future__ import annotations

from typing import Literal, NamedTuple

from omnigraph.read.view.pinned_table import Identity, PinnedTable


class NodesKey(NamedTuple):
    """The ids of a node table."""

    table: Identity


class EdgesKey(NamedTuple):
    """The edges of a table between the nodes of two others, whose ordinals they use."""

    table: Identity
    sources: Identity
    targets: Identity


class NodeChangesKey(NamedTuple):
    """What changed in a node table since an older state that is numbered."""

    table: Identity
    kind: Literal["changed nodes"] = "changed nodes"  # Keys of one content would be equal.


class EdgeChangesKey(NamedTuple):
    """What changed in an edge table since an older state that is numbered."""

    table: Identity
    kind: Literal["changed edges"] = "changed edges"  # Keys of one content would be equal.


def nodes_key(pinned: PinnedTable) -> NodesKey:
    """What the ids of a node table are cached under."""
    return NodesKey(pinned.identity)


def edges_key(pinned: PinnedTable, sources: PinnedTable, targets: PinnedTable) -> EdgesKey:
    """What the edges of a table are cached under."""
    return EdgesKey(pinned.identity, sources.identity, targets.identity)
