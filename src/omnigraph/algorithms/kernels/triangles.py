"""Triangles through each node.

Every edge is taken once, from the end with fewer neighbours to the one with more (``forward``). A triangle is then
two entries of one row that have an entry between them, so that nodes with very many neighbours cost little:

    edges 0-1, 0-2, 1-2, 2-3    ->   triangles(forward) = [1, 1, 1, 0]
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from omnigraph.cancel import look
from omnigraph.read.kernels.arrays import Codes, Counts, Index
from omnigraph.read.kernels.csr import Csr
from omnigraph.read.kernels.frontier import CHUNK, cut, expand
from omnigraph.read.kernels.twins import with_twin

Worth = npt.NDArray[np.uint8]
"""How much the edge of an entry counts for the node opposite to it."""


class Forward(NamedTuple):
    """Every undirected edge once, between nodes numbered by ``rank``; ``worth`` by entry."""

    csr: Csr
    worth: Worth
    rank: Codes


def forward_of(neighbours: Csr, directed: Csr | None) -> Forward:
    """The edges of an undirected graph without loops, from the end with fewer neighbours to the other.

    With ``directed``, the stored directions, an edge counts for as many as it has; otherwise for one.
    """
    size = neighbours.shape[0]
    order = np.argsort(neighbours.degrees, kind="stable").astype(np.int32)
    rank = np.empty(size, np.int32)
    rank[order] = np.arange(size, dtype=np.int32)
    rows = np.repeat(rank, neighbours.degrees)
    columns = rank.take(neighbours.indices)
    keys = _keys(rows, columns)[rows < columns]
    keys.sort()
    indptr = np.searchsorted(keys, np.arange(size + 1, dtype=np.int64) << 32)
    csr = Csr(indptr.astype(np.int64), (keys & 0xFFFFFFFF).astype(np.int32), (size, size))
    if directed is None:
        return Forward(csr, np.ones(len(keys), np.uint8), rank)
    ends = np.repeat(rank, directed.degrees), rank.take(directed.indices)
    either = _keys(np.minimum(*ends), np.maximum(*ends))[ends[0] != ends[1]]
    worth = np.bincount(np.searchsorted(keys, either), minlength=len(keys))
    return Forward(csr, worth.astype(np.uint8), rank)


def _keys(rows: Codes, columns: Codes) -> Index:
    return (rows.astype(np.int64) << 32) | columns


@with_twin(lambda csr, _: 150e-9 * steps(csr))
def triangles(csr: Csr, worth: Worth, /) -> Counts:
    """For every node the worth of the edges opposite to it, over all triangles through it."""
    size = csr.shape[0]
    counts = np.zeros(size, np.int64)
    rows = np.repeat(np.arange(size, dtype=np.int32), csr.degrees)
    keys = _keys(rows, csr.indices)
    for first, last in cut(csr.degrees.take(csr.indices), CHUNK):
        look()
        # The edge from u to v, with every edge from v to w: is there one from u to w?
        near, far = rows[first:last], csr.indices[first:last]
        index, third = expand(csr, far)
        asked = _keys(near.take(index), third)
        places = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
        closed = np.flatnonzero(keys.take(places) == asked)
        index, places, third = index.take(closed), places.take(closed), third.take(closed)
        u, v = near.take(index), far.take(index)
        between = np.searchsorted(keys, _keys(v, third))
        for node, edge in ((u, between), (v, places), (third, index + first)):
            counts += np.bincount(node, worth.take(edge), size).astype(np.int64)
    return counts


def steps(csr: Csr) -> float:
    """About how many pairs of entries are looked at."""
    return float(csr.degrees.take(csr.indices).sum())
