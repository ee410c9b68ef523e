"""Sums over weighted edges.

Row 0 has the targets 1 and 2 with the weights 2 and 3:

    weighted_sums(csr, [2, 3], [5, 1, 7])   ->   [2 * 1 + 3 * 7, 0, 0]
"""

from __future__ import annotations

import numpy as np

from omnigraph.cancel import look
from omnigraph.read.kernels.arrays import Adjacency, Floats
from omnigraph.read.kernels.frontier import BLOCK, cut
from omnigraph.read.kernels.twins import with_twin


@with_twin(lambda csr, *_: 15e-9 * len(csr.indices))
def weighted_sums(csr: Adjacency, weights: Floats, x: Floats, /) -> Floats:
    """For every row the sum of weight times ``x`` over its targets, added in their order."""
    lengths = np.diff(csr.indptr)
    sums = np.zeros(csr.shape[0])
    for first, last in cut(lengths, BLOCK):
        look()
        begin, end = csr.indptr[first], csr.indptr[last]
        terms = weights[begin:end] * x.take(csr.indices[begin:end])
        rows = np.repeat(np.arange(last - first), lengths[first:last])
        sums[first:last] = np.bincount(rows, terms, last - first)
    return sums
