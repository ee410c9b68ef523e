"""Components compiled by Numba: the same results as in ``components``."""

from __future__ import annotations

import numpy as np

from omnigraph.algorithms.kernels import components
from omnigraph.read.kernels.arrays import Adjacency, Codes, Index
from omnigraph.read.kernels.numba_loops import Targets, compiled, frozen_rows, in_pieces

# Entries of every row that are joined first: they connect nearly all of a large component.
_FIRST = 2


def weak(out: Adjacency) -> Codes:
    """The least node of the component of each node, where direction does not matter.

    A node points at another of its component that is less, or at itself. After the first entries of all rows every
    node points at the least one it is joined with, and the many entries that are left mostly join nothing.
    """
    size = out.shape[0]
    above = np.arange(size, dtype=np.int32)
    indptr, indices = frozen_rows(out)
    in_pieces(_join, range(0, 8 * size + 1, 8), indptr, indices, 0, _FIRST, above)
    in_pieces(_shorten, range(size + 1), above)
    in_pieces(_join, out.indptr, indptr, indices, _FIRST, 1 << 62, above)
    in_pieces(_shorten, range(size + 1), above)
    return above


@compiled
def _join(
    first: int, last: int, indptr: Index, indices: Targets, skip: int, most: int, above: Codes
) -> None:
    for node in range(first, last):
        begin = indptr[node] + skip
        end = min(indptr[node + 1], indptr[node] + most)
        for entry in range(begin, end):
            a, b = above[node], above[indices[entry]]
            while a != b:
                # The greater one points at the less, if it points nowhere yet; otherwise go where it points.
                if a < b:
                    a, b = b, a
                higher = above[a]
                if higher == a:
                    above[a] = b
                    break
                a = above[higher]


@compiled
def _shorten(first: int, last: int, above: Codes) -> None:
    for node in range(first, last):
        above[node] = above[above[node]]


_search = compiled(components.search)


def strong(out: Adjacency) -> Codes:
    """The least node of the strongly connected component of each node."""
    state = components.new_search(out)
    # Whatever the first nodes reach is searched with them, so parts are of unequal effort.
    in_pieces(_search, out.indptr, *frozen_rows(out), *state)
    return state[-1]
