"""The array types of the engine, the two forms of adjacency that kernels take, and the lengths of rows."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.int32]
"""Entities by number: ordinals of nodes, or positions of stored edges."""
Counts = npt.NDArray[np.int64]
Index = npt.NDArray[np.int64]
"""Positions in another array."""
Floats = npt.NDArray[np.float64]
Bits = npt.NDArray[np.uint8]
"""Eight to a byte, the lowest first."""
Mask = npt.NDArray[np.bool_]


class Adjacency(Protocol):
    """Targets by row: those of row ``v`` are ``indices[indptr[v]:indptr[v + 1]]``, ascending."""

    @property
    def indptr(self) -> Index:
        """Where each row begins, and the end of the last."""
        ...

    @property
    def indices(self) -> Codes:
        """The targets."""
        ...

    @property
    def shape(self) -> tuple[int, int]:
        """How many rows there are, and how many targets there may be."""
        ...


class MultiAdjacency(Adjacency, Protocol):
    """Adjacency with an entry for every stored edge, parallel ones included."""

    @property
    def positions(self) -> Codes:
        """The position of the edge of each entry in the edge list."""
        ...


def row_lengths(csr: Adjacency, rows: Codes) -> Index:
    """How many targets each of these rows has."""
    lengths: Index = csr.indptr[1:].take(rows) - csr.indptr.take(rows)
    return lengths


def average_length(csr: Adjacency) -> float:
    """How many targets a row has on average."""
    return len(csr.indices) / max(csr.shape[0], 1)
