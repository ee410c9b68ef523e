"""Searches that lead through some nodes only, while their ends may be any.

The nodes between the ends of a traversal must hold when it says so. Mostly its ends must as well, and then the edges of
other nodes are left out, and every search serves. Where the ends are judged at another moment, a node that does not
hold is reached, but nothing behind it:

    edges 0 -> 1 -> 2, of which 1 does not hold   ->   from 0: 1; from 1: 2

These searches go from one start at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import numpy as np

from omnigraph.cancel import look
from omnigraph.read.kernels import frontier
from omnigraph.read.kernels.arrays import Codes, Floats, Index, Mask
from omnigraph.read.kernels.csr import Csr, MultiCsr
from omnigraph.read.kernels.meeting import Distances
from omnigraph.read.kernels.paths import Tree, cheapest_tree, least_tree
from omnigraph.read.match.candidates import Candidates, refuse_wrap
from omnigraph.read.match.links.hop_link import HopLink
from omnigraph.read.match.links.link import Message
from omnigraph.read.match.paths import Paths, PathSearch
from omnigraph.read.match.pattern import Traversal
from omnigraph.read.view.topology import Topology

Rows = TypeVar("Rows", Csr, MultiCsr)


class ThroughLink(HopLink):
    """A search of several steps through some nodes; ``through`` says which."""

    def __init__(self, traversal: Traversal, topology: Topology, through: Mask) -> None:
        super().__init__(traversal, topology, Distances())
        self._through = through

    def _pairs(self, origin: str, codes: Codes) -> Iterator[tuple[Index, Codes]]:
        if not self._connects:
            return
        csr, loops, inverse = self._search(origin)
        assert loops is not None
        for at, start in enumerate(codes.tolist()):
            look()
            found = self._reached(csr, loops, start, inverse)
            yield np.full(len(found), at, np.int64), found

    def _reached(self, csr: Csr, loops: Mask, start: int, inverse: bool) -> Codes:
        """What a search from one node emits (``kernels.hops`` says what that is)."""
        least, most = self.traversal.min_hops, self._most
        seen = np.zeros(csr.shape[0], np.bool_)
        near = np.array([start], np.int32)
        emitted = []
        for distance in range(most + 1):
            seen[near] = True
            if distance >= least:
                emitted.append(near)
            elif distance == least - 1:
                # The way leads through the node with the loop, unless that is the start itself.
                looped = np.full(len(near), loops[start]) if inverse else loops.take(near)
                if distance:
                    looped &= self._through[start] if inverse else self._through.take(near)
                emitted.append(near[looped])
            ahead = near if not distance else near[self._through.take(near)]
            _, targets = frontier.expand(csr, ahead)
            near = np.unique(targets[~seen.take(targets)])
            if not len(near):
                break
        return np.concatenate(emitted) if emitted else near[:0]

    def contains(self, left: Codes, right: Codes) -> Mask:
        """Which of these pairs are joined: one search from every distinct left code."""
        found = np.zeros(len(left), np.bool_)
        starts, which = np.unique(left, return_inverse=True)
        for index, targets in self._pairs(self.traversal.left, starts.astype(np.int32)):
            if len(index):
                rows = np.flatnonzero(which == index[0])
                found[rows] = np.isin(right.take(rows), targets)
        return found

    def message(self, parent: str, at: Candidates, child: Candidates) -> Message:
        """The child summed over all that every code of the parent reaches."""

        def summed_up(part: Candidates) -> Message:
            return self._merged(at, part, self._pairs(parent, at.listed()))

        refuse_wrap(
            child, lambda part: summed_up(Candidates(child.size, child.codes, part)).weights
        )
        return summed_up(child)


class ThroughPaths(PathSearch):
    """The paths of a traversal that lead through some nodes."""

    def __init__(self, traversal: Traversal, topology: Topology, through: Mask) -> None:
        super().__init__(traversal, topology, Distances())
        self._through = through

    def lengths(self, left: Codes, right: Codes) -> tuple[Index, Mask]:
        """The number of edges between each pair, and which pairs are joined."""
        found = np.full(len(left), -1, np.int64)
        for start, rows in _by_start(left):
            tree, _ = self._tree(start)
            found[rows] = self._edges_to(tree, start, right[rows])
        return np.maximum(found, 0), found >= 0

    def costs(self, left: Codes, right: Codes) -> tuple[Floats, Mask]:
        """The cost of the cheapest path between each pair, and which pairs are joined."""
        costs = np.zeros(len(left))
        there = np.zeros(len(left), np.bool_)
        for start, rows in _by_start(left):
            tree, found = self._tree(start)
            there[rows] = self._edges_to(tree, start, right[rows]) >= 0
            costs[rows] = np.where(there[rows], found[right[rows]], 0.0)
        return costs, there

    def paths(self, left: Codes, right: Codes) -> Paths:
        """The whole path between each pair."""
        lengths = np.full(len(left), -1, np.int64)
        costs = np.zeros(len(left))
        ways: list[list[int]] = [[] for _ in range(len(left))]
        for start, rows in _by_start(left):
            tree, found = self._tree(start)
            lengths[rows] = self._edges_to(tree, start, right[rows])
            for row in rows[lengths[rows] >= 0].tolist():
                way = tree.way_to(int(right[row]))
                # If the last edge is a loop, the path to its node has one edge less.
                ways[row] = way if len(way) == lengths[row] + 1 else [*way, way[-1]]
                costs[row] = found[right[row]] if len(found) else 0.0
        there = lengths >= 0
        lengths = np.maximum(lengths, 0)
        nodes = np.array([node for way in ways for node in way], np.int32)
        return Paths(there, lengths, nodes, self._edges(nodes, lengths, there), costs)

    def _tree(self, start: int) -> tuple[Tree, Floats]:
        """The paths from a start, which may leave it even where no other path leads through it."""
        open_ = self._through.copy()
        open_[start] = True
        if self.traversal.weight is not None:
            return cheapest_tree(_leaving(self._multi, open_), self._weights, start)
        return least_tree(_leaving(self._csr, open_), start, self._most), np.zeros(0)

    def _edges_to(self, tree: Tree, start: int, right: Codes) -> Index:
        """The edges of the path to each node; -1 where the traversal does not join it with the start."""
        levels = tree.levels.take(right).astype(np.int64)
        if self.traversal.weight is not None:
            return np.where(levels >= 1, levels, -1)
        least = self.traversal.min_hops
        found = np.where(levels >= least, levels, -1)
        if self._loops is not None and least >= 1:
            looped = (levels == least - 1) & self._loops.take(right)
            looped &= self._through.take(right) | (right == start)
            found = np.where(looped, levels + 1, found)
        return found


def _leaving(adjacency: Rows, open_: Mask) -> Rows:
    """The edges that leave open nodes."""
    sizes = np.where(open_, np.diff(adjacency.indptr), 0)
    keep = np.repeat(open_, np.diff(adjacency.indptr))
    indptr = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
    if isinstance(adjacency, MultiCsr):
        positions = adjacency.positions[keep]
        return MultiCsr(indptr, adjacency.indices[keep], positions, adjacency.shape)
    return Csr(indptr, adjacency.indices[keep], adjacency.shape)


def _by_start(left: Codes) -> Iterator[tuple[int, Index]]:
    """Each distinct start, and its rows."""
    starts, which = np.unique(left, return_inverse=True)
    for at, start in enumerate(starts.tolist()):
        yield start, np.flatnonzero(which == at)
