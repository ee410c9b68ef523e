"""Compiling loops with Numba, and running them on several threads. Imports Numba.

The compiled loops release Python's lock, so large ones run in pieces on several threads. Numba's own threads
are not used: its fallback scheduler ends the process when two threads enter it at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import lru_cache
from itertools import pairwise
from typing import Any, TypeVar

import numba
import numpy as np
import numpy.typing as npt

from omnigraph.cancel import Cancel, current, look_at, watching
from omnigraph.cores import usable_cores
from omnigraph.read.kernels.arrays import Adjacency, Index

Array = TypeVar("Array", bound=npt.NDArray[Any])
Targets = npt.NDArray[np.uint32]
Loop = TypeVar("Loop", bound=Callable[..., Any])

# Steps below which a second thread costs more than it saves.
_PIECE = 200_000
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
    """Call ``loop(first, last, *arguments)`` over a range cut into parts of equal effort.

    ``effort[i]`` is the effort before item ``i``, with the total at the end. It is a range from 0 if all items take
    as long. Parts run at the same time when there is enough to do, and each in calls that do not take long, with
    a look in between. A loop whose items turn out to take more effort than given may return early, with the item
    it stopped at.
    """
    total = int(effort[-1] - effort[0])
    parts = _parts(total)
    # Every thread gets the same number of calls.
    bounds = _cuts(effort, parts * -(-total // (call * parts)) or 1)
    token = current()
    stop = Cancel(parent=token)

    def run(ranges: Sequence[tuple[int, int]]) -> None:
        with watching(stop):
            for first, last in ranges:
                at: int | None = first
                while at is not None and at < last:
                    look_at(stop)
                    at = loop(at, last, *arguments)

    ranges = list(pairwise(bounds))
    share = -(-len(ranges) // parts)
    shares = [ranges[at : at + share] for at in range(0, len(ranges), share)]
    others = [_pool(os.getpid()).submit(run, some) for some in shares[1:]]
    try:
        run(shares[0])
        while wait(others, None if token is None else token.patience).not_done:
            look_at(stop)
        for other in others:
            other.result()
    except BaseException:
        stop.cancel()
        raise


def _cuts(effort: npt.NDArray[np.int64] | range, parts: int) -> list[int]:
    """The bounds of parts of equal effort."""
    if isinstance(effort, range):
        items = len(effort) - 1
        return [items * part // parts for part in range(parts + 1)]
    total = int(effort[-1] - effort[0])
    cuts = np.searchsorted(effort, effort[0] + np.arange(1, parts) * total // parts)
    return [0, *cuts.tolist(), len(effort) - 1]


def _parts(total: int) -> int:
    """Into how many parts to cut work of this effort."""
    return min(_threads(), total // _PIECE + 1)


def _threads() -> int:
    return min(usable_cores(), 8)


@lru_cache(maxsize=1)
def _pool(process: int) -> ThreadPoolExecutor:
    # By process, because threads do not survive a fork.
    return ThreadPoolExecutor(_threads(), thread_name_prefix=f"omnigraph-{process}")
