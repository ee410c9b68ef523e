"""Least paths from one start: a tree in which every node hangs on the one before it.

Nodes are numbered in the order of their ids, and neighbours ascend. So a search that goes through its frontier in
the order in which it was found meets every node first by the least of its shortest paths: of two paths that first differ
in one node, the one with the lesser node is found first, and everything behind it as well.

    edges 0 -> 1, 0 -> 2, 1 -> 3, 2 -> 3      tree from 0: 1 on 0, 2 on 0, 3 on 1

Cheapest paths are found in two steps: the least cost of every node, and then the same search along edges that are part
of a cheapest path, which gives the fewest edges among those and then the least nodes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from omnigraph.cancel import look
from omnigraph.read.kernels import frontier
from omnigraph.read.kernels.arrays import Adjacency, Codes, Floats, Index, MultiAdjacency
from omnigraph.read.kernels.twins import with_twin


class Tree(NamedTuple):
    """Paths from one start to everything it reaches."""

    before: Codes
    """By node the one before it; -1 for the start and for nodes that are not reached."""
    levels: Codes
    """By node the number of edges; -1 where it is not reached."""

    def way_to(self, node: int) -> list[int]:
        """The nodes from the start to a node that is reached."""
        way = [node]
        while (node := int(self.before[node])) >= 0:
            way.append(node)
        return way[::-1]


def least_tree(csr: Adjacency, start: int, most: int) -> Tree:
    """The least of the shortest paths from a node to all others, each of at most that many edges."""
    before = np.full(csr.shape[0], -1, np.int32)
    levels = np.full(csr.shape[0], -1, np.int32)
    levels[start] = 0
    near = np.array([start], np.int32)
    level = 0
    while len(near) and level < most:
        look()
        level += 1
        origins, targets = frontier.expand(csr, near)
        near = _hung(before, levels, level, near.take(origins), targets)
    return Tree(before, levels)


def _hung(before: Codes, levels: Codes, level: int, origins: Codes, targets: Codes) -> Codes:
    """Hang targets that were not reached yet on the first of their origins; these targets in the order found."""
    new = np.flatnonzero(levels.take(targets) < 0)
    _, first = np.unique(targets.take(new), return_index=True)
    places = new.take(np.sort(first))
    found: Codes = targets.take(places)
    before[found] = origins.take(places)
    levels[found] = level
    return found


@with_twin(lambda edges, *_: 100e-9 * len(edges.indices))
def least_costs(edges: MultiAdjacency, weights: Floats, start: int, /) -> Floats:
    """The least cost of every node, added from the start on; infinite where it is not reached.

    ``weights`` are by position of the stored edge. Nodes that became cheaper are followed again until none does: as
    often as the longest cheapest path has edges.
    """
    costs = np.full(edges.shape[0], np.inf)
    costs[start] = 0.0
    near = np.array([start], np.int32)
    while len(near):
        look()
        origins, targets, positions = frontier.expand_multi(edges, near)
        offered = costs.take(near).take(origins) + weights.take(positions)
        cheaper = np.flatnonzero(offered < costs.take(targets))
        np.minimum.at(costs, targets.take(cheaper), offered.take(cheaper))
        near = np.unique(targets.take(cheaper))
    return costs


def cheapest_tree(edges: MultiAdjacency, weights: Floats, start: int) -> tuple[Tree, Floats]:
    """The cheapest paths from a node to all others, of those with the fewest edges the least; and their costs."""
    costs = least_costs(edges, weights, start)
    return tree_of(edges, weights, start, costs), costs


def tree_of(edges: MultiAdjacency, weights: Floats, start: int, costs: Floats) -> Tree:
    """The paths that have the least costs, of those with the fewest edges the least."""
    before = np.full(edges.shape[0], -1, np.int32)
    levels = np.full(edges.shape[0], -1, np.int32)
    levels[start] = 0
    near = np.array([start], np.int32)
    level = 0
    while len(near):
        look()
        level += 1
        origins, targets, positions = frontier.expand_multi(edges, near)
        sources = near.take(origins)
        tight = np.flatnonzero(costs.take(sources) + weights.take(positions) == costs.take(targets))
        near = _hung(before, levels, level, sources.take(tight), targets.take(tight))
    return Tree(before, levels)


def edges_between(edges: MultiAdjacency, sources: Codes, targets: Codes) -> tuple[Index, Codes]:
    """All stored edges of pairs of neighbours: the place of the pair, and the position of the edge."""
    places, found, positions = frontier.expand_multi(edges, sources)
    keep = np.flatnonzero(found == targets.take(places))
    return places.take(keep), positions.take(keep)
