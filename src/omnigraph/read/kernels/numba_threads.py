"""Compiling loops with Numba, and running them on several threads. Imports Numba."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import pairwise
from typing import Any, TypeVar

import numba
import numpy as np
import numpy.typing as npt

from omnigraph.cores import usable_cores

Array = TypeVar("Array", bound=npt.NDArray[Any])


Loop = TypeVar("Loop", bound=Callable[..., Any])

# Steps below which a second thread costs more than it saves.
_PIECE = 200_000


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


def in_pieces(loop: Callable[..., None], effort: npt.NDArray[np.int64], *arguments: Any) -> None:
    """Call ``loop(first, last, *arguments)`` over a range cut into parts of equal effort.

    ``effort[i]`` is the effort before item ``i``, with the total at the end. Parts run at the same
    time when there is enough to do.
    """
    total = int(effort[-1] - effort[0])
    parts = _parts(total)
    if parts == 1:
        loop(0, len(effort) - 1, *arguments)
        return
    cuts = np.searchsorted(effort, effort[0] + np.arange(1, parts) * total // parts)
    bounds = [0, *cuts.tolist(), len(effort) - 1]
    ranges = list(pairwise(bounds))
    others = [_pool(os.getpid()).submit(loop, *ends, *arguments) for ends in ranges[1:]]
    loop(*ranges[0], *arguments)
    for other in others:
        other.result()


def _parts(total: int) -> int:
    """Into how many parts to cut work of this effort."""
    return min(_threads(), total // _PIECE + 1)


def _threads() -> int:
    return min(usable_cores(), 8)


@lru_cache(maxsize=1)
def _pool(process: int) -> ThreadPoolExecutor:
    # By process, because threads do not survive a fork.
    return ThreadPoolExecutor(_threads(), thread_name_prefix=f"omnigraph-{process}")
