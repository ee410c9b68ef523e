"""Adjacency in compressed rows: neighbours once, or once per stored edge."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from omnigraph.read.bindings import Codes, Counts

_KEY_BITS = 63


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
    return Csr(_starts(keys, shape[0], 32), keys.astype(np.int32), shape)


def multi_csr_of(rows: Codes, columns: Codes, positions: Codes, shape: tuple[int, int]) -> MultiCsr:
    """The pairs of a row and a column, each with its position."""
    import numpy as np

    place_bits = int(positions.max(initial=0)).bit_length()
    column_bits = shape[1].bit_length()
    wide = rows.astype(np.int64)
    if shape[0].bit_length() + column_bits + place_bits <= _KEY_BITS:
        # All three in one integer: the sort carries them along.
        shift = column_bits + place_bits
        keys = (wide << shift) | (columns.astype(np.int64) << place_bits) | positions
        keys.sort()
        positions = (keys & ((1 << place_bits) - 1)).astype(np.int32)
        columns = ((keys >> place_bits) & ((1 << column_bits) - 1)).astype(np.int32)
    else:
        shift = 32
        keys = (wide << shift) | columns
        order = np.argsort(keys)
        keys, columns, positions = keys[order], columns[order], positions[order]
    return MultiCsr(_starts(keys, shape[0], shift), columns, positions, shape)


def _starts(keys: Counts, rows: int, shift: int) -> Counts:
    """Where each row begins among ascending keys that have it from this bit on."""
    import numpy as np

    starts = np.searchsorted(keys, np.arange(rows + 1, dtype=np.int64) << shift)
    return starts.astype(np.int64, copy=False)
