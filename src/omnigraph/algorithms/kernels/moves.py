"""One sweep of Louvain's method: each node, in the order of ids, moves to where modularity gains most.

Two triangles joined by one edge. At first every node is a community of its own. The first sweep gathers each triangle:

    communities [0, 1, 2, 3, 4, 5]   ->   [1, 1, 1, 4, 4, 4]

This is sequential by definition, so there is one loop, which Numba compiles (``moves_numba``).

The last sweeps of a level move a handful of nodes. A node that stays notes how far it was from moving: its gains only
change when a neighbour moves, which clears the note, or by what has moved in all since then, which is bounded by its
degree times that. So most nodes of a late sweep are passed over, and the moves are those that looking would make.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from omnigraph.cancel import look
from omnigraph.read.kernels.arrays import Codes, Floats, Index
from omnigraph.read.kernels.twins import with_twin

LEAST_GAIN = 1e-12
"""A move must gain more modularity than this."""
ROUNDING = 1e-14
"""More than rounding does to a sum or a gain, in parts of the largest number in it."""
# Nodes between two looks at whether the work should stop.
LOOK_NODES = 1 << 12


class Level(NamedTuple):
    """An undirected graph between communities of the level below, without its loops.

    ``degrees`` are the sums of the weights at each node, what lies inside it counted from both ends.
    """

    indptr: Index
    indices: Codes
    weights: Floats
    degrees: Floats


class Communities(NamedTuple):
    """Which community every node is in, and what is known of each.

    The members of a community are a chain: ``first`` of it, then ``after`` each; ``before`` leads back. ``least`` is
    the least member, or -1 after that one has left.
    """

    of: Codes
    total: Floats
    """The degrees of the members together."""
    first: Codes
    after: Codes
    before: Codes
    least: Codes
    towards: Floats
    """The weights from the node that is looked at, by community; zero in between."""
    touched: Codes
    until: Floats
    """A node need not be looked at before ``drift`` reaches this."""
    drift: Floats
    """One number: the degrees of all nodes that have moved, together."""


def new_communities(level: Level) -> Communities:
    """Every node for itself."""
    size = len(level.degrees)
    own = np.arange(size, dtype=np.int32)
    none = np.full(size, -1, np.int32)
    return Communities(
        own.copy(),
        level.degrees.copy(),
        own.copy(),
        after=none.copy(),
        before=none.copy(),
        least=own.copy(),
        towards=np.zeros(size),
        touched=np.empty(size, np.int32),
        until=np.zeros(size),
        drift=np.zeros(1),
    )


@with_twin(lambda level, *_: 2e-6 * (len(level.indices) + len(level.degrees)))
def sweep(level: Level, communities: Communities, whole: float, resolution: float, /) -> int:
    """Move every node once, and return how many moved; ``whole`` is the weight of all edges."""
    moved, state = 0, arguments(level, communities, whole, resolution)
    for first in range(0, len(level.degrees), LOOK_NODES):
        look()
        last = min(first + LOOK_NODES, len(level.degrees))
        moved += move(first, last, *state)
    return moved


def arguments(
    level: Level, communities: Communities, whole: float, resolution: float
) -> tuple[Any, ...]:
    """What ``move`` takes after the range."""
    return *level, *communities, whole, resolution


def move(
    begin: int,
    end: int,
    indptr: Index,
    indices: Codes,
    weights: Floats,
    degrees: Floats,
    of: Codes,
    total: Floats,
    first: Codes,
    after: Codes,
    before: Codes,
    least: Codes,
    towards: Floats,
    touched: Codes,
    until: Floats,
    drift: Floats,
    whole: float,
    resolution: float,
) -> int:
    """Move the nodes of a range, and return how many moved."""
    moved = 0
    for node in range(begin, end):
        if drift[0] < until[node]:
            continue
        own, count = of[node], 0
        for entry in range(indptr[node], indptr[node + 1]):
            near = of[indices[entry]]
            if towards[near] == 0.0:
                touched[count] = near
                count += 1
            towards[near] += weights[entry]
        pull = resolution * degrees[node] / (2.0 * whole * whole)
        total_before = total[own]
        total[own] -= degrees[node]
        staying = towards[own] / whole - pull * total[own]
        best, best_gain, nearly = own, LEAST_GAIN, -np.inf
        for place in range(count):
            near = touched[place]
            gain = towards[near] / whole - pull * total[near] - staying
            if near != own:
                nearly = max(nearly, gain)
            if near == own or gain < best_gain or (best == own and gain == best_gain):
                continue
            if gain == best_gain:
                # The one whose least member is less; after that one has left, the chain says which it is.
                for one in (near, best):
                    if least[one] < 0:
                        member = first[one]
                        least[one] = member
                        while member >= 0:
                            least[one] = min(least[one], member)
                            member = after[member]
                if least[best] < least[near]:
                    continue
            best, best_gain = near, gain
        for place in range(count):
            towards[touched[place]] = 0.0
        if best == own:
            total[own] = total_before
            # Less what rounding may add to a gain.
            margin = LEAST_GAIN - nearly - ROUNDING * (1.0 + resolution) * degrees[node] / whole
            until[node] = drift[0] + margin / (2.0 * pull) if pull > 0.0 else np.inf
            continue
        moved += 1
        of[node] = best
        total[best] += degrees[node]
        # A total changes by the degree of the node, and by what rounding adds to the sum.
        drift[0] += degrees[node] + ROUNDING * whole
        until[node] = 0.0
        for entry in range(indptr[node], indptr[node + 1]):
            until[indices[entry]] = 0.0
        if before[node] >= 0:
            after[before[node]] = after[node]
        else:
            first[own] = after[node]
        if after[node] >= 0:
            before[after[node]] = before[node]
        if least[own] == node:
            least[own] = -1
        before[node], after[node] = -1, first[best]
        before[first[best]] = node
        first[best] = node
        if least[best] >= 0:
            least[best] = min(least[best], node)
    return moved
