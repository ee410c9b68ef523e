"""One round of label propagation: every node takes the label that most of its neighbours have.

Node 0 has the neighbours 1, 2 and 3 with the labels 7, 4 and 4:

    vote(neighbours, None, labels)[0]   ->   4, and of labels that are equally frequent the least
"""

from __future__ import annotations

import numpy as np

from omnigraph.cancel import look
from omnigraph.read.kernels.arrays import Adjacency, Codes, Index
from omnigraph.read.kernels.frontier import CHUNK, cut
from omnigraph.read.kernels.twins import with_twin


@with_twin(lambda near, *_: 200e-9 * len(near.indices))
def vote(near: Adjacency, more: Adjacency | None, labels: Codes, /) -> Codes:
    """The labels after a round in which the targets of ``near`` and of ``more`` vote; a loop has no vote.

    A node without voters keeps its label.
    """
    sides = [near] if more is None else [near, more]
    lengths = sum((np.diff(side.indptr) for side in sides), np.zeros(near.shape[0], np.int64))
    found = labels.copy()
    for first, last in cut(lengths, CHUNK):
        look()
        ballots = np.sort(np.concatenate([_ballots(side, first, last, labels) for side in sides]))
        if len(ballots):
            _count(ballots, found)
    return found


def _ballots(side: Adjacency, first: int, last: int, labels: Codes) -> Index:
    """A number for each vote: the node in its upper half, the label in the lower."""
    begin, end = side.indptr[first], side.indptr[last]
    targets = side.indices[begin:end]
    nodes = np.repeat(np.arange(first, last), np.diff(side.indptr[first : last + 1]))
    others = np.flatnonzero(nodes != targets)
    ballots: Index = (nodes.take(others) << 32) | labels.take(targets.take(others))
    return ballots


def _count(ballots: Index, found: Codes) -> None:
    """Give every node the first of its most frequent labels; votes are in order."""
    starts = np.flatnonzero(np.diff(ballots, prepend=-1))
    times = np.diff(starts, append=len(ballots))
    distinct = ballots.take(starts)
    nodes = distinct >> 32
    # By node, then the most frequent first, then the least label: the first of each node wins.
    order = np.lexsort((distinct, -times, nodes))
    firsts = order[np.flatnonzero(np.diff(nodes.take(order), prepend=-1))]
    found[nodes.take(firsts)] = (distinct.take(firsts) & 0xFFFFFFFF).astype(np.int32)
