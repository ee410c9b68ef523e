"""The loops over paths that Numba makes at least 1.5 times as fast: the same results as in ``paths``."""

from __future__ import annotations

import numpy as np

from omnigraph.cancel import look
from omnigraph.read.kernels.arrays import Codes, Floats, Index, MultiAdjacency
from omnigraph.read.kernels.numba_loops import CALL, Targets, compiled, frozen, frozen_rows


def least_costs(edges: MultiAdjacency, weights: Floats, start: int) -> Floats:
    """The least cost of every node, added from the start on; infinite where it is not reached.

    Dijkstra's algorithm: the cheapest node that waits is followed, and is final then.
    """
    costs = np.full(edges.shape[0], np.inf)
    costs[start] = 0.0
    waiting = np.empty(edges.shape[0], np.int32)
    place = np.full(edges.shape[0], -1, np.int32)
    waiting[0], place[start], count = start, 0, 1
    indptr, indices = frozen_rows(edges)
    given = frozen(edges.positions), frozen(weights)
    while count:
        look()
        count = _follow(CALL // 8, indptr, indices, *given, costs, waiting, place, count)
    return costs


@compiled
def _follow(
    effort: int,
    indptr: Index,
    indices: Targets,
    positions: Codes,
    weights: Floats,
    costs: Floats,
    waiting: Codes,
    place: Codes,
    count: int,
) -> int:
    """Follow the cheapest nodes that wait, for about so many steps; how many wait after that.

    ``waiting`` is a heap by cost, and ``place`` the place of each node in it, -1 if it does not wait.
    """
    while count and effort > 0:
        node = waiting[0]
        place[node] = -1
        count -= 1
        if count:
            last = waiting[count]
            cost, at = costs[last], 0
            while True:
                child = 2 * at + 1
                if child >= count:
                    break
                if child + 1 < count and costs[waiting[child + 1]] < costs[waiting[child]]:
                    child += 1
                if costs[waiting[child]] >= cost:
                    break
                waiting[at] = waiting[child]
                place[waiting[at]] = at
                at = child
            waiting[at] = last
            place[last] = at
        effort -= 1 + indptr[node + 1] - indptr[node]
        for entry in range(indptr[node], indptr[node + 1]):
            target = int(indices[entry])
            offered = costs[node] + weights[positions[entry]]
            if offered >= costs[target]:
                continue
            costs[target] = offered
            at = int(place[target])
            if at < 0:
                at = count
                count += 1
            while at:
                parent = (at - 1) // 2
                if costs[waiting[parent]] <= offered:
                    break
                waiting[at] = waiting[parent]
                place[waiting[at]] = at
                at = parent
            waiting[at] = target
            place[target] = at
    return count
