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
from omnigraph.read.kernels.frontier import CHUNK, cut, entries_of, expand
from omnigraph.read.kernels.twins import with_twin

Worth = npt.NDArray[np.uint8]
"""How much the edge of an entry counts for the node opposite to it."""


class Forward(NamedTuple):
    """Every undirected edge once, between nodes numbered by ``rank``; ``worth`` by entry.

    The entries of a row are in no order.
    """

    csr: Csr
    worth: Worth
    rank: Codes


def forward_of(neighbours: Csr, out: Csr, into: Csr | None) -> Forward:
    """The edges of an undirected graph without loops, from the end with fewer neighbours to the other.

    With ``into``, the stored directions both ways, an edge counts for as many as it has; otherwise for one.
    """
    size = neighbours.shape[0]
    order = np.argsort(neighbours.degrees, kind="stable").astype(np.int32)
    rank = np.empty(size, np.int32)
    rank[order] = np.arange(size, dtype=np.int32)
    ahead = entries_ahead(neighbours, order, rank)
    csr = Csr(ahead.indptr, ahead.columns, (size, size))
    if into is None:
        return Forward(csr, np.ones(len(ahead.columns), np.uint8), rank)
    return Forward(csr, _directions(neighbours, out, into).take(ahead.entries), rank)


class Ahead(NamedTuple):
    """Rows in another order: where each begins, and for its entries the place of the target and that of the entry."""

    indptr: Index
    columns: Codes
    entries: Index


@with_twin(lambda csr, *_: 60e-9 * len(csr.indices))
def entries_ahead(csr: Csr, order: Codes, rank: Codes, /) -> Ahead:
    """The rows in an order of the nodes, with the entries that lead to a later node; ``rank`` is the place of each."""
    rows, entries = entries_of(csr, order)
    columns = rank.take(csr.indices.take(entries))
    kept = np.flatnonzero(rows < columns)
    indptr = np.searchsorted(rows.take(kept), np.arange(len(order) + 1))
    return Ahead(indptr, columns.take(kept), entries.take(kept))


def _directions(neighbours: Csr, out: Csr, into: Csr) -> Worth:
    """For every entry in how many directions there is a stored edge."""
    keys, worth = _keys_of(neighbours), np.zeros(len(neighbours.indices), np.uint8)
    for side in (out.without_loops(), into.without_loops()):
        # Both are in order and without repeats.
        worth[np.searchsorted(keys, _keys_of(side))] += 1
    return worth


def _keys_of(csr: Csr) -> Index:
    rows = np.repeat(np.arange(csr.shape[0], dtype=np.int32), csr.degrees)
    return _keys(rows, csr.indices)


def _keys(rows: Codes, columns: Codes) -> Index:
    return (rows.astype(np.int64) << 32) | columns


@with_twin(lambda csr, _: 150e-9 * steps(csr))
def triangles(csr: Csr, worth: Worth, /) -> Counts:
    """For every node the worth of the edges opposite to it, over all triangles through it."""
    size = csr.shape[0]
    counts = np.zeros(size, np.int64)
    keys = _keys_of(csr)
    # The entries of a row are in no order; here they are looked up.
    order = np.argsort(keys)
    keys, worth = keys.take(order), worth.take(order)
    csr = Csr(csr.indptr, (keys & 0xFFFFFFFF).astype(np.int32), csr.shape)
    rows = (keys >> 32).astype(np.int32)
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
