"""When upkeep is due: what a commit left of a table, and how long ago it was last put in shape.

```python
is_out_of_shape(Shape(small=65, uncovered=0), limit=64)                 # True
is_time(version=120, maintained_at=70, not_before=None, limit=64)       # False: 50 versions ago
```
"""

from __future__ import annotations

from typing import Final, NamedTuple

from omnigraph.storage.tables.indexes import list_indexes
from omnigraph.storage.tables.table import Table

SMALL_ROWS: Final = 8_192
"""A fragment of fewer rows is small."""
MOST_OFTEN: Final = 64
"""At most once per so many versions of a table: fewer than one commit in fifty pays for upkeep."""


class Shape(NamedTuple):
    """What makes a table slow to write and read, in numbers of fragments.

    ``uncovered`` counts those that one index does not cover, of the index that covers the fewest.
    """

    small: int = 0
    uncovered: int = 0


def is_out_of_shape(shape: Shape, limit: int) -> bool:
    """Return whether a table has more small or uncovered fragments than the limit."""
    return max(shape) > limit


def versions_between(limit: int) -> int:
    """Return how many versions lie at least between two upkeeps of a table."""
    return min(limit, MOST_OFTEN)


def is_time(version: int, maintained_at: int | None, not_before: int | None, limit: int) -> bool:
    """Return whether a table may have upkeep again.

    ``maintained_at`` is the version of its last maintenance commit, whoever made it. A handle that
    tried itself waits until the version ``not_before``.
    """
    if maintained_at is not None and version < maintained_at + versions_between(limit):
        return False
    return not_before is None or version >= not_before


def shape_of(table: Table, limit: int) -> Shape:
    """Return the shape of a table; one with no more fragments than the limit is never out of shape.

    On a branch only its own fragments count. Nothing is read from the store.
    """
    if len(table.dataset.get_fragments()) <= limit:
        return Shape()
    own = {
        fragment.id: fragment.num_rows
        for fragment in table.fragments()
        if all(file.base_id is None for file in fragment.files)
    }
    if len(own) <= limit:
        return Shape()
    tails = (sum(number in own for number in state.tail) for state in list_indexes(table))
    return Shape(sum(rows < SMALL_ROWS for rows in own.values()), max(tails, default=0))
