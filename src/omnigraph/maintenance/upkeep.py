"""Upkeep: when it is due, and how tables of a branch are put in shape in one commit.

What a commit left of a table decides, and how long ago it was last put in shape:

```python
is_due(Shape(small=65), 120, maintained_at=None, not_before=None, limit=64)   # True
is_due(Shape(small=65), 120, maintained_at=70, not_before=None, limit=64)     # False: 50 versions ago
```

The locks are taken first, without waiting: while they are held no other writer can commit first, so no work
is wasted. What is done to a table is decided by ``table_work``, with little effort.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from omnigraph.commit.attempts import Attempt
from omnigraph.commit.changes import TableChange
from omnigraph.commit.phases.marking import marked
from omnigraph.commit.sidecar import list_sidecars
from omnigraph.errors import Contention, SchemaApplyInProgress
from omnigraph.maintenance.effort import SMALL_ROWS, Effort
from omnigraph.maintenance.table_work import table_work
from omnigraph.maintenance.work_steps import WorkOutcome, commit_changed, prepare
from omnigraph.manifest.actors import MAINTENANCE_ACTOR
from omnigraph.manifest.manifest import BranchState
from omnigraph.manifest.rows import GraphCommit, TableState
from omnigraph.manifest.workspace import Workspace, lance_branch
from omnigraph.storage.locks.locks import HeldLocks
from omnigraph.storage.locks.waiting import Patience, Purpose
from omnigraph.storage.tables.indexing.index_kinds import Serves, kind_serving
from omnigraph.storage.tables.indexing.table_indexes import list_indexes
from omnigraph.storage.tables.table import Table, open_table

MOST_OFTEN: Final = 64
"""At most once per this number of versions of a table: fewer than one commit in fifty pays for upkeep."""
MANY_ROWS: Final = 8 * SMALL_ROWS
"""This many rows outside an index are slow to search, in however few fragments they are."""
LARGE_SHARE: Final = 10
"""When one row in this number lies outside an index, upkeep is due at once: it was a large write."""


class TableShape(NamedTuple):
    """What makes a table slow to write and read.

    ``small`` and ``uncovered`` count fragments: those of few rows, and those that one index does not
    cover, of the index that covers the fewest. ``unindexed`` counts rows that an index for look-ups does not cover,
    and ``rows`` all of them.
    """

    small: int = 0
    uncovered: int = 0
    unindexed: int = 0
    rows: int = 0


class Glance(NamedTuple):
    """What costs next to nothing to know of an open table: its fragments, and those of many rows."""

    fragments: int
    large: int


def glance(table: Table) -> Glance:
    """Look at a table; nothing is read from the store."""
    stats = table.dataset.stats.dataset_stats(max_rows_per_group=SMALL_ROWS)
    return Glance(stats["num_fragments"], stats["num_fragments"] - stats["num_small_files"])


def shape_of(table: Table) -> TableShape:
    """Return the shape of a table; on a branch only its own fragments count."""
    own = {
        fragment.id: fragment.num_rows
        for fragment in table.fragments()
        if all(file.base_id is None for file in fragment.files)
    }
    # What is damaged cannot be extended.
    indexes = [state for state in list_indexes(table) if state.damage is None]
    tails = [[own[number] for number in state.tail if number in own] for state in indexes]
    lookups = (
        sum(tail)
        for state, tail in zip(indexes, tails, strict=True)
        if state.kind is kind_serving(Serves.LOOKUPS)
    )
    return TableShape(
        sum(rows < SMALL_ROWS for rows in own.values()),
        max(map(len, tails), default=0),
        max(lookups, default=0),
        sum(own.values()),
    )


def versions_between(limit: int) -> int:
    """Return how many versions lie at least between two upkeeps of a table."""
    return min(limit, MOST_OFTEN)


def is_due(
    shape: TableShape, version: int, maintained_at: int | None, not_before: int | None, limit: int
) -> bool:
    """Return whether a table of that shape gets upkeep at a version.

    ``maintained_at`` is the version of its last maintenance commit, whoever made it. A handle that
    tried by itself waits until the version ``not_before``.
    """
    if not_before is not None and version < not_before:
        return False
    if shape.unindexed >= MANY_ROWS and shape.unindexed * LARGE_SHARE >= shape.rows:
        return True
    if maintained_at is not None and version < maintained_at + versions_between(limit):
        return False
    return max(shape.small, shape.uncovered) > limit or shape.unindexed >= MANY_ROWS


class OthersAtWork(Exception):
    """A lock is taken, or an operation is not settled yet: nothing was done."""


def keep_in_shape(
    workspace: Workspace, branch: str, tables: Sequence[TableState]
) -> GraphCommit | None:
    """Do the upkeep of these tables of a branch, as far as they still need it; return its commit."""
    with _hold(workspace, branch, tables) as held, marked(workspace, "optimize"):
        state = workspace.manifest.state(branch)
        if list_sidecars(workspace, state.head.graph_id):
            raise OthersAtWork("an operation is not settled yet")
        changes = tuple(_changes(workspace, state, {each.incarnation: each for each in tables}))
        attempt = Attempt(workspace, state, Patience(0), held)
        return commit_changed(attempt, "optimize", changes, MAINTENANCE_ACTOR)


def _hold(workspace: Workspace, branch: str, tables: Sequence[TableState]) -> HeldLocks:
    names = {workspace.lock_name(table.location, branch) for table in tables}
    try:
        return workspace.locks.acquire(names, Patience(0), Purpose("optimize", slow=True))
    except (Contention, SchemaApplyInProgress) as taken:
        raise OthersAtWork(str(taken)) from taken


def _changes(
    workspace: Workspace, state: BranchState, found_due: Mapping[int, TableState]
) -> Iterator[TableChange]:
    for pin in state.head.tables.values():
        due = found_due.get(pin.incarnation)
        if due is None or pin.table_branch != lance_branch(state.name):
            continue
        if pin.maintained_at != due.maintained_at:
            continue  # another process has done it since
        table = open_table(workspace.pinned(pin))
        work = table_work(table, None, Effort.LIGHT)
        if work.is_due:
            yield TableChange(pin, prepare(work, table).steps(WorkOutcome(pin.table_key)))
