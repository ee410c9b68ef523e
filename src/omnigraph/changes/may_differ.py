"""Which entities may differ between two states of one table, found at the cost of what changed.

The states of a table form a tree: a branch of the table goes on from one version of its parent. Two
states have a lowest common one, and whatever differs between them was changed on one of the two ways
from there. Lance knows what changed between two versions of one branch:

    main     1 ─ 2 ─ 3 ─ 4 ─ 5           states: review 6 and main 5, lowest common: main 3
                     └ review 3 ─ 4 ─ 5 ─ 6   candidates: review 3 → 6, main 3 → 5

A row that was there at the lowest common state keeps its row id on both ways for as long as it is
there; new rows get the same row ids on different branches. So an entity is known by its id, and a row
id only says where to look for it first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.changes.row_pairs import ROW_ID
from omnigraph.changes.table_side import TableSide
from omnigraph.errors import StorageError
from omnigraph.storage.tables.branch_refs import read_branch
from omnigraph.storage.tables.table import Delta, Table, open_table
from omnigraph.storage.tables.table_errors import VersionMissing
from omnigraph.storage.tables.table_ref import TableRef
from omnigraph.storage.tables.transactions import TRACKED, transactions_after


class ChangeCandidates(NamedTuple):
    """Entities that may differ, in ascending order of their ids.

    ``before`` and ``after`` say by row id where each of them is on that side, null where it is not.
    ``rows_before`` and ``rows_after`` are rows of a side that were read on the way.
    ``starts_before`` and ``starts_after``: the side itself is the lowest common state, so all its row
    ids are right.
    """

    ids: pa.Array
    before: pa.Array
    after: pa.Array
    rows_before: pa.Table
    rows_after: pa.Table
    starts_before: bool
    starts_after: bool


class Segment(NamedTuple):
    """A stretch of one branch of a table: everything after ``start`` up to ``end.version``."""

    end: TableRef
    start: int


class _Place(NamedTuple):
    """A version of one branch of a table; ``identifier`` is None on main."""

    branch: str | None
    identifier: str | None
    version: int

    @property
    def lineage(self) -> tuple[str | None, str | None]:
        return self.branch, self.identifier


class _Way(NamedTuple):
    """The net changes between the common state and one side, one row for each entity.

    ``first``: its row id when it was touched first, null if it came into being then. ``last``: its
    row id at the side, null if it is gone there. ``rows`` are rows of the side.
    """

    changes: pa.Table
    rows: pa.Table


_FEW_ROWS: Final = 10_000
_FEW_VERSIONS: Final = 8

_STEP = pa.schema([("id", pa.utf8()), ("first", pa.uint64()), ("last", pa.uint64())])


def find_candidates(
    before: TableSide, after: TableSide, limit: int, keep_bytes: int
) -> ChangeCandidates | None:
    """Find entities that include every one that differs.

    None: any may differ, because more than ``limit`` rows changed or Lance cannot tell what did. Rows
    that are read on the way are kept up to ``keep_bytes`` on each side.
    """
    stretches = segments_between(before, after)
    ways = []
    try:
        for side, segments in zip((before, after), stretches, strict=True):
            way = _way_to(side, segments, limit, keep_bytes)
            if way is None:
                return None
            ways.append(way)
    except StorageError:
        # Cleanup may have removed a version where the two ways part, or where one of them forks.
        if all(_has_start(segment) for segments in stretches for segment in segments):
            raise
        return None
    mine, theirs = ways
    ids = pa.chunked_array(
        [*mine.changes.column("id").chunks, *theirs.changes.column("id").chunks], pa.utf8()
    ).unique()
    ids = ids.take(pc.array_sort_indices(ids))
    return ChangeCandidates(
        ids,
        _rows_at(ids, mine, theirs),
        _rows_at(ids, theirs, mine),
        mine.rows,
        theirs.rows,
        starts_before=not stretches[0],
        starts_after=not stretches[1],
    )


def _rows_at(ids: pa.Array, mine: _Way, other: _Way) -> pa.Array:
    """Where entities are on a side: as its own way left them, else as the other way found them."""
    own = pc.index_in(ids, value_set=mine.changes.column("id"))
    its = pc.index_in(ids, value_set=other.changes.column("id"))
    return pc.if_else(
        pc.is_valid(own),
        mine.changes.column("last").combine_chunks().take(own),
        other.changes.column("first").combine_chunks().take(its),
    )


def segments_between(before: TableSide, after: TableSide) -> tuple[list[Segment], list[Segment]]:
    """The ways from the lowest common state of the table to either side, cut at forks."""
    ways = [_down_to_main(side) for side in (before, after)]
    left, right = ({place.lineage: place for place in way} for way in ways)
    shared = next(place.lineage for place in ways[0] if place.lineage in right)
    start = min(left[shared].version, right[shared].version)
    found: tuple[list[Segment], list[Segment]] = ([], [])
    for side, way, segments in zip((before, after), ways, found, strict=True):
        for place, parent in zip(way, [*way[1:], None], strict=True):
            at_fork = start if place.lineage == shared or parent is None else parent.version
            if place.version > at_fork:
                ref = side.pinned.ref.on(place.branch, place.version, place.identifier)
                segments.insert(0, Segment(ref, at_fork))
            if place.lineage == shared:
                break
    return found


def _down_to_main(side: TableSide) -> list[_Place]:
    """The state of a side, then the one that its branch of the table was made from, down to main."""
    pinned = side.pinned
    fork = pinned.fork
    version = pinned.state.table_version
    way = []
    while fork is not None:
        way.append(_Place(fork.name, fork.identifier, version))
        version = fork.parent_version
        if fork.parent is None:
            break
        # Lance keeps a branch as long as another one was made from it.
        parent = read_branch(side.workspace.store, pinned.state.location, fork.parent)
        if parent is None:
            raise StorageError(
                f"the branch {fork.parent} of {pinned.ref.uri}, from which {fork.name} was made, is "
                "missing; restore the graph from a copy"
            )
        fork = parent
    return [*way, _Place(None, None, version)]


def _way_to(
    side: TableSide, segments: Sequence[Segment], limit: int, keep_bytes: int
) -> _Way | None:
    """What changed on the way to a side; None if more than ``limit`` rows did."""
    steps: list[pa.Table] = []
    end_rows = [side.schema.empty_table()]
    room = keep_bytes
    for segment in segments:
        is_last = segment is segments[-1]
        end = side.table if is_last else open_table(segment.end)
        for step, rows in _steps_of(end, segment.start):
            side.meter.rows_read += step.num_rows
            limit -= step.num_rows
            if limit < 0:
                return None
            steps.append(step)
            if is_last and rows is not None:
                room -= rows.nbytes
                if room >= 0:
                    end_rows.append(side.conform(pa.Table.from_batches([rows])))
    changes = pa.concat_tables([_STEP.empty_table(), *steps])
    if len(steps) > 1:
        ordered = changes.group_by("id", use_threads=False)
        every = pc.ScalarAggregateOptions(skip_nulls=False)
        changes = ordered.aggregate([("first", "first", every), ("last", "last", every)])
        changes = changes.rename_columns(_STEP.names)
    return _Way(changes, pa.concat_tables(end_rows))


def _has_start(segment: Segment) -> bool:
    return open_table(segment.end).has_version(segment.start)


def _steps_of(end: Table, start: int) -> Iterator[tuple[pa.Table, pa.RecordBatch | None]]:
    """What changed in one segment, batch by batch, with the rows as they are at its end.

    Deleted rows come first: an entity may be deleted and inserted again.
    """
    delta = end.delta(start)
    new = _few_batches(delta.inserted())
    for batch in delta.deleted_row_ids() if _may_lack_rows(end, start, delta, new) else ():
        row_ids = batch.column(ROW_ID)
        if len(row_ids):
            at_start = open_table(end.ref.at(start))
            ids = at_start.take(row_ids.to_pylist(), ["id"]).column("id").combine_chunks()
            yield _step(ids, row_ids, pa.nulls(len(ids), pa.uint64())), None
    for batch in delta.updated():
        row_ids = batch.column(ROW_ID)
        yield _step(batch.column("id"), row_ids, row_ids), batch
    for batch in delta.inserted() if new is None else new:
        ids = batch.column("id")
        yield _step(ids, pa.nulls(len(ids), pa.uint64()), batch.column(ROW_ID)), batch


def _few_batches(reader: pa.RecordBatchReader) -> list[pa.RecordBatch] | None:
    """All batches of a reader; None if they have many rows."""
    found, rows = [], 0
    for batch in reader:
        found.append(batch)
        rows += batch.num_rows
        if rows > _FEW_ROWS:
            return None
    return found


def _may_lack_rows(
    end: Table, start: int, delta: Delta, new: Sequence[pa.RecordBatch] | None
) -> bool:
    """Whether rows may have been deleted; False where the row counts of a few versions say that none were.

    To look for deleted rows takes longer the larger the table is, also where there are none.
    """
    if new is None or end.version - start > _FEW_VERSIONS:
        return True
    if delta.count_deleted(sum(batch.num_rows for batch in new)) != 0:
        return True
    try:
        made_by = transactions_after(end, start, end.version)
    except VersionMissing:
        return True
    return any(one.operation not in TRACKED for one in made_by)


def _step(ids: pa.Array, first: pa.Array, last: pa.Array) -> pa.Table:
    return pa.Table.from_arrays([ids, first, last], schema=_STEP)
