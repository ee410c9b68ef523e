"""How much a commit changed, at the cost of what it changed and without comparing rows.

A consumer that takes many commits at a time uses it to decide where to stop.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import pyarrow.compute as pc

from omnigraph.changes.candidates import Candidates, find_candidates
from omnigraph.changes.change_filter import ChangeFilter
from omnigraph.changes.compare import same_state
from omnigraph.changes.differing_types import shown_mask
from omnigraph.changes.feed.commit_changes import ChangeReader, TablePair
from omnigraph.manifest.rows import GraphCommit

_SAMPLE_BYTES: Final = 1 << 20
"""This many bytes of rows are kept, to see how large rows are."""

_ROW_BYTES: Final = 128
"""The bytes that a row is assumed to have where none was read."""


class Weight(NamedTuple):
    """At most this many changes, of about this many bytes."""

    rows: int
    bytes: int


def weigh(reader: ChangeReader, commit: GraphCommit, parent: GraphCommit, most_rows: int) -> Weight:
    """Return what a commit weighs; raises what reading its changes would raise.

    An entity that was written again as it was counts too. Not more than ``most_rows`` rows are read:
    a table that changed more is taken as if all its rows had, before and after.
    """
    rows = size = 0
    for pair in reader.tables(commit, parent):
        of_table = _weigh_table(pair, reader.filter, max(0, most_rows - rows))
        rows += of_table.rows
        size += of_table.bytes
    return Weight(rows, size)


def _weigh_table(pair: TablePair, filter: ChangeFilter, most_rows: int) -> Weight:
    before, after = pair.before, pair.after
    if same_state(before, after):
        return Weight(0, 0)
    found = None
    with before.reading(), after.reading():
        for side in (before, after):
            if side.state is not None:
                _ = side.table  # so that a version that is gone is found out
        if before.row_count and after.row_count:
            found = find_candidates(before, after, most_rows, _SAMPLE_BYTES)
    if found is None:
        rows = before.row_count + after.row_count
        return Weight(rows, rows * _ROW_BYTES)
    rows = _shown(found, filter)
    return Weight(rows, rows * _bytes_of_a_row(found))


def _shown(found: Candidates, filter: ChangeFilter) -> int:
    if not filter.ops:
        return len(found.ids)
    mask = shown_mask(pc.is_valid(found.before), pc.is_valid(found.after), filter)
    return int(mask.true_count)


def _bytes_of_a_row(found: Candidates) -> int:
    read = [rows for rows in (found.rows_before, found.rows_after) if rows.num_rows]
    if not read:
        return _ROW_BYTES
    size, count = sum(rows.nbytes for rows in read), sum(rows.num_rows for rows in read)
    return 1 + int(size // count)
