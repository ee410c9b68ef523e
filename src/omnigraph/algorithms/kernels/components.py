"""Components: for every node the least node that it is connected with.

Edges 1 -> 0 and 1 -> 2, and node 3 alone:

    weak(out)     -> [0, 0, 0, 3]
    strong(out)   -> [0, 1, 2, 3]
"""

from __future__ import annotations

import numpy as np

from omnigraph.cancel import look
from omnigraph.read.kernels.arrays import Adjacency, Codes, Index
from omnigraph.read.kernels.twins import with_twin

# Nodes between two looks at whether the work should stop.
LOOK_NODES = 1 << 14


@with_twin(lambda out: 100e-9 * len(out.indices))
def weak(out: Adjacency, /) -> Codes:
    """The least node of the component of each node, where direction does not matter."""
    size = out.shape[0]
    least = np.arange(size, dtype=np.int32)
    src = np.repeat(least, np.diff(out.indptr))
    dst = out.indices
    while len(src):
        look()
        # A root takes the least root that one of its nodes sees; then everybody looks up its root again.
        near, far = least.take(src), least.take(dst)
        np.minimum.at(least, np.maximum(near, far), np.minimum(near, far))
        while True:
            above = least.take(least)
            if np.array_equal(above, least):
                break
            least = above
        apart = np.flatnonzero(least.take(src) != least.take(dst))
        src, dst = src.take(apart), dst.take(apart)
    return least


@with_twin(lambda out: 1.5e-6 * (out.shape[0] + len(out.indices)))
def strong(out: Adjacency, /) -> Codes:
    """The least node of the strongly connected component of each node."""
    state = new_search(out)
    for first in range(0, out.shape[0], LOOK_NODES):
        look()
        search(first, min(first + LOOK_NODES, out.shape[0]), out.indptr, out.indices, *state)
    return state[-1]


Search = tuple[Index, Index, Index, Codes, Codes, Index, Codes]


def new_search(out: Adjacency) -> Search:
    """What ``search`` works on, at the beginning; the last is its answer."""
    size = out.shape[0]
    path, waiting = np.empty(size, np.int32), np.empty(size, np.int32)
    met, low = np.full(size, -1), np.empty(size, np.int64)
    found = np.full(size, -1, np.int32)
    return met, low, out.indptr[:-1].copy(), path, waiting, np.zeros(2, np.int64), found


def search(
    first: int,
    last: int,
    indptr: Index,
    indices: Codes,
    met: Index,
    low: Index,
    at: Index,
    path: Codes,
    waiting: Codes,
    sizes: Index,
    found: Codes,
) -> None:
    """Go on from the nodes of a range that were not met yet: Tarjan's search, without recursion.

    ``met`` is the order in which nodes were met, ``low`` the earliest that each reaches, ``at`` its next entry.
    ``path`` leads to the node that is looked at, ``waiting`` are the nodes whose component is not known yet, in
    the order they were met. ``sizes`` says how many wait, and how many were met.
    """
    for start in range(first, last):
        if met[start] >= 0:
            continue
        depth = 0
        path[0] = start
        while depth >= 0:
            node = path[depth]
            if met[node] < 0:
                met[node] = low[node] = sizes[1]
                sizes[1] += 1
                waiting[sizes[0]] = node
                sizes[0] += 1
            if at[node] < indptr[node + 1]:
                other = indices[at[node]]
                at[node] += 1
                if met[other] < 0:
                    depth += 1
                    path[depth] = other
                elif found[other] < 0:
                    low[node] = min(low[node], met[other])
                continue
            depth -= 1
            if depth >= 0:
                low[path[depth]] = min(low[path[depth]], low[node])
            if low[node] == met[node]:
                # All that were met since belong to one component, and nothing else does.
                begin = sizes[0] - 1
                least = waiting[begin]
                while waiting[begin] != node:
                    begin -= 1
                    least = min(least, waiting[begin])
                for place in range(begin, sizes[0]):
                    found[waiting[place]] = least
                sizes[0] = begin
