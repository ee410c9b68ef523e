"""The first rows under a total order, looking at no more keys than necessary.

A key gives, for some positions, integers that sort ascending like the rows there. Later keys are
asked only about rows the earlier ones left tied.

    keys [2, 1, 1] and [0, 5, 3]: the best two are at [1, 2], in order [2, 1]; the second key is never
    asked about position 0
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from omnigraph.cancel import aside
from omnigraph.read.kernels.arrays import Counts, Mask
from omnigraph.read.values.column import Column
from omnigraph.read.values.numbers import sortable

Integers = npt.NDArray[np.integer]
At = Counts | slice
Key = Callable[[At], Integers]


_LOWEST = -(2**63)
_FEW_ROWS = 1_000
"""With at most this many rows, a sort looks after each key whether the next one is needed."""


def best(count: int, keys: Sequence[Key], limit: int) -> Counts:
    """The positions of the first ``limit`` of ``count`` rows, ascending and not yet in order."""
    if count <= limit or not limit:
        return np.arange(min(count, limit))
    chosen: list[Counts] = []
    tied: Counts | None = None
    for key in keys:
        values = key(slice(None) if tied is None else tied)
        last = np.partition(values, limit - 1)[limit - 1]
        before, same = np.flatnonzero(values < last), np.flatnonzero(values == last)
        chosen.append(before if tied is None else tied[before])
        tied = same if tied is None else tied[same]
        limit -= len(before)
        if len(tied) == limit:
            break
    rest = np.arange(limit) if tied is None else tied[:limit]
    return np.sort(np.concatenate([*chosen, rest]))


def in_order(positions: Counts, keys: Sequence[Key]) -> Counts:
    """The positions in the order of the keys; what all keys leave tied comes in any order."""
    if len(positions) <= _FEW_ROWS:
        return _few_in_order(positions, keys)
    values = [key(positions) for key in keys]
    if not values or not len(positions):
        return positions
    packed, room = _packed(values)
    if packed is not None and (packed[1:] >= packed[:-1]).all():
        return positions

    def ordered() -> Counts:
        if packed is None:
            return positions[np.lexsort(values[::-1])]
        return positions[permutation(packed, room)]

    return aside(ordered, items=len(positions))


def _few_in_order(positions: Counts, keys: Sequence[Key]) -> Counts:
    """The same for few positions, asking for as many keys as it takes to tell them apart."""
    order = np.arange(len(positions))
    values: list[Integers] = []
    for key in keys if len(positions) > 1 else ():
        values.append(key(positions))
        order = np.lexsort(values[::-1])
        ordered = [one[order] for one in values]
        if np.logical_or.reduce([one[1:] != one[:-1] for one in ordered]).all():
            break
    return positions[order]


def permutation(values: Integers, room: int) -> Counts:
    """The permutation that sorts integers from 0 up to ``room``."""
    bits = len(values).bit_length()
    if room << bits > 2**63:
        return np.argsort(values)
    # Sorting plain integers is several times faster than finding their order (NumPy 2).
    numbered = (values.astype(np.int64) << bits) | np.arange(len(values))
    numbered.sort()
    return numbered & ((1 << bits) - 1)


def _packed(keys: Sequence[Integers]) -> tuple[Counts | None, int]:
    """Several keys in one integer from 0 up to a bound; None when it is not wide enough."""
    spans = [(int(key.min()), int(key.max())) for key in keys]
    room = 1
    for low, high in spans:
        room *= high - low + 1
    if room > 2**63 - 1:
        return None, room
    packed = np.zeros(keys[0].size, np.int64)
    for key, (low, high) in zip(keys, spans, strict=True):
        packed *= high - low + 1
        packed += key.astype(np.int64, copy=False)
        packed -= low
    return packed, room


def column_keys(column: Column) -> list[Integers]:
    """Integers that sort like the values of a column, null first: one key, or two for wide integers."""
    if column.type.scalar.is_text:
        return [column.codes]
    keys = nulls_first(sortable(column.numbers), column.valid)
    return keys if column.type.scalar.fills_64_bits else keys[:1]


def nulls_first(values: Counts, present: Mask | None) -> list[Integers]:
    """Two keys of integers of which some are absent: those come before all others.

    The first key moves the lowest integer up by one, to leave room for nulls; the second tells it from
    its neighbour again.
    """
    first = np.maximum(values, _LOWEST + 1)
    if present is not None:
        first[~present] = _LOWEST
    return [first, (values > _LOWEST).astype(np.int8)]
