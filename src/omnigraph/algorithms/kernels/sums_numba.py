"""Sums over weighted edges, compiled by Numba: the same results as in ``sums``."""

from __future__ import annotations

import numpy as np

from omnigraph.read.kernels.arrays import Adjacency, Floats, Index
from omnigraph.read.kernels.numba_loops import Targets, compiled, frozen, frozen_rows, in_pieces


def weighted_sums(csr: Adjacency, weights: Floats, x: Floats) -> Floats:
    """For every row the sum of weight times ``x`` over its targets, added in their order."""
    sums = np.zeros(csr.shape[0])
    in_pieces(_weighted_sums, csr.indptr, *frozen_rows(csr), frozen(weights), frozen(x), sums)
    return sums


@compiled
def _weighted_sums(
    first: int,
    last: int,
    indptr: Index,
    indices: Targets,
    weights: Floats,
    x: Floats,
    sums: Floats,
) -> None:
    for row in range(first, last):
        for entry in range(indptr[row], indptr[row + 1]):
            sums[row] += weights[entry] * x[indices[entry]]
