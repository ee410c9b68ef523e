"""Core numbers: the greatest k so that a node is in a part of the graph where all have k neighbours.

A triangle 0, 1, 2 with node 3 hanging on node 2:

    cores(neighbours)   ->   [2, 2, 2, 1]
"""

from __future__ import annotations

import numpy as np

from omnigraph.cancel import look
from omnigraph.read.kernels.arrays import Adjacency, Counts
from omnigraph.read.kernels.frontier import expand
from omnigraph.read.kernels.twins import with_twin


@with_twin(lambda neighbours: 100e-9 * len(neighbours.indices))
def cores(neighbours: Adjacency, /) -> Counts:
    """The core number of every node of an undirected graph without loops.

    Nodes with up to k neighbours go, which leaves others with fewer, until none is left; then k grows.
    """
    size = neighbours.shape[0]
    left = np.diff(neighbours.indptr)
    core = np.full(size, -1, np.int64)
    k, going = 0, np.flatnonzero(left == 0).astype(np.int32)
    while True:
        while len(going):
            look()
            core[going] = k
            _, others = expand(neighbours, going)
            others = others[core.take(others) < 0]
            np.subtract.at(left, others, 1)
            others = np.unique(others)
            going = others[left.take(others) <= k]
        staying = np.flatnonzero(core < 0).astype(np.int32)
        if not len(staying):
            return core
        k = int(left.take(staying).min())
        going = staying[left.take(staying) <= k]
