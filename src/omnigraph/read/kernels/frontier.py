"""Loops that follow one hop, from rows to their targets.

Row 0 has the targets 1 and 2, row 2 the target 0:

    pull(csr, [5, 1, 7])      -> [8, 0, 5]                        every row adds up its targets
    push(csr, [0, 2], [1, 1]) -> [0, 1, 2], [1, 1, 1]             targets add up their rows
    expand(csr, [0, 2])       -> [0, 0, 1], [1, 2, 0]             all pairs of a row and a target

Each loop exists twice, in NumPy and compiled by Numba; ``dispatch`` chooses.
"""

from __future__ import annotations

from typing import TypeVar

from omnigraph.read.kernels import frontier_numpy
from omnigraph.read.kernels.arrays import (
    Adjacency,
    Codes,
    Counts,
    Floats,
    Index,
    Mask,
    MultiAdjacency,
    average_length,
)
from omnigraph.read.kernels.dispatch import Dispatch

Summed = TypeVar("Summed", Counts, Floats)

dispatcher = Dispatch("omnigraph.read.kernels.frontier_numba")


def pull(csr: Adjacency, x: Summed) -> Summed:
    """For every row the sum of ``x`` over its targets; integers wrap at 2^64."""
    chosen = dispatcher.choose(frontier_numpy.pull, 12 * len(csr.indices))
    return chosen(csr, x)


def pull_count(csr: Adjacency, mask: Mask) -> Counts:
    """For every row how many of its targets ``mask`` holds for."""
    chosen = dispatcher.choose(frontier_numpy.pull_count, 4 * len(csr.indices))
    return chosen(csr, mask)


def pull_any(csr: Adjacency, mask: Mask) -> Mask:
    """For every row whether ``mask`` holds for one of its targets."""
    chosen = dispatcher.choose(frontier_numpy.pull_any, 12 * len(csr.indices))
    return chosen(csr, mask)


def pull_min(csr: Adjacency, x: Codes) -> Codes:
    """For every row the smallest ``x`` of its targets, where -1 stands for none."""
    chosen = dispatcher.choose(frontier_numpy.pull_min, 12 * len(csr.indices))
    return chosen(csr, x)


def pull_max(csr: Adjacency, x: Codes) -> Codes:
    """For every row the largest ``x`` of its targets, where -1 stands for none."""
    chosen = dispatcher.choose(frontier_numpy.pull_max, 12 * len(csr.indices))
    return chosen(csr, x)


def push(csr: Adjacency, codes: Codes, x: Summed) -> tuple[Codes, Summed]:
    """The distinct targets of the given rows, ascending, each with the sum of its rows' ``x``.

    A row given twice counts twice.
    """
    chosen = dispatcher.choose(frontier_numpy.push, 50 * len(codes) * average_length(csr))
    return chosen(csr, codes, x)


def push_any(csr: Adjacency, codes: Codes) -> Codes:
    """The distinct targets of the given rows, ascending."""
    chosen = dispatcher.choose(frontier_numpy.push_any, 20 * len(codes) * average_length(csr))
    return chosen(csr, codes)


def expand(csr: Adjacency, rows: Codes) -> tuple[Index, Codes]:
    """Every target of every given row, beside the place of the row in ``rows``."""
    chosen = dispatcher.choose(frontier_numpy.expand, 20 * len(rows) * average_length(csr))
    return chosen(csr, rows)


def expand_merged(
    csr: Adjacency, rows: Codes, starts: Index, weights: Counts | None
) -> tuple[Index, Codes, Counts]:
    """The distinct targets of groups of rows, each with the sum of the weights of the rows it is reached from.

    Group ``g`` are the rows from ``starts[g]`` to ``starts[g + 1]``. The first array holds the group and
    ascends; without ``weights`` every row counts once. Sums wrap at 2^64.
    """
    chosen = dispatcher.choose(frontier_numpy.expand_merged, 40 * len(rows) * average_length(csr))
    return chosen(csr, rows, starts, weights)


def expand_multi(multi: MultiAdjacency, rows: Codes) -> tuple[Index, Codes, Codes]:
    """Every stored edge of every given row: the row's place in ``rows``, target, edge position."""
    chosen = dispatcher.choose(frontier_numpy.expand_multi, 20 * len(rows) * average_length(multi))
    return chosen(multi, rows)
