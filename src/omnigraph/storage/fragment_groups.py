"""Divide the fragments of a table among tasks, by their numbers of rows.

A group is always a run of neighbouring fragments: a scan of it reads files in order, and a compaction
merges only neighbours that the same parts of all indexes cover.

```python
group_fragments([(0, 40), (1, 50), (2, 90)], max_rows=100)
# [Group((0, 1), 90), Group((2,), 90)]
```
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from omnigraph.storage.tables.table import Table

if TYPE_CHECKING:
    import pyarrow as pa

WINDOW_BYTES = 16 << 20
"""About how much of a table, as it is stored, a scan in windows reads ahead."""
BATCH_BYTES = 2 << 20
"""About how large its batches are at most: what is made of one may be many times as large."""

FragmentSize = tuple[int, int]
"""The id of a fragment and its number of rows."""


class FragmentGroup(NamedTuple):
    """Neighbouring fragments and the number of their rows."""

    fragment_ids: tuple[int, ...]
    rows: int


def fragment_sizes(table: Table) -> list[FragmentSize]:
    """Return the id and the rows (without deleted ones) of every fragment, in order."""
    return [(fragment.id, fragment.num_rows) for fragment in table.fragments()]


def group_fragments(fragments: Iterable[FragmentSize], max_rows: int) -> list[FragmentGroup]:
    """Put neighbours together up to ``max_rows``; a larger fragment is a group of its own."""
    groups: list[FragmentGroup] = []
    ids: list[int] = []
    held = 0
    for number, rows in fragments:
        if ids and held + rows > max_rows:
            groups.append(FragmentGroup(tuple(ids), held))
            ids, held = [], 0
        ids.append(number)
        held += rows
    return [*groups, FragmentGroup(tuple(ids), held)] if ids else groups


class FragmentPiece(NamedTuple):
    """What one task scans: whole fragments, or the rows of one fragment from one place to another.

    Places are those in the files of the fragment, deleted rows included: ``start`` is the first, ``stop``
    the one after the last.
    """

    fragment_ids: tuple[int, ...]
    start: int | None = None
    stop: int | None = None


def split_fragments(table: Table, max_rows: int) -> list[FragmentPiece]:
    """Divide a table into pieces of about ``max_rows`` rows: small fragments together, large ones cut."""
    places = {fragment.id: fragment.physical_rows for fragment in table.fragments()}
    pieces: list[FragmentPiece] = []
    for ids, rows in group_fragments(fragment_sizes(table), max_rows):
        parts = -(-rows // max_rows)
        if parts <= 1:
            pieces.append(FragmentPiece(ids))
            continue
        # Only a fragment that is larger than that by itself.
        bounds = [places[ids[0]] * part // parts for part in range(parts + 1)]
        pieces += [
            FragmentPiece(ids, start, stop)
            for start, stop in itertools.pairwise(bounds)
            if start < stop
        ]
    return pieces


def balanced_groups(fragments: Sequence[FragmentSize], at_most: int) -> list[FragmentGroup]:
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


def scan_windows(
    table: Table,
    columns: Sequence[str],
    fragment_ids: Sequence[int] | None = None,
    *,
    window_bytes: int = WINDOW_BYTES,
    **options: Any,
) -> Iterator[pa.RecordBatch]:
    """Yield all rows of some fragments, or of all, in memory that does not grow with them.

    A scan of Lance reads a whole fragment ahead, whatever limit it is given, so it is asked for a
    few rows of a large fragment at a time, and for a few small fragments.
    """
    for place in _windows(table, fragment_ids, window_bytes):
        for batch in table.scan(columns, **place, **options):
            rows = max(1, batch.num_rows * BATCH_BYTES // max(1, batch.nbytes))
            for start in range(0, batch.num_rows, rows):
                yield batch.slice(start, rows)


def _windows(
    table: Table, fragment_ids: Sequence[int] | None, window_bytes: int
) -> Iterator[dict[str, Any]]:
    """Yield what to scan at once, as arguments of a scan."""
    waiting: list[int] = []
    held = 0
    for fragment in table.fragments():
        if fragment_ids is not None and fragment.id not in fragment_ids:
            continue
        size = sum(file.file_size_bytes or 0 for file in fragment.files)
        if waiting and held + size > window_bytes:
            yield {"fragment_ids": waiting}
            waiting, held = [], 0
        if size <= window_bytes:
            waiting.append(fragment.id)
            held += size
            continue
        rows = fragment.num_rows
        step = max(1, rows * window_bytes // size)
        for start in range(0, rows, step):
            yield {"fragment_ids": [fragment.id], "offset": start, "limit": step}
    if waiting:
        yield {"fragment_ids": waiting}
