"""Breadth-first searches in NumPy, several side by side. The compiled ones must give the same results."""

from __future__ import annotations

import numpy as np

from omnigraph.cancel import look
from omnigraph.read.kernels import frontier
from omnigraph.read.kernels.arrays import Adjacency, Codes, Counts, Index, Mask, row_lengths
from omnigraph.read.kernels.frontier_numpy import CHUNK, cut

# Pairs of start and node to hold marks for.
MARKS = 1 << 22


def emitted(
    csr: Adjacency,
    starts: Codes,
    least: int,
    most: int,
    loops: Mask,
    inverse: bool,
    chunk: int,
    targets: int = CHUNK,
) -> tuple[Counts, Codes]:
    """What the first starts emit, as many starts as make about ``chunk`` nodes, at least one.

    Answers how many nodes each of them emits, and the nodes. ``targets`` bounds the neighbours looked at
    together.
    """
    size = csr.shape[0]
    starts = starts[: max(1, min(MARKS, chunk) // max(size, 1))]
    visited = np.zeros(len(starts) * size, np.bool_)
    marked = np.zeros(len(starts) * size, np.bool_)
    search, node = np.arange(len(starts)), starts
    for distance in range(most + 1):
        look()
        if not len(node):
            break
        # A node of one of the searches is `search * size + node`.
        keys = search * size + node
        visited[keys] = True
        if distance >= least:
            marked[keys] = True
        elif distance == least - 1:
            looped = loops[starts[search] if inverse else node]
            marked[keys[looped]] = True
        if distance < most:
            search, node = _split(_following(csr, search, node, visited, targets), size)
    search, node = _split(np.flatnonzero(marked), size)
    return np.bincount(search, minlength=len(starts)), node


def _following(csr: Adjacency, search: Index, node: Codes, visited: Mask, targets: int) -> Index:
    """The nodes one step on that their search has not visited yet, which it has from now on."""
    size = csr.shape[0]
    found = [np.zeros(0, np.int64)]
    for begin, end in cut(row_lengths(csr, node), targets):
        look()
        place, near = frontier.expand(csr, node[begin:end])
        keys = search[begin:end].take(place) * size
        keys += near
        keys = np.unique(keys[~visited.take(keys)])
        visited[keys] = True
        found.append(keys)
    # Parts that are in order each are merged.
    return np.sort(np.concatenate(found), kind="stable")


def _split(keys: Index, size: int) -> tuple[Index, Codes]:
    if not len(keys):
        return keys, np.zeros(0, np.int32)
    search, node = np.divmod(keys, size)
    return search, node.astype(np.int32)


def counted(
    csr: Adjacency,
    starts: Codes,
    least: int,
    most: int,
    loops: Mask,
    inverse: bool,
    weights: Counts | None,
    marks: int = MARKS,
) -> Counts:
    """How many nodes each start emits, or the sum of their weights; about ``marks`` pairs at a time."""
    totals = np.zeros(len(starts), np.int64)
    done = 0
    while done < len(starts):
        counts, nodes = emitted(csr, starts[done:], least, most, loops, inverse, marks)
        if weights is None:
            totals[done : done + len(counts)] = counts
        else:
            index = np.repeat(np.arange(done, done + len(counts)), counts)
            np.add.at(totals, index, weights[nodes])
        done += len(counts)
    return totals
