"""The relation of `{min,max}` hops over one edge type: which nodes a breadth-first search emits.

From ``x`` it emits ``y`` when the distance from ``x`` to ``y`` lies in [min, max] and is at least 1, or
when the distance is min - 1 and ``y`` has a stored self-loop, which is then the hop that emits it.

    edges 0 -> 1 -> 2 -> 3, hops {2,3}, start 0   ->   2 and 3

Searched from ``y`` instead (``inverse``), along adjacency in the opposite direction, the pairs are the
same: a start with a self-loop admits distances from min - 1.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator

import numpy as np

from omnigraph.cancel import look
from omnigraph.read.kernels import hops_numpy
from omnigraph.read.kernels.arrays import Adjacency, Codes, Counts, Index, Mask
from omnigraph.read.kernels.dispatch import Dispatch

# Pairs in a chunk, about.
CHUNK = 1 << 20
_SAMPLE = 4096

dispatcher = Dispatch("omnigraph.read.kernels.hops_numba")


def reach(
    csr: Adjacency,
    starts: Codes,
    min: int,
    max: int,
    loops: Mask | None = None,
    inverse: bool = False,
    chunk: int = CHUNK,
) -> Iterator[tuple[Index, Codes]]:
    """The nodes emitted from each start, in chunks of whole starts and about ``chunk`` nodes.

    The first array holds the place in ``starts`` and ascends; the nodes of a start come in any order.
    ``csr`` is the adjacency the search follows; ``loops`` is read off it where it is not at hand.
    """
    most = builtins.min(max, csr.shape[0])  # No distance is larger; bounds may be any integer.
    if min > most:
        return
    loops = _loops(csr) if loops is None else loops
    done = 0
    while done < len(starts):
        look()
        some = starts[done:]
        search = dispatcher.choose(hops_numpy.emitted, _cost(csr, some, most))
        counts, nodes = search(csr, some, min, most, loops, inverse, chunk)
        yield np.repeat(np.arange(done, done + len(counts)), counts), nodes
        done += len(counts)


def reach_count(
    csr: Adjacency,
    starts: Codes,
    min: int,
    max: int,
    loops: Mask | None = None,
    inverse: bool = False,
    weights: Counts | None = None,
) -> Counts:
    """How many nodes are emitted from each start, or the sum of their weights."""
    most = builtins.min(max, csr.shape[0])
    if min > most:
        return np.zeros(len(starts), np.int64)
    loops = _loops(csr) if loops is None else loops
    search = dispatcher.choose(hops_numpy.counted, _cost(csr, starts, most))
    return search(csr, starts, min, most, loops, inverse, weights)


def _cost(csr: Adjacency, starts: Codes, max: int) -> float:
    """Nanoseconds that searching from each start takes in NumPy, roughly."""
    return 100 * len(starts) * _followed(csr, 1, max)


def _followed(csr: Adjacency, starts: int, max: int) -> float:
    """How many edges a search from some starts together may follow."""
    edges, total, frontier = len(csr.indices), 0.0, float(starts)
    degree = edges / (csr.shape[0] or 1)
    for hop in range(builtins.min(max, 20)):
        frontier *= degree
        total += frontier
        if total >= edges:
            return edges
        if hop == 0:
            degree = _degree_at_ends(csr)
    return total


def _degree_at_ends(csr: Adjacency) -> float:
    """The mean degree of what edges lead to, which hubs make far larger than that of all nodes."""
    some = csr.indices[:: len(csr.indices) // _SAMPLE + 1]
    return float((csr.indptr[some + 1] - csr.indptr[some]).mean()) if len(some) else 0.0


def _loops(csr: Adjacency) -> Mask:
    rows = np.repeat(np.arange(csr.shape[0]), np.diff(csr.indptr))
    loops = np.zeros(csr.shape[0], np.bool_)
    loops[rows[rows == csr.indices]] = True
    return loops
