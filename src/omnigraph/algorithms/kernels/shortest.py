"""Betweenness: how many shortest paths lead through each node, by Brandes' sums.

Edges 0 -> 1 -> 2: the only way from 0 to 2 leads through 1.

    between(out, [0, 1, 2], scores)   ->   scores [0, 1, 0]
"""

from __future__ import annotations

import numpy as np

from omnigraph.cancel import look
from omnigraph.read.kernels.arrays import Adjacency, Codes, Floats
from omnigraph.read.kernels.frontier import expand
from omnigraph.read.kernels.twins import with_twin


@with_twin(lambda out, sources, _: 100e-9 * len(sources) * (out.shape[0] + len(out.indices)))
def between(out: Adjacency, sources: Codes, scores: Floats, /) -> None:
    """Add to each score, for all shortest ways from the sources, the part of them that leads through the node."""
    for source in sources.tolist():
        look()
        _from_source(out, source, scores)


def _from_source(out: Adjacency, source: int, scores: Floats) -> None:
    size = out.shape[0]
    hops, ways, part = np.full(size, -1), np.zeros(size), np.zeros(size)
    hops[source], ways[source] = 0, 1.0
    front = np.array([source], np.int32)
    steps: list[tuple[Codes, Codes]] = []
    while len(front):
        index, targets = expand(out, front)
        rows = front.take(index)
        hops[targets[hops.take(targets) < 0]] = len(steps) + 1
        further = np.flatnonzero(hops.take(targets) == len(steps) + 1)
        rows, targets = rows.take(further), targets.take(further)
        np.add.at(ways, targets, ways.take(rows))
        steps.append((rows, targets))
        front = np.unique(targets)
    for rows, targets in reversed(steps):
        shares = ways.take(rows) / ways.take(targets) * (1.0 + part.take(targets))
        np.add.at(part, rows, shares)
    part[source] = 0.0
    scores += part
