"""The sweep of Louvain's method compiled by Numba: the same loop as in ``moves``."""

from __future__ import annotations

import numpy as np

from omnigraph.algorithms.kernels import moves
from omnigraph.read.kernels.numba_loops import compiled, frozen, in_pieces

_move = compiled(moves.move)


def sweep(
    level: moves.Level, communities: moves.Communities, whole: float, resolution: float
) -> int:
    """Move every node once, and return how many moved; ``whole`` is the weight of all edges."""
    moved = 0
    indptr, indices, weights, degrees = level
    level = moves.Level(frozen(indptr), frozen(indices), frozen(weights), frozen(degrees))
    state = moves.arguments(level, communities, whole, resolution)

    def part(first: int, last: int) -> None:
        nonlocal moved
        moved += _move(first, last, *state)

    in_pieces(part, level.indptr + np.arange(len(level.indptr)))
    return moved
