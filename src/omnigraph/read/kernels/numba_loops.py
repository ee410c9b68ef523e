"""Compiling loops with Numba, and running them so that they can be stopped. Imports Numba.

A loop runs in the thread of its query. Cut into parts for several threads it took as much processor time, and eight
readers at once got 1.15 times the counts of one reader on two cores, instead of 1.40 times with one core for each.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, TypeVar

import numba
import numpy as np
import numpy.typing as npt

from omnigraph.cancel import look
from omnigraph.read.kernels.arrays import Adjacency, Index

Array = TypeVar("Array", bound=npt.NDArray[Any])
Targets = npt.NDArray[np.uint32]
Loop = TypeVar("Loop", bound=Callable[..., Any])

# Steps of one call: some tenths of a second where each jumps somewhere else in memory.
CALL = 20_000_000


def compiled(loop: Loop) -> Loop:
    """Compile on the first call; keep the machine code on disk when there is a place for it."""
    try:
        return numba.njit(loop, nogil=True, cache=True)  # type: ignore[no-any-return]
    except RuntimeError:
        # Numba found no directory it may write: neither beside the module nor in the user's cache.
        return numba.njit(loop, nogil=True)  # type: ignore[no-any-return]


def frozen(array: Array) -> Array:
    """The array as compiled loops take their input, so that each is compiled for one form only."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view  # type: ignore[return-value]


def frozen_rows(csr: Adjacency) -> tuple[Index, Targets]:
    """Where the rows of an adjacency begin, and their targets, as compiled loops take them."""
    # Unsigned, so that compiled code need not ask whether an index counts from the end.
    return frozen(csr.indptr), frozen(csr.indices).view(np.uint32)


def in_pieces(
    loop: Callable[..., int | None],
    effort: npt.NDArray[np.int64] | range,
    *arguments: Any,
    call: int = CALL,
) -> None:
    """Call ``loop(first, last, *arguments)`` over a range, in calls that do not take long, with a look in between.

    ``effort[i]`` is the effort before item ``i``, with the total at the end. It is a range from 0 if all items take
    as long. A loop whose items turn out to take more effort than given may return early, with the item it stopped at.
    """
    for first, last in pairwise(_cuts(effort, call)):
        at: int | None = first
        while at is not None and at < last:
            look()
            at = loop(at, last, *arguments)


def _cuts(effort: npt.NDArray[np.int64] | range, call: int) -> list[int]:
    """The bounds of parts of equal effort, each at most about that of a call."""
    total, items = int(effort[-1] - effort[0]), len(effort) - 1
    parts = -(-total // call) or 1
    if isinstance(effort, range):
        return [items * part // parts for part in range(parts + 1)]
    cuts = np.searchsorted(effort, effort[0] + np.arange(1, parts) * total // parts)
    return [0, *cuts.tolist(), items]
