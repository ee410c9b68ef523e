"""Divide the fragments of a table among tasks, by their numbers of rows.

A group is always a run of neighbouring fragments: a scan of it reads files in order, and a compaction
merges only neighbours that the same parts of all indexes cover.

```python
group_fragments([(0, 40), (1, 50), (2, 90)], max_rows=100)
# [Group((0, 1), 90), Group((2,), 90)]
```
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from omnigraph.storage.tables.table import Table

FragmentSize = tuple[int, int]
"""The id of a fragment and its number of rows."""


class Group(NamedTuple):
    """Neighbouring fragments and the number of their rows."""

    fragment_ids: tuple[int, ...]
    rows: int


def fragment_sizes(table: Table) -> list[FragmentSize]:
    """Return the id and the rows (without deleted ones) of every fragment, in order."""
    return [(fragment.id, fragment.num_rows) for fragment in table.fragments()]


def group_fragments(fragments: Iterable[FragmentSize], max_rows: int) -> list[Group]:
    """Put neighbours together up to ``max_rows``; a larger fragment is a group of its own."""
    groups: list[Group] = []
    ids: list[int] = []
    held = 0
    for number, rows in fragments:
        if ids and held + rows > max_rows:
            groups.append(Group(tuple(ids), held))
            ids, held = [], 0
        ids.append(number)
        held += rows
    return [*groups, Group(tuple(ids), held)] if ids else groups


def balanced_groups(fragments: Sequence[FragmentSize], at_most: int) -> list[Group]:
    """Divide the fragments into up to ``at_most`` groups whose largest is as small as it can be."""
    smallest = max((rows for _, rows in fragments), default=0)
    total = sum(rows for _, rows in fragments)
    # The higher the bound on a group's rows, the fewer groups there are.
    bounds = range(smallest, total + 1)
    fewest_rows = bounds[
        bisect_left(
            bounds, True, key=lambda bound: len(group_fragments(fragments, bound)) <= at_most
        )
    ]
    return group_fragments(fragments, fewest_rows)
