"""Merging the fragments of `__manifest`, so that they stay few however long the history is."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from typing import Any

from omnigraph import failpoints
from omnigraph.errors import OmniGraphError
from omnigraph.storage.tables.rewriting import Merged, merge_task, run_task, stage_rewritten
from omnigraph.storage.tables.table import Table
from omnigraph.storage.tables.table_commits import commit_staged

# Every publish adds one small fragment, and every later publish looks into all of them. So fragments of
# one size are merged into one of the next size: a row is rewritten a few times in the life of a graph, and
# the fragments stay few, whatever the length of its history. Those of the final size are left alone.
COMPACT_AT_FRAGMENTS = 8
FINAL_FRAGMENT_ROWS = 4096

BEFORE_COMPACT = failpoints.declare("publish.before_compact")

logger = logging.getLogger(__name__)


def tidy(table: Table) -> None:
    """Merge fragments of the manifest if there are too many of one size.

    A failure is only logged, so that it never makes a user's write fail.
    """
    if table.count_fragments() < COMPACT_AT_FRAGMENTS:
        return
    chosen = mergeable(table.fragments())
    if not chosen:
        return
    try:
        failpoints.hit(BEFORE_COMPACT)
        merged = Merged.of(chosen, run_task(table, merge_task(table, chosen)))
        commit_staged(stage_rewritten(table, [merged]), table)
    except OmniGraphError as error:
        logger.debug("manifest not compacted: %s", error)


def mergeable(fragments: Sequence[Any]) -> list[int]:
    """Return the ids of fragments to merge: once there are enough of one size, those and all smaller ones.

    Sizes are 1 to 7 rows, 8 to 63, 64 to 511, 512 to 4095: enough fragments of one size make one of the
    next. The newest fragment is always among them. It holds the head row, so the merge collides with every
    other publish, and none is rebased over it.
    """
    small = {
        fragment.id: max(0, fragment.num_rows.bit_length() - 1) // 3
        for fragment in fragments
        if fragment.num_rows < FINAL_FRAGMENT_ROWS
    }
    counted = Counter(small.values())
    for size in sorted(counted):
        if counted[size] >= COMPACT_AT_FRAGMENTS:
            chosen = {number for number in small if small[number] <= size}
            return sorted(chosen | {max(fragment.id for fragment in fragments)})
    return []
