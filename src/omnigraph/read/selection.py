"""The first rows under a total order, looking at no more keys than it takes.

A key gives, for some positions, integers that sort ascending like the rows there. Later keys are
asked only about rows the earlier ones left tied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from omnigraph.read.bindings import Counts, Mask

    Integers = npt.NDArray[np.integer]
    Key = Callable[[Counts], Integers]


def best(count: int, keys: Sequence[Key], limit: int) -> Counts:
    """The positions of the first ``limit`` of ``count`` rows, ascending and not yet in order."""
    import numpy as np

    open_rows = np.arange(count)
    if count <= limit:
        return open_rows
    chosen: list[Counts] = []
    for key in keys if limit else ():
        values = key(open_rows)
        last = np.partition(values, limit - 1)[limit - 1]
        before = open_rows[values < last]
        chosen.append(before)
        limit -= len(before)
        open_rows = open_rows[values == last]
        if len(open_rows) == limit:
            break
    return np.sort(np.concatenate([*chosen, open_rows[:limit]]))


def in_order(positions: Counts, keys: Sequence[Key]) -> Counts:
    """The positions in the order of the keys; what all keys leave tied stays as it is."""
    import numpy as np

    values = [key(positions) for key in keys]
    packed = _packed(values)
    if packed is None:
        return positions[np.lexsort(values[::-1])] if values else positions
    if (packed[1:] >= packed[:-1]).all():
        return positions
    return positions[np.argsort(packed, kind="stable")]


def _packed(keys: Sequence[Integers]) -> Counts | None:
    """Several keys in one integer, if it is wide enough; None when it is not."""
    import numpy as np

    if not keys or not keys[0].size:
        return None
    spans = [(int(key.min()), int(key.max())) for key in keys]
    room = 1
    for low, high in spans:
        room *= high - low + 1
    if room > 2**63 - 1:
        return None
    packed = np.zeros(keys[0].size, np.int64)
    for key, (low, high) in zip(keys, spans, strict=True):
        packed *= high - low + 1
        packed += key.astype(np.int64) - low
    return packed


def nulls_first(values: Integers, present: Mask | None) -> list[Integers]:
    """Keys of integers of which some are absent; absent ones come before all others.

    A second key is there only where an integer leaves no room below it.
    """
    import numpy as np

    if present is None:
        return [values]
    lowest = np.iinfo(np.int64).min
    first = np.where(present, np.maximum(values, lowest + 1), lowest)
    crowded = bool((present & (values <= lowest)).any())
    return [first, values.astype(np.int64)] if crowded else [first]
