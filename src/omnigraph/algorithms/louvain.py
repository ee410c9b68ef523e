"""Louvain's method: sweeps of moves until none gains, then the communities become nodes, and so on.

The rules that make the answer one: nodes move in the order of their ids, each to the community where modularity
gains most, if that is more than 1e-12; of equal gains to the one whose least member has the least id. On the next
level a community stands at the place of its least member.
"""

from __future__ import annotations

import numpy as np

from omnigraph.algorithms.kernels.moves import Level, new_communities, sweep
from omnigraph.algorithms.local import NodeValues
from omnigraph.algorithms.node_graph import NodeGraph, Weighted
from omnigraph.algorithms.rounds import OnRound, Ran
from omnigraph.cancel import look
from omnigraph.read.kernels.arrays import Codes, Floats, Index


def louvain(
    graph: NodeGraph, weight: str | None, resolution: float, on_round: OnRound
) -> NodeValues:
    """The community of each node, as the number of its least member. The rounds are sweeps."""
    edges = graph.weighted_neighbours(weight)
    level = _first_level(edges)
    whole = float(edges.weights.sum()) / 2
    of: Codes = np.arange(graph.size, dtype=np.int32)
    if whole == 0:
        return NodeValues(of, Ran(0, True), 0.0)
    sweeps, improves = 0, True
    while improves:
        improves = False
        communities, moved = new_communities(level), 1
        while moved:
            look()
            moved = sweep(level, communities, whole, resolution)
            sweeps += 1
            improves = improves or moved > 0
            on_round(sweeps, 0)
        numbers = _numbered(communities.of)
        of = numbers.take(of)
        level = _next_level(level, numbers)
    least = np.full(graph.size, graph.size, np.int32)
    np.minimum.at(least, of, np.arange(graph.size, dtype=np.int32))
    found = least.take(of)
    return NodeValues(found, Ran(sweeps, True), modularity(edges, found, resolution))


def modularity(edges: Weighted, of: Codes, resolution: float) -> float:
    """The share of the weight inside communities, less what there would be by chance."""
    csr, weights = edges
    rows = np.repeat(of, csr.degrees)
    double = float(weights.sum())
    inside = float(weights[rows == of.take(csr.indices)].sum())
    totals = np.bincount(rows, weights)
    return inside / double - resolution * float((totals / double) @ (totals / double))


def _first_level(edges: Weighted) -> Level:
    csr, weights = edges
    rows = np.repeat(np.arange(csr.shape[0]), csr.degrees)
    degrees = np.bincount(rows, weights, csr.shape[0]).astype(float, copy=False)
    return Level(csr.indptr, csr.indices, weights, degrees)


def _numbered(of: Codes) -> Codes:
    """The communities numbered anew, in the order of their least members."""
    _, first, places = np.unique(of, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int32)
    rank[np.argsort(first)] = np.arange(len(first), dtype=np.int32)
    return rank.take(places)


def _next_level(level: Level, numbers: Codes) -> Level:
    """The graph between communities: weights between them add up, those inside only count in the degrees."""
    size = int(numbers.max()) + 1
    rows = np.repeat(numbers, np.diff(level.indptr))
    columns = numbers.take(level.indices)
    others = np.flatnonzero(rows != columns)
    keys = (rows.take(others).astype(np.int64) << 32) | columns.take(others)
    keys, weights = _summed(keys, level.weights.take(others))
    indptr = np.searchsorted(keys, np.arange(size + 1, dtype=np.int64) << 32)
    degrees = np.bincount(numbers, level.degrees, size).astype(float, copy=False)
    return Level(indptr, (keys & 0xFFFFFFFF).astype(np.int32), weights, degrees)


def _summed(keys: Index, weights: Floats) -> tuple[Index, Floats]:
    """The distinct keys in order, and the sum of the weights of each."""
    order = np.argsort(keys, kind="stable")
    keys = keys.take(order)
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    if not len(starts):
        return keys, weights
    return keys.take(starts), np.add.reduceat(weights.take(order), starts)
