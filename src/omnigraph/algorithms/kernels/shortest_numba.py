"""Brandes' sums over shortest ways compiled by Numba: the same results as in ``shortest``."""

from __future__ import annotations

import numpy as np

from omnigraph.read.kernels.arrays import Adjacency, Codes, Floats, Index
from omnigraph.read.kernels.numba_loops import Targets, compiled, frozen, frozen_rows, in_pieces


def between(out: Adjacency, sources: Codes, scores: Floats) -> None:
    """Add to each score, for all shortest ways from the sources, the part of them that leads through the node."""
    size = out.shape[0]
    each = size + len(out.indices)
    state = np.full(size, -1, np.int32), np.zeros(size), np.zeros(size), np.empty(size, np.int32)
    effort = range(0, each * len(sources) + 1, max(each, 1))
    in_pieces(_between, effort, *frozen_rows(out), frozen(sources), *state, scores)


@compiled
def _between(
    first: int,
    last: int,
    indptr: Index,
    indices: Targets,
    sources: Codes,
    hops: Codes,
    ways: Floats,
    part: Floats,
    order: Codes,
    scores: Floats,
) -> None:
    for at in range(first, last):
        source = sources[at]
        order[0], hops[source], ways[source] = source, 0, 1.0
        met, place = 1, 0
        while place < met:
            node = order[place]
            place += 1
            for entry in range(indptr[node], indptr[node + 1]):
                other = indices[entry]
                if hops[other] < 0:
                    hops[other] = hops[node] + 1
                    order[met] = other
                    met += 1
                if hops[other] == hops[node] + 1:
                    ways[other] += ways[node]
        # Backwards: what follows a node is done before it.
        for place in range(met - 1, -1, -1):
            node = order[place]
            for entry in range(indptr[node], indptr[node + 1]):
                other = indices[entry]
                if hops[other] == hops[node] + 1:
                    part[node] += ways[node] / ways[other] * (1.0 + part[other])
            if node != source:
                scores[node] += part[node]
        for place in range(met):
            node = order[place]
            hops[node], ways[node], part[node] = -1, 0.0, 0.0
