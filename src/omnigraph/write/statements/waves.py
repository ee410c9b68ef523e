"""In which order the elements of a `for` run where one changes what another reads or changes.

Within a statement every element sees the earlier ones. Elements that have nothing to do with each other run at once:
those of one wave, all of which read before any of them writes.

    element        0        1        2
    changes        ann      eve      ann
    wave           0        0        1
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Places = npt.NDArray[np.int64]


def waves(elements: Places, written: Places, read: tuple[Places, ...]) -> list[Places]:
    """Return the positions of some changes, wave by wave.

    ``elements`` has the element of each change in ascending order, ``written`` the entity it changes, and ``read``
    the other entities it looks at, -1 where that is none that changes.
    """
    if not len(elements):
        return []
    if not _meet(elements, written, read):
        return [np.arange(len(elements))]
    levels = _levels(elements, written, read)
    return [np.flatnonzero(levels == level) for level in range(int(levels.max()) + 1)]


def _meet(elements: Places, written: Places, read: tuple[Places, ...]) -> bool:
    """Whether two elements have to do with one entity that either of them changes."""
    owner = np.full(int(written.max()) + 1, -1, np.int64)
    owner[written] = elements
    if (owner[written] != elements).any():
        return True
    for one in read:
        known = one >= 0
        if (owner[one[known]] != elements[known]).any():
            return True
    return False


def _levels(elements: Places, written: Places, read: tuple[Places, ...]) -> Places:
    """The wave of each change: behind every earlier element that changes what it reads or changes."""
    count = int(written.max()) + 1
    last_write = np.full(count, -1, np.int64)
    last_read = np.zeros(count, np.int64)
    levels = np.zeros(len(elements), np.int64)
    starts = np.flatnonzero(np.concatenate([[True], elements[1:] != elements[:-1]]))
    for start, end in zip(starts, [*starts[1:], len(elements)], strict=True):
        writes = written[start:end]
        reads = np.concatenate([writes, *(one[start:end] for one in read)])
        reads = reads[reads >= 0]
        level = max(int(last_write[reads].max()) + 1, int(last_read[writes].max()))
        levels[start:end] = level
        last_write[writes] = level
        last_read[reads] = np.maximum(last_read[reads], level)
    return levels
