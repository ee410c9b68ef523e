"""The algorithms in this process: numbers of nodes and arrays, over the adjacency that queries use."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from omnigraph.algorithms.kernels.components import strong, weak
from omnigraph.algorithms.kernels.core_numbers import cores
from omnigraph.algorithms.kernels.shortest import between
from omnigraph.algorithms.kernels.sums import weighted_sums
from omnigraph.algorithms.kernels.triangles import forward_of, triangles
from omnigraph.algorithms.kernels.votes import vote
from omnigraph.algorithms.node_graph import NodeGraph
from omnigraph.algorithms.parameters import EdgeDirection
from omnigraph.algorithms.rounds import ONE_PASS, OnRound, Ran, run_rounds
from omnigraph.read.kernels.arrays import Codes, Counts, Floats
from omnigraph.read.kernels.frontier import pull

# Parts into which the sources of betweenness are cut, each followed by a word about progress.
_PARTS = 100


class NodeValues(NamedTuple):
    """What an algorithm found: a value for every node, or the number of the node whose id it is."""

    values: npt.NDArray[Any]
    ran: Ran = ONE_PASS
    modularity: float | None = None


def degree(graph: NodeGraph, direction: EdgeDirection) -> Counts:
    """How many stored edges leave each node, reach it, or both."""
    src, dst, _ = graph.stored
    ends = {"out": [src], "in": [dst], "both": [src, dst]}[direction]
    counts = np.zeros(graph.size, np.int64)
    for codes in ends:
        counts += np.bincount(codes, minlength=graph.size)
    return counts


def pagerank(
    graph: NodeGraph,
    weight: str | None,
    sources: Codes | None,
    damping: float,
    tolerance: float,
    most: int,
    on_round: OnRound,
) -> NodeValues:
    """The share of time that a walk spends at each node.

    It follows an edge with the probability ``damping``, and else, or where there is no edge, begins anew.
    """
    size = graph.size
    if not size:
        return NodeValues(np.zeros(0), Ran(0, True))
    begin = np.zeros(size)
    chosen = slice(None) if sources is None else sources
    begin[chosen] = 1.0 / (size if sources is None else len(sources))
    if weight is None:
        leaving = graph.out.degrees.astype(float)
        weights = None
        into = graph.into
    else:
        (into, weights), leaving = graph.weighted_into(weight)
    has_way = leaving > 0
    share = np.divide(damping, leaving, out=np.zeros(size), where=has_way)
    ends = np.flatnonzero(~has_way)
    rank = begin.copy()

    def run_round() -> bool:
        nonlocal rank
        given = rank * share
        got = pull(into, given) if weights is None else weighted_sums(into, weights, given)
        got += (1.0 - damping + damping * rank.take(ends).sum()) * begin
        change = float(np.abs(got - rank).sum())
        rank = got
        return change < tolerance

    ran = run_rounds(most, run_round, on_round)
    return NodeValues(rank, ran)


def connected_components(graph: NodeGraph, *, is_strong: bool) -> Codes:
    """The least node of the component of each node."""
    return strong(graph.out) if is_strong else weak(graph.out)


def triangle_count(graph: NodeGraph) -> Counts:
    """How many triangles lead through each node."""
    forward = forward_of(graph.neighbours, graph.out, None)
    return triangles(forward.csr, forward.worth).take(forward.rank)


def clustering(graph: NodeGraph, *, directed: bool) -> Floats:
    """The share of the possible edges among the neighbours of a node that exist."""
    forward = forward_of(graph.neighbours, graph.out, graph.into if directed else None)
    edges = triangles(forward.csr, forward.worth).take(forward.rank)
    if not directed:
        edges = 2 * edges
    degrees = graph.neighbours.degrees
    pairs = degrees * (degrees - 1)
    shares: Floats = np.divide(edges, pairs, out=np.zeros(graph.size), where=pairs > 0)
    return shares


def label_propagation(
    graph: NodeGraph, most: int, on_round: OnRound, *, directed: bool
) -> NodeValues:
    """The label that each node has taken over from its neighbours, as the number of the node it comes from."""
    near = graph.out.without_loops() if directed else graph.neighbours
    more = graph.into.without_loops() if directed else None
    labels: Codes = np.arange(graph.size, dtype=np.int32)
    if not graph.size:
        return NodeValues(labels, Ran(0, True))

    def run_round() -> bool:
        nonlocal labels
        before, labels = labels, vote(near, more, labels)
        return bool(np.array_equal(before, labels))

    ran = run_rounds(most, run_round, on_round)
    return NodeValues(labels, ran)


def kcore(graph: NodeGraph) -> Counts:
    """The greatest k so that each node is in a part of the graph where all have k neighbours."""
    return cores(graph.neighbours)


def betweenness(graph: NodeGraph, direction: EdgeDirection, on_round: OnRound) -> Floats:
    """How many shortest ways of others lead through each node; of several between two, each counts its part."""
    if direction == "both":
        csr = graph.neighbours
    else:
        csr = graph.out if direction == "out" else graph.into
    scores = np.zeros(graph.size)
    every = np.arange(graph.size, dtype=np.int32)
    done = 0
    for part in np.array_split(every, min(_PARTS, max(graph.size, 1))):
        between(csr, part, scores)
        done += len(part)
        on_round(done, graph.size)
    return scores / 2 if direction == "both" else scores
