"""The loops over adjacency that reading is made of.

Each is there twice: in NumPy, and compiled by Numba where that is installed. Importing Numba takes most
of a second and a compiled loop some milliseconds to load, so both happen only after NumPy has worked
about as long: a small question never pays for them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from omnigraph import settings
from omnigraph.read.kernels import loops_numpy

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from omnigraph.read.match.bindings import Codes, Counts, Floats, Mask

    Index = npt.NDArray[np.int64]
    Summed = TypeVar("Summed", Counts, Floats)

Loop = TypeVar("Loop", bound=Callable[..., Any])

# Nanoseconds of work in NumPy: what justifies importing Numba, what loading one more loop, and
# what a call into compiled code takes anyway.
IMPORT_COST, LOOP_COST, CALL_COST = 800_000_000, 30_000_000, 50_000


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


class Twins:
    """Which of two loops of the same name to call: NumPy's or the compiled one."""

    # Work of all loops so far. Threads may lose an addition to each other; it is an estimate.
    total = 0.0

    def __init__(self, module: str) -> None:
        self._module = module
        self._spent: dict[str, float] = {}

    def choose(self, loop: Loop, cost: float) -> Loop:
        """The loop for work that costs NumPy about ``cost`` nanoseconds."""
        if cost < CALL_COST:
            return loop
        name = loop.__name__
        Twins.total += cost
        self._spent[name] = self._spent.get(name, 0.0) + cost
        if Twins.total < IMPORT_COST or self._spent[name] < LOOP_COST or not settings.NUMBA.get():
            return loop
        return cast("Loop", getattr(_imported(self._module), name, loop))


@cache
def _imported(module: str) -> ModuleType | None:
    try:
        return import_module(module)
    except ImportError:
        return None


_twins = Twins("omnigraph.read.kernels.loops_numba")


def _average(csr: Adjacency) -> float:
    return len(csr.indices) / max(csr.shape[0], 1)


def pull(csr: Adjacency, x: Summed) -> Summed:
    """For every row the sum of ``x`` over its targets; integers wrap at 2^64."""
    chosen = _twins.choose(loops_numpy.pull, 12 * len(csr.indices))
    return chosen(csr, x)


def pull_any(csr: Adjacency, mask: Mask) -> Mask:
    """For every row whether ``mask`` holds for one of its targets."""
    chosen = _twins.choose(loops_numpy.pull_any, 12 * len(csr.indices))
    return chosen(csr, mask)


def pull_min(csr: Adjacency, x: Codes) -> Codes:
    """For every row the smallest ``x`` of its targets, where -1 stands for none."""
    chosen = _twins.choose(loops_numpy.pull_min, 12 * len(csr.indices))
    return chosen(csr, x)


def pull_max(csr: Adjacency, x: Codes) -> Codes:
    """For every row the largest ``x`` of its targets, where -1 stands for none."""
    chosen = _twins.choose(loops_numpy.pull_max, 12 * len(csr.indices))
    return chosen(csr, x)


def push(csr: Adjacency, codes: Codes, x: Summed) -> tuple[Codes, Summed]:
    """The distinct targets of the given rows, ascending, each with the sum of its rows' ``x``.

    A row given twice counts twice.
    """
    chosen = _twins.choose(loops_numpy.push, 50 * len(codes) * _average(csr))
    return chosen(csr, codes, x)


def push_any(csr: Adjacency, codes: Codes) -> Codes:
    """The distinct targets of the given rows, ascending."""
    chosen = _twins.choose(loops_numpy.push_any, 20 * len(codes) * _average(csr))
    return chosen(csr, codes)


def expand(csr: Adjacency, rows: Codes) -> tuple[Index, Codes]:
    """Every target of every given row, beside the place of the row in ``rows``."""
    chosen = _twins.choose(loops_numpy.expand, 20 * len(rows) * _average(csr))
    return chosen(csr, rows)


def expand_multi(multi: MultiAdjacency, rows: Codes) -> tuple[Index, Codes, Codes]:
    """Every stored edge of every given row: the row's place in ``rows``, target, edge position."""
    chosen = _twins.choose(loops_numpy.expand_multi, 20 * len(rows) * _average(multi))
    return chosen(multi, rows)


def contains(csr: Adjacency, a: Codes, b: Codes) -> Mask:
    """For every pair ``(a[i], b[i])`` whether ``b[i]`` is a target of row ``a[i]``."""
    chosen = _twins.choose(loops_numpy.contains, 300 * len(a))
    return chosen(csr, a, b)


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
    chosen = _twins.choose(
        loops_numpy.common_count, 300 * len(a) * min(_average(left), _average(right))
    )
    return chosen(left, a, right, b, weights, mask)


def common_expand(
    left: Adjacency, a: Codes, right: Adjacency, b: Codes, mask: Mask | None = None
) -> tuple[Index, Codes]:
    """For every pair every target that row ``a[i]`` of left and row ``b[i]`` of right share.

    The first array holds the place ``i`` of the pair; both ascend, the targets within a pair.
    """
    chosen = _twins.choose(
        loops_numpy.common_expand, 300 * len(a) * min(_average(left), _average(right))
    )
    return chosen(left, a, right, b, mask)
