"""The loops over adjacency that reading is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from omnigraph.read import kernels_numpy

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from omnigraph.read.bindings import Codes, Counts, Floats, Mask

    Index = npt.NDArray[np.int64]
    Summed = TypeVar("Summed", Counts, Floats)


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


def pull(csr: Adjacency, x: Summed) -> Summed:
    """For every row the sum of ``x`` over its targets; integers wrap at 2^64."""
    return kernels_numpy.pull(csr, x)


def pull_any(csr: Adjacency, mask: Mask) -> Mask:
    """For every row whether ``mask`` holds for one of its targets."""
    return kernels_numpy.pull_any(csr, mask)


def pull_min(csr: Adjacency, x: Codes) -> Codes:
    """For every row the smallest ``x`` of its targets, where -1 stands for none."""
    return kernels_numpy.pull_min(csr, x)


def pull_max(csr: Adjacency, x: Codes) -> Codes:
    """For every row the largest ``x`` of its targets, where -1 stands for none."""
    return kernels_numpy.pull_max(csr, x)


def push(csr: Adjacency, codes: Codes, x: Summed) -> tuple[Codes, Summed]:
    """The distinct targets of the given rows, ascending, each with the sum of its rows' ``x``.

    A row given twice counts twice.
    """
    return kernels_numpy.push(csr, codes, x)


def push_any(csr: Adjacency, codes: Codes) -> Codes:
    """The distinct targets of the given rows, ascending."""
    return kernels_numpy.push_any(csr, codes)


def expand(csr: Adjacency, rows: Codes) -> tuple[Index, Codes]:
    """Every target of every given row, beside the place of the row in ``rows``."""
    return kernels_numpy.expand(csr, rows)


def expand_multi(multi: MultiAdjacency, rows: Codes) -> tuple[Index, Codes, Codes]:
    """Every stored edge of every given row: the row's place in ``rows``, target, edge position."""
    return kernels_numpy.expand_multi(multi, rows)


def contains(csr: Adjacency, a: Codes, b: Codes) -> Mask:
    """For every pair ``(a[i], b[i])`` whether ``b[i]`` is a target of row ``a[i]``."""
    return kernels_numpy.contains(csr, a, b)


def common_count(
    left: Adjacency,
    a: Codes,
    right: Adjacency,
    b: Codes,
    weights: Counts | None = None,
    mask: Mask | None = None,
) -> Counts:
    """For every pair how many targets row ``a[i]`` of left and row ``b[i]`` of right share.

    ``mask`` says which targets count, ``weights`` how much each is worth; sums wrap at 2^64.
    """
    return kernels_numpy.common_count(left, a, right, b, weights, mask)


def common_expand(
    left: Adjacency, a: Codes, right: Adjacency, b: Codes, mask: Mask | None = None
) -> tuple[Index, Codes]:
    """For every pair every target that row ``a[i]`` of left and row ``b[i]`` of right share.

    The first array holds the place ``i`` of the pair; both ascend, the targets within a pair.
    """
    return kernels_numpy.common_expand(left, a, right, b, mask)
