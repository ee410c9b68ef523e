"""Triangles compiled by Numba: the same results as in ``triangles``."""

from __future__ import annotations

import numpy as np

from omnigraph.algorithms.kernels.triangles import Ahead, Worth
from omnigraph.read.kernels.arrays import Codes, Counts, Index
from omnigraph.read.kernels.csr import Csr
from omnigraph.read.kernels.numba_loops import Targets, compiled, frozen, frozen_rows, in_pieces


def entries_ahead(csr: Csr, order: Codes, rank: Codes) -> Ahead:
    """The rows in an order of the nodes, with the entries that lead to a later node; ``rank`` is the place of each."""
    # As long as if all entries did; what is not written takes no memory.
    columns, entries = np.empty(len(csr.indices), np.int32), np.empty(len(csr.indices), np.int64)
    begins = np.zeros(len(order) + 1, np.int64)
    effort = np.concatenate(([0], np.cumsum(csr.degrees.take(order) + 1)))
    arrays = frozen(order), frozen(rank), begins, columns, entries
    in_pieces(_entries_ahead, effort, *frozen_rows(csr), *arrays)
    return Ahead(begins, columns[: begins[-1]], entries[: begins[-1]])


@compiled
def _entries_ahead(
    first: int,
    last: int,
    indptr: Index,
    indices: Targets,
    order: Codes,
    rank: Codes,
    begins: Index,
    columns: Codes,
    entries: Index,
) -> None:
    at = begins[first]
    for place in range(first, last):
        node = order[place]
        for entry in range(indptr[node], indptr[node + 1]):
            target = rank[indices[entry]]
            if target > place:
                columns[at] = target
                entries[at] = entry
                at += 1
        begins[place + 1] = at


def triangles(csr: Csr, worth: Worth) -> Counts:
    """For every node the worth of the edges opposite to it, over all triangles through it."""
    size = csr.shape[0]
    counts = np.zeros(size, np.int64)
    # The effort of a row: its entries, and those of the rows they lead to.
    of_entries = np.zeros(len(csr.indices) + 1, np.int64)
    np.cumsum(csr.degrees.take(csr.indices) + 2, out=of_entries[1:])
    marks = np.zeros(size, np.int64)
    arrays = *frozen_rows(csr), frozen(worth), marks, counts
    in_pieces(_triangles, of_entries.take(csr.indptr), *arrays)
    return counts


@compiled
def _triangles(
    first: int,
    last: int,
    indptr: Index,
    indices: Targets,
    worth: Worth,
    marks: Index,
    counts: Counts,
) -> None:
    # A mark is the entry of the row that leads to the node, from 1 on; 0 is none.
    for u in range(first, last):
        begin, end = indptr[u], indptr[u + 1]
        if end - begin < 2:
            continue
        for entry in range(begin, end):
            marks[indices[entry]] = entry + 1
        for entry in range(begin, end):
            v = indices[entry]
            for between in range(indptr[v], indptr[v + 1]):
                w = indices[between]
                if marks[w]:
                    counts[u] += worth[between]
                    counts[v] += worth[marks[w] - 1]
                    counts[w] += worth[entry]
        for entry in range(begin, end):
            marks[indices[entry]] = 0
