"""Shortest paths between two nodes, searched from both ends until the searches meet.

A search from one end looks at everything near it. Two searches of half the length look at far less, since what is reached
grows with every step:

    0 -> 1 -> 2 -> 3 -> 4, from 0 to 4:   {0}, {1}, {2} from the start and {4}, {3}, {2} from the end

The end whose frontier has fewer neighbours goes on first. The adjacency to follow from the end is that of the opposite
direction.
"""

from __future__ import annotations

import numpy as np

from omnigraph.cancel import look
from omnigraph.read.kernels import frontier
from omnigraph.read.kernels.arrays import Adjacency, Codes


class _Side:
    """The search from one end: its frontiers so far, one for each number of steps."""

    def __init__(self, csr: Adjacency, start: int) -> None:
        self.csr = csr
        self.seen = np.zeros(csr.shape[0], np.bool_)
        self.seen[start] = True
        self.frontiers: list[Codes] = [np.array([start], np.int32)]
        self._count()

    def advance(self) -> Codes:
        """One step further: the nodes that are reached by it for the first time."""
        _, targets = frontier.expand(self.csr, self.frontiers[-1])
        new = np.unique(targets[~self.seen.take(targets)])
        self.seen[new] = True
        self.frontiers.append(new)
        self._count()
        return new

    def _count(self) -> None:
        near = self.frontiers[-1]
        self.neighbours = int((self.csr.indptr[near + 1] - self.csr.indptr[near]).sum())


def distance(out: Adjacency, back: Adjacency, start: int, end: int, most: int) -> int:
    """The fewest edges from one node to another; -1 if that takes more than ``most``."""
    sides = _met(out, back, start, end, most)
    return -1 if sides is None else sum(len(side.frontiers) - 1 for side in sides)


class Distances:
    """Distances between pairs of nodes over one adjacency, each searched once.

    Whether two nodes are joined and how long the path between them is are two questions with one search.
    """

    def __init__(self) -> None:
        self._found: dict[tuple[int, int], int] = {}

    def between(self, out: Adjacency, back: Adjacency, start: int, end: int, most: int) -> int:
        """The fewest edges from one node to another, with the same adjacency and bound in every call."""
        if (start, end) not in self._found:
            self._found[start, end] = distance(out, back, start, end, most)
        return self._found[start, end]


def least_way(out: Adjacency, back: Adjacency, start: int, end: int, most: int) -> list[int] | None:
    """The nodes of the least of the shortest paths; ``None`` if there is none of at most ``most`` edges.

    Of two paths that first differ in one node the one with the lesser node is the lesser.
    """
    sides = _met(out, back, start, end, most)
    if sides is None:
        return None
    first, last = sides
    # Nodes of shortest paths by their distance from the start: from where the searches met back to the start, ...
    nodes = [np.intersect1d(first.frontiers[-1], last.frontiers[-1], assume_unique=True)]
    for near in first.frontiers[-2::-1]:
        nodes.append(_leading_to(near, back, nodes[-1]))
    nodes.reverse()
    # ... and on from there, all that the search from the end found.
    nodes += last.frontiers[-2::-1]
    way = [start]
    for ahead in nodes[1:]:
        here = np.array(way[-1:], np.int32)
        way.append(int(_leading_to(ahead, out, here)[0]))
    return way


def _leading_to(nodes: Codes, csr: Adjacency, near: Codes) -> Codes:
    """Which of the nodes are neighbours of those near, ascending."""
    _, targets = frontier.expand(csr, near)
    return np.intersect1d(nodes, targets)


def _met(
    out: Adjacency, back: Adjacency, start: int, end: int, most: int
) -> tuple[_Side, _Side] | None:
    """The searches when they have met: their last frontiers share the nodes in the middle of shortest paths."""
    first, last = _Side(out, start), _Side(back, end)
    if start == end:
        return first, last
    for _ in range(most):
        look()
        if not (first.neighbours and last.neighbours):
            return None
        side, other = (first, last) if first.neighbours <= last.neighbours else (last, first)
        if other.seen.take(side.advance()).any():
            return first, last
    return None
