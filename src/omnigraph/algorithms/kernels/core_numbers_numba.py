"""Core numbers compiled by Numba: the same results as in ``cores``."""

from __future__ import annotations

import numpy as np

from omnigraph.read.kernels.arrays import Adjacency, Codes, Counts, Index
from omnigraph.read.kernels.numba_loops import Targets, compiled, frozen_rows, in_pieces


def cores(neighbours: Adjacency) -> Counts:
    """The core number of every node of an undirected graph without loops.

    Nodes are in the order of how many neighbours they have left (``order``, with the ``place`` of each), and
    ``starts`` says where each number begins. A node that loses a neighbour moves to the start of its number, which
    then begins one later.
    """
    left = np.diff(neighbours.indptr).astype(np.int32)
    order = np.argsort(left, kind="stable").astype(np.int32)
    place = np.empty_like(order)
    place[order] = np.arange(len(order), dtype=np.int32)
    starts = np.zeros(int(left.max(initial=0)) + 2, np.int64)
    np.cumsum(np.bincount(left, minlength=len(starts) - 1), out=starts[1:])
    degrees = np.diff(neighbours.indptr).take(order)
    effort = np.concatenate(([0], np.cumsum(degrees)))
    in_pieces(_peel, effort, *frozen_rows(neighbours), left, order, place, starts)
    return left.astype(np.int64)


@compiled
def _peel(
    first: int,
    last: int,
    indptr: Index,
    indices: Targets,
    left: Codes,
    order: Codes,
    place: Codes,
    starts: Index,
) -> None:
    for at in range(first, last):
        node = order[at]
        for entry in range(indptr[node], indptr[node + 1]):
            other = indices[entry]
            count = left[other]
            if count <= left[node]:
                continue
            start = starts[count]
            head = order[start]
            if head != other:
                here = place[other]
                order[start], order[here] = other, head
                place[other], place[head] = start, here
            starts[count] += 1
            left[other] = count - 1
