"""A round of label propagation compiled by Numba: the same results as in ``votes``."""

from __future__ import annotations

import numpy as np

from omnigraph.read.kernels.arrays import Adjacency, Codes, Index
from omnigraph.read.kernels.numba_loops import Targets, compiled, frozen, frozen_rows, in_pieces


def vote(near: Adjacency, more: Adjacency | None, labels: Codes) -> Codes:
    """The labels after a round in which the targets of ``near`` and of ``more`` vote; a loop has no vote."""
    found = labels.copy()
    times = np.zeros(len(labels), np.int32)
    rest = near if more is None else more
    effort = near.indptr if more is None else near.indptr + rest.indptr
    arrays = *frozen_rows(near), *frozen_rows(rest), more is not None, frozen(labels), times, found
    in_pieces(_vote, effort, *arrays)
    return found


@compiled
def _vote(
    first: int,
    last: int,
    near_indptr: Index,
    near_indices: Targets,
    more_indptr: Index,
    more_indices: Targets,
    has_more: bool,
    labels: Codes,
    times: Codes,
    found: Codes,
) -> None:
    for node in range(first, last):
        most = 0
        for side in range(1 + has_more):
            indptr = more_indptr if side else near_indptr
            indices = more_indices if side else near_indices
            for entry in range(indptr[node], indptr[node + 1]):
                if indices[entry] == node:
                    continue
                label = labels[indices[entry]]
                times[label] += 1
                if times[label] > most or (times[label] == most and label < found[node]):
                    most = times[label]
                    found[node] = label
        for side in range(1 + has_more):
            indptr = more_indptr if side else near_indptr
            indices = more_indices if side else near_indices
            for entry in range(indptr[node], indptr[node + 1]):
                times[labels[indices[entry]]] = 0
