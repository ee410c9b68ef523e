"""Adjacency in compressed rows: neighbours once, or once per stored edge."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from omnigraph.read.bindings import Codes, Counts


@dataclass(frozen=True)
class Csr:
    """Adjacency without repeats: row ``r`` has ``indices[indptr[r]:indptr[r + 1]]``, ascending."""

    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[np.int32]
    shape: tuple[int, int]

    @cached_property
    def degrees(self) -> Counts:
        """How many neighbours each row has."""
        import numpy as np

        return np.diff(self.indptr)

    @property
    def nbytes(self) -> int:
        """The bytes of everything made so far."""
        degrees = self.__dict__.get("degrees")
        return self.indptr.nbytes + self.indices.nbytes + (0 if degrees is None else degrees.nbytes)


@dataclass(frozen=True)
class MultiCsr:
    """Adjacency with one entry per stored edge, whose position is beside it.

    The entries of a row ascend by neighbour.
    """

    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[np.int32]
    positions: npt.NDArray[np.int32]
    shape: tuple[int, int]

    @cached_property
    def degrees(self) -> Counts:
        """How many edges each row has."""
        import numpy as np

        return np.diff(self.indptr)

    @property
    def nbytes(self) -> int:
        """The bytes of the three arrays."""
        return self.indptr.nbytes + self.indices.nbytes + self.positions.nbytes


def csr_of(rows: Codes, columns: Codes, shape: tuple[int, int]) -> Csr:
    """The distinct pairs of a row and a column."""
    import numpy as np

    # Row and column in one integer each: sorting those is faster than any sort of pairs.
    keys = (rows.astype(np.int64) << 32) | columns
    keys.sort()
    if keys.size > 1:
        fresh = np.empty(keys.size, np.bool_)
        fresh[0] = True
        np.not_equal(keys[1:], keys[:-1], out=fresh[1:])
        if not fresh.all():
            keys = keys[fresh]
    indptr = np.searchsorted(keys, np.arange(shape[0] + 1, dtype=np.int64) << 32)
    return Csr(indptr.astype(np.int64, copy=False), keys.astype(np.int32), shape)


def multi_csr_of(rows: Codes, columns: Codes, positions: Codes, shape: tuple[int, int]) -> MultiCsr:
    """The pairs of a row and a column, each with its position."""
    import numpy as np

    order, _ = _grouped(columns, shape[1])
    by_row, indptr = _grouped(rows[order], shape[0])
    order = order[by_row]
    return MultiCsr(indptr.astype(np.int64), columns[order], positions[order], shape)


def _grouped(keys: Codes, size: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """A stable order of the keys and where each one begins: a transposition in linear time."""
    import numpy as np
    from scipy.sparse import csr_array

    ends = np.arange(keys.size + 1, dtype=np.int32)
    ones = np.ones(keys.size, np.bool_)
    grouped = csr_array((ones, keys, ends), shape=(keys.size, size)).tocsc()
    return grouped.indices, grouped.indptr
